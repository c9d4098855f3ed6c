"""Scaled dot-product attention in NumPy, to be read."""

from __future__ import annotations

from typing import Any

import numpy as np


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
