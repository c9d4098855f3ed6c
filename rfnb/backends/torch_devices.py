"""The accelerator beside the CPU, if there is one: the words on a device that there is not, and arrays brought to it and back."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

_MISSING = re.compile(
    r"not compiled with \w+ enabled|not linked with support for|No CUDA GPUs|no NVIDIA driver|driver on your system is too old"
    r"|device type at start of device string|Invalid device string|invalid device ordinal|must not be empty|backend is not available",
    re.IGNORECASE,
)


def accelerator() -> str | None:
    """The kind of device besides the CPU that this torch was made for, whether there is one or not."""
    try:
        found = torch.accelerator.current_accelerator()
    except RuntimeError:  # torch 2.6, if it was made for none
        return None
    return None if found is None else found.type


def is_in_use(kind: str) -> bool:
    """Whether anything was made on a device of this kind. To ask it for a generator or a stream would begin that, which takes memory,
    and a forked process may not."""
    module = torch.get_device_module(kind)
    return bool(getattr(module, "is_initialized", module.is_available)())


def refuse_device(error: Exception, device: object) -> None:
    """Called with an error of torch, before it is raised again.

    Raises:
        RuntimeError: The device is missing.
    """
    if not _MISSING.search(str(error)):
        return
    there = _accelerators()
    made_for = (
        f"{torch.__version__} (built {f'for CUDA {torch.version.cuda}' if torch.version.cuda else 'without CUDA'})"
    )
    rule, name = "Everything works on the CPU as well; only large models are slow there.", "cpu"
    if there:
        rule, name = "A device has the name that torch has for it:", there[0]
    what = f'torch: there is no device "{device}" here.'
    operands = [("device", str(device)), ("there", ", ".join(["cpu", *there])), ("torch", made_for)]
    fix = f'rf.set_default_device("{name}")'
    rows = "\n".join(f"  {operand:<6}  {text}" for operand, text in operands)
    refused = RuntimeError(f"{what}\n{rows}\n{rule}\n    {fix}")
    refused.__dict__["parts"] = what, operands, rule, fix  # as core/errors.py gives them, which nothing here may know
    raise refused from error


def check_name(name: str) -> None:
    """Raise a RuntimeError for a name that torch does not know."""
    try:
        torch.device(name)
    except RuntimeError as error:
        refuse_device(error, name)
        raise


def _accelerators() -> list[str]:
    """The names of the devices there are besides the CPU."""
    if not torch.accelerator.is_available():
        return []
    kind = torch.accelerator.current_accelerator()
    assert kind is not None
    return (
        ["mps"] if kind.type == "mps" else [f"{kind.type}:{index}" for index in range(torch.accelerator.device_count())]
    )


def on_device(array: np.ndarray, device: torch.device) -> Any:
    """A tensor of these values, which may share the memory of the array where the device is the host."""
    return brought(torch.as_tensor(array, device="cpu"), device)  # whatever the default device of torch is


def brought(raw: Any, device: torch.device, dtype: Any = None) -> Any:
    """A tensor of the host on a device. Nobody waits for a GPU: from pinned memory the copy takes its turn after what was asked before.

    Memory that was pinned before is somebody's who may write to it next, so that copy is waited for. So is one to mps, which reads
    the memory of the host itself.
    """
    if device.type == "cpu":
        return raw if dtype is None else raw.to(dtype)
    waits = device.type == "mps"
    if device.type == "cuda" and torch.cuda.is_available():
        waits = raw.is_pinned()
        raw = raw if waits else raw.pin_memory()
    return raw.to(device, dtype, non_blocking=not waits)


def on_host(raws: Sequence[Any]) -> list[np.ndarray]:
    """See `Backend.raws_to_numpy`: what is on one device comes in one copy, as bytes."""
    raws = [raw.float() if raw.dtype == torch.bfloat16 else raw.detach() for raw in raws]
    out = [raw.numpy(force=True) if raw.is_cpu else None for raw in raws]
    for device in dict.fromkeys(raw.device for raw in raws if not raw.is_cpu):
        places = [place for place, raw in enumerate(raws) if raw.device == device]
        if len(places) == 1:
            out[places[0]] = raws[places[0]].numpy(force=True)
            continue
        flat = [raws[place].reshape(-1).contiguous().view(torch.uint8) for place in places]
        start, host = 0, torch.cat(flat).numpy(force=True)
        for place, part in zip(places, flat, strict=True):
            stop, raw = start + len(part), raws[place]
            dtype = torch.empty(0, dtype=raw.dtype, device="cpu").numpy().dtype
            out[place] = host[start:stop].copy().view(dtype).reshape(raw.shape)
            start = stop
    return out  # type: ignore[return-value]
