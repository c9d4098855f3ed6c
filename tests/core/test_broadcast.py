"""The one broadcasting rule: the union of the dims, unless that would be an outer product by mistake."""

import numpy as np
import pytest
from asserting import assert_same, ragged, raises_message, randn, tensor, using_backend

import rfnb as rf
from rfnb import Dim, DimError, Tensor

batch, feat, out = Dim(3, name="batch"), Dim(5, name="feat"), Dim(2, name="out")
time, frames, short = ragged([7, 5, 3], batch), ragged([7, 5, 3], batch, "frames"), ragged([4, 2, 1], batch)
x, per_frame, bias, scale = randn(batch, time, feat), randn(time, batch), randn(feat), randn(out)


def test_dims_of_the_result_are_those_of_the_operand_that_has_all():
    assert (x + bias).dims == (batch, time, feat)
    assert (bias + x).dims == (batch, time, feat)
    assert (per_frame * x).dims == (batch, time, feat)


def test_of_two_complete_operands_the_first_gives_the_order():
    other = x.copy_transpose([feat, time, batch])
    assert (x + other).dims == x.dims
    assert (other + x).dims == other.dims


def test_operands_that_share_a_dim_unite():
    assert (randn(batch, feat) + randn(batch, out)).dims == (batch, feat, out)


def test_values_meet_by_dim():
    a = tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], batch, out)
    b = tensor([10.0, 20.0, 30.0], batch)
    assert_same(a + b, tensor([[11.0, 12.0], [23.0, 24.0], [35.0, 36.0]], batch, out))


def test_two_dims_of_equal_size_do_not_meet():
    square, other = Dim(2, name="square"), Dim(2, name="other")
    a, b = tensor([1.0, 2.0], square), tensor([10.0, 20.0], other)
    assert_same(rf.combine_bc(a, "add", b), tensor([[11.0, 21.0], [12.0, 22.0]], square, other))


def test_dim_order():
    assert rf.combine(x, "add", bias, dim_order=[feat, batch, time]).dims == (feat, batch, time)
    assert_same(rf.combine(x, "add", bias, dim_order=[feat, batch, time]), x + bias)


def test_an_outer_product_that_is_meant():
    assert rf.combine_bc(bias, "*", scale).dims == (feat, out)
    assert rf.compare_bc(bias, "<", scale).dims == (feat, out)
    assert rf.where(bias > 0, scale, 0, allow_broadcast_all_sources=True).dims == (feat, out)


def test_a_scalar_goes_with_everything():
    one = tensor(np.float32(2))
    assert_same(x * one, x * 2)
    assert_same(one * x, 2 * x)


@pytest.mark.parametrize("value", [2, 2.0, np.float64(2), np.float32(2), np.asarray(2.0)])
def test_numbers_on_either_side_keep_the_dtype(value):
    assert_same(x * value, x + x)
    assert_same(rf.mul(value, x), x + x)
    assert_same(value * x, x + x)
    assert_same(value < x, x > 2)


