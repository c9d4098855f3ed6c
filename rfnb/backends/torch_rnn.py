"""GRU, simple RNN and two-dimensional LSTM for torch, over whole sequences of different lengths."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from rfnb.backends.torch_lstm import of_mask


def gru(
    x: Any, h: Any, ff_weight: Any, rec_weight: Any, ff_bias: Any, rec_bias: Any, mask: Any | None
) -> tuple[Any, Any]:
    """See `Backend.gru_raw`."""
    weights = [ff_weight, rec_weight, ff_bias, rec_bias]
    return _run(torch.gru, x, h, weights, mask)


def rnn_tanh(x: Any, h: Any, ff_weight: Any, rec_weight: Any, bias: Any, mask: Any | None) -> tuple[Any, Any]:
    """See `Backend.rnn_tanh_raw`."""
    weights = [ff_weight, rec_weight, bias, torch.zeros_like(bias)]  # torch always adds two biases
    return _run(torch.rnn_tanh, x, h, weights, mask)


def _run(kernel: Callable[..., Any], x: Any, h: Any, weights: list[Any], mask: Any | None) -> tuple[Any, Any]:
    if x.shape[0] == 0 or x.shape[1] == 0:
        return x.new_zeros((x.shape[0], x.shape[1], h.shape[1])), h
    if mask is not None:
        real, _, _, zero, ends, empty = of_mask(mask, weights[1])
        x = torch.where(real, x, zero)  # NaN would come back as gradient
    y, last = kernel(x, h.unsqueeze(0), weights, True, 1, 0.0, False, False, False)
    y, last = y.to(h.dtype), last[0].to(h.dtype)  # in mixed precision only the products are of 16 bits
    if mask is None:
        return y, last
    return torch.where(real, y, zero), torch.where(empty, h, y.gather(0, ends)[0])


def two_d_lstm(
    gates_x: Any, gates_y: Any, weight_h: Any, weight_v: Any, h: Any, c: Any, mask: Any | None
) -> tuple[Any, Any]:
    """See `Backend.two_d_lstm_raw`."""
    width, batch, size = h.shape
    height = gates_y.shape[0]
    if 0 in (width, batch, height):
        empty = h.new_zeros((height, width, batch, size))
        return empty, empty
    weight = torch.cat((weight_h, weight_v))
    gates_x = gates_x.flip(0)  # along a diagonal x falls as y rises, so that now both are slices
    real = None if mask is None else mask.to(h.dtype).unsqueeze(-1)
    nothing = h.new_zeros((1, batch, size))
    rows_h: list[Any] = []
    rows_c: list[Any] = []
    starts: list[int] = []
    for diagonal in range(width + height - 1):
        low, high = max(0, diagonal - width + 1), min(diagonal, height - 1) + 1
        starts.append(low)
        if diagonal:
            left_h, up_h = _around(rows_h[-1], h, nothing, diagonal, low, high, starts[-2])
            left_c, up_c = _around(rows_c[-1], c, nothing, diagonal, low, high, starts[-2])
        else:
            left_h, up_h, left_c, up_c = nothing, h[:1], nothing, c[:1]
        first = width - 1 - diagonal + low
        gates = gates_x[first : first + high - low] + gates_y[low:high] + torch.cat((left_h, up_h), -1) @ weight
        i, f, mix, o, j = gates.chunk(5, -1)
        mix = mix.sigmoid()
        cell = i.sigmoid() * j.tanh() + f.sigmoid() * (left_c + mix * (up_c - left_c))
        out = o.sigmoid() * cell.tanh()
        if real is not None:
            places = slice(diagonal - high + 1, diagonal - low + 1)
            here = real[places].flip(0)
            cell, out = cell * here, out * here
        rows_h.append(out)
        rows_c.append(cell)
    return _from_diagonals(rows_h, width, height), _from_diagonals(rows_c, width, height)


def _around(before: Any, edge: Any, nothing: Any, diagonal: int, low: int, high: int, start: int) -> tuple[Any, Any]:
    """The left neighbours of the cells y = low .. high - 1 of a diagonal, and their upper neighbours.

    `before` is the previous diagonal, from y = start on; `edge` is the row above the grid.
    """
    left = before[low - start : high - start]
    if left.shape[0] < high - low:  # the last one is at x = 0
        left = torch.cat((left, nothing))
    if low:
        return left, before[low - 1 - start : high - 1 - start]
    return left, torch.cat((edge[diagonal : diagonal + 1], before[: high - 1]))


def _from_diagonals(rows: list[Any], width: int, height: int) -> Any:
    """[height, width, ...] from consecutive diagonals."""
    flat = torch.cat(rows)
    y = torch.arange(height, device=flat.device)[:, None]
    diagonal = y + torch.arange(width, device=flat.device)
    # Cells before a diagonal: each one before it has as many as it has places.
    number = torch.arange(len(rows), device=flat.device)
    low = (number - width + 1).clamp(min=0)
    sizes = number.clamp(max=height - 1) + 1 - low
    before = torch.cumsum(sizes, 0) - sizes
    return flat[(before - low)[diagonal] + y]
