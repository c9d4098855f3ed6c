"""Sorting, finding places, masks of the largest."""

import numpy as np
import pytest
from asserting import assert_same, ragged, raises_message, tensor

import rfnb as rf
from rfnb import Dim, DimError

batch, feat = Dim(2, name="batch"), Dim(4, name="feat")
time = ragged([3, 1], batch)
x = tensor([[3.0, 1.0, 2.0, 1.0], [5.0, 8.0, 6.0, 7.0]], batch, feat)


def ints(values, *dims, dtype=np.int32, sparse_dim=None):
    return tensor(np.asarray(values, dtype), *dims, sparse_dim=sparse_dim)


@pytest.mark.parametrize(
    ("descending", "values", "indices"),
    [
        (False, [[1, 1, 2, 3], [5, 6, 7, 8]], [[1, 3, 2, 0], [0, 2, 3, 1]]),
        (True, [[3, 2, 1, 1], [8, 7, 6, 5]], [[0, 2, 1, 3], [1, 3, 2, 0]]),
    ],
)
def test_sort_keeps_the_order_of_equal_entries(descending, values, indices):
    result, order, dim = rf.sort(x, axis=feat, descending=descending)
    assert_same(result, tensor(np.asarray(values, np.float32), batch, dim))
    assert_same(order, ints(indices, batch, dim, dtype=np.int64, sparse_dim=feat))


def test_gathering_by_the_order_is_sorting():
    values, order, _ = rf.sort(x, axis=feat)
    assert_same(rf.gather(x, indices=order), values)


@pytest.mark.parametrize(("side", "places"), [("left", [0, 0, 3, 4]), ("right", [0, 2, 3, 4])])
def test_search_sorted_beside_equal_entries(side, places):
    points = Dim(4, name="points")
    found = rf.search_sorted(
        tensor([1.0, 1.0, 2.0, 3.0], feat), tensor([0.0, 1.0, 2.5, 9.0], points), axis=feat, side=side
    )
    assert_same(found, ints(places, points, sparse_dim=feat))


def test_what_search_sorted_finds_are_indices_into_the_axis():
    found = rf.search_sorted(tensor([1.0, 1.0, 2.0, 3.0], feat), tensor(1.5), axis=feat)
    assert_same(rf.gather(x, indices=found), rf.gather(x, indices=2, axis=feat))


def test_search_sorted_of_integers_for_floats():
    found = rf.search_sorted(ints([1, 2, 3, 4], feat), tensor([2.5], Dim(1, name="one")), axis=feat, out_dtype="int64")
    assert found.numpy().tolist() == [2] and found.dtype == "int64"


def test_top_k_mask():
    assert_same(rf.top_k_mask(x, axis=feat, k=2), [[True, False, True, False], [False, True, False, True]])


def test_top_k_mask_of_more_than_there_are_is_all():
    assert_same(rf.top_k_mask(x, axis=feat, k=9), np.ones((2, 4), bool))


def test_top_k_mask_takes_real_frames_first():
    y = tensor([[-3.0, -1.0, -2.0], [-9.0, 5.0, 5.0]], batch, time)
    assert_same(rf.top_k_mask(y, axis=time, k=1), [[False, True, False], [True, False, False]])


probs = tensor([0.125, 0.5, 0.25, 0.125], feat)


@pytest.mark.parametrize(
    ("p", "options", "mask"),
    [
        (0.5, {}, [0, 1, 0, 0]),
        (0.6, {}, [0, 1, 1, 0]),
        (0.6, {"one_more": False}, [0, 1, 0, 0]),
        (0.1, {"one_more": False}, [0, 1, 0, 0]),
        (0.1, {"one_more": False, "min_tokens_to_keep": 0}, [0, 0, 0, 0]),
        (0.1, {"min_tokens_to_keep": 3}, [1, 1, 1, 0]),
        (1.0, {}, [1, 1, 1, 1]),
    ],
)
def test_top_p_mask(p, options, mask):
    assert_same(rf.top_p_mask(probs, axis=feat, p=p, **options), np.asarray(mask, bool))


def test_top_p_mask_with_p_per_sequence():
    both = rf.expand_dim(probs, batch)
    mask = rf.top_p_mask(both, axis=feat, p=tensor([0.5, 0.7], batch))
    assert_same(mask.copy_transpose([batch, feat]), [[False, True, False, False], [False, True, True, False]])


ERRORS = {
    "sorting a ragged axis": (
        lambda: rf.sort(tensor(np.zeros((2, 3)), batch, time), axis=time),
        DimError,
        """
        sort: the axis is ragged.
          source  [batch=2, time<=3]
          axis    time<=3
        Sorting would mix the padding with the frames. Give the padding a value that is sorted to the end:
            x, axis = rf.replace_dim(x.copy_masked(float("inf")), in_dim=time, out_dim=rf.Dim(3))
        """,
    ),
    "values with the sorted dim": (
        lambda: rf.search_sorted(x, x, axis=feat),
        DimError,
        """
        search_sorted: values have the sorted dim.
          sorted_seq  [batch=2, feat=4]
          values      [batch=2, feat=4]
        Each value is compared with all of axis. Replace its dim first:
            values, _ = rf.replace_dim(values, in_dim=feat)
        """,
    ),
    "another side": (
        lambda: rf.search_sorted(x, tensor([1.0, 2.0], batch), axis=feat, side="middle"),
        ValueError,
        """
        search_sorted: side "middle".
          known  left, right
        It is one of these.
            side="left"
        """,
    ),
}


@pytest.mark.parametrize(("call", "error", "text"), ERRORS.values(), ids=ERRORS)
def test_error(call, error, text):
    with raises_message(error, text):
        call()
