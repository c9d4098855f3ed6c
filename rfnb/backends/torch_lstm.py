"""LSTM kernels for torch: the fused one over whole sequences, and a single step.

Gate order i, f, cell, o and weight layout [4 * out, in] are those of torch, so weights are passed unchanged.
"""

from __future__ import annotations

from typing import Any

import torch

from rfnb.backends.constants import has_values

# Beyond all that inputs and weights can add to a gate: its sigmoid is exactly 1, or exactly 0.
_SHUT, _SHUT_HALF = 1e30, 6e4

_zero_biases: dict[Any, Any] = {}


def lstm(
    x: Any, h: Any, c: Any, ff_weight: Any, rec_weight: Any, bias: Any | None, mask: Any | None
) -> tuple[Any, Any, Any]:
    """See `Backend.lstm_raw`."""
    if x.shape[0] == 0 or x.shape[1] == 0 or rec_weight.shape[1] == 0:
        return x.new_zeros((x.shape[0], x.shape[1], rec_weight.shape[1])), h, c
    if mask is None:
        return _fused(x, h, c, ff_weight, rec_weight, bias)
    # The fused kernel cannot stop a sequence early, so in the padding one more input shuts the input gate and opens the
    # forget gate: the cell state stays exactly as it was. The last h is read off at each sequence's end.
    real, shut, column, zero, last, empty = of_mask(mask, rec_weight)
    x = torch.cat((torch.where(real, x, zero), shut), -1)
    y, _, c = _fused(x, h, c, torch.cat((ff_weight, column), 1), rec_weight, bias)
    h = torch.where(empty, h, y.gather(0, last)[0])
    return torch.where(real, y, zero), h, c


def of_mask(mask: Any, rec_weight: Any) -> tuple[Any, ...]:
    """Arrays derived from a mask for the kernel: real frames, the input that closes the gates with its weights, 0, the index of each
    sequence's last frame, and the empty sequences. Cached, since all calls with the same dims share a mask.
    """
    size = rec_weight.shape[1]
    key = (id(mask), size, rec_weight.dtype)
    found = _masks.get(key)
    if found is None or found[0] is not mask:
        with torch.inference_mode(False), torch.no_grad():
            real = mask.unsqueeze(-1)
            column = torch.zeros((4 * size, 1), dtype=rec_weight.dtype, device=mask.device)
            shut = _SHUT_HALF if rec_weight.dtype is torch.float16 else _SHUT
            column[:size] = -shut
            column[size : 2 * size] = shut
            ends = mask.sum(0) - 1
            last = ends.clamp(min=0).view(1, -1, 1).expand(1, -1, size)
            zero = torch.zeros((), dtype=rec_weight.dtype, device=mask.device)
            parts = (real, (~real).to(rec_weight.dtype), column, zero, last, (ends < 0).unsqueeze(-1))
        own = sum(part.untyped_storage().nbytes() for part in parts)
        if _kept[0] + own > _LIMIT:  # every batch with other lengths has another mask
            _masks.clear()
            _kept[0] = 0
        _kept[0] += own
        found = (mask, parts)
        if has_values(mask):
            _masks[key] = found
    return found[1]


_masks: dict[Any, tuple[Any, tuple[Any, ...]]] = {}
_kept, _LIMIT = [0], 64 << 20  # bytes


def _fused(x: Any, h: Any, c: Any, ff_weight: Any, rec_weight: Any, bias: Any | None) -> tuple[Any, Any, Any]:
    # torch keeps two biases that are always added; ours is the first, the second is zero.
    weights = [ff_weight, rec_weight] if bias is None else [ff_weight, rec_weight, bias, _zeros(bias)]
    y, h, c = torch.lstm(x, (h.unsqueeze(0), c.unsqueeze(0)), weights, bias is not None, 1, 0.0, False, False, False)
    return y, h[0], c[0]


def _zeros(bias: Any) -> Any:
    """The second bias, made once per size, dtype and device."""
    key = (bias.numel(), bias.dtype, bias.device)
    zeros = _zero_biases.get(key)
    if zeros is None:
        with torch.inference_mode(False):  # else a later training could not use it
            zeros = torch.zeros(bias.shape, dtype=bias.dtype, device=bias.device)
        if has_values(zeros):
            _zero_biases[key] = zeros
    return zeros


def lstm_step(x: Any, h: Any, c: Any, ff_weight: Any, rec_weight: Any, bias: Any | None) -> tuple[Any, Any]:
    """See `Backend.lstm_step_raw`."""
    return torch.lstm_cell(x, (h, c), ff_weight, rec_weight, bias, None if bias is None else _zeros(bias))
