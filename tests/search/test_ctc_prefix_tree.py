"""The two ways of a CTC prefix beam search, one by one and on arrays, give the same to the last bit, and alone the same as in a batch."""

import numpy as np
import pytest
from asserting import ragged, tensor
from hypothesis import given, settings
from hypothesis import strategies as st

import rfnb as rf
from rfnb import Dim
from rfnb.search import ctc_prefix
from rfnb.search.ctc_prefix_tree import pays, search_each
from rfnb.search.prefix_beam import best, trace_back


@st.composite
def batches(draw):
    """Log probabilities of few distinct values (ties) or many, some of them impossible; lengths, blank and beam size."""
    batch, frames, classes = draw(st.integers(1, 3)), draw(st.integers(0, 12)), draw(st.integers(1, 6))
    rng = np.random.default_rng(draw(st.integers(0, 1 << 30)))
    kind = draw(st.sampled_from(["uniform", "few values", "flat", "sharp", "mostly blank"]))
    shape, blank = (batch, frames, classes), draw(st.integers(0, classes - 1))
    scale = {"uniform": 0, "flat": 1, "sharp": 30, "mostly blank": 3}.get(kind)
    values = rng.integers(0, 2, shape) * 1.0 if scale is None else rng.standard_normal(shape) * scale
    values[..., blank] += 5 * (kind == "mostly blank")
    if draw(st.booleans()):
        values[rng.random(shape) < 0.3] = -np.inf
        values[..., int(rng.integers(classes))] = 0
    values -= np.log(np.exp(values).sum(-1, keepdims=True))
    lengths = rng.integers(0, frames + 1, batch)
    return values, lengths, blank, draw(st.integers(1, 8))


def on_arrays(frames, lengths, blank, size):
    frames = frames.copy()
    after = np.arange(frames.shape[1]) >= lengths[:, None]
    frames[after] = -np.inf
    frames[after, blank] = 0
    search = ctc_prefix._PrefixSearch(frames, size, blank)
    search.fuses = False
    for index in range(frames.shape[1]):
        search.step(index, 0)
    scores = search.prefixes.scores
    order = best(scores, size)
    return *trace_back(search.steps, order, blank), np.take_along_axis(scores, order, 1)


def lists(labels, counts, scores):
    return [
        [(tuple(row[:count]), score) for row, count, score in zip(*one) if score > -np.inf]
        for one in zip(labels.tolist(), counts.tolist(), scores.tolist())
    ]


@settings(max_examples=300, deadline=None)
@given(batches())
def test_both_ways_give_the_same(case):
    frames, lengths, blank, size = case
    together = lists(*on_arrays(frames, lengths, blank, size))
    assert lists(*search_each(frames, lengths, blank, size)) == together
    for seq, length in enumerate(lengths):
        alone = on_arrays(frames[seq : seq + 1, :length], lengths[seq : seq + 1], blank, size)
        assert lists(*alone) == together[seq : seq + 1]


def test_what_is_listened_to_is_what_is_found():
    batch, classes = Dim(2, name="batch"), Dim(5, name="classes")
    time = ragged([9, 6], batch)
    logits = tensor(np.random.default_rng(0).standard_normal((2, 9, 5)).astype(np.float32), batch, time, classes)
    options = {"in_spatial_dim": time, "wb_target_dim": classes, "blank_index": 0, "beam_size": 4}
    assert pays(2, 4, 5)
    labels, scores, *_ = rf.ctc_prefix_beam_search(logits, **options)
    with rf.record(kinds=["beams"]):
        recorded = rf.ctc_prefix_beam_search(logits, **options)
    np.testing.assert_array_equal(recorded[0].numpy(), labels.numpy())
    np.testing.assert_array_equal(recorded[1].numpy(), scores.numpy())


def test_many_labels_are_searched_one_by_one_and_many_sequences_of_few_labels_on_arrays():
    assert pays(1, 12, 32) and pays(16, 12, 1000) and not pays(16, 12, 32)


@pytest.mark.parametrize("width, count", [(7, 3), (7, 7), (7, 9), (5000, 12), (5000, 4999), (2049, 1)])
@pytest.mark.parametrize("kind", ["all different", "many equal", "most impossible"])
def test_the_best_values_are_those_of_a_stable_sort(width, count, kind):
    values = np.random.default_rng(0).standard_normal((3, width))
    if kind == "many equal":
        values = values.round()
    if kind == "most impossible":
        values[np.random.default_rng(1).random(values.shape) < 0.9] = -np.inf
    expected = np.argsort(-values, axis=1, kind="stable")[:, :count]
    live = np.take_along_axis(values, expected, 1) > -np.inf
    np.testing.assert_array_equal(best(values, count)[live], expected[live])
