"""Mixed precision: what is in 16 bits under a policy and what is not, and that nothing is left of it afterwards."""

import threading

import numpy as np
import pytest
import torch
from asserting import assert_same, ragged, raises_message, randn, tensor, using_backend
from torch.overrides import _get_current_function_mode

import rfnb as rf
from rfnb import Dim, single_step_dim

batch, feat, out = Dim(2, name="batch"), Dim(8, name="feat"), Dim(4, name="out")
time = ragged([5, 3], batch)
BF16 = rf.AmpPolicy()


@pytest.fixture(autouse=True)
def no_policy():
    rf.set_random_seed(3)
    yield
    rf.set_amp_policy(None)


def layers():
    x = randn(batch, time, feat)
    linear, lstm, conv = rf.Linear(feat, out), rf.LSTM(feat, out), rf.Conv1d(feat, out, 3, padding="same")
    attention = rf.SelfAttention(feat, feat, key_dim_total=feat, value_dim_total=feat, num_heads=2)
    state = lstm.default_initial_state(batch_dims=[batch])
    target = tensor(np.ones((2, 5), np.int32), batch, time, sparse_dim=out)
    half = lambda x: rf.cast(x, "bfloat16") if rf.get_amp_policy() else x  # noqa: E731
    return {
        "matmul": ("bfloat16", lambda: rf.matmul(x, linear.weight, reduce=feat)),
        "Linear": ("bfloat16", lambda: linear(x)),
        "Linear without further dims": ("bfloat16", lambda: linear(randn(feat))),
        "Conv1d": ("bfloat16", lambda: conv(x, in_spatial_dim=time)[0]),
        "SelfAttention": ("bfloat16", lambda: attention(x, axis=time)),
        "LSTM": ("float32", lambda: lstm(x, state=state, spatial_dim=time)[0]),
        "LSTM state": ("float32", lambda: lstm(x, state=state, spatial_dim=time)[1].c),
        "LSTM step": (
            "float32",
            lambda: lstm(randn(batch, feat), state=state, spatial_dim=single_step_dim)[1].h,
        ),
        "softmax": ("float32", lambda: rf.softmax(half(x), axis=time)),
        "log_softmax": ("float32", lambda: rf.log_softmax(half(x), axis=feat)),
        "LayerNorm": ("float32", lambda: rf.LayerNorm(feat)(half(x))),
        "RMSNorm": ("float32", lambda: rf.RMSNorm(feat)(half(x))),
        "BatchNorm": ("float32", lambda: rf.BatchNorm(feat)(half(x))),
        "sum": ("float32", lambda: rf.reduce_sum(half(x), axis=[batch, time])),
        "mean": ("float32", lambda: rf.reduce_mean(half(x), axis=[batch, time])),
        "cross_entropy": (
            "float32",
            lambda: rf.cross_entropy(estimated=linear(x), target=target, axis=out, estimated_type="logits"),
        ),
    }


@pytest.mark.parametrize("name", layers())
def test_products_are_in_16_bits_and_the_rest_in_float32(name):
    dtype, call = layers()[name]
    expected = call()
    with rf.set_amp_policy_ctx(BF16):
        got = call()
    assert got.dtype == dtype and expected.dtype == "float32"
    assert_same(rf.cast(got, "float32"), expected, tolerance=0.05)
    assert not np.array_equal(got.copy_masked(0).numpy(), expected.copy_masked(0).numpy())  # it has an effect


def test_gradients_of_float32_parameters_are_float32():
    linear = rf.Linear(feat, out)
    with rf.set_amp_policy_ctx(BF16):
        rf.reduce_sum(linear(randn(batch, feat)), axis=[batch, out]).raw_tensor.backward()
    assert linear.weight.dtype == "float32" and linear.weight.raw_tensor.grad.dtype == torch.float32


