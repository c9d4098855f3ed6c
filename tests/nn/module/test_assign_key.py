"""Parameter.assign_key: what is written where."""

import numpy as np
import pytest
import torch
from asserting import assert_same, ragged, raises_message, randn, tensor, using_backend, with_nan_padding

import rfnb as rf
from rfnb import Dim, DimError

A, B, N = Dim(3, name="a"), Dim(5, name="b"), Dim(2, name="n")


def table():
    return rf.Parameter([A, B])


def test_an_integer_picks_one_entry_of_the_axis():
    parameter, row = table(), randn(B)
    raw = parameter.raw_tensor
    parameter.assign_key(A, 1, None, row)
    parameter.assign_key(A, -1, None, 7)
    expected = np.zeros((3, 5), np.float32)
    expected[1], expected[2] = row.numpy(), 7
    assert parameter.numpy().tolist() == expected.tolist()
    assert parameter.raw_tensor is raw and raw.requires_grad and raw.is_leaf and raw.grad_fn is None


def test_a_slice_has_the_dim_of_the_key_in_the_value():
    parameter, value = table(), randn(N, A)
    parameter.assign_key(B, slice(1, 4, 2), N, value)
    expected = np.zeros((3, 5), np.float32)
    expected[:, 1:4:2] = value.numpy().T
    assert parameter.numpy().tolist() == expected.tolist()


def test_a_slice_of_everything_keeps_the_axis_and_another_without_dim_broadcasts():
    parameter, whole = table(), randn(B, A)
    parameter.assign_key(A, slice(None), None, whole)
    assert_same(parameter, whole)
    parameter.assign_key(A, slice(0, 2), None, 3.0)
    assert (
        parameter.numpy()[:2].tolist() == [[3] * 5] * 2
        and parameter.numpy()[2].tolist() == whole.numpy()[:, 2].tolist()
    )


def test_a_slice_tells_its_size_to_an_unknown_dim():
    part = Dim(None, name="part")
    table().assign_key(B, slice(2, None), part, 1.0)
    assert part.extent == 3


def test_indices_pick_rows():
    parameter, rows = table(), randn(N, B)
    parameter.assign_key(A, tensor([2, 0], N, sparse_dim=A), N, rows)
    assert parameter.numpy()[[2, 0]].tolist() == rows.numpy().tolist() and not parameter.numpy()[1].any()
    other = table()
    other.assign_key(A, [2, 0], N, rows)
    assert_same(other, parameter)


def test_indices_of_two_axes_with_a_dim_in_common_go_along_it_together():
    parameter = table()
    parameter.assign_key([A, B], [tensor([2, 0], N), tensor([1, 4], N)], [N, N], tensor([5.0, 6.0], N))
    assert np.argwhere(parameter.numpy()).tolist() == [[0, 4], [2, 1]]
    assert parameter.numpy()[2, 1] == 5 and parameter.numpy()[0, 4] == 6


def test_indices_over_another_dim_of_the_parameter_pick_one_entry_for_each():
    parameter = table()
    parameter.assign_key(A, tensor([0, 1, 2, 1, 0], B), None, 1.0)
    assert parameter.numpy().T.tolist() == np.eye(3)[[0, 1, 2, 1, 0]].tolist()


def test_two_axes_of_different_kinds_in_the_other_order():
    parameter, value = table(), randn(N)
    parameter.assign_key([B, A], [slice(0, 2), 1], [N, None], value)
    assert parameter.numpy()[1, :2].tolist() == value.numpy().tolist() and np.count_nonzero(parameter.numpy()) == 2


def test_padding_of_a_ragged_key_is_not_written():
    batch = Dim(2, name="batch")
    time = ragged([2, 1], batch)
    key = with_nan_padding(tensor([[0, 1], [2, 0]], batch, time))  # the padding is far outside
    for backend in ("torch", "numpy"):
        with using_backend(backend):
            parameter = table()
            places = rf.convert_to_tensor(key.numpy(), dims=key.dims)
            value = rf.convert_to_tensor(np.asarray([[1, 2], [3, np.nan]], np.float32), dims=key.dims)
            parameter.assign_key(A, places, time, value)
            assert parameter.numpy().tolist() == [[1] * 5, [2] * 5, [3] * 5]


def test_no_key_and_an_empty_key_write_nothing_and_everything():
    parameter, nothing = table(), Dim(0, name="nothing")
    parameter.assign_key(A, slice(1, 1), nothing, rf.zeros([nothing, B]) + 1)
    assert not parameter.numpy().any()
    parameter.assign_key([], [], [], 2.0)
    assert (parameter.numpy() == 2).all()


