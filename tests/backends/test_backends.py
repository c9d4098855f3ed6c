"""Choosing a backend, what both must offer, and what only torch can."""

import inspect
import subprocess

import numpy as np
import pytest
import torch
from asserting import assert_same, raises_message, tensor, using_backend
from warm import warm

import rfnb as rf
from rfnb import Dim
from rfnb.backends import protocol
from rfnb.backends.numpy_backend import NumpyBackend
from rfnb.backends.torch_backend import TorchBackend

batch = Dim(3, name="batch")
BACKENDS = (TorchBackend, NumpyBackend)


def abstract_methods():
    methods = inspect.getmembers(protocol.Backend, inspect.ismethod)
    return [name for name, method in methods if "@written_by_backend" in inspect.getsource(method)]


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_backend_has_every_method(backend):
    assert len(abstract_methods()) > 30
    inherited = [
        name
        for name in abstract_methods()
        if inspect.getattr_static(backend, name) is inspect.getattr_static(protocol.Backend, name)
    ]
    assert inherited == []


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_backend_has_every_kind_of_function(backend):
    x = backend.from_numpy(np.asarray([0.25, 0.5], np.float32))
    flags = backend.from_numpy(np.asarray([True, False]))
    for kind in (*protocol.BINARY_KINDS, *protocol.COMPARE_KINDS):
        a = flags if kind.startswith("logical") else x
        assert backend.get_shape_raw(backend.binary_fn(kind)(a, a)) == (2,)
    for kind in protocol.UNARY_KINDS:
        assert backend.get_shape_raw(backend.unary_fn(kind)(flags if kind == "logical_not" else x)) == (2,)
    for kind in protocol.REDUCE_KINDS:
        assert backend.get_shape_raw(backend.reduce_raw(flags if kind in ("any", "all") else x, kind, (0,))) == ()


def test_torch_is_the_default():
    assert rf.get_selected_backend() == "torch"
    assert rf.is_executing_eagerly()


def test_the_selected_backend_makes_new_tensors():
    with using_backend("numpy"):
        x = rf.ones([batch])
        assert isinstance(x.raw_tensor, np.ndarray) and isinstance((x + 1).raw_tensor, np.ndarray)
    assert isinstance(rf.ones([batch]).raw_tensor, torch.Tensor)


def test_the_backend_of_a_tensor_is_that_of_its_array():
    with using_backend("numpy"):
        x = rf.ones([batch])
    assert rf.get_backend_by_tensor(x) is NumpyBackend
    assert rf.get_backend_by_raw_tensor_type(torch.nn.Parameter) is TorchBackend
    assert rf.get_backend_by_raw_tensor_type(np.float32) is NumpyBackend
    assert_same(x + x, x * 2)


def test_numpy_works_without_torch():
    code = """
import sys, rfnb as rf
rf.select_backend_numpy()
batch, feat, out = rf.Dim(2, name="batch"), rf.Dim(3, name="feat"), rf.Dim(4, name="out")
time = rf.ragged_dim([2, 0], over=batch, name="time")
lstm = rf.LSTM(feat, out)
y, state = lstm(rf.random_normal([batch, time, feat]), state=lstm.default_initial_state(batch_dims=[batch]), spatial_dim=time)
assert y.raw_tensor.shape == (2, 2, 4) and y.dtype == "float32"
assert (state.h.numpy()[1] == 0).all() and (state.h.numpy()[0] != 0).all()
print("torch" in sys.modules)
"""
    run = subprocess.run([*warm(), "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "False"


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_numpy_keeps_the_float_dtype(dtype):
    with using_backend("numpy"):
        x = rf.cast(rf.ones([batch]), dtype)
        results = [
            x + 1,
            x * 2.5,
            1 / x,
            x**2,
            rf.exp(x),
            rf.gelu(x),
            rf.selu(x),
            rf.softmax(x, axis=batch),
            rf.reduce_mean(x, axis=batch),
        ]
        assert [result.dtype for result in results] == [dtype] * len(results)


def on_numpy(call):
    with using_backend("numpy"):
        return call()


def tracked_on_numpy():
    rf.set_requires_gradient(rf.ones([batch]))


ERRORS = {
    "tracking with NumPy": (
        lambda: on_numpy(tracked_on_numpy),
        NotImplementedError,
        """
        set_requires_gradient: no gradients with NumPy.
          backend  numpy
        NumPy computes values, torch also gradients.
            rf.select_backend("torch")
        """,
    ),
    "a gradient with NumPy": (
        lambda: on_numpy(lambda: rf.gradient(rf.ones([batch]), rf.ones([batch]))),
        NotImplementedError,
        """
        gradient: no gradients with NumPy.
          backend  numpy
        NumPy computes values, torch also gradients.
            rf.select_backend("torch")
        """,
    ),
    "a GPU with NumPy": (
        lambda: on_numpy(lambda: rf.ones([batch], device="cuda")),
        ValueError,
        """
        numpy: no device "cuda".
          device  cuda
        NumPy arrays are on the CPU.
            rf.select_backend("torch")
        """,
    ),
    "a dtype that NumPy lacks": (
        lambda: on_numpy(lambda: rf.ones([batch], dtype="bfloat16")),
        TypeError,
        """
        numpy: no dtype "bfloat16".
          dtype  bfloat16
        NumPy has no such dtype.
            rf.cast(x, "float32")
        """,
    ),
    "an unknown backend": (
        lambda: rf.select_backend("mxnet"),
        ValueError,
        """
        select_backend: unknown backend "mxnet".
          known  torch, numpy
        rfnb runs on torch, with NumPy as the readable reference.
            rf.select_backend("torch")
        """,
    ),
}


@pytest.mark.parametrize(("call", "error", "text"), ERRORS.values(), ids=ERRORS)
def test_error(call, error, text):
    with raises_message(error, text):
        call()


def test_a_raw_type_without_backend():
    with pytest.raises(TypeError, match=r"No backend for raw arrays of type builtins\.str\."):
        rf.get_backend_by_raw_tensor_type(str)


def test_values_travel_between_backends():
    x = tensor([1.0, 2.0, 3.0], batch)
    with using_backend("numpy"):
        y = rf.convert_to_tensor(x.numpy(), dims=x.dims)
        assert_same(y, x)
        assert y.backend is NumpyBackend
