"""PiecewiseLinear: values on, between and outside of the points; of a Tensor and of the step."""

import math

import numpy as np
import pytest
import torch
from asserting import assert_same, raises_message, tensor

import rfnb as rf
from rfnb import Dim

many = Dim(9, name="many")
POINTS = {10: 4.0, 0: 1.0, 2: -1.0}
X = [-math.inf, -1.0, 0.0, 0.5, 2.0, 6.0, 10.0, 11.0, math.inf]


def test_of_a_tensor():
    out = rf.PiecewiseLinear(POINTS)(tensor(X, many))
    assert_same(out, tensor([1.0, 1.0, 1.0, 0.5, -1.0, 1.5, 4.0, 4.0, 4.0], many))


def test_of_integers():
    ids = tensor(np.arange(9, dtype=np.int32), many)
    assert_same(rf.PiecewiseLinear({0: 0.0, 8: 4.0})(ids), tensor(np.arange(9) / 2, many))


def test_of_a_number():
    out = rf.PiecewiseLinear(POINTS)(6)
    assert out.dims == () and out.dtype == "float32" and out.numpy() == 1.5


def test_one_point_is_a_constant():
    assert_same(rf.PiecewiseLinear({3: 2.5})(tensor(X, many)), tensor([2.5] * 9, many))


def test_has_the_slope_as_gradient():
    x = tensor([-1.0, 0.5, 6.0], Dim(3, name="three"))
    rf.set_requires_gradient(x)
    assert_same(rf.gradient(rf.reduce_sum(rf.PiecewiseLinear(POINTS)(x), axis=x.dims), x), [0.0, -1.0, 5 / 8])
    raw = torch.tensor([-1.0, 0.5, 6.0], dtype=torch.float64, requires_grad=True)
    fn = lambda raw: rf.PiecewiseLinear(POINTS)(rf.convert_to_tensor(raw, dims=x.dims)).raw_tensor  # noqa: E731
    assert torch.autograd.gradcheck(fn, raw)


def test_a_schedule_is_over_the_step_of_the_run():
    schedule = rf.PiecewiseLinearStepwiseScheduler({0: 0.0, 100: 1.0})
    with rf.init_train_step_run_ctx(step=25):
        assert schedule().numpy() == 0.25
        assert schedule("ignored", epoch=3).numpy() == 0.25
    with rf.init_train_step_run_ctx(step=10**9):
        assert schedule().numpy() == 1.0


@pytest.mark.parametrize("points", [{}, {0: math.nan}])
def test_no_usable_points(points):
    with raises_message(
        ValueError,
        f"""
        PiecewiseLinear: points are needed, all finite.
          points  {points}
        Points map positions to values.
            rf.PiecewiseLinear({{0: 1e-5, 1000: 1e-3}})
        """,
    ):
        rf.PiecewiseLinear(points)
