"""Parameters that go to a device and back."""

import numpy as np
import pytest
import torch
from simulated import NAME, watched

import rfnb as rf


def test_parameters_stay_the_objects_they_are_on_their_way_to_a_device_and_back():
    linear = rf.Linear(rf.Dim(2, name="in"), rf.Dim(3, name="out"))
    raws = [parameter.raw_tensor for parameter in linear.parameters()]
    optimizer = torch.optim.Adam(raws)
    expected = linear.weight.raw_tensor.detach().clone()
    for device in (NAME, "cpu", NAME):
        optimizer.zero_grad()
        sum(raw.square().sum() for raw in raws).backward()
        gradient = raws[0].grad.tolist()
        linear.to(device=device)
        assert all(parameter.raw_tensor is raw for parameter, raw in zip(linear.parameters(), raws))
        assert all(type(raw) is torch.nn.Parameter and raw.requires_grad and raw.is_leaf for raw in raws)
        assert {raw.device.type for raw in raws} == {raw.grad.device.type for raw in raws} == {device}
        assert torch.equal(raws[0].detach().cpu(), expected) and raws[0].grad.tolist() == gradient
    optimizer.step()
    assert not torch.equal(raws[0].detach().cpu(), expected)


@pytest.mark.parametrize("default", ["cpu", NAME])
def test_values_of_the_host_come_to_parameters_and_nobody_waits(default, tmp_path):
    linear = rf.Linear(rf.Dim(2, name="in"), rf.Dim(3, name="out"))
    rf.save_params(linear, tmp_path / "model.npz")
    expected = {name: parameter.numpy() for name, parameter in linear.named_parameters()}
    linear.to(device=NAME)
    linear.weight.initial = 0.0
    stored = rf.load_params(tmp_path / "model.npz")
    with rf.set_default_device_ctx(default), watched() as seen:
        rf.set_params(linear, stored)
        linear.bias.assign(np.array([5.0, 7.0, 11.0]))
        linear.bias.assign_key(linear.bias.dims[0], 2, None, 13.0)
    assert seen.waits == []
    assert (linear.weight.numpy() == expected["weight"]).all() and linear.bias.numpy().tolist() == [5, 7, 13]


def test_the_number_of_a_step_is_made_on_the_device():
    with rf.set_default_device_ctx(NAME), rf.init_train_step_run_ctx(step=7, epoch=3), watched() as seen:
        step, epoch = rf.get_run_ctx_step(), rf.get_run_ctx().get_epoch_tensor()
    assert seen == [] and step.device.startswith(NAME)
    assert (step.raw_tensor.item(), epoch.raw_tensor.item(), step.dtype) == (7, 3, "int64")
