"""The device that is measured on, and its clock: `pytest bench --device cuda`; without the option the CPU.

On a GPU the host only asks: a time is one from when all that was asked before is done to when what is measured is done.
"""

from __future__ import annotations

import importlib
import time

import torch

import rfnb as rf

_chosen: list[str] = []
_quick: list[bool] = []


def choose(name: str, *, quick: bool = False) -> None:
    """From now on all is made and measured there: "cuda", "cpu", or "sim", which is simulated. `quick`: small, and a few times."""
    if name == "sim":
        importlib.import_module("simulated")
    _chosen[:] = [name]
    _quick[:] = [quick]
    rf.set_default_device(name)


def chosen() -> bool:
    """Whether a device was asked for."""
    return bool(_chosen)


def quick() -> bool:
    """Whether it is only tried that the bench runs."""
    return _quick == [True]


def device() -> torch.device:
    """Where the arrays of a bench are made."""
    return torch.device(_chosen[0] if _chosen else "cpu")


def clock() -> float:
    """Seconds. Of the CPU those of the process, and not the clock on the wall, which goes on while a neighbour has the core."""
    if not _chosen:
        return time.process_time()
    if device().type != "cpu":
        torch.get_device_module(device()).synchronize()
    return time.perf_counter()


def machine() -> str:
    """What it is: the name of the GPU, or of the device."""
    return torch.cuda.get_device_name(device()) if device().type == "cuda" else str(device())
