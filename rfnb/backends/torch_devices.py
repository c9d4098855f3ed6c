"""The accelerator beside the CPU, if there is one; and the words on a device that there is not: torch says that something is not compiled
or linked, not what to type."""

from __future__ import annotations

import re

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
    raise RuntimeError(
        f'torch: there is no device "{device}" here.\n  device  {device}\n  there   {", ".join(["cpu", *there])}\n'
        f'  torch   {made_for}\n{rule}\n    rf.set_default_device("{name}")'
    ) from error


def _accelerators() -> list[str]:
    """The names of the devices there are besides the CPU."""
    if not torch.accelerator.is_available():
        return []
    kind = torch.accelerator.current_accelerator()
    assert kind is not None
    return (
        ["mps"] if kind.type == "mps" else [f"{kind.type}:{index}" for index in range(torch.accelerator.device_count())]
    )
