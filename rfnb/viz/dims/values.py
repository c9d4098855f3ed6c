"""The lines of the `dims` view about the values of a tensor: bytes, and statistics over its real frames (never the padding)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rfnb.core.dim import Dim
from rfnb.core.foreign import refusal

MOST_CELLS = 1 << 26  # beyond this, values are not copied to the host just to be described


def bytes_of(tensor: Any) -> int | None:
    """Bytes of the raw array, padding included; None if a size or the dtype is not known."""
    width = _width(tensor.dtype)
    if width is None or not all(dim.is_dim_known() for dim in tensor.dims):
        return None
    return int(np.prod([dim.extent for dim in tensor.dims], dtype=np.int64)) * width


def stats_of(tensor: Any) -> dict[str, Any] | None:
    """Statistics for the spec; None for a template, an empty or a very large tensor, and for values that are no numbers.

    `min`, `max`, `mean` are over the finite real values (None if there are none); `nan` and `inf` count; `cells` counts all cells,
    `valid` those that are no padding, `padding_odd` NaN and infinity in the padding, if there are any.
    """
    raw = tensor.raw_tensor
    if raw is None or refusal(raw) or int(np.prod([dim.extent for dim in tensor.dims], dtype=np.int64)) > MOST_CELLS:
        return None
    values = np.asarray(tensor.numpy())
    if values.dtype.kind not in "biuf":
        return None
    return array_stats(values, valid_mask(tensor.dims))


def array_stats(values: np.ndarray, mask: np.ndarray | None = None) -> dict[str, Any]:
    """The same for an array; `mask` is True where a value is real."""
    real = values if mask is None else values[np.broadcast_to(mask, values.shape)]
    real = real.astype(np.float64).ravel()
    finite = real[np.isfinite(real)]
    nan, inf = int(np.isnan(real).sum()), int(np.isinf(real).sum())
    odd = int((~np.isfinite(values)).sum()) - nan - inf if values.dtype.kind == "f" and mask is not None else 0
    known = {"min": finite.min, "max": finite.max, "mean": finite.mean} if finite.size else {}
    return {
        **{name: float(known[name]()) if known else None for name in ("min", "max", "mean")},
        "nan": nan,
        "inf": inf,
        "valid": int(real.size),
        "cells": int(values.size),
        **({"padding_odd": odd} if odd else {}),
    }


def valid_mask(dims: Sequence[Dim]) -> np.ndarray | None:
    """True for real frames, broadcastable to the axes of `dims`; None if nothing is padding."""
    mask: np.ndarray | None = None
    for dim in dims:
        if not dim.has_padding() or not all(other in dims for other in dim.length_dims):
            continue
        own = dim.host_mask(dims)
        mask = own if mask is None else mask & own
    return None if mask is None else np.broadcast_to(mask, [dim.extent for dim in dims])


def lengths_of(dim: Dim) -> list[int] | None:
    """The lengths of a ragged dim, one per sequence; None for a dim without."""
    if dim.is_static() or dim.lengths is None or not dim.length_dims:
        return None
    mask = valid_mask(dim.length_dims)
    lengths = np.asarray(dim.lengths)
    return [int(length) for length in (lengths.ravel() if mask is None else lengths[mask])]


def _width(dtype: str | None) -> int | None:
    if dtype == "bfloat16":
        return 2
    try:
        return np.dtype(dtype).itemsize if dtype else None
    except TypeError:
        return None
