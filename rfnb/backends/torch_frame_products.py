"""Products over the frames of all steps of a loop at once, see `Backend.product_ahead_raw`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import torch

# Arguments: the matrix that is multiplied, the weights, the bias.
PRODUCTS = {torch.addmm: (1, 2, 0), torch.lstm_cell: (0, 2, 4)}
JOIN = torch.cat
_LARGEST = 1 << 27  # elements of a product of all frames: 512 MiB of float32


def product_ahead(fn: Any, parts: Sequence[Any], weight: Any, bias: Any) -> tuple[Sequence[Any], Any, Any] | None:
    """See `Backend.product_ahead_raw`."""
    known = [isinstance(part, list) for part in parts]
    frames = next(part for part, is_known in zip(parts, known) if is_known)
    ins = 0 if fn is torch.addmm else 1  # the axis of the weights
    if not (
        weight.device.type == "cpu"  # elsewhere the cells have kernels that want a vector as bias
        and weight.dtype in (torch.float32, torch.float64)
        and weight.ndim == frames[0].ndim == 2
        and bias.ndim == 1
        and len(frames) * frames[0].shape[0] * weight.shape[1 - ins] <= _LARGEST
        and not torch.is_autocast_enabled("cpu")
        and (fn is torch.addmm or _cell_takes_rows())
    ):
        return None
    widths = [None if part is None else (part[0] if one else part).shape[-1] for part, one in zip(parts, known)]
    left = weight.shape[ins] - sum(width or 0 for width in widths)
    if left < 0 or (left > 0 and None not in widths):
        return None
    out, rest, start = bias, [], 0
    for part, one, width in zip(parts, known, widths):
        stop = start + (left if width is None else width)
        rows = weight.narrow(ins, start, stop - start)
        if one:
            out = torch.addmm(out, torch.stack(part).flatten(0, 1), rows.t() if ins else rows)
        else:
            rest.append(rows)
        start = stop
    remaining = weight.narrow(ins, 0, 0) if not rest else rest[0] if len(rest) == 1 else torch.cat(rest, ins)
    empty = frames[0].new_empty((frames[0].shape[0], 0))
    return out.unflatten(0, (len(frames), -1)).unbind(0), remaining, empty


@cache
def _cell_takes_rows() -> bool:
    """True if the cell accepts a bias with a row per sequence, which torch supports without promising it, even without any input."""
    with torch.inference_mode(False), torch.no_grad():
        numbers = torch.linspace(-1, 1, 64, device="cpu")
        x, h, c, bias = numbers[:6].view(2, 3), numbers[6:10].view(2, 2), numbers[10:14].view(2, 2), numbers[14:22]
        weight, rec = numbers[22:46].view(8, 3), numbers[46:62].view(8, 2)
        try:
            expected = torch.lstm_cell(x, (h, c), weight, rec, bias, bias)
            rows = torch.addmm(bias, x, weight.t())
            found = torch.lstm_cell(x[:, :0], (h, c), weight[:, :0], rec, rows, bias)
        except RuntimeError:
            return False
        return all(torch.allclose(a, b, atol=1e-6) for a, b in zip(expected, found))
