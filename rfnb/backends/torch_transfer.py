"""Arrays of the host brought to a device, and those of a device to the host."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch


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
