"""Attention and recurrent units over whole sequences of different lengths in NumPy, step by step, written for readability."""

from __future__ import annotations

from collections.abc import Callable
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


def gru(
    x: Any, h: Any, ff_weight: Any, rec_weight: Any, ff_bias: Any, rec_bias: Any, mask: Any | None
) -> tuple[Any, Any]:
    """See `Backend.gru_raw`."""

    def step(x: Any, h: Any) -> Any:
        r, z, n = np.split(x @ ff_weight.T + ff_bias, 3, axis=-1)
        rec_r, rec_z, rec_n = np.split(h @ rec_weight.T + rec_bias, 3, axis=-1)
        z = sigmoid(z + rec_z)
        return z * h + (1 - z) * np.tanh(n + sigmoid(r + rec_r) * rec_n)

    return _run(step, x, h, mask)


def rnn_tanh(x: Any, h: Any, ff_weight: Any, rec_weight: Any, bias: Any, mask: Any | None) -> tuple[Any, Any]:
    """See `Backend.rnn_tanh_raw`."""
    return _run(lambda x, h: np.tanh(x @ ff_weight.T + h @ rec_weight.T + bias), x, h, mask)


def _run(step: Callable[[Any, Any], Any], x: Any, h: Any, mask: Any | None) -> tuple[Any, Any]:
    y = np.zeros((*x.shape[:2], h.shape[-1]), h.dtype)
    for time in range(x.shape[0]):
        real = np.ones((x.shape[1], 1), bool) if mask is None else mask[time, :, None]
        new = step(x[time], h)
        y[time], h = np.where(real, new, 0), np.where(real, new, h)
    return y, h


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


def attention(query: Any, keys: Any, values: Any, bias: Any | None, causal: bool, scale: float) -> Any:
    """See `Backend.attention_raw`."""
    if causal:
        seen = np.tri(query.shape[-2], keys.shape[-2], dtype=np.bool_)
        bias = np.where(seen, 0, -np.inf)
    return attention_and_weights(query, keys.swapaxes(-1, -2), values, bias, scale)[0]


def attention_and_weights(query: Any, keys: Any, values: Any, bias: Any | None, scale: float) -> tuple[Any, Any]:
    """See `Backend.attention_and_weights_raw`."""
    with np.errstate(all="ignore"):  # queries in the padding may be NaN
        dtype = query.dtype
        if dtype == np.float16:  # in which large energies would be infinite
            query, keys, values = (raw.astype(np.float32) for raw in (query, keys, values))
        energy = query @ keys * scale
        if bias is not None:
            energy = energy + bias
        weights = np.exp(energy - energy.max(-1, keepdims=True))
        weights = weights / weights.sum(-1, keepdims=True)
        return (weights @ values).astype(dtype), weights.astype(dtype)
