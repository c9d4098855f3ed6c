"""Parameter: a Tensor that is trained."""

import copy

import numpy as np
import pytest
import torch
from asserting import assert_same, ragged, raises_message, randn, tensor, using_backend

import rfnb as rf
from rfnb import Dim, DimError, ShapeError

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


def test_a_raw_tensor_is_held_as_it_is():
    raw = torch.nn.Parameter(torch.ones(2, 3, dtype=torch.float64))
    parameter = rf.Parameter([A, B], raw_tensor=raw)
    assert parameter.raw_tensor is raw and parameter.dtype == "float64" and raw.requires_grad
    plain = torch.zeros(2)
    parameter = rf.Parameter([A], raw_tensor=plain)
    parameter.assign(5)
    assert plain.tolist() == [5, 5] and isinstance(parameter.raw_tensor, torch.nn.Parameter)


def test_a_raw_tensor_of_another_shape_or_dtype():
    with pytest.raises(ShapeError, match=r"raw shape \(3, 2\) does not fit its dims"):
        rf.Parameter([A, B], raw_tensor=torch.zeros(3, 2))
    with raises_message(ShapeError, """
        Tensor "parameter": dtype differs.
          tensor  float32
          array   int64
        A tensor keeps the dtype it was declared with. Declare the one of the array:
            Tensor("parameter", dims=[...], dtype="int64")
        """):  # fmt: skip
        rf.Parameter([A], "float32", raw_tensor=torch.zeros(2, dtype=torch.int64))


def test_auxiliary_can_be_changed_and_takes_the_gradient_with_it():
    parameter = rf.Parameter([A])
    parameter.auxiliary = True
    assert not parameter.trainable and not parameter.raw_tensor.requires_grad
    parameter.trainable = True
    assert parameter.auxiliary and parameter.raw_tensor.requires_grad


def test_integers_are_not_trainable():
    text = """
        Parameter: int32 is not trainable.
          parameter  [a=2]
        Only floats have gradients. Leave trainable out, which means not trainable here.
        """
    with raises_message(ValueError, text):
        rf.Parameter([A], "int32", trainable=True)
    parameter = rf.Parameter([A], "int32")
    with raises_message(ValueError, text):
        parameter.trainable = True
    assert not parameter.trainable


def test_initial_takes_arrays_functions_and_schemes_with_sparse_dim():
    class Range(rf.ParamInit):
        def __call__(self, dims, dtype, *, sparse_dim=None, device=None, out=None):
            assert sparse_dim is B
            return rf.range_over_dim(dims[0], dtype=dtype)

    assert rf.Parameter([A], "int32", sparse_dim=B, initial=Range()).numpy().tolist() == [0, 1]
    assert rf.Parameter([A], initial=np.asarray([3.0, 4.0])).numpy().tolist() == [3, 4]
    assert rf.Parameter([A], initial=np.float64(2)).numpy().tolist() == [2, 2]
    assert rf.Parameter([A, B], initial=tensor([1.0, 2.0], A)).numpy().tolist() == [[1] * 3, [2] * 3]
    assert rf.Parameter([A], initial=lambda dims, dtype, **_: rf.ones(dims, dtype=dtype)).numpy().tolist() == [1, 1]


def test_a_template_gives_dims_and_dtype_only():
    template = rf.Tensor("t", [A, B], "float64", feature_dim=B)
    parameter = rf.Parameter(template, initial=2.0)
    assert parameter.dims == (A, B) and parameter.dtype == "float64" and parameter.feature_dim is B
    assert (parameter.numpy() == 2).all() and parameter.initial == 2


def test_fractions_are_not_assigned_to_integers():
    parameter = rf.Parameter([A], "int32")
    parameter.assign(2.0)
    assert parameter.numpy().tolist() == [2, 2]
    for value, kind in ((0.5, "float"), (randn(A), "float32")):
        with raises_message(TypeError, f"""
            Parameter.assign: floats to integers.
              parameter  int32
              value      {kind}
            The fractions would be lost. If this is intended, say so:
                rf.cast(value, "int32")
            """):  # fmt: skip
            parameter.assign(value)


