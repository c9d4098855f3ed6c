"""Running sums."""

from __future__ import annotations

from rfnb.core.dim import Dim
from rfnb.core.layout import PlanCache
from rfnb.core.tensor import Tensor, new_tensor

_plans = PlanCache()


def cumsum(source: Tensor, *, spatial_dim: Dim) -> Tensor:
    """Running sum along `spatial_dim` ({..., spatial_dim}); padding comes after the real frames, so nothing is masked."""
    key = (source._raw.__class__, source.dims, spatial_dim)
    try:
        cumsum_raw, axis = _plans[key]
    except KeyError:
        cumsum_raw, axis = _plans.put(key, (source.backend.cumsum_raw, source.axis_of(spatial_dim, "cumsum")))
    out = new_tensor(cumsum_raw(source._raw, axis), source.dims)
    out.sparse_dim, out._feature_dim = source.sparse_dim, source._feature_dim
    return out
