"""Scatter: each mode on numbers that can be followed by hand."""

import math

import numpy as np
import pytest
import torch
from asserting import assert_same, ragged, raises_message, randn, tensor

import rfnb as rf
from rfnb import Dim, DimError

batch, feat, classes = Dim(2, name="batch"), Dim(3, name="feat"), Dim(4, name="classes")
time = ragged([5, 2], batch)
ids = tensor(np.asarray([[0, 2, 0, 2, 2], [3, 3, 1, 1, 1]], np.int32), batch, time, sparse_dim=classes)
x = tensor([[1.0, 2.0, 5.0, 4.0, 3.0], [7.0, 7.0, 9.0, 9.0, 9.0]], batch, time)
inf = math.inf
EXPECTED = {
    "sum": [[6, 0, 9, 0], [0, 0, 0, 14]],
    "max": [[5, 0, 4, 0], [0, 0, 0, 7]],
    "min": [[1, 0, 2, 0], [0, 0, 0, 7]],
    "mean": [[3, 0, 3, 0], [0, 0, 0, 7]],
    "argmax": [[2, -1, 3, -1], [-1, -1, -1, 0]],
}


@pytest.mark.parametrize("mode", EXPECTED)
def test_mode(mode):
    out = rf.scatter(x, indices=ids, indices_dim=time, mode=mode)
    dtype, sparse_dim = (np.int64, time) if mode == "argmax" else (np.float32, None)
    assert_same(out, tensor(np.asarray(EXPECTED[mode], dtype), batch, classes, sparse_dim=sparse_dim))


def test_logsumexp_is_the_log_of_the_scattered_sum():
    out = rf.scatter_logsumexp(rf.log(x), indices=ids, indices_dim=time)
    assert_same(rf.exp(out), tensor(np.asarray(EXPECTED["sum"], np.float32), batch, classes))
    assert out.numpy()[0, 1] == -inf


def test_logmeanexp_is_the_log_of_the_scattered_mean():
    out = rf.scatter_logmeanexp(rf.log(x), indices=ids, indices_dim=time)
    assert_same(rf.exp(out), tensor(np.asarray(EXPECTED["mean"], np.float32), batch, classes))


def test_logsumexp_of_large_values_is_finite():
    out = rf.scatter_logsumexp(x * 0 + 1000, indices=ids, indices_dim=time)
    assert out.numpy()[0, 0] == pytest.approx(1000 + math.log(2))


def test_fill_value_is_for_places_without_entry_only():
    out = rf.scatter(x - 5, indices=ids, indices_dim=time, mode="max", fill_value=-1)
    assert_same(out, tensor([[0.0, -1.0, -1.0, -1.0], [-1.0, -1.0, -1.0, 2.0]], batch, classes))


def test_count():
    expected = np.asarray([[2, 0, 3, 0], [0, 0, 0, 2]], np.int32)
    assert_same(rf.scatter_count(indices=ids, indices_dim=time), tensor(expected, batch, classes))
    both = rf.scatter_count(indices=ids, indices_dim=[batch, time], fill_value=-1)
    assert_same(both, tensor(np.asarray([2, -1, 3, 2], np.int32), classes))


def test_scatter_undoes_gather_by_distinct_indices():
    source = randn(batch, classes, feat)
    order = tensor(np.asarray([2, 0, 3, 1], np.int32), classes, sparse_dim=classes)
    places, new = rf.replace_dim(order, in_dim=classes)
    picked = rf.gather(source, indices=places, axis=classes)
    assert_same(rf.scatter(picked, indices=places, indices_dim=new), source)


def test_gradient_of_a_sum_is_that_of_each_place():
    raw = torch.ones(2, 5, requires_grad=True)
    out = rf.scatter(rf.convert_to_tensor(raw, dims=[batch, time]), indices=ids, indices_dim=time)
    weights = tensor([[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]], batch, classes)
    rf.reduce_sum(out * weights, axis=[batch, classes]).raw_tensor.backward()
    assert raw.grad.tolist() == [[1, 3, 1, 3, 3], [8, 8, 0, 0, 0]]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, [[True, False, True, False], [False, False, False, True]]),
        ({"mode": "max"}, [[True, False, True, False], [False, False, False, True]]),
        ({"mode": "min"}, [[False, False, True, False], [False, False, False, True]]),
        ({"mode": "min", "fill_value": True}, [[False, True, True, True], [True, True, True, True]]),
    ],
)
def test_scatter_of_bools_says_whether_any_or_all_are_true(options, expected):
    flags = x != 1.0
    assert_same(rf.scatter(rf.logical_and(flags, flags), indices=ids, indices_dim=time, **options), expected)


ERRORS = {
    "an unknown mode": (
        lambda: rf.scatter(x, indices=ids, indices_dim=time, mode="median"),
        ValueError,
        """
        scatter: unknown mode "median".
          known  sum, max, min, mean, logsumexp, logmeanexp, argmax
        A mode is one of these.
            mode="mean"
        """,
    ),
    "no out_dim": (
        lambda: rf.scatter(x, indices=rf.set_sparse_dim(ids, None), indices_dim=time),
        DimError,
        """
        scatter: into which dim?
          indices  [batch=2, time<=5]
        The indices have no sparse_dim, so name the dim:
            rf.scatter(..., out_dim=...)
        """,
    ),
    "a dim that is nowhere": (
        lambda: rf.scatter(x, indices=ids, indices_dim=feat),
        DimError,
        """
        scatter: no dim feat=3.
          source   [batch=2, time<=5]
          indices  [batch=2, time<=5]
        The scattered dim is in source, in indices, or in both.
        """,
    ),
    "argmax over two dims": (
        lambda: rf.scatter(x, indices=ids, indices_dim=[batch, time], mode="argmax"),
        DimError,
        """
        scatter_argmax: one dim at a time.
          source   [batch=2, time<=5]
          indices  [batch=2, time<=5]
        An index is into one dim.
            rf.merge_dims(...)
        """,
    ),
}


@pytest.mark.parametrize(("call", "error", "text"), ERRORS.values(), ids=ERRORS)
def test_error(call, error, text):
    with raises_message(error, text):
        call()
