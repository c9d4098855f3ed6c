"""Parametrizations: what is read, what is a parameter, and what comes back."""

import copy

import numpy as np
import pytest
import torch
from asserting import assert_same, raises_message, randn, tensor

import rfnb as rf
from rfnb import Dim, DimError

A, B, ONE = Dim(2, name="a"), Dim(3, name="b"), Dim(1, name="one")


def names(module):
    return [name for name, _ in module.named_parameters()]


def doubled(weight):
    return weight * 2


@pytest.fixture(autouse=True)
def context():
    rf.set_random_seed(1)
    yield
    rf.init_forward_step_run_ctx()


def test_the_module_reads_the_computed_value_and_keeps_its_parameters():
    linear, other, x = rf.Linear(A, B), rf.Linear(A, B), randn(A)
    weight, before = linear.weight, linear(x)
    assert rf.register_parametrization(linear, "weight", doubled) is linear
    assert_same(linear(x), before * 2)
    assert names(linear) == ["weight", "bias"] and next(linear.parameters()) is weight
    assert isinstance(linear, rf.Linear) and linear.get_default_name() == "linear"
    assert (
        rf.is_parametrized(linear) and rf.is_parametrized(linear, "weight") and not rf.is_parametrized(linear, "bias")
    )
    assert not rf.is_parametrized(other) and isinstance(other.weight, rf.Parameter)


def test_gradients_go_through_it_to_the_parameter():
    linear = rf.register_parametrization(rf.Linear(A, B), "weight", doubled)
    rf.reduce_sum(linear(tensor([1.0, 10.0], A)), axis=B).raw_tensor.backward()
    assert dict(linear.named_parameters())["weight"].raw_tensor.grad.tolist() == [[2] * 3, [20] * 3]


def test_several_are_applied_in_order():
    linear = rf.Linear(A, B)
    linear.weight.assign(3.0)
    rf.register_parametrization(linear, "weight", doubled)
    rf.register_parametrization(linear, "weight", lambda weight: weight + 1)
    rf.register_parametrization(linear, "bias", lambda bias: bias + 5)
    assert (linear.weight.numpy() == 7).all() and (linear.bias.numpy() == 5).all()
    rf.remove_parametrization(linear, "weight")
    assert (linear.weight.numpy() == 3).all() and (linear.bias.numpy() == 5).all()


def test_removing_gives_back_the_very_parameter_and_class():
    linear = rf.Linear(A, B)
    weight = linear.weight
    rf.remove_parametrization(rf.register_parametrization(linear, "weight", doubled), "weight")
    assert linear.weight is weight and type(linear) is rf.Linear and not rf.is_parametrized(linear)
    assert [name for name, _ in linear.named_modules()] == [""]


def test_assigning_to_the_attribute_replaces_the_parameter():
    linear = rf.register_parametrization(rf.Linear(A, B), "weight", doubled)
    linear.weight = new = rf.Parameter([A, B], initial=4.0)
    assert (linear.weight.numpy() == 8).all() and next(linear.parameters()) is new


class LowRank(rf.Module):
    def __init__(self):
        self.left, self.right = rf.Parameter([A, ONE], initial=2.0), rf.Parameter([ONE, B], initial=3.0)

    def __call__(self):
        return rf.matmul(self.left, self.right, reduce=ONE)


def test_a_parametrization_can_take_the_place_of_the_parameter():
    linear = rf.Linear(A, B)
    rf.register_parametrization(linear, "weight", LowRank(), keep_existing_param=False)
    rf.register_parametrization(linear, "weight", doubled)
    assert (linear.weight.numpy() == 12).all()
    assert names(linear) == ["bias", "weight_parametrization.0.left", "weight_parametrization.0.right"]
    rf.remove_parametrization(linear, "weight")
    assert isinstance(linear.weight, rf.Parameter) and (linear.weight.numpy() == 12).all()
    assert names(linear) == ["bias", "weight"] and linear.weight.raw_tensor.is_leaf


def test_the_value_has_the_order_of_dims_that_the_parameter_has():
    lstm, batch, time = rf.LSTM(A, A), Dim(3, name="batch"), Dim(4, name="time")
    x = randn(batch, time, A)
    state = lstm.default_initial_state(batch_dims=[batch])
    expected, _ = lstm(x, state=state, spatial_dim=time)
    turned = lambda weight: weight.copy_transpose(list(reversed(weight.dims)))  # noqa: E731
    for name in ("ff_weight", "rec_weight"):
        rf.register_parametrization(lstm, name, turned)
    out, _ = lstm(x, state=state, spatial_dim=time)
    assert_same(out, expected)


def test_a_deep_copy_is_parametrized_with_parameters_of_its_own():
    linear = rf.register_parametrization(rf.Linear(A, B), "weight", doubled)
    other = copy.deepcopy(linear)
    assert_same(other.weight, linear.weight)
    next(other.parameters()).assign(1.0)
    assert (other.weight.numpy() == 2).all() and not (linear.weight.numpy() == 2).any()
    rf.remove_parametrization(other, "weight")
    assert rf.is_parametrized(linear) and type(other) is rf.Linear


def test_items_of_a_container_can_be_parametrized():
    items = rf.ParameterList(rf.Parameter([A], initial=1.0), rf.Parameter([B], initial=1.0))
    rf.register_parametrization(items, "0", doubled)
    assert len(items) == 2 and items[0].numpy().tolist() == [2, 2]


