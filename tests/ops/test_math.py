"""Elementwise maths: small values by hand, identities, and what happens at the edges."""

import math

import numpy as np
import pytest
from asserting import assert_same, ragged, raises_message, randn, tensor

import rfnb as rf
from rfnb import Dim, DimError

n, batch, feat, out = Dim(3, name="n"), Dim(2, name="batch"), Dim(5, name="feat"), Dim(7, name="out")
time = ragged([3, 1], batch)
x = tensor([-2.0, 0.0, 1.5], n)
inf, nan = math.inf, math.nan

UNARY = {
    "neg": [2.0, 0.0, -1.5],
    "exp": [math.exp(-2), 1.0, math.exp(1.5)],
    "expm1": [math.exp(-2) - 1, 0.0, math.exp(1.5) - 1],
    "log": [nan, -inf, math.log(1.5)],
    "log1p": [nan, 0.0, math.log(2.5)],
    "sqrt": [nan, 0.0, math.sqrt(1.5)],
    "rsqrt": [nan, inf, 1 / math.sqrt(1.5)],
    "square": [4.0, 0.0, 2.25],
    "abs": [2.0, 0.0, 1.5],
    "tanh": [math.tanh(-2), 0.0, math.tanh(1.5)],
    "sigmoid": [1 / (1 + math.exp(2)), 0.5, 1 / (1 + math.exp(-1.5))],
    "log_sigmoid": [-math.log(1 + math.exp(2)), -math.log(2), -math.log(1 + math.exp(-1.5))],
    "sin": [math.sin(-2), 0.0, math.sin(1.5)],
    "cos": [math.cos(-2), 1.0, math.cos(1.5)],
    "ceil": [-2.0, 0.0, 2.0],
    "floor": [-2.0, 0.0, 1.0],
    "round": [-2.0, 0.0, 2.0],
    "relu": [0.0, 0.0, 1.5],
    "relu_square": [0.0, 0.0, 2.25],
    "elu": [math.exp(-2) - 1, 0.0, 1.5],
    "selu": [1.0507009873554805 * 1.6732632423543772 * (math.exp(-2) - 1), 0.0, 1.0507009873554805 * 1.5],
    "silu": [-2 / (1 + math.exp(2)), 0.0, 1.5 / (1 + math.exp(-1.5))],
    "swish": [-2 / (1 + math.exp(2)), 0.0, 1.5 / (1 + math.exp(-1.5))],
    "gelu": [-1 - math.erf(-math.sqrt(2)), 0.0, 0.75 * (1 + math.erf(1.5 / math.sqrt(2)))],
    "reciprocal": [-0.5, inf, 1 / 1.5],
    "identity": [-2.0, 0.0, 1.5],
}


@pytest.mark.parametrize("name", UNARY)
def test_unary(name):
    assert_same(getattr(rf, name)(x), UNARY[name])


def test_round_takes_halves_to_even():
    assert_same(rf.round(tensor([0.5, 1.5, 2.5], n)), [0.0, 2.0, 2.0])


def test_finite_and_infinite():
    y = tensor([inf, -inf, nan], n)
    assert_same(rf.is_finite(y), [False, False, False])
    assert_same(rf.is_infinite(y), [True, True, False])
    assert_same(rf.is_neg_infinite(y), [False, True, False])


def test_safe_log_has_a_floor():
    assert_same(rf.safe_log(tensor([0.0, 1.0, 0.25], n), eps=0.5), [math.log(0.5), 0.0, math.log(0.5)])
    assert_same(rf.safe_log(tensor([0.0, 1.0, math.e], n)), [math.log(2.0**-126), 0.0, 1.0])


BINARY = {
    "add": [3.0, 9.5, -4.0],
    "sub": [11.0, 5.5, -10.0],
    "mul": [-28.0, 15.0, -21.0],
    "true_divide": [-1.75, 3.75, -7 / 3],
    "floor_divide": [-2.0, 3.0, -3.0],
    "mod": [-1.0, 1.5, 2.0],
    "ceil_divide": [-1.0, 4.0, -2.0],
    "maximum": [7.0, 7.5, 3.0],
    "minimum": [-4.0, 2.0, -7.0],
    "squared_difference": [121.0, 30.25, 100.0],
    "equal": [False, False, False],
    "not_equal": [True, True, True],
    "less": [False, False, True],
    "less_equal": [False, False, True],
    "greater": [True, True, False],
    "greater_equal": [True, True, False],
}


@pytest.mark.parametrize("name", BINARY)
def test_binary(name):
    a, b = tensor([7.0, 7.5, -7.0], n), tensor([-4.0, 2.0, 3.0], n)
    assert_same(getattr(rf, name)(a, b), tensor(BINARY[name], n))


def test_pow():
    assert_same(rf.pow(tensor([2.0, 3.0, 4.0], n), tensor([3.0, 2.0, 0.5], n)), [8.0, 9.0, 2.0])


def test_log_add_exp_is_stable():
    assert_same(
        rf.log_add_exp(tensor([1000.0, 0.0, -inf], n), tensor([1000.0, 0.0, -inf], n)),
        [1000 + math.log(2), math.log(2), -inf],
    )


def test_logical():
    a, b = tensor([True, True, False], n), tensor([True, False, False], n)
    assert_same(rf.logical_and(a, b), [True, False, False])
    assert_same(rf.logical_or(a, b), [True, True, False])
    assert_same(rf.logical_not(a), [False, False, True])


