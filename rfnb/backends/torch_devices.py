"""The accelerator besides the CPU, if any: the error for a missing device, and transfers to and from it."""

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
    """The kind of accelerator that this torch was built for, available or not."""
    try:
        found = torch.accelerator.current_accelerator()
    except RuntimeError:  # torch 2.6, if it was made for none
        return None
    return None if found is None else found.type


def is_in_use(kind: str) -> bool:
    """True if anything was created on a device of this kind. Requesting a generator or a stream would initialise it, which takes memory
    and is forbidden in a forked process.
    """
    module = torch.get_device_module(kind)
    return bool(getattr(module, "is_initialized", module.is_available)())


def refuse_device(error: Exception, device: object) -> None:
    """Explain a missing device; called with an error of torch before it is raised again.

    Raises:
        RuntimeError: If the device is missing.
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
    """The names of the available devices other than the CPU."""
    if not torch.accelerator.is_available():
        return []
    kind = torch.accelerator.current_accelerator()
    assert kind is not None
    return (
        ["mps"] if kind.type == "mps" else [f"{kind.type}:{index}" for index in range(torch.accelerator.device_count())]
    )


def on_device(array: np.ndarray, device: torch.device) -> Any:
    """A tensor of these values, which may share the array's memory if the device is the host."""
    return brought(torch.as_tensor(array, device="cpu"), device)  # whatever the default device of torch is


def brought(raw: Any, device: torch.device, dtype: Any = None) -> Any:
    """A host tensor on a device, without waiting for a GPU: the copy from pinned memory is queued after earlier work.

    Memory that was already pinned may be written by its owner next, so that copy is waited for. So is one to mps, which reads the host's
    memory directly.
    """
    if device.type == "cpu":
        return raw if dtype is None else raw.to(dtype)
    waits = device.type == "mps"
    if device.type == "cuda" and torch.cuda.is_available():
        waits = raw.is_pinned()
        raw = raw if waits else raw.pin_memory()
    return raw.to(device, dtype, non_blocking=not waits)


def on_host(raws: Sequence[Any]) -> list[np.ndarray]:
    """See `Backend.raws_to_numpy`: arrays on one device are transferred together, as bytes."""
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
