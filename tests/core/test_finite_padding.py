"""Finite padding: what is masked, and what is left alone."""

from __future__ import annotations

import threading
from contextlib import contextmanager

import pytest
import torch
from asserting import ragged, randn, with_nan_padding

import rfnb as rf
from rfnb import Dim, Tensor
from rfnb.backends.torch_backend import TorchBackend
from rfnb.core import finite_padding, layout

batch, feat = Dim(2, name="batch"), Dim(3, name="feat")
time = ragged([5, 2], batch, "time")


@pytest.fixture
def masks(monkeypatch):
    """How often something is put into padding."""
    calls, where = [], TorchBackend.where_raw

    def counted(*args):
        calls.append(args)
        return where(*args)

    layout.clear_plans()
    monkeypatch.setattr(TorchBackend, "where_raw", staticmethod(counted))
    yield calls
    layout.clear_plans()


def shared() -> rf.Parameter:
    out = rf.Parameter([feat])
    out.initial = 0.5
    return out


def body(x: Tensor, scale: Tensor) -> Tensor:
    return rf.exp(rf.tanh(x * scale) + scale) / (rf.abs(x) + scale) * rf.softmax(x, axis=feat)


def test_nothing_is_masked_without_gradients(masks):
    scale, x = shared(), with_nan_padding(randn(batch, time, feat))
    with torch.no_grad():
        body(x, scale)
    assert masks == []


def test_nothing_is_masked_of_data_that_no_parameter_meets(masks):
    x = with_nan_padding(randn(batch, time, feat))
    body(x, randn(feat))
    assert masks == []


def test_what_was_masked_is_not_masked_again(masks):
    scale = shared()
    x = with_nan_padding(randn(batch, time, feat)) * scale
    assert len(masks) == 1
    rf.tanh(rf.sigmoid(x) * x + scale) * (1 - x)
    assert len(masks) == 1


def test_an_encoder_is_masked_no_more_than_this(masks):
    ff = Dim(8, name="ff")
    layers = [rf.TransformerEncoderLayer(feat, ff_dim=ff, num_heads=1, dropout=0.0) for _ in range(3)]
    x = with_nan_padding(randn(batch, time, feat))
    counts = []
    for layer in layers:
        before = len(masks)
        x = layer(x, spatial_dim=time)
        counts.append(len(masks) - before)
    assert counts == [2, 2, 2]  # what comes in, and what goes past the attention


def test_the_array_that_was_given_stays():
    raw = torch.randn(2, 5, 3, requires_grad=True)
    x = Tensor("x", dims=[batch, time, feat], raw_tensor=raw)
    rf.reduce_sum(body(x, shared()), axis=x.dims).raw_tensor.backward()
    assert x.raw_tensor is raw and raw.grad is not None
    assert (raw.grad[1, 2:] == 0).all()


def test_values_put_into_padding_on_purpose_are_kept():
    x = rf.reduce_sum(randn(batch, time, feat).copy_masked(2.0) * shared(), axis=time, use_mask=False)
    expected = randn(batch, time, feat).copy_masked(2.0).raw_tensor.sum(1) * 0.5
    torch.testing.assert_close(x.raw_tensor.detach(), expected)


def ended_steps(face: str, action) -> None:
    """A loop in one of its faces; `action` is called in the step in which a sequence has ended."""
    scale, x = shared(), randn(batch, time, feat)

    def step(frame: Tensor, index: int) -> Tensor:
        if index == 3:
            action()
        return rf.log(rf.abs(frame * scale))

    if face == "scan":
        indices = iter(range(5))
        first = rf.zeros((batch, feat))
        rf.scan(spatial_dim=time, xs=x, initial=first, body=lambda frame, state: (state, step(frame, next(indices))))
    else:
        loop = rf.Loop(axis=time)
        for index in loop:
            loop.stack(step(loop.unstack(x), index))


@contextmanager
def stopped():
    with pytest.raises(KeyError):
        yield


def stop() -> None:
    raise KeyError("stop")


@pytest.mark.parametrize("face", ["for", "scan"])
def test_an_error_in_a_step_leaves_no_mask_behind(face):
    with stopped():
        ended_steps(face, stop)
    assert finite_padding._steps == []


def test_a_break_leaves_no_mask_behind():
    scale, x = shared(), randn(batch, time, feat)
    loop = rf.Loop(axis=time)
    for index in loop:
        loop.stack(rf.log(rf.abs(loop.unstack(x) * scale)))
        if index == 3:
            break
    assert finite_padding._steps == []


@pytest.mark.parametrize("face", ["for", "scan"])
def test_the_step_of_a_loop_masks_nothing_in_another_thread(face):
    value, scale = tensor_of_ones(), shared()
    found = []

    def other() -> None:
        found.append(rf.exp(value * scale).raw_tensor.detach())

    def beside() -> None:
        assert finite_padding._steps
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()

    ended_steps(face, beside)
    torch.testing.assert_close(found[0], torch.full((2, 3), 0.5).exp())


def tensor_of_ones() -> Tensor:
    return rf.ones((batch, feat))