def test_maximum_of_many():
    assert_same(rf.maximum(x, 0.5, tensor([0.0, 3.0, 1.0], n)), [0.5, 3.0, 1.5])
    assert rf.minimum(3, 1, 2) == 1


def test_whole_division_rounds_down_for_integers():
    ids = tensor(np.asarray([-3, 3, 4], np.int32), n)
    assert_same(ids // 2, tensor(np.asarray([-2, 1, 2], np.int32), n))
    assert_same(ids % 2, tensor(np.asarray([1, 1, 0], np.int32), n))
    assert_same(rf.ceil_divide(ids, 2), tensor(np.asarray([-1, 2, 2], np.int32), n))


def test_where():
    assert_same(rf.where(x > 0, x, 7.0), [7.0, 7.0, 1.5])
    assert_same(rf.where(True, x, 7.0), x)
    assert_same(rf.where(x > 0, 1, tensor([2.0, 3.0, 4.0], n)), [2.0, 3.0, 1.0])


def test_where_lets_no_nan_of_the_other_side_through():
    assert_same(rf.where(x > 0, rf.log(x), 0.0), [0.0, 0.0, math.log(1.5)])


def test_clip_by_value():
    assert_same(rf.clip_by_value(x, -1.0, 1.0), [-1.0, 0.0, 1.0])
    assert_same(rf.clip_by_value(x, None, 1.0), [-2.0, 0.0, 1.0])
    assert_same(rf.clip_by_value(x, tensor([0.0, 1.0, 2.0], n)), [0.0, 1.0, 2.0])


def test_lerp():
    assert_same(rf.lerp(x, x * 3, 0.5), x * 2)


def test_cumsum():
    y = tensor([[1.0, 2.0, 4.0], [8.0, 9.0, 9.0]], batch, time)
    assert_same(rf.cumsum(y, spatial_dim=time), tensor([[1.0, 3.0, 7.0], [8.0, 0.0, 0.0]], batch, time))


def test_softmax_sums_to_one_over_real_frames():
    y = rf.softmax(randn(batch, feat, time), axis=time)
    assert_same(rf.reduce_sum(y, axis=time), rf.ones([batch, feat]))


def test_softmax_gives_padding_exactly_zero():
    assert rf.softmax(randn(batch, time), axis=time).numpy()[1].tolist() == [1.0, 0.0, 0.0]
    assert rf.log_softmax(randn(batch, time), axis=time).numpy()[1].tolist() == [0.0, -inf, -inf]


def test_softmax_of_a_sequence_without_frames_is_zero():
    empty = ragged([2, 0], batch, "empty")
    y = rf.softmax(tensor([[[0.0, 0.0]] * 3, [[nan, nan]] * 3], batch, n, empty), axis=empty)
    assert y.numpy().tolist() == [[[0.5, 0.5]] * 3, [[0.0, 0.0]] * 3]


def test_softmax_of_a_static_dim():
    y = tensor([0.0, math.log(2), math.log(5)], n)
    assert_same(rf.softmax(y, axis=n), [1 / 8, 2 / 8, 5 / 8])
    assert_same(rf.exp(rf.log_softmax(y, axis=n)), rf.softmax(y, axis=n))


def test_softmax_without_mask_counts_the_padding():
    y = tensor([[0.0, 0.0, 0.0], [0.0, 0.0, 0.0]], batch, time)
    assert rf.softmax(y, axis=time, use_mask=False).numpy()[1].tolist() == pytest.approx([1 / 3] * 3)


def test_softmax_over_a_missing_dim():
    with raises_message(
        DimError,
        """
        softmax: no dim out=7.
          tensor  [batch=2, feat=5]
          dim     out=7
        The dim out=7 is not among the dims of tensor.
            x.dims[0]    # batch=2
            x.dims[1]    # feat=5
        """,
    ):
        rf.softmax(randn(batch, feat), axis=out)


@pytest.mark.parametrize(("kind", "op"), [("max", rf.maximum), ("min", rf.minimum), ("logaddexp", rf.log_add_exp)])
def test_short_names_of_kinds(kind, op):
    a, b = tensor([1.0, 2.0, 3.0], n), tensor([3.0, 2.0, 1.0], n)
    assert_same(rf.combine(a, kind, b), op(a, b))


@pytest.mark.parametrize(
    ("true", "false", "dtype"), [(True, False, "bool"), (1, 0, "int32"), (1, 0.0, "float32"), (True, 2, "int32")]
)
def test_where_of_two_numbers_has_their_default_dtype(true, false, dtype):
    chosen = rf.where(tensor([True, False, True], n), true, false)
    assert chosen.dtype == dtype
    assert chosen.numpy().tolist() == [true, false, true]


def test_whether_labels_are_equal_is_no_label():
    batch, labels = Dim(3, name="batch"), Dim(5, name="labels")
    x = rf.convert_to_tensor([1, 2, 3], dims=[batch], sparse_dim=labels)
    for result in (x == 0, x == x, x == x, x != 1, x < 2, 2 > x, rf.compare(x, ">=", x), rf.compare_bc(x, "less", x)):
        assert result.dtype == "bool" and result.sparse_dim is None
    assert (x + 1).sparse_dim is labels
