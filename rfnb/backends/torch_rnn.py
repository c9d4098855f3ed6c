"""GRU and simple RNN kernels for torch, over whole sequences of different lengths.

Nothing that a kernel computes after a sequence's end is used: its output is cut off there, its last state is read off before.
"""

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
