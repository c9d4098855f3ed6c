"""The causal mask, and the offset of the queries in the keys: the last query is aligned with the last key."""

from __future__ import annotations

from typing import Any

import numpy as np

from rfnb.core.dim import Dim, Dims, HostArray
from rfnb.core.layout import PlanCache
from rfnb.core.tensor import Tensor, new_tensor

_plans = PlanCache()


def causal_mask(query_dim: Dim, key_dim: Dim, like: Tensor) -> tuple[Tensor, bool]:
    """The mask by which query i sees the keys up to its own position. The last query is aligned with the last key, so
    cached earlier keys are visible to all queries.

    Returns:
        bool {length dims where needed, query_dim, key_dim} on the backend and device of `like`, and whether some query
        may see no key, because there are fewer keys than queries.
    """
    backend, device = like.backend, like.device
    key = (query_dim, key_dim, backend, device)
    try:
        return _plans[key]
    except KeyError:
        return _plans.make(key, _make, query_dim, key_dim, backend, device)


def _make(query_dim: Dim, key_dim: Dim, backend: Any, device: Any) -> tuple[Tensor, bool]:
    before, over = keys_before(query_dim, key_dim)
    queries, keys = np.arange(query_dim.extent), np.arange(key_dim.extent)
    seen = keys <= queries[:, None] + np.asarray(before)[..., None, None]
    raw = backend.from_numpy(seen, dtype="bool", device=device)
    return new_tensor(raw, (*over, query_dim, key_dim)), bool(np.any(before < 0))


def unseen(energy: Tensor) -> float:
    """The energy of a hidden key. It is not -inf: the softmax of a row in which all keys are hidden would be NaN, and so
    would its gradient.
    """
    return -65504.0 if energy.dtype == "float16" else -1e30


_offsets = PlanCache()


def query_offset(query_dim: Dim | None, key_dim: Dim, like: Tensor) -> int | Tensor:
    """The position of the first query; the keys begin at 0.

    Args:
        query_dim: None for a single query.

    Returns:
        int if it is the same for all sequences, otherwise int32 {length dims} on the backend and device of `like`.
    """
    backend, device = like.backend, like.device
    key = (query_dim, key_dim, backend, device)
    try:
        return _offsets[key]
    except KeyError:
        return _offsets.make(key, _new_offset, query_dim, key_dim, backend, device)


def keys_before(query_dim: Dim | None, key_dim: Dim) -> HostArray:
    """The number of keys in front of the first query, and the dims that it is over: none if it is the same for all sequences."""
    over = tuple(dict.fromkeys((*(() if query_dim is None else query_dim.length_dims), *key_dim.length_dims)))
    before = _lengths(key_dim, over) - (1 if query_dim is None else _lengths(query_dim, over))
    if before.size and (before == before.flat[0]).all():
        return before.flat[0], ()
    return before, over


def _new_offset(query_dim: Dim | None, key_dim: Dim, backend: Any, device: Any) -> int | Tensor:
    before, over = keys_before(query_dim, key_dim)
    if not over:
        return int(before)
    raw = backend.from_numpy(before.astype(np.int32), dtype="int32", device=device)
    return new_tensor(raw, over)


def _lengths(dim: Dim, over: Dims) -> np.ndarray:
    """The lengths over `over`, with axes of length 1 for dims that they do not depend on."""
    if dim.lengths is None:
        return np.asarray(dim.extent).reshape([1] * len(over))
    own = dim.length_dims
    array = dim.lengths.transpose([own.index(other) for other in over if other in own])
    return array.reshape([other.extent if other in own else 1 for other in over])
