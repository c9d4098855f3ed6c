"""Parameter: a Tensor that is trained."""

import copy

import numpy as np
import pytest
import torch
from asserting import assert_same, ragged, raises_message, randn, tensor

import rfnb as rf
from rfnb import Dim, DimError

A, B = Dim(2, name="a"), Dim(3, name="b")


def test_it_is_zero_and_trainable_until_told_otherwise():
    parameter = rf.Parameter([A, B])
    assert isinstance(parameter.raw_tensor, torch.nn.Parameter) and parameter.raw_tensor.requires_grad
    assert_same(parameter, rf.zeros([A, B]))
    assert not rf.Parameter([A], "int32").trainable and not rf.Parameter([A], "bool").trainable
    assert not rf.Parameter([A], auxiliary=True).raw_tensor.requires_grad


def test_trainable_can_be_changed():
    parameter = rf.Parameter([A])
    parameter.trainable = False
    assert not parameter.raw_tensor.requires_grad
    parameter.trainable = None
    assert parameter.trainable and parameter.raw_tensor.requires_grad


def test_initial_takes_effect_at_once():
    parameter = rf.Parameter([A, B])
    parameter.initial = 3.0
    assert_same(parameter, rf.zeros([A, B]) + 3)
    parameter.initial = rf.Glorot()
    limit = np.sqrt(6 / (2 + 3))
    assert len(set(parameter.numpy().ravel())) == 6 and np.abs(parameter.numpy()).max() <= limit
    parameter.initial = None
    assert_same(parameter, rf.zeros([A, B]))


def test_it_can_be_made_of_a_tensor():
    x = randn(A, B)
    parameter = rf.Parameter(x)
    assert parameter.dims == (A, B)
    assert_same(parameter, x)
    assert parameter.raw_tensor.data_ptr() != x.raw_tensor.data_ptr()


def test_assign_matches_dims_and_broadcasts():
    parameter, raw = rf.Parameter([A, B]), None
    raw = parameter.raw_tensor
    x, row = randn(B, A), randn(B, seed=1)
    parameter.assign(x)
    assert_same(parameter, x)
    parameter.assign(row)
    assert_same(parameter, rf.expand_dim(row, A))
    parameter.assign_add(row)
    assert_same(parameter, rf.expand_dim(row * 2, A))
    parameter.assign_add(1)
    assert_same(parameter, rf.expand_dim(row * 2 + 1, A))
    assert parameter.raw_tensor is raw and raw.grad_fn is None


def test_assign_of_a_dim_that_it_lacks():
    with raises_message(
        DimError,
        """
        Parameter.assign: other dims.
          parameter  [a=2]
          value      [a=2, b=3]
        The value has dims that the parameter lacks.
        """,
    ):
        rf.Parameter([A]).assign(randn(A, B))


def test_a_ragged_dim_is_refused():
    with raises_message(
        DimError,
        """
        Parameter: a ragged dim.
          dims  time<=4, a=2
        A parameter has the same size in every batch.
        """,
    ):
        rf.Parameter([ragged([4, 1], A), A])


def test_a_dim_twice_is_refused_and_its_twin_is_not():
    with pytest.raises(DimError, match="the same dim twice"):
        rf.Parameter([A, A])
    assert rf.Parameter([A, A.copy(match_priority=1)]).numpy().shape == (2, 2)


def test_a_deep_copy_has_the_same_values_marks_and_initial():
    glorot = rf.Glorot()
    parameter = rf.Parameter([A, B], weight_decay=0.1, auxiliary=True, initial=glorot)
    other = copy.deepcopy(parameter)
    assert_same(other, parameter)
    assert other.initial is glorot and other.weight_decay == 0.1 and other.auxiliary and not other.trainable
    other.assign(0)
    assert np.abs(parameter.numpy()).min() > 0


def test_to_casts_and_stays_trainable():
    parameter = rf.Parameter(tensor([1.0, 2.0], A))
    parameter.to(dtype="float64")
    assert parameter.dtype == "float64" and parameter.raw_tensor.requires_grad and parameter.numpy().tolist() == [1, 2]


@pytest.mark.parametrize(
    ("initial", "variance", "limit"),
    [
        (rf.Glorot(), 2 / 500, np.sqrt(3 * 2 / 500)),
        (rf.He(), 2 / 200, 2 * np.sqrt(2 / 200) / 0.8796),
        (rf.HeUniform(), 2 / 200, np.sqrt(3 * 2 / 200)),
        (rf.VarianceScaling(3.0, "fan_out", "normal"), 3 / 300, np.inf),
        (rf.Normal(0.5, truncated=False), 0.25, np.inf),
        (rf.Normal(0.5), 0.25 * 0.8796**2, 1.0),
    ],
)
def test_initial_values_have_the_variance_and_limit_of_their_scheme(initial, variance, limit):
    rf.set_random_seed(1)
    values = rf.Parameter([Dim(200, name="in"), Dim(300, name="out")], initial=initial).numpy()
    assert values.var() == pytest.approx(variance, rel=0.03)
    assert np.abs(values).max() <= limit * 1.0001
    assert abs(values.mean()) < 0.01 * np.sqrt(variance) * 2