def test_reflected_operators():
    a = tensor([1.0, 2.0, 4.0], batch)
    assert_same(0 - a, [-1.0, -2.0, -4.0])
    assert_same(1 / a, [1.0, 0.5, 0.25])
    assert_same(2**a, [2.0, 4.0, 16.0])
    assert_same(7 // a, [7.0, 3.0, 1.0])
    assert_same(5 % a, [0.0, 1.0, 1.0])
    assert_same(a**-1, [1.0, 0.5, 0.25])
    assert_same(True | (a > 1), [True, True, True])
    assert_same(False | (a > 1), [False, True, True])
    assert_same(True & (a > 1), [False, True, True])
    assert_same(~(a > 1), [True, False, False])


def test_in_place_addition_makes_a_new_tensor():
    before = y = tensor([1.0, 2.0, 4.0], batch)
    y += 1
    assert_same(y, [2.0, 3.0, 5.0])
    assert_same(before, [1.0, 2.0, 4.0])


def test_marks_of_the_first_operand_win():
    ids = tensor(np.zeros(3, np.int32), batch, sparse_dim=out)
    assert (1 + ids).sparse_dim is out
    assert (ids + tensor(np.zeros(3, np.int32), batch, sparse_dim=feat)).sparse_dim is out
    y = randn(batch, feat)
    y.feature_dim = feat
    assert (randn(batch) * y).feature_dim is feat


def on_numpy():
    with using_backend("numpy"):
        return rf.ones([batch])


ERRORS = {
    "no dim in common": (
        lambda: bias + scale,
        DimError,
        """
        add: the dims of the operands do not match.
          a  [feat=5]
          b  [out=2]
        a and b have no dim in common, so this would be an outer product.
        If it is meant, say so:
            rf.combine_bc(a, "add", b)
        """,
    ),
    "a comparison": (
        lambda: bias < scale,
        DimError,
        """
        less: the dims of the operands do not match.
          a  [feat=5]
          b  [out=2]
        a and b have no dim in common, so this would be an outer product.
        If it is meant, say so:
            rf.compare_bc(a, "less", b)
        """,
    ),
    "a choice": (
        lambda: rf.where(bias > 0, scale, 0),
        DimError,
        """
        where: the dims of the operands do not match.
          cond  [feat=5]
          true  [out=2]
        cond and true have no dim in common, so this would be an outer product.
        If it is meant, say so:
            rf.where(..., allow_broadcast_all_sources=True)
        """,
    ),
    "two ragged dims": (
        lambda: x + randn(batch, frames, feat),
        DimError,
        """
        add: the dims of the operands do not match.
          a  [batch=3, time<=7, feat=5]
          b  [batch=3, frames<=7, feat=5]
        time<=7 and frames<=7 are two different ragged dims, so this would compare every frame with every frame.
        If they are the same axis, replace one first; if the outer product is meant, say so:
            b, _ = rf.replace_dim(b, in_dim=frames, out_dim=time)
            rf.combine_bc(a, "add", b)
        """,
    ),
    "two ragged dims of one name": (
        lambda: x - randn(batch, short),
        DimError,
        """
        sub: the dims of the operands do not match.
          a  [batch=3, time#1<=7, feat=5]
          b  [batch=3, time#2<=4]
        time#1<=7 and time#2<=4 are two different ragged dims, so this would compare every frame with every frame.
        If they are the same axis, replace one first; if the outer product is meant, say so:
            b, _ = rf.replace_dim(b, in_dim=b.dims[1], out_dim=a.dims[1])
            rf.combine_bc(a, "sub", b)
        """,
    ),
    "an incomplete order": (
        lambda: rf.combine(x, "add", bias, dim_order=[batch, time]),
        DimError,
        """
        add: dim_order does not name the dims of the result.
          a          [batch=3, time<=7, feat=5]
          b          [feat=5]
          dim_order  [batch=3, time<=7]
        The result has the dims [batch=3, time<=7, feat=5].
        """,
    ),
    "a raw array": (
        lambda: x + np.zeros(3),
        TypeError,
        """
        add: this operand is not a Tensor.
          got  numpy.ndarray
        Raw arrays and lists do not say which axis is which.
            rf.convert_to_tensor(value, dims=[...])
        """,
    ),
    "a raw array on the left": (
        lambda: np.zeros(3) + x,
        TypeError,
        """
        add: this operand is not a Tensor.
          got  numpy.ndarray
        Raw arrays and lists do not say which axis is which.
            rf.convert_to_tensor(value, dims=[...])
        """,
    ),
    "a template": (
        lambda: x + Tensor("t", dims=[feat]),
        ValueError,
        """
        add: a template has no values.
          tensor  Tensor{'t', [feat=5] (template)}
        Assign x.raw_tensor first.
        """,
    ),
    "two backends": (
        lambda: rf.ones([batch]) + on_numpy(),
        TypeError,
        """
        add: operands of different backends.
          operand  torch [batch=3]
          operand  numpy [batch=3]
        An op works on one backend.
            rf.convert_to_tensor(x.numpy(), dims=x.dims)
        """,
    ),
    "an unknown kind": (
        lambda: rf.compare(x, "like", x),
        ValueError,
        """
        compare: unknown kind "like".
          known  equal, not_equal, less, less_equal, greater, greater_equal
        A kind is a word or a symbol.
        """,
    ),
}


@pytest.mark.parametrize(("call", "error", "text"), ERRORS.values(), ids=ERRORS)
def test_error(call, error, text):
    with raises_message(error, text):
        call()


def test_what_is_said_of_an_outer_product_holds_for_its_call_only():
    rows, columns = Dim(2, name="rows"), Dim(3, name="columns")
    a, b = tensor([1.0, 2.0], rows), tensor([10.0, 20.0, 30.0], columns)
    for _ in range(2):
        assert rf.combine_bc(a, "add", b).dims == (rows, columns)
        assert rf.combine_bc(a, "add", b, dim_order=[columns, rows]).dims == (columns, rows)
        assert_same(rf.combine_bc(a, "add", b), tensor([[11.0, 21.0, 31.0], [12.0, 22.0, 32.0]], rows, columns))
        assert_same(rf.combine_bc(a, "mul", b), tensor([[10.0, 20.0, 30.0], [20.0, 40.0, 60.0]], rows, columns))
        assert_same(rf.compare_bc(a, "less", b), tensor([[True] * 3, [True] * 3], rows, columns))
        with pytest.raises(DimError, match="the dims of the operands do not match"):
            rf.combine(a, "add", b)
        with pytest.raises(DimError, match="dim_order does not name the dims of the result"):
            rf.combine_bc(a, "add", b, dim_order=[rows])
