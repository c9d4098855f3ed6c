"""Without a GPU: a message that says what there is, wherever a device is named; and errors that are about something else as they are."""

from __future__ import annotations

import pytest
import torch
from asserting import assert_same

import rfnb as rf
from rfnb.backends.torch_devices import refuse_device
from rfnb.backends.torch_modes import current_modes

BATCH = rf.Dim(2, name="batch")
NO_CUDA = pytest.mark.skipif(torch.cuda.is_available(), reason="there is CUDA here")
WAYS = {
    "zeros": lambda: rf.zeros([BATCH], device="cuda"),
    "convert_to_tensor": lambda: rf.convert_to_tensor([1.0, 2.0], dims=[BATCH], device="cuda"),
    "convert_to_tensor of an array": lambda: rf.convert_to_tensor(torch.ones(2), dims=[BATCH], device="cuda"),
    "range_over_dim": lambda: rf.range_over_dim(BATCH, device="cuda"),
    "random_normal": lambda: rf.random_normal([BATCH], device="cuda"),
    "random_truncated_normal": lambda: rf.random_truncated_normal([BATCH], device="cuda"),
    "copy_to_device": lambda: rf.copy_to_device(rf.zeros([BATCH], device="cpu"), "cuda"),
    "Parameter": lambda: rf.Parameter([BATCH], device="cuda"),
    "Module.to": lambda: rf.Linear(BATCH, BATCH).to(device="cuda"),
}


def text(device: str) -> str:
    made = f"{torch.__version__} (built {f'for CUDA {torch.version.cuda}' if torch.version.cuda else 'without CUDA'})"
    there, rule = ["cpu"], "Everything works on the CPU as well; only large models are slow there."
    if torch.accelerator.is_available():
        kind, rule = torch.accelerator.current_accelerator().type, "A device has the name that torch has for it:"
        there += ["mps"] if kind == "mps" else [f"{kind}:{index}" for index in range(torch.accelerator.device_count())]
    return (
        f'torch: there is no device "{device}" here.\n  device  {device}\n  there   {", ".join(there)}\n  torch   {made}\n'
        f'{rule}\n    rf.set_default_device("{there[:2][-1]}")'
    )


@NO_CUDA
@pytest.mark.parametrize("way", WAYS)
def test_a_device_that_there_is_not_is_named_with_those_that_there_are(way):
    with pytest.raises(RuntimeError) as error:
        WAYS[way]()
    assert str(error.value) == text("cuda")


@NO_CUDA
def test_a_default_device_that_there_is_not_is_named_by_the_first_op_and_the_last_line_mends_it():
    with rf.set_default_device_ctx("cuda"):
        with pytest.raises(RuntimeError) as error:
            rf.zeros([BATCH])
        assert str(error.value) == text("cuda")
        rf.set_default_device("cpu")
        assert_same(rf.zeros([BATCH]) + 1, rf.ones([BATCH]))


def test_a_device_with_another_word_is_named_too():
    with pytest.raises(RuntimeError) as error:
        rf.zeros([BATCH], device="gpu")
    assert str(error.value).startswith('torch: there is no device "gpu" here.\n')


def test_an_error_about_something_else_stays_as_it_is():
    refuse_device(RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB"), "cuda")


def test_a_torch_that_raises_where_it_was_made_for_no_accelerator_has_none(monkeypatch):
    """As torch 2.6 does."""

    def raising():
        raise RuntimeError("Cannot access accelerator device when none is available.")

    monkeypatch.setattr(torch.accelerator, "current_accelerator", raising)
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: False)
    assert set(rf.get_random_state()) == {"cpu", "static"}
    rf.set_random_state(rf.get_random_state())
    with rf.set_amp_policy_ctx("bfloat16"):
        current_modes()()
        assert torch.is_autocast_enabled("cpu")
