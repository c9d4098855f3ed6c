"""Mixed precision for torch: products in a 16-bit dtype, what adds many numbers up in float32.

torch's own autocast decides for products. What it leaves in 16 bits on a CPU (softmax, norms, sums) goes to float32 too, so that a
program gives the same dtypes on every device.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch.overrides import TorchFunctionMode

from rfnb.backends.torch_modes import autocast_kinds

_HALF = (torch.bfloat16, torch.float16)
_NAMES = "softmax log_softmax logsumexp logaddexp sum mean cumsum rsqrt exp log layer_norm rms_norm ctc_loss"
_IN_FLOAT32 = {*(getattr(torch, name) for name in _NAMES.split()), F.layer_norm, F.cross_entropy, F.ctc_loss}
_OF_STATES = (torch.lstm, torch.lstm_cell)


@contextlib.contextmanager
def autocast(dtype: Any) -> Iterator[None]:
    """See `Backend.autocast_raw`."""
    with contextlib.ExitStack() as scopes:
        for device in _devices():
            # Without a cache of cast weights: it would go on holding old ones while an optimizer changes them.
            scopes.enter_context(torch.autocast(device, dtype, cache_enabled=False))
        scopes.enter_context(InFloat32())
        yield


@contextlib.contextmanager
def full_precision() -> Iterator[None]:
    """See `Backend.full_precision`."""
    with contextlib.ExitStack() as scopes:
        for device in _devices():
            if torch.is_autocast_enabled(device):
                scopes.enter_context(torch.autocast(device, enabled=False))
        yield


def _devices() -> tuple[str, ...]:
    """The kinds of devices that there are, whose autocast may be on."""
    return autocast_kinds() if torch.accelerator.is_available() else ("cpu",)


class InFloat32(TorchFunctionMode):
    """Gives the functions of `_IN_FLOAT32` their arrays in float32."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = {} if kwargs is None else kwargs
        if func in _IN_FLOAT32:
            args = [_float32(x) for x in args]
            kwargs = {key: _float32(x) for key, x in kwargs.items()}
        out = func(*args, **kwargs)
        # A kernel for a whole sequence gives 16 bits, and so does one for a step on a GPU; a state keeps its dtype.
        return tuple(map(_float32, out)) if func in _OF_STATES else out


def _float32(x: Any) -> Any:
    return x.float() if isinstance(x, torch.Tensor) and x.dtype in _HALF else x
