"""Devices are given as a name or a torch.device; anything else is refused."""

from __future__ import annotations

import pytest
import torch
from asserting import raises_message
from simulated import NAME

import rfnb as rf

BATCH = rf.Dim(2, name="batch")
SIM = f"{NAME}:0"


def by_default(device):
    with rf.set_default_device_ctx(device):
        return rf.zeros([BATCH]).device


def moved(device):
    linear = rf.Linear(BATCH, rf.Dim(3, name="out"))
    linear.to(device=device)
    return linear.weight.device


WAYS = {
    "set_default_device": by_default,
    "zeros": lambda device: rf.zeros([BATCH], device=device).device,
    "range_over_dim": lambda device: rf.range_over_dim(BATCH, device=device).device,
    "random_normal": lambda device: rf.random_normal([BATCH], device=device).device,
    "convert_to_tensor": lambda device: rf.convert_to_tensor([1.0, 2.0], dims=[BATCH], device=device).device,
    "convert_to_tensor of an array": lambda device: (
        rf.convert_to_tensor(torch.ones(2), dims=[BATCH], device=device).device
    ),
    "convert_to_tensor of a Tensor": lambda device: rf.convert_to_tensor(rf.ones([BATCH]), device=device).device,
    "copy_to_device": lambda device: rf.copy_to_device(rf.ones([BATCH]), device).device,
    "Parameter": lambda device: rf.Parameter([BATCH], device=device).device,
    "Parameter of an array": lambda device: rf.Parameter([BATCH], raw_tensor=torch.ones(2), device=device).device,
    "Module.to": moved,
}


@pytest.mark.parametrize("device", [NAME, SIM, torch.device(NAME), torch.device(SIM)])
@pytest.mark.parametrize("way", WAYS)
def test_a_device_is_a_name_or_one_of_torch(way, device):
    assert WAYS[way](device) == SIM


@pytest.mark.parametrize("way", WAYS)
def test_without_a_device_all_is_on_the_host(way):
    assert WAYS[way](None) == "cpu"


@pytest.mark.parametrize("way", WAYS)
def test_a_number_is_no_device(way):
    with raises_message(
        TypeError,
        """
        device: this is no name of a device.
          got  0
        A device has a name, with a number if there are several of its kind:
            device="cuda:0"    # or "cpu", "mps", ...
        """,
    ):
        WAYS[way](0)


@pytest.mark.parametrize("way", WAYS)
def test_neither_is_a_dtype(way):
    with pytest.raises(TypeError, match="device: this is no name of a device.\n  got  dtype\n"):
        WAYS[way](torch.float32)


@pytest.mark.parametrize("device", ["gpu", "CUDA", "", "cuda:9"])
@pytest.mark.parametrize("way", WAYS)
def test_a_name_that_there_is_not_is_an_error_with_those_that_there_are(way, device):
    if device == "cuda:9" and torch.cuda.is_available():
        pytest.skip("torch says so later there")
    with pytest.raises(RuntimeError) as caught:
        WAYS[way](device)
    lines = str(caught.value).splitlines()
    assert lines[:3] == [f'torch: there is no device "{device}" here.', f"  device  {device}", f"  there   cpu, {SIM}"]
    assert lines[4:] == ["A device has the name that torch has for it:", f'    rf.set_default_device("{SIM}")']