def test_weight_dropout_drops_in_training_only():
    linear = rf.weight_dropout(rf.Linear(A, Dim(1000, name="out")), "weight", drop_prob=0.25)
    weight = next(linear.parameters())
    weight.initial = 3.0
    assert (linear.weight.numpy() == 3).all()
    ctx = rf.init_train_step_run_ctx()
    values = linear.weight.numpy()
    assert sorted(set(values.ravel().tolist())) == [0, 4] and values.mean() == pytest.approx(3, abs=0.1)
    assert (linear.weight.numpy() != values).any()
    with ctx.train_flag_ctx(False, func=rf.WeightDropout):
        assert (linear.weight.numpy() == 3).all()


def test_weight_noise_is_added_in_training_only():
    linear = rf.weight_noise(rf.Linear(A, Dim(5000, name="out")), "weight", std=0.5)
    weight = next(linear.parameters())
    weight.initial = 3.0
    assert (linear.weight.numpy() == 3).all()
    ctx = rf.init_train_step_run_ctx()
    noise = linear.weight.numpy() - 3
    assert noise.std() == pytest.approx(0.5, rel=0.05) and abs(noise.mean()) < 0.03 and (weight.numpy() == 3).all()
    with ctx.train_flag_ctx(False, func=rf.WeightNoise):
        assert (linear.weight.numpy() == 3).all()


def test_a_tied_parameter_is_parametrized_where_it_was_asked_for():
    one, two = rf.Linear(A, B), rf.Linear(A, B)
    two.weight = one.weight
    rf.register_parametrization(one, "weight", doubled)
    np.testing.assert_allclose(one.weight.numpy(), two.weight.numpy() * 2)
    assert isinstance(two.weight.raw_tensor, torch.nn.Parameter)


def test_a_value_with_other_dims():
    linear = rf.Linear(A, B)
    rf.register_parametrization(linear, "weight", lambda weight: rf.reduce_sum(weight, axis=A))
    with raises_message(DimError, """
        weight_parametrization: other dims than those of the parameter.
          parameter  [a=2, b=3]
          computed   [b=3]
        A parametrization keeps the dims; their order does not matter.
        """):  # fmt: skip
        linear(randn(A))


def test_what_is_no_parameter():
    with raises_message(AttributeError, """
        register_parametrization: Linear has no parameter "in_dim".
          has  weight, bias
        A parametrization is for a parameter that the module itself holds:
            rf.register_parametrization(module, "weight", ...)
        """):  # fmt: skip
        rf.register_parametrization(rf.Linear(A, B), "in_dim", doubled)


def test_what_is_nearly_the_name_of_a_parameter():
    with raises_message(AttributeError, """
        register_parametrization: Linear has no parameter "bais".
          has  weight, bias
        A parametrization is for a parameter that the module itself holds:
            rf.register_parametrization(module, "bias", ...)
        """):  # fmt: skip
        rf.weight_noise(rf.Linear(A, B), "bais", std=0.1)


@pytest.mark.parametrize(("name", "own"), [("layer", "weight"), ("layer.bias", "bias")])
def test_a_parameter_of_a_part_is_parametrized_there(name, own):
    class Net(rf.Module):
        def __init__(self):
            self.layer = rf.Linear(A, B)

    with raises_message(AttributeError, f"""
        register_parametrization: Net has no parameter "{name}".
          has     none of its own
          inside  layer.weight, layer.bias
        A parametrization is for a parameter that the module itself holds:
            rf.register_parametrization(module.layer, "{own}", ...)
        """):  # fmt: skip
        rf.weight_dropout(Net(), name, drop_prob=0.1)


def test_what_a_module_changes_itself_is_not_parametrized():
    with raises_message(ValueError, """
        register_parametrization: "running_mean" of BatchNorm is auxiliary.
          running_mean  [a=2]
          trained       gamma, beta
        The module changes it in place, which is impossible for a value computed from it. Leave it out:
            for name, parameter in module.named_parameters(recurse=False):
                if not parameter.auxiliary: ...
        """):  # fmt: skip
        rf.weight_noise(rf.BatchNorm(A), "running_mean", std=0.1)


def test_removing_what_is_not_there():
    linear = rf.register_parametrization(rf.Linear(A, B), "bias", doubled)
    with raises_message(AttributeError, """
        remove_parametrization: "weight" is not parametrized.
          parametrized  bias
        It has to be registered first.
        """):  # fmt: skip
        rf.remove_parametrization(linear, "weight")


def test_a_second_one_cannot_leave_the_parameter_out():
    linear = rf.register_parametrization(rf.Linear(A, B), "weight", doubled)
    with raises_message(ValueError, """
        register_parametrization: "weight" is parametrized already.
        A parametrization that ignores the parameter can only be the first one.
            rf.remove_parametrization(module, "weight")
        """):  # fmt: skip
        rf.register_parametrization(linear, "weight", LowRank(), keep_existing_param=False)


def test_a_probability_out_of_range():
    with raises_message(ValueError, """
        WeightDropout: drop_prob 1.
        A probability from 0 up to, not including, 1.
        """):  # fmt: skip
        rf.WeightDropout(1)
