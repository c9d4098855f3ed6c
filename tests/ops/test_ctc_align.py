"""Forced alignment with CTC: by hand, by brute force over all alignments, what has no alignment."""

import itertools

import numpy as np
import pytest
from asserting import assert_same, ragged, tensor, using_backend

import rfnb as rf
from rfnb import Dim


def aligned(values, labels, *, lengths=None, label_lengths=None, **options):
    batch, classes = Dim(len(values), name="batch"), Dim(values.shape[2], name="classes")
    time = ragged(lengths, batch) if lengths else Dim(values.shape[1], name="time")
    target = ragged(label_lengths, batch, "label") if label_lengths else Dim(len(labels[0]), name="label")
    found = rf.ctc_forced_align(
        logits=tensor(values, batch, time, classes), targets=tensor(np.asarray(labels, np.int32), batch, target, sparse_dim=classes),
        input_spatial_dim=time, targets_spatial_dim=target, blank_index=0, **options,
    )  # fmt: skip
    return found, [batch, time], [batch, target]


def lists(x, dims):
    return x.copy_transpose(dims).numpy().tolist()


@pytest.mark.parametrize("backend", ["torch", "numpy"])
def test_frames_and_scores_of_each_label_by_hand(backend):
    with using_backend(backend):
        # blank, a, a, blank, b
        rows = np.full((1, 5, 3), 0.1, np.float32)
        for frame, label in enumerate([0, 1, 1, 0, 2]):
            rows[0, frame, label] = 0.8
        found, time, label = aligned(np.log(rows), [[1, 2]])
        assert lists(found.path, time) == [[0, 1, 1, 0, 2]]
        assert lists(found.starts, label) == [[1, 4]] and lists(found.ends, label) == [[3, 5]]
        np.testing.assert_allclose(
            found.scores.copy_transpose(label).numpy(), [[2 * np.log(0.8), np.log(0.8)]], rtol=1e-5
        )


def test_the_alignment_is_the_best_of_all():
    values = np.random.default_rng(0).standard_normal((4, 5, 3)).astype(np.float32)
    labels = [[1, 1], [1, 2], [2, 1], [2, 2]]
    found, time, label = aligned(values, labels)
    log_probs = values - np.log(np.exp(values).sum(-1, keepdims=True))
    for seq, wanted in enumerate(labels):
        paths = [
            path
            for path in itertools.product(range(3), repeat=5)
            if [one for one, _ in itertools.groupby(path) if one] == wanted
        ]
        best = max(paths, key=lambda path: sum(log_probs[seq, t, one] for t, one in enumerate(path)))
        assert lists(found.path, time)[seq] == list(best)
        bounds = list(zip(lists(found.starts, label)[seq], lists(found.ends, label)[seq]))
        for (start, end), one, score in zip(bounds, wanted, lists(found.scores, label)[seq]):
            assert start < end and set(best[start:end]) == {one}
            np.testing.assert_allclose(score, log_probs[seq, start:end, one].sum(), rtol=1e-4)


def test_a_ragged_batch_and_what_has_no_alignment():
    values = np.random.default_rng(1).standard_normal((3, 5, 3)).astype(np.float32)
    values[1, 2:] = np.nan
    labels = [[1, 2, 1], [1, 1, 7], [2, 7, 7]]
    found, time, label = aligned(values, labels, lengths=[5, 2, 4], label_lengths=[3, 2, 1])
    alone, _, own = aligned(values[2:, :4], [[2]])
    assert lists(found.starts, label)[2][:1] == lists(alone.starts, own)[0]
    assert lists(found.path, time)[1][:2] == [0, 0]  # two times a label needs a blank between
    for part in (found.starts, found.ends, found.scores):
        assert lists(part, label)[1][:2] == [0, 0]
    total = rf.reduce_sum(found.scores, axis=label[1])
    assert np.isfinite(total.numpy()).all()
    assert_same(found.ends - found.starts > 0, tensor(np.array([[True] * 3, [False] * 3, [True] * 3]), *label))
