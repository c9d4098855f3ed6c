"""Parameters that go to a device and back."""

import torch
from simulated import NAME

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
