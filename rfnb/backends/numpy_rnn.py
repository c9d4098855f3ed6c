"""GRU and simple RNN over whole sequences of different lengths, step by step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from rfnb.backends.numpy_functions import sigmoid


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
