"""A real device in place of the simulated one: with RFNB_TEST_DEVICE=cuda, the tests of tests/devices run on a GPU.

    RFNB_TEST_DEVICE=cuda pytest tests/devices

It has the names that tests take from `simulated`, which is then never imported: torch would take its device for the accelerator
of the machine. Noted as waits are those that torch's sync debug mode tells (reads of values, copies that block), and the calls of
`synchronize`. A copy that does not wait is not seen here; that there is none is shown on the simulated device.
"""

from __future__ import annotations

import contextlib
import os
import warnings
from collections.abc import Iterator
from typing import Any
from unittest import mock

import torch
from device_events import Event, Seen, place

NAME = os.environ.get("RFNB_TEST_DEVICE", "cuda")
BACKEND = torch.get_device_module(NAME)
torch.backends.cudnn.allow_tf32 = False  # values are compared with those of the CPU
_watching: list[Seen] = []


@contextlib.contextmanager
def watched() -> Iterator[Seen]:
    """Collect the waits of a block, of all threads."""
    seen = Seen()
    shown = warnings.showwarning

    def show(message: Any, *args: Any, **kwargs: Any) -> None:
        if "called a synchronizing CUDA operation" in str(message):
            _note("sync debug mode")
        else:
            shown(message, *args, **kwargs)

    with contextlib.ExitStack() as stack:
        stack.enter_context(warnings.catch_warnings())
        warnings.filterwarnings("ignore", message="Synchronization debug mode is a prototype")
        warnings.filterwarnings("always", message="called a synchronizing CUDA operation")
        for owner, name in _EXPLICIT:
            stack.enter_context(mock.patch.object(owner, name, _noting(owner, name)))
        warnings.showwarning = show
        stack.enter_context(_sync_debug_mode("warn"))
        _watching.append(seen)
        try:
            yield seen
        finally:
            _watching[:] = [one for one in _watching if one is not seen]  # lists that are equal are others


_EXPLICIT = (torch.cuda, "synchronize"), (torch.cuda.Event, "synchronize"), (torch.cuda.Stream, "synchronize")


def _note(op: str) -> None:
    event = Event("wait", op, True, place())
    for seen in _watching:
        seen.append(event)


def _noting(owner: Any, name: str) -> Any:
    method = getattr(owner, name)

    def noted(*args: Any, **kwargs: Any) -> Any:
        if not getattr(method, "notes", False):  # in a block inside of another one
            _note(f"{owner.__name__}.{name}")
        with _sync_debug_mode("default"):  # of some of them it tells, too
            return method(*args, **kwargs)

    noted.notes = True  # type: ignore[attr-defined]
    return noted


@contextlib.contextmanager
def _sync_debug_mode(mode: str) -> Iterator[None]:
    if not NAME.startswith("cuda"):
        yield
        return
    before = torch.cuda.get_sync_debug_mode()
    torch.cuda.set_sync_debug_mode(mode)
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode(before)


def values(x: torch.Tensor) -> torch.Tensor:
    """The values of a tensor of the device, as a tensor of the host. Nothing is noted."""
    with _sync_debug_mode("default"):
        return x.detach().cpu()
