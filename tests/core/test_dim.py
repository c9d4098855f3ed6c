"""Dim: identity, sizes, lengths, masks, twins."""

import copy

import numpy as np
import pytest
from asserting import assert_same, ragged, raises_message, tensor

import rfnb as rf
from rfnb import Dim, DimError, batch_dim, single_step_dim

batch = Dim(3, name="batch")


def test_equal_name_and_size_are_two_dims():
    assert Dim(3, name="x") != Dim(3, name="x")


def test_a_copy_is_the_dim_itself():
    assert batch.copy() is batch and copy.copy(batch) is batch and copy.deepcopy(batch) is batch


def test_a_twin_is_one_other_dim_and_knows_the_way_back():
    twin = batch.copy(match_priority=1)
    assert twin is not batch
    assert twin.size == 3 and twin.name == "batch"
    assert batch.copy(match_priority=1) is twin
    assert twin.copy(match_priority=0) is batch


def test_a_twin_has_the_lengths():
    time = ragged([7, 5, 3], batch)
    twin = time.copy(match_priority=1)
    assert twin.lengths.tolist() == [7, 5, 3] and twin.length_dims == (batch,)


def test_static_dim():
    assert (batch.size, batch.dimension, batch.extent, batch.lengths, batch.dyn_size_ext) == (3, 3, 3, None, None)
    assert batch.is_static() and not batch.need_masking() and not batch.has_padding()
    assert_same(batch.get_mask(), [True, True, True])
    assert_same(batch.get_size_tensor(), np.int32(3))


def test_ragged_dim():
    time = rf.ragged_dim([2, 0, 1], over=batch, name="time")
    assert (time.size, time.extent, time.length_dims) == (None, 2, (batch,))
    assert time.is_dynamic() and time.need_masking() and time.has_padding()
    assert_same(time.dyn_size_ext, tensor(np.asarray([2, 0, 1], np.int32), batch))
    assert_same(time.get_mask([batch, time]), [[True, True], [False, False], [True, False]])


def test_lengths_that_are_all_equal_need_no_mask():
    assert not ragged([4, 4, 4], batch).has_padding()


def test_mask_in_another_order():
    time = ragged([2, 0, 1], batch)
    mask = time.get_mask([time, batch])
    assert mask.dims == (time, batch)
    assert mask.numpy().tolist() == [[True, False, True], [True, False, False]]


def test_scalar_lengths_are_dynamic_without_padding():
    dim = Dim(tensor(np.int32(4)), name="n")
    assert (dim.size, dim.extent, dim.is_dynamic(), dim.need_masking()) == (None, 4, True, False)


def test_lengths_over_a_ragged_dim():
    words = ragged([2, 1, 0], batch, "words")
    chars = ragged([[3, 1], [2, 9], [9, 9]], [batch, words], "chars")
    assert chars.extent == 3  # what stands in the padding of words does not count
    assert chars.length_dims == (batch, words)
    assert rf.num_elements_of_shape([batch, words, chars]) == 3 + 1 + 2


def test_what_is_in_the_padding_of_lengths_may_be_anything():
    words = ragged([2, 1, 0], batch, "words")
    assert ragged([[3, 1], [2, -9], [-9, -9]], [batch, words], "chars").extent == 3


def test_lengths_are_a_tensor_of_the_selected_backend():
    from asserting import using_backend

    time = ragged([2, 0, 1], batch)
    assert time.dyn_size_ext.backend.name == "torch"
    with using_backend("numpy"):
        assert time.dyn_size_ext.backend.name == "numpy"
    assert time.dyn_size_ext.backend.name == "torch"


def test_size_comes_from_the_data():
    new = Dim(None, name="new")
    assert not new.is_dim_known() and str(new) == "Dim{new=?}"
    rf.convert_to_tensor(np.zeros((3, 4), np.float32), dims=[batch, new])
    assert new.extent == 4


def test_plans_are_made_anew_for_a_new_size():
    new = Dim(None, name="new")
    for size in (3, 5):
        new.dyn_size_ext = np.int32(size)
        x = rf.ones([batch, new])
        assert_same(rf.matmul(x, x, reduce=[batch, new]), np.float32(3 * size))
        assert_same(rf.merge_dims(x, dims=[batch, new])[0].raw_tensor.numel(), 3 * size)


def test_repr():
    time = ragged([7, 5, 3], batch)
    assert [str(dim) for dim in (batch, time, Dim(None, name="x"))] == [
        "Dim{batch=3}",
        "Dim{time<=7: 7, 5, 3 over batch=3, 29 % padding}",
        "Dim{x=?}",
    ]


def test_made_at_names_the_line_of_the_caller():
    assert Dim(3, name="x").created.startswith("test_dim.py:")


ERRORS = {
    "negative size": (
        lambda: Dim(-1, name="x"),
        """
        Dim "x": negative size.
          size  -1
        Sizes are 0 or more.
        """,
    ),
    "lengths without dims": (
        lambda: Dim([2, 1], name="time"),
        """
        Dim "time": these lengths do not say over which dim they are.
          lengths  array (2,)
        Lengths are a Tensor, whose dims tell.
            time = rf.ragged_dim(lengths, over=batch, name="time")
        """,
    ),
    "float lengths": (
        lambda: rf.ragged_dim([1.0, 2.0, 3.0], over=batch, name="time"),
        """
        Dim "time": lengths must be integers, 0 or more.
          lengths  float64, smallest 1.0
        A length counts frames.
            [int(length) for length in lengths]
        """,
    ),
    "count of lengths": (
        lambda: rf.ragged_dim([1, 2], over=batch, name="time"),
        """
        ragged_dim "time": as many lengths as batch=3 has entries are needed.
          lengths  array (2,)
          over     batch=3
        Each entry of `over` has one length.
            batch = Dim(2, name="batch")
        """,
    ),
    "lengths of a static dim": (
        lambda: setattr(batch, "dyn_size_ext", np.int32(4)),
        """
        Dim "batch" is static.
          size  3
        A static dim has no lengths.
        """,
    ),
}


@pytest.mark.parametrize(("call", "text"), ERRORS.values(), ids=ERRORS)
def test_error(call, text):
    with raises_message(DimError, text):
        call()


def test_error_of_a_batch_dim_that_had_no_array_yet():
    batch_dim.reset_eager()
    with raises_message(
        DimError,
        """
        batch_dim has no size yet.
        It takes its size from the first array or lengths that it is used with.
            rf.convert_to_tensor(array, dims=[batch_dim, ...])    # before what is made of no array
        """,
    ):
        rf.zeros([batch_dim])


def test_error_of_the_size_of_a_single_step():
    with raises_message(
        DimError,
        """
        single_step_dim has no size: it is no axis.
        It says that there is one step and no axis for it. What needs an axis is left out for one step, or gets another dim.
        """,
    ):
        rf.range_over_dim(single_step_dim)


def test_error_of_a_size_that_is_not_known():
    new = Dim(None, name="new")
    with raises_message(
        DimError,
        f"""
        Dim "new" has no size yet.
          created  {new.created}
        A dim made without size gets it from the op that it is passed to as out_dim, or by hand.
            new.dyn_size_ext = lengths
        """,
    ):
        _ = new.extent
