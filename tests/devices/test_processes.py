"""A training in several processes on a device: what they sum up stays there. The other processes are only pretended here."""

import dataclasses

import pytest
import torch
from models.tiny import RECIPE, TINY, WORDS, make_model
from simulated import NAME, watched
from torch import distributed
from torch._C._distributed_c10d import FakeProcessGroup
from torch.testing._internal.distributed.fake_pg import FakeStore

import rfnb as rf
from rfnb.data.batching import examples_of
from rfnb.models import processes
from rfnb.models.g2p_training import Trainer
from rfnb.models.processes import device_of_process

LAUNCHED = {"LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "3"}


@pytest.fixture
def second_of_three():
    """This process as one of three, whose messages nobody answers: what is summed up stays as it is."""
    kind = torch.device(NAME).type
    if not hasattr(distributed.Backend, "PRETENDED"):
        distributed.Backend.register_backend(
            "pretended",
            lambda store, rank, size, timeout: FakeProcessGroup._create_internal(rank, size),
            devices=[kind],
        )
    distributed.init_process_group(f"cpu:fake,{kind}:pretended", store=FakeStore(), rank=1, world_size=3)
    yield
    distributed.destroy_process_group()


def test_no_step_of_a_process_waits(second_of_three):
    model = make_model(config=dataclasses.replace(TINY, dropout=0.0))
    model.to(device=NAME)
    trainer = Trainer(model, examples_of(WORDS), dataclasses.replace(RECIPE, batch_size=3))
    trainer.step()
    with watched() as seen:
        reports = [trainer.step() for _ in range(4)]
    assert trainer.processes.count == 3 and seen.waits == []
    assert {report.raw_loss.device.type for report in reports} == {torch.device(NAME).type}


def test_a_loss_that_is_kept_keeps_no_gradients(second_of_three):
    model = make_model()
    model.to(device=NAME)
    report = Trainer(model, examples_of(WORDS), RECIPE).step()
    assert report.raw_loss._base is None and not report.raw_loss.requires_grad


def test_the_mean_over_processes_waits_for_nothing(second_of_three):
    batch = rf.Dim(2, name="batch")
    time = rf.ragged_dim([3, 2], over=batch, name="time")
    with rf.set_default_device_ctx(NAME):
        losses = rf.convert_to_tensor([[1.0, 2.0, 3.0], [4.0, 5.0, float("nan")]], dims=[batch, time])
        rf.mean_over_processes(losses)
        with watched() as seen:
            mean = rf.mean_over_processes(losses)
    assert seen.waits == [] and mean.device.startswith(NAME)
    assert mean.raw_tensor.item() == pytest.approx(15 / (5 / 3))  # 5 frames of all three processes


@pytest.mark.parametrize(("device", "own"), [("cpu", "cpu"), (f"{NAME}:0", f"{NAME}:0"), (NAME, f"{NAME}:1")])
def test_each_process_has_a_device_of_its_own(monkeypatch, device, own):
    launched(monkeypatch, devices=2)
    assert device_of_process(device) == own


def test_more_processes_than_devices_are_refused(monkeypatch):
    launched(monkeypatch, devices=1)
    with pytest.raises(ValueError) as error:
        device_of_process(NAME)
    assert str(error.value) == (
        "train_g2p: more processes than devices.\n"
        f'  processes  3 on this machine\n  devices    1 of "{NAME}"\n'
        "Each process trains on a device of its own.\n"
        f"    torchrun --nproc-per-node 1 -m rfnb.models.train_g2p --device {NAME}"
    )


def launched(monkeypatch, devices):
    for name, value in LAUNCHED.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(processes.distributed, "is_torchelastic_launched", lambda: True)
    monkeypatch.setattr(torch.get_device_module(NAME), "device_count", lambda: devices)
