"""From one value per distance to one value per key."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rfnb.core.dim import Dim
from rfnb.core.layout import PlanCache, to_order
from rfnb.core.op import op
from rfnb.core.plan_parts import Shape
from rfnb.core.tensor import Tensor, new_tensor

_plans = PlanCache()


@op
def relative_shift(x: Tensor, *, query_dim: Dim | None, key_dim: Dim, distance_dim: Dim) -> Tensor:
    """out[query, key] = x[query, key - query + queries - 1]: distances rise with the key, in each row from another start.

    No index is looked up: in the flat array, a row less by one entry per row is the same row shifted by one.

    Args:
        x: {..., query_dim, distance_dim}, distance_dim of size queries + keys - 1.
        query_dim: None: there is a single query, and its distances are its keys.

    Returns:
        {..., query_dim, key_dim}.

    Source: Dai et al. 2019, "Transformer-XL", appendix B.
    """
    key = (x._raw.__class__, x.dims, query_dim, key_dim, distance_dim)
    try:
        fn, dims = _plans[key]
    except KeyError:
        fn, dims = _plans.make(key, _plan, x, query_dim, key_dim, distance_dim)
    return new_tensor(fn(x._raw), dims)


def _plan(x: Tensor, query_dim: Dim | None, key_dim: Dim, distance_dim: Dim) -> tuple[Callable[[Any], Any], Any]:
    backend = x.backend
    lead = tuple(dim for dim in x.dims if dim is not query_dim and dim is not distance_dim)
    rows = () if query_dim is None else (query_dim,)
    dims, shape = (*lead, *rows, key_dim), Shape(*lead)
    order = to_order(x.dims, (*lead, *rows, distance_dim), backend)
    last = len(lead)

    def fn(raw: Any) -> Any:
        sizes = tuple(shape)
        queries, keys, count = 1 if query_dim is None else query_dim.extent, key_dim.extent, distance_dim.extent
        raw = raw if order is None else order(raw)
        if queries <= 1 or not keys:
            return (
                backend.slice_raw(raw, len(dims) - 1, 0, keys)
                if queries
                else backend.reshape_raw(raw, (*sizes, 0, keys))
            )
        flat = backend.reshape_raw(raw, (*sizes, queries * count))
        flat = backend.slice_raw(flat, last, queries - 1, queries - 1 + queries * (count - 1))
        return backend.slice_raw(backend.reshape_raw(flat, (*sizes, queries, count - 1)), last + 1, 0, keys)

    return fn, dims
