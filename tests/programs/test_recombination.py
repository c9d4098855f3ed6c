"""A label-synchronous search over a bigram model whose hypotheses with the same last label are merged, against all sequences."""

import itertools

import numpy as np
import pytest

import rfnb as rf
from rfnb.tensor import Dim, batch_dim


def _search(
    start: rf.Tensor, bigram: rf.Tensor, vocab: Dim, prev: Dim, *, steps: int, mode: str
) -> tuple[rf.Tensor, rf.Tensor]:
    """All hypotheses that end in the same label are one, their scores joined by max or by the log of the sum."""
    score = start  # {batch, vocab}: one hypothesis per last label
    backrefs = []
    for _ in range(steps - 1):
        before, _ = rf.replace_dim(score, in_dim=vocab, out_dim=prev)
        extended = before + bigram  # {batch, prev, vocab}
        flat, pairs = rf.merge_dims(extended, dims=(prev, vocab))
        label = rf.range_over_merged_dims([prev, vocab]) % vocab.dimension
        label, _ = rf.merge_dims(label, dims=(prev, vocab), out_dim=pairs)
        label.sparse_dim = vocab
        best = rf.scatter_argmax(flat, indices=label, indices_dim=pairs, out_dim=vocab)
        backrefs.append(best // vocab.dimension)
        score = rf.scatter(flat, indices=label, indices_dim=pairs, mode=mode)
    labels = [rf.reduce_argmax(score, axis=vocab)]
    for parent in backrefs[::-1]:
        labels.insert(0, rf.cast(rf.gather(parent, indices=labels[0], axis=vocab), labels[0].dtype))
        labels[0].sparse_dim = vocab
    out = rf.TensorArray(labels[0])
    for label in labels:
        out = out.push_back(label)
    return score, out.stack(axis=Dim(steps, name="out"))


@pytest.mark.parametrize("mode", ["max", "logsumexp"])
def test_recombination_is_exact_for_a_bigram_model(mode):
    batch_dim.reset_eager()
    rng = np.random.default_rng(3)
    vocab, steps = Dim(4, name="vocab"), 5
    prev = vocab.copy(match_priority=1)
    start_raw = rng.normal(size=(2, 4)).astype("float32")
    bigram_raw = rng.normal(size=(2, 4, 4)).astype("float32")
    start = rf.convert_to_tensor(start_raw, dims=[batch_dim, vocab])
    bigram = rf.convert_to_tensor(bigram_raw, dims=[batch_dim, prev, vocab])
    score, path = _search(start, bigram, vocab, prev, steps=steps, mode=mode)

    scores = score.copy_transpose([batch_dim, vocab]).numpy()
    (out,) = path.remaining_dims(batch_dim)
    paths = path.copy_transpose([batch_dim, out]).numpy()
    for seq in range(2):
        every = {
            labels: start_raw[seq, labels[0]] + sum(bigram_raw[seq, a, b] for a, b in itertools.pairwise(labels))
            for labels in itertools.product(range(4), repeat=steps)
        }
        for last in range(4):
            ends = [value for labels, value in every.items() if labels[-1] == last]
            want = max(ends) if mode == "max" else np.log(np.exp(ends).sum())
            np.testing.assert_allclose(scores[seq, last], want, rtol=1e-5)
        if mode == "max":
            assert tuple(paths[seq]) == max(every, key=every.get)
