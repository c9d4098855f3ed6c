"""LSTM over whole sequences of different lengths, step by step, and one step."""

from __future__ import annotations

from typing import Any

import numpy as np

from rfnb.backends.numpy_functions import sigmoid


def lstm(
    x: Any, h: Any, c: Any, ff_weight: Any, rec_weight: Any, bias: Any | None, mask: Any | None
) -> tuple[Any, Any, Any]:
    """See `Backend.lstm_raw`."""
    y = np.zeros((*x.shape[:2], h.shape[-1]), h.dtype)
    for time in range(x.shape[0]):
        real = np.ones((x.shape[1], 1), bool) if mask is None else mask[time, :, None]
        new_h, new_c = lstm_step(x[time], h, c, ff_weight, rec_weight, bias)
        y[time] = np.where(real, new_h, 0)
        h, c = np.where(real, new_h, h), np.where(real, new_c, c)
    return y, h, c


def lstm_step(x: Any, h: Any, c: Any, ff_weight: Any, rec_weight: Any, bias: Any | None) -> tuple[Any, Any]:
    """See `Backend.lstm_step_raw`."""
    gates = x @ ff_weight.T + h @ rec_weight.T + (0 if bias is None else bias)
    i, f, cell, o = np.split(gates, 4, axis=-1)
    c = sigmoid(f) * c + sigmoid(i) * np.tanh(cell)
    return sigmoid(o) * np.tanh(c), c
