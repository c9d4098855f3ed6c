"""Tensors and modules that go to a device and back, and dims that are used on both."""

import pytest
import torch
from asserting import assert_same, ragged, randn
from simulated import NAME, watched

import rfnb as rf
from rfnb import Dim
from rfnb.backends.torch_devices import brought

BATCH, FEAT, OUT = Dim(2, name="batch"), Dim(3, name="feat"), Dim(5, name="out")
TIME = ragged([3, 1], BATCH)


class Net(rf.Module):
    """Tied weights, statistics, a weight that is computed."""

    def __init__(self):
        self.first, self.second = rf.Linear(FEAT, OUT), rf.Linear(FEAT, OUT)
        self.second.weight = self.first.weight
        self.norm = rf.BatchNorm(OUT)
        self.last = rf.Linear(OUT, FEAT)
        rf.weight_noise(self.last, "weight", std=0.1)

    def __call__(self, x):
        return self.last(self.norm(self.first(x) + self.second(x)))


def test_a_tensor_that_is_there_is_not_copied():
    x = rf.copy_to_device(randn(BATCH, FEAT), NAME)
    with watched() as seen, rf.set_default_device_ctx(NAME):
        assert rf.copy_to_device(x, NAME) is x
        assert rf.copy_to_device(x, x.device) is x
        assert rf.copy_to_device(x) is x
    assert seen == []


def test_a_copy_to_a_device_does_not_wait_and_one_to_the_host_does():
    x = randn(BATCH, FEAT)
    with watched() as seen:
        there = rf.copy_to_device(x, NAME)
    assert seen.waits == []
    with watched() as seen:
        assert_same(rf.copy_to_device(there, "cpu"), x)
    assert len(seen.waits) == 1


class OfHost:
    """The part of a host tensor that `brought` uses, for a device that does not exist."""

    def __init__(self, pinned: bool):
        self.pinned, self.waited = pinned, None

    def is_pinned(self) -> bool:
        return self.pinned

    def pin_memory(self) -> "OfHost":
        return OfHost(pinned=True)

    def to(self, device: torch.device, dtype: None, non_blocking: bool) -> bool:
        return non_blocking


@pytest.mark.parametrize(
    ("device", "pinned", "non_blocking"),
    [("cuda", False, True), ("cuda", True, False), ("mps", False, False), ("xpu", False, True)],
)
def test_a_copy_waits_where_its_source_could_be_written_to_before_it_is_made(monkeypatch, device, pinned, non_blocking):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert brought(OfHost(pinned), torch.device(device)) is non_blocking


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("pinned", [False, True])
def test_what_is_written_after_a_copy_is_not_in_it(pinned):
    x = torch.zeros(2**24, pin_memory=pinned)
    torch.cuda._sleep(10**8)
    copy = rf.copy_to_device(rf.convert_to_tensor(x, dims=[Dim(2**24)]), "cuda")
    x.fill_(1)
    assert float(copy.raw_tensor.sum()) == 0


def test_gradients_come_back_from_a_device():
    x = randn(BATCH, FEAT)
    x.raw_tensor.requires_grad_()
    (rf.reduce_sum(rf.copy_to_device(x, NAME) * 3, axis=[BATCH, FEAT])).raw_tensor.backward()
    assert x.raw_tensor.grad.tolist() == [[3.0] * 3] * 2


def test_lengths_and_masks_go_to_a_device_once():
    TIME.get_size_tensor(device=NAME), TIME.get_mask(device=NAME)
    with watched() as seen:
        lengths, mask = TIME.get_size_tensor(device=NAME), TIME.get_mask(device=NAME)
        assert TIME.get_mask(device="cpu").device == TIME.get_size_tensor().device == "cpu"
    assert seen == []
    assert_same(lengths, [3, 1])
    assert_same(rf.reduce_sum(rf.cast(mask, "int32"), axis=TIME, use_mask=False), [3, 1])


def test_a_module_goes_to_a_device_and_back():
    torch.manual_seed(0)
    net, x = Net(), randn(BATCH, TIME, FEAT)
    for device in ("cpu", NAME, "cpu", NAME):
        net.to(device=device)
        here = rf.copy_to_device(x, device)
        with torch.no_grad():
            out = net(here)
        if device == "cpu":
            expected = out
        assert (
            {parameter.raw_tensor.device.type for parameter in net.parameters()}
            == {out.raw_tensor.device.type}
            == {device}
        )
        assert net.second.weight is net.first.weight
        assert_same(rf.copy_to_device(out, "cpu"), expected)


def test_gradients_go_with_their_parameters_while_a_result_is_held():
    linear = rf.Linear(FEAT, OUT)
    linear.to(device=NAME)
    loss = rf.reduce_sum(linear(rf.copy_to_device(randn(BATCH, FEAT), NAME)), axis=[BATCH, OUT])
    loss.raw_tensor.backward()
    held = linear.weight.raw_tensor.grad
    linear.to(device="cpu")
    assert linear.weight.raw_tensor.grad.device.type == "cpu"
    assert torch.equal(linear.weight.raw_tensor.grad, held.cpu())


def test_a_module_that_is_there_is_not_copied():
    net = Net()
    net.to(device=NAME)
    with watched() as seen:
        net.to(device=NAME)
    assert seen == []


def test_a_ctc_loss_is_the_same_whatever_the_default_device_of_torch_is():
    label = ragged([2, 1], BATCH, "label")
    targets = rf.zeros([BATCH, label], dtype="int32", sparse_dim=FEAT)
    options = {"input_spatial_dim": TIME, "targets_spatial_dim": label, "blank_index": 2}
    logits = randn(BATCH, TIME, FEAT)
    expected = rf.ctc_loss(logits=logits, targets=targets, **options)
    logits, targets = rf.copy_to_device(logits, NAME), rf.copy_to_device(targets, NAME)
    with torch.device(NAME), watched() as seen:
        loss = rf.ctc_loss(logits=logits, targets=targets, **options)
    assert seen.waits == []
    assert_same(rf.copy_to_device(loss, "cpu"), expected)
