"""The keys that a query position may see when it must not look ahead."""

from __future__ import annotations

from typing import Any

import numpy as np

from rfnb.core.dim import Dim
from rfnb.core.layout import PlanCache
from rfnb.core.tensor import Tensor, new_tensor
from rfnb.nn.attention.query_offset import keys_before

_plans = PlanCache()


def causal_mask(query_dim: Dim, key_dim: Dim, like: Tensor) -> tuple[Tensor, bool]:
    """Query i sees the keys up to its own position. The last query stands at the last key, so earlier keys may be there that
    all queries see (what was cached before).

    Returns:
        bool {length dims where needed, query_dim, key_dim} on the backend and device of `like`, and whether some query may
        see nothing (there are fewer keys than queries).
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
    """The energy of what may not be seen. Not -inf: in a row of which nothing may be seen the softmax would be NaN, and so its
    gradient."""
    return -65504.0 if energy.dtype == "float16" else -1e30
