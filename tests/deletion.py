"""The deletion test: how far the margin of a word over its runner-up moves when letters are hidden, by what ranks the letters.

Source: Samek et al. 2017, "Evaluating the Visualization of What a Deep Neural Network Has Learned", section III.
"""

import sys
from pathlib import Path

import numpy as np

import rfnb as rf
from rfnb.control.why_not import Tries, searched
from rfnb.interop.atlas_columns import companion_of
from rfnb.interop.why_parts import Both
from rfnb.models import load_g2p
from rfnb.models.g2p_search import search

LETTERS = (1, 2, 3)  # how many are hidden
CHANCE = 20  # draws


def moves(model, word):
    """{ranking: [by how much the margin moves, for each of LETTERS]}; None where the search has no runner-up that ends."""

    def spell():
        with rf.stop_gradient_scope():
            return search(model, [word], beam_size=4)[1]

    run = rf.run(spell, record={"model": model})
    run.wait()
    history, place = searched(run, "why_not")
    ended = [item for item in history.nbest(0) if item.ended]
    if len(ended) < 2 or len(word) <= max(LETTERS):
        return None
    both = Both(Tries(run, place, history, 0, ended[0]), [ended[1].tokens, ended[0].tokens])
    parts = both.parts()
    count = len(word)
    looks = companion_of(run, "attention", "decoder.att").blocks["map0"][0]
    ranks = {
        "integrated gradients": abs(parts.values.sum(0))[:count],
        "occlusion": abs(parts.occluded.sum(0))[:count],
        "attention where they part": looks[min(both.parted, len(looks) - 1)],
        "attention in all steps": looks.mean(0),
    }
    orders = {name: [np.argsort(-rank, kind="stable")] for name, rank in ranks.items()}
    draw = np.random.default_rng([*word.encode()])  # the same for a word, whatever words are tried
    orders["chance"] = [draw.permutation(count) for _ in range(CHANCE)]
    hidden = [order[:size] for each in orders.values() for order in each for size in LETTERS]
    scaled = both.on_way(np.ones(1 + len(hidden)))
    for row, letters in enumerate(hidden, 1):
        scaled[row, letters] = 0.0
    margins = both.margins(scaled).sum(1).numpy()
    moved = iter(abs(margins[1:] - margins[0]).reshape(-1, len(LETTERS)))
    return {name: np.mean([next(moved) for _ in each], 0) for name, each in orders.items()}


def each_of(model, words):
    """{ranking: by how much the margin moves, {word, count of LETTERS}}."""
    found = [made for made in (moves(model, word) for word in words) if made is not None]
    return {name: np.array([each[name] for each in found]) for name in found[0]}


def table(model, words):
    """{ranking: mean over words, for each of LETTERS}, and of how many words."""
    each = each_of(model, words)
    return {name: moved.mean(0) for name, moved in each.items()}, len(each["chance"])


def interval(moved):
    """Half of the 95 % interval of the mean over words, {word, ...}."""
    return 1.96 * moved.std(0, ddof=1) / np.sqrt(len(moved))


if __name__ == "__main__":  # with PYTHONPATH=tests: python tests/deletion.py 300
    count = int(sys.argv[1])
    lines = Path("notebooks/data/cmudict_test_words.tsv").read_text().splitlines()
    each = each_of(load_g2p(), [line.split("\t")[0] for line in lines[:: max(len(lines) // count, 1)]])
    print(len(each["chance"]), "words; mean, half of its 95 % interval, and of its difference to chance")
    for name, moved in each.items():
        beats = moved - each["chance"]
        rows = zip(moved.mean(0), interval(moved), beats.mean(0), interval(beats))
        print(
            f"{name:28}",
            *(f"{mean:5.2f} ±{half:.2f} ({more:+.2f} ±{wide:.2f})" for mean, half, more, wide in rows),
            flush=True,
        )
