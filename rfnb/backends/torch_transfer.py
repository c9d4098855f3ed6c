"""Arrays of the host brought to a device."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch


def on_device(array: np.ndarray, device: torch.device) -> Any:
    """A tensor of these values, which may share the memory of the array where the device is the host."""
    return brought(torch.as_tensor(array, device="cpu"), device)  # whatever the default device of torch is


def brought(raw: Any, device: torch.device, dtype: Any = None) -> Any:
    """A tensor of the host on a device. Nobody waits for a GPU: from pinned memory the copy takes its turn after what was asked before."""
    if device.type == "cpu":
        return raw if dtype is None else raw.to(dtype)
    raw = raw.pin_memory() if device.type == "cuda" and torch.cuda.is_available() else raw
    return raw.to(device, dtype, non_blocking=True)
