"""The place of the queries among the keys, when the last query stands at the last key."""

from __future__ import annotations

from typing import Any

import numpy as np

from rfnb.core.dim import Dim
from rfnb.core.layout import PlanCache
from rfnb.core.tensor import Tensor, new_tensor

_plans = PlanCache()


def query_offset(query_dim: Dim | None, key_dim: Dim, like: Tensor) -> int | Tensor:
    """The position of the first query; the keys begin at 0.

    Args:
        query_dim: None for a single query.

    Returns:
        int where it is the same for all sequences, else int32 {length dims} on the backend and device of `like`.
    """
    backend, device = like.backend, like.device
    key = (query_dim, key_dim, backend, device)
    try:
        return _plans[key]
    except KeyError:
        return _plans.make(key, _make, query_dim, key_dim, backend, device)


def keys_before(query_dim: Dim | None, key_dim: Dim) -> tuple[np.ndarray, tuple[Dim, ...]]:
    """The number of keys in front of the first query, and the dims that it is over: none where it is the same for all."""
    over = tuple(dict.fromkeys((*(() if query_dim is None else query_dim.length_dims), *key_dim.length_dims)))
    before = _lengths(key_dim, over) - (1 if query_dim is None else _lengths(query_dim, over))
    if before.size and (before == before.flat[0]).all():
        return before.flat[0], ()
    return before, over


def _make(query_dim: Dim | None, key_dim: Dim, backend: Any, device: Any) -> int | Tensor:
    before, over = keys_before(query_dim, key_dim)
    if not over:
        return int(before)
    raw = backend.from_numpy(before.astype(np.int32), dtype="int32", device=device)
    return new_tensor(raw, over)


def _lengths(dim: Dim, over: tuple[Dim, ...]) -> np.ndarray:
    """The lengths over `over`, axes of length 1 for the dims that they are not over."""
    if dim.lengths is None:
        return np.asarray(dim.extent).reshape([1] * len(over))
    own = dim.length_dims
    array = dim.lengths.transpose([own.index(other) for other in over if other in own])
    return array.reshape([other.extent if other in own else 1 for other in over])