def test_the_behaviour_of_a_deep_copy_can_be_chosen():
    linear = rf.Linear(A, B)
    linear.bias.assign(5.0)
    with rf.set_parameter_copy_behavior_ctx("share"):
        shared = copy.deepcopy(linear)
    assert shared is not linear and shared.weight is linear.weight
    with rf.set_parameter_copy_behavior_ctx("fresh"):
        fresh = copy.deepcopy(linear)
        with rf.set_parameter_copy_behavior_ctx("copy"):
            assert_same(copy.deepcopy(linear).weight, linear.weight)
        assert copy.deepcopy(linear).bias.numpy().tolist() == [0, 0, 0]
    assert fresh.weight.initial is linear.weight.initial and fresh.weight.dims == linear.weight.dims
    assert not np.isclose(fresh.weight.numpy(), linear.weight.numpy()).any() and fresh.weight.numpy().any()
    assert copy.deepcopy(linear).bias.numpy().tolist() == [5, 5, 5]


def test_a_parameter_that_a_module_has_twice_is_copied_once():
    class Tied(rf.Module):
        def __init__(self):
            self.one = rf.Linear(A, B)
            self.two = rf.Linear(A, B)
            self.two.weight = self.one.weight

    for mode in ("copy", "fresh"):
        with rf.set_parameter_copy_behavior_ctx(mode):
            other = copy.deepcopy(Tied())
        assert other.one.weight is other.two.weight


def test_another_way_to_copy():
    with raises_message(ValueError, """
        set_parameter_copy_behavior_ctx: unknown mode "deep".
          known  copy, fresh, share
        A mode is one of these.
            mode="copy"
        """), rf.set_parameter_copy_behavior_ctx("deep"):  # fmt: skip
        pass


def test_an_optimizer_goes_on_after_to():
    parameter = rf.Parameter([A], initial=1.0)
    optimizer = torch.optim.SGD([parameter.raw_tensor], lr=0.5)
    rf.reduce_sum(parameter * 2.0, axis=A).raw_tensor.backward()
    parameter.to(dtype="float64")
    optimizer.step()
    assert parameter.dtype == "float64" and parameter.numpy().tolist() == [0, 0]


def test_schemes_fill_a_given_tensor_and_have_a_dtype():
    rf.set_random_seed(1)
    out = rf.zeros([A, B])
    for scheme in (rf.Normal(1.0), rf.Glorot(), rf.He()):
        raw, before = out.raw_tensor, out.numpy().copy()
        assert scheme([A, B], "float32", out=out) is out and out.raw_tensor is raw
        assert (out.numpy() != before).all()
    assert rf.Normal(1.0, dtype="float64")([A]).dtype == "float64"
    assert rf.VarianceScaling(dtype="float64")([A], "float32").dtype == "float32"
    assert rf.Glorot()([A], "float32", sparse_dim=B).sparse_dim is B


@pytest.mark.parametrize(
    ("options", "what", "known", "fix"),
    [
        ({"mode": "fan"}, 'mode "fan"', "fan_in, fan_out, fan_avg", 'mode="fan_in"'),
        ({"distribution": "norm"}, 'distribution "norm"', "uniform, normal, truncated_normal", 'distribution="normal"'),
    ],
)
def test_a_scheme_that_is_not_known(options, what, known, fix):
    with raises_message(ValueError, f"""
        VarianceScaling: unknown {what}.
          known  {known}
        It is one of these.
            {fix}
        """):  # fmt: skip
        rf.VarianceScaling(**options)


def test_marks_can_be_changed_without_gradients_too():
    with using_backend("numpy"):
        parameter = rf.Parameter([A], auxiliary=True)
        parameter.auxiliary = False
        assert parameter.trainable and parameter.numpy().tolist() == [0, 0]


@pytest.mark.parametrize("sign", "+ - * / // % ** & | ^ @ << >>".split())
def test_in_place_operators_of_python_are_refused(sign):
    parameter = rf.Parameter([A])
    with raises_message(
        TypeError,
        """
        Parameter: += and the like.
          parameter  [a=2]
          value      2
        They would put a Tensor in its place, and no optimizer would reach it. New values, or a Tensor with a name of its own:
            parameter.assign_add(value)    # or parameter.assign(parameter * value)
            x = parameter + value
        """,
    ):
        exec(f"parameter {sign}= 2", {"parameter": parameter})
    assert type(parameter) is rf.Parameter


def test_complex_numbers_are_not_assigned_to_real_ones():
    parameter = rf.Parameter([A])
    for value in (1j, rf.convert_to_tensor(np.asarray([1j, 2]), dims=[A])):
        with pytest.raises(
            TypeError, match=r"Parameter.assign: complex numbers to real ones.\n(.*\n)*.*complex_as_real"
        ):
            parameter.assign(value)
    assert_same(parameter, rf.zeros([A]))