def test_integers_are_assigned_to_integers():
    parameter = rf.Parameter([A], "int32")
    parameter.assign_key(A, 1, None, 4)
    assert parameter.numpy().tolist() == [0, 4, 0]
    with raises_message(TypeError, """
        Parameter.assign_key: floats to integers.
          parameter  int32
          value      float32
        The fractions would be lost. If this is intended, say so:
            rf.cast(value, "int32")
        """):  # fmt: skip
        parameter.assign_key(A, [0, 1], N, randn(N))


def test_a_value_with_the_axis_itself():
    with raises_message(DimError, """
        Parameter.assign_key: other dims.
          parameter  [a=3, b=5]
          places     [n=2, b=5]
          value      [a=3, b=5]
        The value has dims that the indexed entries lack; key_dim names the dim that replaces each axis.
        """):  # fmt: skip
        table().assign_key(A, slice(0, 2), N, randn(A, B))


def test_a_key_dim_of_another_size():
    with raises_message(DimError, """
        Parameter.assign_key: the key does not have its dim.
          axis     b=5
          key      (3,)
          key_dim  n=2
        key_dim is the dim of the key, and takes the place of the axis in the value.
        """):  # fmt: skip
        table().assign_key(B, slice(0, 3), N, 1.0)


def test_indices_into_another_dim():
    with raises_message(DimError, """
        Parameter.assign_key: indices into another dim.
          axis        a=3
          key         [n=2]
          sparse_dim  b=5
        The sparse dim of the key says what its integers index.
            key = rf.set_sparse_dim(key, a)
        """):  # fmt: skip
        table().assign_key(A, tensor([0, 1], N, sparse_dim=B), N, 1.0)


def test_lengths_over_a_dim_that_the_places_lack():
    batch = Dim(2, name="batch")
    time = ragged([2, 1], batch)
    with raises_message(DimError, """
        Parameter.assign_key: time<=2 has lengths over other dims.
          parameter  [a=3, b=5]
          places     [time<=2, b=5]
        Which of its entries are real is not known without those.
            key = rf.expand_dim(key, batch)
        """):  # fmt: skip
        table().assign_key(A, tensor([0, 1], time), time, 1.0)


def test_an_integer_outside():
    with raises_message(IndexError, "Parameter.assign_key: index 3 is outside of a=3."):
        table().assign_key(A, 3, None, 1.0)


def test_something_else_as_key():
    with raises_message(TypeError, """
        Parameter.assign_key: not a key.
          axis  a=3
          key   float
        A key is an integer, a slice, or integers as list, array or Tensor.
        """):  # fmt: skip
        table().assign_key(A, 0.5, None, 1.0)


def test_keys_that_do_not_go_with_the_axes():
    with raises_message(ValueError, """
        Parameter.assign_key: one key and one key_dim for each axis.
          axis     2
          key      1
          key_dim  2
        Axes, keys and key dims belong together in order; the dim of an integer is None.
            p.assign_key([a, b], [0, slice(1, 3)], [None, part], value)
        """):  # fmt: skip
        table().assign_key([A, B], [0], None, 1.0)


def test_gradients_of_the_value_do_not_reach_the_parameter():
    value = rf.Parameter([B], initial=1.0)
    parameter = table()
    parameter.assign_key(A, 0, None, value * 2)
    assert parameter.raw_tensor.is_leaf and isinstance(parameter.raw_tensor, torch.nn.Parameter)


@pytest.mark.parametrize("backend", ["torch", "numpy"])
def test_a_value_may_be_a_view_of_the_parameter_itself(backend):
    with using_backend(backend):
        queue, part = rf.Parameter([B], initial=tensor([0.0, 1.0, 2.0, 3.0, 4.0], B)), Dim(4, name="part")
        queue.assign_key(B, slice(1, None), part, rf.slice(queue, axis=B, start=0, size=part)[0])
        assert queue.numpy().tolist() == [0, 0, 1, 2, 3]
        twin = A.copy(match_priority=1)
        square = rf.Parameter([A, twin], initial=tensor(np.arange(9.0).reshape(3, 3), A, twin))
        raw = square.raw_tensor.T if backend == "numpy" else square.raw_tensor.detach().T
        square.assign(rf.Tensor("turned", [A, twin], raw_tensor=raw))
        assert square.numpy().tolist() == np.arange(9.0).reshape(3, 3).T.tolist()
