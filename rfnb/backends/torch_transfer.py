"""Arrays of the host brought to a device."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch


def on_device(array: np.ndarray, device: Any) -> Any:
    """A tensor of these values. Nobody waits for a GPU: from pinned memory the copy takes its turn after what was asked before."""
    raw = torch.as_tensor(array)
    return raw.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else raw.to(device)
