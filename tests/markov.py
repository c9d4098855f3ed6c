"""A model that can be searched by hand: the log probability of a label depends on the label before it."""

import itertools

import numpy as np
from asserting import tensor

import rfnb as rf
from rfnb import Dim

VOCAB = ["</s>", "a", "b", "c"]


class Markov:
    """Sequences over `size` labels; label 0 ends, and is before the first.

    `table` [seq, step, before, label] are natural-log probabilities. They differ per step, so that no two sequences of
    labels have the same score.
    """

    def __init__(self, *, num_seqs=1, size=4, seed=0, sharpness=2.0):
        logits = np.random.default_rng(seed).standard_normal((num_seqs, 10, size, size)) * sharpness
        table = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
        self.table = table.astype(np.float32)
        self.batch = Dim(num_seqs, name="batch", kind="batch")
        self.vocab = Dim(size, name="vocab", vocab=VOCAB[:size])
        self.before = self.vocab.copy(match_priority=1)

    def log_prob(self, label, step):
        """{batch, ..., vocab}: of each label in this step, after `label` {batch, ...}."""
        index = rf.set_sparse_dim(label, self.before)
        return rf.gather(
            tensor(self.table[:, step], self.batch, self.before, self.vocab), indices=index, axis=self.before
        )

    def start(self):
        return rf.zeros([self.batch], dtype="int64", sparse_dim=self.vocab)

    def search(self, beam_size, *, max_seq_len=4, include_eos=True, name="search", **options):
        """The finished loop and the labels {time, batch, beam}."""
        loop = rf.Loop(max_seq_len=max_seq_len, name=name)
        loop.state.label = self.start()
        for step in loop:
            label = rf.choice(self.log_prob(loop.state.label, step), beam_size=beam_size, axis=self.vocab, **options)
            loop.state.label = label
            loop.end(label == 0, include_eos=include_eos)
            labels = loop.stack(label)
        return loop, labels

    def score(self, seq, labels):
        """Log probability of a sequence of labels of batch entry `seq`."""
        return float(sum(self.table[seq, step, a, b] for step, (a, b) in enumerate(zip([0, *labels], labels))))

    def everything(self, seq, max_seq_len=4):
        """All complete sequences with their scores, best first."""
        inner = range(1, len(self.vocab.vocab))
        found = [(*head, 0) for n in range(max_seq_len) for head in itertools.product(inner, repeat=n)]
        found += list(itertools.product(inner, repeat=max_seq_len))  # cut by the limit
        return sorted(((labels, self.score(seq, labels)) for labels in found), key=lambda item: -item[1])


def hypotheses(labels, batch):
    """[seq][k]: (labels up to the length, score) from labels {time, batch, beam}."""
    (time,) = (dim for dim in labels.dims if dim.is_dynamic())
    (beam,) = (dim for dim in labels.dims if dim.kind == "beam")
    values = labels.copy_transpose([batch, beam, time]).numpy()
    lengths = time.dyn_size_ext.copy_transpose([batch, beam]).numpy()
    scores = rf.get_beam_scores(labels).copy_transpose([batch, beam]).numpy()
    return [
        [(tuple(row[:length].tolist()), float(score)) for row, length, score in zip(*of_seq)]
        for of_seq in zip(values, lengths, scores)
    ]


def beam_search(table, beam_size, max_seq_len):
    """An independent beam search over one Markov table in plain Python: the kept and all sorted candidates of every step.

    A hypothesis is (labels, score, ended); a candidate (score, parent, label)."""
    beam, steps = [((), 0.0, False)], []
    for step in range(max_seq_len):
        candidates = []
        for parent, (labels, score, ended) in enumerate(beam):
            for label in range(table.shape[-1]):
                if ended:
                    candidates += [(score, parent, 0)] if label == 0 else []
                else:
                    candidates.append((score + float(table[step, labels[-1] if labels else 0, label]), parent, label))
        candidates.sort(key=lambda item: -item[0])
        kept = candidates[:beam_size]
        beam = [((*beam[p][0], label), s, beam[p][2] or label == 0) for s, p, label in kept]
        steps.append((kept, candidates, beam))
        if all(ended for *_, ended in beam):
            break
    return steps
