"""Random n-gram models in the ARPA format, and their scores by the definition."""

from __future__ import annotations

import math

import numpy as np


def random_arpa(path, words, *, order, seed=0, per_context=3, prefixes=True, ends=False):
    """Writes a model where each context has some words; returns {n-gram: (log10 probability, log10 back-off weight)}.

    `ends`: only n-grams whose ends are listed too, which the package kenlm wants; not `prefixes`: some contexts are not listed.
    """
    rng = np.random.default_rng(seed)
    listed = {(word,): (-float(rng.uniform(0.3, 2.0)), -float(rng.uniform(0, 0.5))) for word in words}
    last = [gram for gram in listed if gram != ("</s>",)]
    for length in range(2, order + 1):
        grams = [
            (*gram, words[index])
            for gram in last
            for index in sorted(rng.choice(len(words), min(per_context, len(words)), replace=False))
            if words[index] != "<s>" and (not ends or (*gram[1:], words[index]) in listed)
        ]
        grams = [grams[index] for index in sorted(rng.permutation(len(grams))[: 60 * length])]
        listed.update({gram: (-float(rng.uniform(0.1, 1.5)), -float(rng.uniform(0, 0.4))) for gram in grams})
        last = [gram for gram in grams if gram[-1] != "</s>"]
    if not prefixes:  # as after pruning
        for gram in [gram for gram in listed if len(gram) == 2][::3]:
            del listed[gram]
    listed = {gram: (round(a, 4), round(b, 4) if len(gram) < order else 0.0) for gram, (a, b) in listed.items()}
    write_arpa(path, listed, order)
    return listed


def write_arpa(path, listed, order):
    lines = ["\\data\\"]
    groups = [[gram for gram in listed if len(gram) == length] for length in range(1, order + 1)]
    lines += [f"ngram {length}={len(grams)}" for length, grams in enumerate(groups, 1)]
    for length, grams in enumerate(groups, 1):
        lines += ["", f"\\{length}-grams:"]
        for gram in grams:
            score, weight = listed[gram]
            lines.append(f"{score}\t{' '.join(gram)}" + (f"\t{weight}" if length < order else ""))
    path.write_text("\n".join([*lines, "", "\\end\\", ""]))


def score(listed, word, history, order):
    """Natural log of p(word | history), straight from the rule; history is a tuple with <s>."""
    history = tuple(history)[-(order - 1) :] if order > 1 else ()
    word = word if (word,) in listed else "<unk>"
    history = tuple(one if (one,) in listed else "<unk>" for one in history)
    if (*history, word) in listed:
        return listed[(*history, word)][0] * math.log(10)
    weight = listed.get(history, (0.0, 0.0))[1] * math.log(10)
    return weight + score(listed, word, history[1:], order) if history else -math.inf
