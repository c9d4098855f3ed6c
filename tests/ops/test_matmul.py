"""matmul: a product summed over named dims."""

import math

import numpy as np
import pytest
from asserting import assert_same, ragged, raises_message, randn, tensor, with_nan_padding

import rfnb as rf
from rfnb import Dim, DimError

batch, feat, out, heads = Dim(3, name="batch"), Dim(2, name="feat"), Dim(5, name="out"), Dim(7, name="heads")
time, frames = ragged([3, 1, 0], batch), ragged([3, 1, 0], batch, "frames")


def test_by_hand():
    a, b = tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], batch, feat), tensor([10.0, 1.0], feat)
    assert_same(rf.matmul(a, b, reduce=feat), [12.0, 34.0, 56.0])
    assert_same(rf.dot(b, b, reduce=feat), np.float32(101))


@pytest.mark.parametrize(
    ("dims_a", "dims_b", "reduce"),
    [
        ((batch, feat), (feat, out), [feat]),
        ((feat, batch), (out, feat), [feat]),
        ((batch, heads, feat), (batch, heads, feat, out), [feat]),
        ((heads, feat, batch), (out, batch, feat), [feat]),
        ((batch, heads, feat), (feat, heads, out), [heads, feat]),
        ((batch, feat), (batch, feat), [feat]),
        ((batch, feat), (batch, feat), [batch, feat]),
        ((heads, batch, feat), (feat,), [feat]),
    ],
)
def test_is_the_product_summed(dims_a, dims_b, reduce):
    a, b = randn(*dims_a), randn(*dims_b, seed=1)
    assert_same(rf.matmul(a, b, reduce=reduce), rf.reduce_sum(rf.combine_bc(a, "mul", b), axis=reduce))


def test_over_a_ragged_dim_leaves_out_the_padding_of_both():
    a, b = randn(batch, time), randn(batch, time, out, seed=1)
    expected = rf.reduce_sum(a * b, axis=time)
    for first, second in (
        (with_nan_padding(a), b),
        (a, with_nan_padding(b)),
        (with_nan_padding(a), with_nan_padding(b)),
    ):
        assert_same(rf.matmul(first, second, reduce=time), expected)


def test_without_mask_sums_the_padding():
    ones = rf.ones([batch, time])
    assert_same(rf.matmul(ones, ones, reduce=time, use_mask=False), [3.0, 3.0, 3.0])
    assert_same(rf.matmul(ones, ones, reduce=time), [3.0, 1.0, 0.0])


def test_a_square_weight_has_a_twin():
    twin = out.copy(match_priority=1)
    x, weight = randn(batch, out), randn(twin, out, seed=1)
    x_in, _ = rf.replace_dim(x, in_dim=out, out_dim=twin)
    result = rf.matmul(x_in, weight, reduce=twin)
    assert_same(result, tensor(x.numpy() @ weight.numpy(), batch, out))


def test_gradient_is_finite_where_the_padding_is_nan():
    a, b = with_nan_padding(randn(batch, time)), with_nan_padding(randn(batch, time, seed=1))
    rf.set_requires_gradient(a)
    rf.set_requires_gradient(b)
    gradient = rf.gradient(rf.reduce_sum(rf.matmul(a, b, reduce=time), axis=batch), a)
    assert_same(gradient.copy_masked(0), b.copy_masked(0))
    assert not any(map(math.isnan, gradient.numpy().ravel()))


ERRORS = {
    "a missing dim of equal sizes": (
        lambda: rf.matmul(randn(batch, time, feat), randn(batch, frames, out), reduce=time),
        """
        matmul: b has no dim time<=3 to reduce.
          a       [batch=3, time<=3, feat=2]
          b       [batch=3, frames<=3, out=5]
          reduce  time<=3
        "time" and "frames" have the same sizes (3, 1, 0) but are different dims.
        If they are the same axis, replace one first:
            b, _ = rf.replace_dim(b, in_dim=frames, out_dim=time)
        """,
    ),
    "a missing dim": (
        lambda: rf.matmul(randn(batch, out), randn(batch, feat), reduce=heads),
        """
        matmul: a has no dim heads=7 to reduce.
          a       [batch=3, out=5]
          b       [batch=3, feat=2]
          reduce  heads=7
        The dim heads=7 is not among the dims of a.
            a.dims[0]    # batch=3
            a.dims[1]    # out=5
        """,
    ),
}


@pytest.mark.parametrize(("call", "text"), ERRORS.values(), ids=ERRORS)
def test_error(call, text):
    with raises_message(DimError, text):
        call()


def test_error_tells_equally_named_dims_apart():
    first = Dim(2, name="model")
    second = Dim(2, name="model")
    with raises_message(
        DimError,
        f"""
        matmul: b has no dim model({first.created})=2 to reduce.
          a       [batch=3, model({first.created})=2]
          b       [model({second.created})=2, out=5]
          reduce  model({first.created})=2
        "model({first.created})" and "model({second.created})" have the same name and size 2 but are different dims.
        If they are the same axis, replace one first:
            b, _ = rf.replace_dim(b, in_dim=b.dims[0], out_dim=model)
        """,
    ):
        rf.matmul(randn(batch, first), randn(second, out), reduce=first)
