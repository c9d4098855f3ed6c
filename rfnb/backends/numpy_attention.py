"""Scaled dot-product attention in NumPy, to be read."""

from __future__ import annotations

from typing import Any

import numpy as np


def attention(query: Any, keys: Any, values: Any, bias: Any | None, causal: bool, scale: float) -> Any:
    """See `Backend.attention_raw`."""
    with np.errstate(all="ignore"):  # queries in the padding may be NaN
        energy = query @ keys.swapaxes(-1, -2) * scale
        if bias is not None:
            energy = energy + bias
        if causal:
            energy = np.where(np.tri(*energy.shape[-2:], dtype=np.bool_), energy, -np.inf)
        weights = np.exp(energy - energy.max(-1, keepdims=True))
        weights = weights / weights.sum(-1, keepdims=True)
        return (weights @ values).astype(values.dtype)
