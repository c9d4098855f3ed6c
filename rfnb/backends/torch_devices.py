"""The words on a device that there is not: torch says that something is not compiled or linked, not what to type."""

from __future__ import annotations

import re

import torch

_MISSING = re.compile(
    r"not compiled with \w+ enabled|not linked with support for|No CUDA GPUs|no NVIDIA driver|driver on your system is too old"
    r"|device type at start of device string|Invalid device string|invalid device ordinal|backend is not available",
    re.IGNORECASE,
)


def refuse_device(error: Exception, device: object) -> None:
    """Called with an error of torch, before it is raised again.

    Raises:
        RuntimeError: The device is missing.
    """
    if not _MISSING.search(str(error)):
        return
    there = ["cpu", *(f"cuda:{index}" for index in range(torch.cuda.device_count()))]
    there += ["mps"] if torch.backends.mps.is_available() else []
    made_for = (
        f"{torch.__version__} (built {f'for CUDA {torch.version.cuda}' if torch.version.cuda else 'without CUDA'})"
    )
    raise RuntimeError(
        f'torch: there is no device "{device}" here.\n  device  {device}\n  there   {", ".join(there)}\n  torch   {made_for}\n'
        'Everything works on the CPU as well; only large models are slow there.\n    rf.set_default_device("cpu")'
    ) from error
