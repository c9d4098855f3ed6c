"""Tensors from values, defaults, and devices."""

import numpy as np
import pytest
import torch
from asserting import assert_same, ragged, raises_message, tensor

import rfnb as rf
from rfnb import Dim, DimError, ShapeError

batch, feat = Dim(3, name="batch"), Dim(2, name="feat")
time = ragged([3, 1, 0], batch)


def test_full_takes_the_dtype_of_the_value():
    assert [rf.full(dims=[batch], fill_value=value).dtype for value in (True, 1, 1.0, np.float64(1))] == [
        "bool",
        "int32",
        "float32",
        "float32",
    ]
    assert_same(rf.full(dims=[batch], fill_value=7), tensor(np.asarray([7, 7, 7], np.int32), batch))


def test_zeros_and_ones_are_floats():
    assert_same(rf.zeros([batch]), [0.0, 0.0, 0.0])
    assert (rf.ones([batch]).dtype, rf.ones([batch], dtype="int64").dtype) == ("float32", "int64")


def test_a_ragged_dim_gets_its_longest_length():
    assert rf.zeros([batch, time]).raw_tensor.shape == (3, 3)


def test_like_keeps_dims_dtype_and_marks():
    ids = tensor(np.asarray([1, 0, 1]), batch, sparse_dim=feat)
    assert_same(rf.ones_like(ids), tensor(np.asarray([1, 1, 1]), batch, sparse_dim=feat))
    assert_same(rf.zeros_like(ids), tensor(np.asarray([0, 0, 0]), batch, sparse_dim=feat))


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        ([1, 2, 3], "int32"),
        ([1.0, 2.0, 3.0], "float32"),
        (np.asarray([1.0, 2, 3]), "float64"),
        (torch.tensor([1, 2, 3]), "int64"),
    ],
)
def test_convert_to_tensor(value, dtype):
    assert_same(
        rf.convert_to_tensor(value, dims=[batch]),
        tensor(np.asarray([1, 2, 3], dtype), batch)
        if dtype != "float64"
        else rf.cast(tensor([1.0, 2.0, 3.0], batch), dtype),
    )


def test_convert_to_tensor_passes_a_tensor_through():
    x = tensor([1.0, 2.0, 3.0], batch)
    assert rf.convert_to_tensor(x) is x
    assert_same(rf.convert_to_tensor(x, dtype="int64"), tensor(np.asarray([1, 2, 3]), batch))


def test_convert_to_tensor_copies_an_array():
    array = np.asarray([1.0, 2.0, 3.0], np.float32)
    x = rf.convert_to_tensor(array, dims=[batch])
    array[0] = 9
    assert_same(x, [1.0, 2.0, 3.0])


def test_without_dims_new_ones_are_made():
    assert [dim.size for dim in rf.convert_to_tensor([[1, 2], [3, 4], [5, 6]]).dims] == [3, 2]


def test_constant_takes_a_number_or_an_array():
    assert_same(rf.constant(2.0, dims=[batch]), [2.0, 2.0, 2.0])
    assert_same(rf.constant([1.0, 2.0, 3.0], dims=[batch]), [1.0, 2.0, 3.0])


def test_default_float_dtype_of_a_block():
    with rf.set_default_float_dtype_ctx("float64"):
        assert rf.zeros([batch]).dtype == "float64"
    assert rf.zeros([batch]).dtype == "float32"


def test_default_device_of_a_block():
    with rf.set_default_device_ctx("meta"):
        assert rf.zeros([batch]).device == "meta"
    assert rf.zeros([batch]).device == "cpu"


def test_copy_to_device_of_the_same_device_is_the_same_object():
    x = rf.zeros([batch])
    assert rf.copy_to_device(x, "cpu") is x and rf.copy_to_device(x) is x
    assert rf.copy_to_device(x, "meta").device == "meta"


def test_an_array_of_another_shape():
    with raises_message(
        ShapeError,
        """
        Tensor "x": raw shape (2,) does not fit its dims.
          axis  dim      needs  got
          0     batch=3  3      2    <- differs
        The dims of a tensor are in the order of its raw array.
        Axis 0 needs the dim that this array was made with:
            Dim(2, name=...)
        """,
    ):
        rf.convert_to_tensor([1.0, 2.0], dims=[batch], name="x")


def test_one_number_for_several_entries():
    with raises_message(
        ShapeError,
        """
        convert_to_tensor: one number for several entries.
          value  ()
          dims   [batch=3, feat=2]
        A number has no dims. To fill a tensor with it:
            rf.full(dims=[batch, feat], fill_value=...)
        """,
    ):
        rf.convert_to_tensor(1.0, dims=[batch, feat])


def test_full_of_a_tensor_repeats_it():
    value = tensor([1.0, 2.0], feat)
    out = rf.full(dims=[batch, feat], fill_value=value, dtype="int32")
    assert out.dtype == "int32" and out.raw_tensor.tolist() == [[1, 2]] * 3
    out.raw_tensor[0, 0] = 7  # an array of its own
    assert out.raw_tensor[1, 0] == 1 and value.raw_tensor[0] == 1


def test_full_of_a_tensor_with_another_dim():
    with raises_message(
        DimError,
        """
        full: the value has other dims.
          fill_value  [feat=2]
          dims        [batch=3]
        A value that is a Tensor has some of the dims of the result. To keep its own as well:
            rf.expand_dims(fill_value, dims)
        """,
    ):
        rf.full(dims=[batch], fill_value=tensor([1.0, 2.0], feat))


def test_a_number_can_stay_on_the_host():
    with rf.set_default_device_ctx("meta"):
        assert rf.convert_to_tensor(3, keep_scalar_on_cpu=True).device == "cpu"
        assert rf.convert_to_tensor([3], keep_scalar_on_cpu=True).device == "meta"


def test_shape_is_the_older_spelling_of_dims():
    assert rf.convert_to_tensor([1.0, 2.0, 3.0], shape=[batch]).dims == (batch,)
