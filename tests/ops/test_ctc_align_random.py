"""Best CTC alignments of random ragged batches, with impossible labels: the best of all by brute force."""

import itertools
import math

import numpy as np
import pytest
from asserting import ragged, tensor, using_backend
from hypothesis import given, settings
from hypothesis import strategies as st

import rfnb as rf
from rfnb import Dim


def labels_of(path, blank, label_loop):
    """The labels of a path."""
    kept = [label for label, _ in itertools.groupby(path)] if label_loop else path
    return [label for label in kept if label != blank]


def best_of_all(frames, labels, blank, label_loop=True):
    """The best score of an alignment, -inf without one."""
    paths = itertools.product(sorted({blank, *labels}), repeat=len(frames))
    scores = (
        sum(float(frame[label]) for frame, label in zip(frames, path))
        for path in paths
        if labels_of(path, blank, label_loop) == list(labels)
    )
    return max(scores, default=-math.inf)


@st.composite
def cases(draw):
    batch, frames, classes = draw(st.integers(1, 3)), draw(st.integers(0, 5)), draw(st.integers(2, 4))
    rng = np.random.default_rng(draw(st.integers(0, 1 << 30)))
    blank = draw(st.integers(0, classes - 1))
    values = (rng.standard_normal((batch, frames, classes)) * 2).astype(np.float32)
    if draw(st.booleans()):
        values[rng.random(values.shape) < 0.2] = -np.inf
        values[..., blank] = np.maximum(values[..., blank], -3)
    values -= np.log(np.exp(values).sum(-1, keepdims=True))
    lengths, counts = rng.integers(0, frames + 1, batch), rng.integers(0, 4, batch)
    others = [label for label in range(classes) if label != blank]
    return values, lengths, blank, rng.choice(others, (batch, 3)), counts


class Case:
    def __init__(self, values, lengths, blank, labels, counts):
        self.batch, self.classes = Dim(len(values), name="batch"), Dim(values.shape[2], name="classes")
        self.time, self.label = ragged(lengths, self.batch), ragged(counts, self.batch, "label")
        dirty = np.where(np.arange(values.shape[1])[:, None] < lengths[:, None, None], values, np.nan)
        self.options = {
            "logits": tensor(dirty[:, : self.time.extent].astype(np.float32), self.batch, self.time, self.classes),
            "targets": tensor(
                labels[:, : self.label.extent].astype(np.int32), self.batch, self.label, sparse_dim=self.classes
            ),
            "input_spatial_dim": self.time, "targets_spatial_dim": self.label, "blank_index": blank, "logits_normalized": True,
        }  # fmt: skip


@pytest.mark.parametrize("backend", ["torch", "numpy"])
@pytest.mark.parametrize("label_loop", [True, False])
@settings(max_examples=60, deadline=None)
@given(cases())
def test_no_path_of_these_labels_is_better(backend, label_loop, case):
    values, lengths, blank, labels, counts = case
    with using_backend(backend):
        one = Case(*case)
        paths = rf.ctc_best_path(**one.options, label_loop=label_loop).copy_transpose([one.batch, one.time]).numpy()
    for seq, (length, count) in enumerate(zip(lengths, counts)):
        frames, wanted, path = values[seq, :length], labels[seq, :count].tolist(), paths[seq, :length].tolist()
        expected = best_of_all(frames, wanted, blank, label_loop)
        if expected == -math.inf:
            assert path == [blank] * length
            continue
        assert labels_of(path, blank, label_loop) == wanted
        found = sum(float(frame[label]) for frame, label in zip(frames, path))
        assert math.isclose(found, expected, abs_tol=1e-4)


@settings(max_examples=60, deadline=None)
@given(cases())
def test_each_label_has_its_frames_and_their_score(case):
    values, lengths, blank, labels, counts = case
    one = Case(*case)
    found = rf.ctc_forced_align(**one.options)
    path = found.path.copy_transpose([one.batch, one.time]).numpy()
    starts, ends, scores = (
        part.copy_transpose([one.batch, one.label]).numpy() for part in (found.starts, found.ends, found.scores)
    )
    for seq, (length, count) in enumerate(zip(lengths, counts)):
        frames, wanted = values[seq, :length], labels[seq, :count].tolist()
        if best_of_all(frames, wanted, blank) == -math.inf:
            assert not (starts[seq, :count].any() or ends[seq, :count].any() or scores[seq, :count].any())
            continue
        covered = np.full(length, blank)
        for index, label in enumerate(wanted):
            start, end = starts[seq, index], ends[seq, index]
            assert start < end and (covered[start:end] == blank).all()
            covered[start:end] = label
            assert math.isclose(scores[seq, index], frames[start:end, label].sum(), abs_tol=1e-4)
        assert covered.tolist() == path[seq, :length].tolist()