def test_weights_changed_under_a_policy_are_the_ones_that_are_used():
    linear, x = rf.Linear(feat, out, with_bias=False), rf.ones([batch, feat])
    with rf.set_amp_policy_ctx(BF16):
        for value in (1.0, 2.0):
            linear.weight.assign(value)
            assert linear(x).numpy().tolist() == [[8 * value] * 4] * 2


def test_after_a_policy_nothing_is_left_of_it():
    assert rf.get_amp_policy() is None
    with pytest.raises(KeyError), rf.set_amp_policy_ctx(BF16):
        assert rf.get_amp_policy() is BF16 and torch.is_autocast_enabled("cpu")
        with rf.set_amp_policy_ctx(None):
            assert rf.get_amp_policy() is None and not torch.is_autocast_enabled("cpu")
        with rf.set_amp_policy_ctx(rf.AmpPolicy("float16")):
            assert torch.get_autocast_dtype("cpu") == torch.float16
        assert rf.get_amp_policy() is BF16 and torch.get_autocast_dtype("cpu") == torch.bfloat16
        raise KeyError
    rf.set_amp_policy(BF16)
    rf.set_amp_policy(None)
    assert rf.get_amp_policy() is None and not torch.is_autocast_enabled("cpu") and _get_current_function_mode() is None


def test_a_policy_may_be_the_name_of_its_dtype():
    with rf.set_amp_policy_ctx("bfloat16"):
        assert rf.get_amp_policy() == rf.AmpPolicy("bfloat16") and rf.Linear(feat, out)(randn(feat)).dtype == "bfloat16"
    rf.set_amp_policy("float16")
    assert rf.get_amp_policy() == rf.AmpPolicy("float16")
    with pytest.raises(ValueError, match='compute_dtype "float8"'):
        rf.set_amp_policy("float8")


def test_a_policy_is_that_of_its_thread():
    seen = []
    with rf.set_amp_policy_ctx(BF16):
        thread = threading.Thread(
            target=lambda: seen.append((rf.get_amp_policy(), rf.Linear(feat, out)(randn(feat)).dtype))
        )
        thread.start()
        thread.join()
    assert seen == [(None, "float32")]


def test_casts_follow_the_policy():
    x, ids, double = randn(feat), rf.range_over_dim(feat), rf.zeros([feat], dtype="float64")
    assert rf.amp_cast_compute(x) is x and rf.amp_cast_float32(x, ids) == (x, ids)
    with rf.set_amp_policy_ctx(BF16):
        half, same_ids, same_double = rf.amp_cast_compute(x, ids, double)
        assert half.dtype == "bfloat16" and same_ids is ids and same_double is double
        assert rf.amp_cast_float32(half).dtype == "float32" and rf.amp_cast_float32(x) is x


def test_a_state_of_a_loop_keeps_its_dtype_by_a_cast():
    linear, xs = rf.Linear(feat, feat), randn(batch, time, feat)
    with rf.set_amp_policy_ctx(BF16):
        loop = rf.Loop(axis=time)
        loop.state.h = rf.zeros([batch, feat])
        for _ in loop:
            loop.state.h = rf.amp_cast_float32(rf.tanh(linear(loop.unstack(xs) + loop.state.h)))
            last = loop.last(loop.state.h)
    assert last.dtype == "float32"


def test_numpy_has_no_mixed_precision():
    with (
        using_backend("numpy"),
        raises_message(
            NotImplementedError,
            """
        set_amp_policy: no mixed precision with NumPy.
          backend  numpy
          dtype    bfloat16
        NumPy is the reference, which computes in the dtype of its arrays.
            rf.select_backend("torch")
        """,
        ),
    ):
        rf.set_amp_policy(BF16)
    assert rf.get_amp_policy() is None


def test_a_policy_is_for_16_bits():
    with raises_message(
        ValueError,
        """
        AmpPolicy: compute_dtype "float64".
          known  bfloat16, float16
        Mixed precision is for a dtype of 16 bits; to compute all in another one, choose it for new tensors:
            rf.set_default_float_dtype("float64")
        """,
    ):
        rf.AmpPolicy("float64")
