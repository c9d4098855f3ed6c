"""Each device has a generator of its own: what is kept of random numbers, to go back to it or on from it, has them all."""

import contextlib

import numpy as np
import pytest
import torch
from simulated import BACKEND, NAME, values, watched

import rfnb as rf
from rfnb import Dim
from rfnb.backends import torch_random
from rfnb.interop.watch.example import untouched

BATCH, FEAT = Dim(3, name="batch"), Dim(5, name="feat")


def drawn(*, device=NAME):
    return rf.random_normal([BATCH, FEAT], device=device).numpy()


def test_a_state_has_the_devices_and_nothing_waits_for_it():
    rf.set_random_seed(4)
    with watched() as seen:
        state = rf.get_random_state()
        rf.set_random_state(state)
    assert list(state) == ["cpu", f"{NAME}:0", "static"] and seen == []
    before = drawn(), drawn(device="cpu")
    assert not np.array_equal(drawn(), before[0])
    rf.set_random_state(state)
    np.testing.assert_array_equal([drawn(), drawn(device="cpu")], before)


@pytest.mark.parametrize("seed", [0, 5, 2**40, -3])
def test_a_seed_is_that_of_torch_and_formats_no_stack(seed, monkeypatch):
    torch.manual_seed(seed)
    expected, stacks = [drawn(), drawn(device="cpu")], []
    monkeypatch.setattr("traceback.format_stack", lambda *args: stacks.append(args) or [])
    torch_random.set_random_seed(seed)
    assert stacks == []
    np.testing.assert_array_equal([drawn(), drawn(device="cpu")], expected)


def test_a_state_of_another_machine_is_put_back_as_far_as_its_devices_are_there():
    state = rf.get_random_state()
    before = drawn(device="cpu")
    of_device = values(torch.rand(2, device=NAME))
    rf.set_random_state({"cpu": state["cpu"], "xpu:0": b"12", f"{NAME}:99": b"34"})
    np.testing.assert_array_equal(drawn(device="cpu"), before)
    assert not np.array_equal(values(torch.rand(2, device=NAME)), of_device)


class Begun:
    """Stands for a generator of a device."""

    def __init__(self):
        self.seeds = []

    def initial_seed(self):
        return 8

    def manual_seed(self, seed):
        self.seeds.append(seed)


def test_a_device_that_is_not_in_use_is_not_begun_and_begins_at_its_seed_when_it_is(monkeypatch):
    generator = Begun()
    with monkeypatch.context() as patched:
        patched.setattr(BACKEND, "is_initialized", lambda: False)
        patched.setattr(BACKEND, "get_rng_state", lambda device: pytest.fail("asked"))
        state = torch_random.get_random_state()
        torch_random.set_random_state(state)
    assert list(state) == ["cpu", NAME] and state[NAME] == b""
    monkeypatch.setattr(BACKEND, "default_generators", [generator], raising=False)
    torch_random.set_random_state(state)
    assert generator.seeds == [8]


@pytest.mark.parametrize("way", ["dropout", "noise", "own generator"])
def test_what_is_computed_again_in_backward_draws_the_same(way):
    weight = rf.Parameter([FEAT], device=NAME)
    weight.initial = 1.0
    x = rf.random_normal([BATCH, FEAT], device=NAME)

    def gradient(scope):
        rf.set_random_seed(3)
        with rf.get_run_ctx().train_flag_ctx(True), scope:
            y = x * weight
            if way == "dropout":
                y = rf.dropout(y, 0.5, axis=FEAT)
            else:
                y = y * rf.random_normal(y.dims, device=NAME, seed=5 if way == "own generator" else None)
            loss = rf.reduce_sum(rf.square(y) * weight, axis=[BATCH, FEAT])
        torch.rand(5, device=NAME)
        loss.raw_tensor.backward()
        found, weight.raw_tensor.grad = weight.raw_tensor.grad.cpu(), None
        return found, values(torch.rand(2, device=NAME))

    for plain, again in zip(gradient(contextlib.nullcontext()), gradient(rf.gradient_checkpoint_scope()), strict=True):
        assert torch.equal(plain, again)


def test_what_is_computed_beside_a_training_draws_none_of_its_numbers():
    model = torch.nn.Linear(2, 2).to(NAME)
    torch.manual_seed(6)
    expected = values(torch.rand(3, device=NAME))
    torch.manual_seed(6)
    with untouched(model, evaluating=False):
        torch.rand(7, device=NAME)
    assert torch.equal(values(torch.rand(3, device=NAME)), expected)
