"""Two-dimensional LSTM in NumPy, cell by cell, to be read."""

from __future__ import annotations

from typing import Any

import numpy as np

from rfnb.backends.numpy_functions import sigmoid


def two_d_lstm(
    gates_x: Any, gates_y: Any, weight_h: Any, weight_v: Any, h: Any, c: Any, mask: Any | None
) -> tuple[Any, Any]:
    """See `Backend.two_d_lstm_raw`."""
    height, width = gates_y.shape[0], h.shape[0]
    all_h, all_c = (np.zeros((height, *part.shape), part.dtype) for part in (h, c))
    nothing = np.zeros(h.shape[1:], h.dtype)
    for y in range(height):
        above_h, above_c = (h, c) if y == 0 else (all_h[y - 1], all_c[y - 1])
        for x in range(width):
            left_h, left_c = (nothing, nothing) if x == 0 else (all_h[y, x - 1], all_c[y, x - 1])
            gates = gates_x[x] + gates_y[y] + left_h @ weight_h + above_h[x] @ weight_v
            i, f, mix, o, j = np.split(gates, 5, axis=-1)
            cell = sigmoid(i) * np.tanh(j)
            cell = cell + sigmoid(f) * (sigmoid(mix) * above_c[x] + (1 - sigmoid(mix)) * left_c)
            real = 1 if mask is None else mask[x][:, None]
            all_c[y, x] = cell * real
            all_h[y, x] = sigmoid(o) * np.tanh(cell) * real
    return all_h, all_c
