"""Selection of entries by indices, and sorting, in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np


def take(raw: Any, indices: Any, axis: int) -> Any:
    """See `Backend.take_raw`."""
    _refuse_others(indices)
    return np.take(raw, indices, axis)


def _refuse_others(indices: Any) -> None:
    if indices.dtype.kind not in "iu":  # NumPy would take bool for a mask, or for 0 and 1
        raise IndexError(f"indices of {indices.dtype}")


def batched_take(raw: Any, indices: Any, num_batch: int) -> Any:
    """See `Backend.batched_take_raw`."""
    _refuse_others(indices)
    # Every batch entry has its own array and its own indices into it.
    out = np.empty(indices.shape + raw.shape[num_batch + 1 :], raw.dtype)
    for entry in np.ndindex(*raw.shape[:num_batch]):
        out[entry] = raw[entry][indices[entry]]
    return out


def scatter(raw: Any, indices: Any, size: int, kind: str, neutral: Any) -> Any:
    """See `Backend.scatter_raw`."""
    out = np.full((raw.shape[0], size, raw.shape[2]), neutral, raw.dtype)
    combine = {"sum": np.add, "max": np.maximum, "min": np.minimum}[kind]
    for batch in range(raw.shape[0]):
        for entry in range(raw.shape[1]):
            place = indices[batch, entry]
            out[batch, place] = combine(out[batch, place], raw[batch, entry])
    return out


def sort(raw: Any, axis: int, descending: bool, stable: bool) -> tuple[Any, Any]:
    """See `Backend.sort_raw`."""
    if descending:  # as in top_k_raw: of equal ones the first stays first
        order = raw.shape[axis] - 1 - np.flip(np.argsort(np.flip(raw, axis), axis, kind="stable"), axis)
    else:
        order = np.argsort(raw, axis, kind="stable")
    return np.take_along_axis(raw, order, axis), order.astype(np.int64)


def search_sorted(sorted_raw: Any, values: Any, right: bool) -> Any:
    """See `Backend.search_sorted_raw`."""
    rows = [np.searchsorted(row, value, "right" if right else "left") for row, value in zip(sorted_raw, values)]
    return np.asarray(rows, np.int64).reshape(values.shape)


def top_k(raw: Any, k: int, sorted: bool) -> tuple[Any, Any]:
    """See `Backend.top_k_raw`."""
    if k > raw.shape[-1]:
        raise ValueError(f"{k} of {raw.shape[-1]}")
    # Sorting the mirrored array upwards and mirroring the order back: on ties the lower index comes first.
    order = raw.shape[-1] - 1 - np.argsort(raw[..., ::-1], axis=-1, kind="stable")[..., ::-1]
    indices = order[..., :k].astype(np.int64)
    return np.take_along_axis(raw, indices, -1), indices
