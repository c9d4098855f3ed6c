"""Running sums."""

from __future__ import annotations

from typing import Any, Never

from rfnb.core.dim import Dim
from rfnb.core.layout import PlanCache
from rfnb.core.op import op
from rfnb.core.tensor import Tensor, new_tensor
from rfnb.core.type_errors import not_a_tensor

_plans = PlanCache()


@op
def cumsum(source: Tensor, *extra: Never, spatial_dim: Dim, **unknown: Never) -> Tensor:
    """The running sum along `spatial_dim` ({..., spatial_dim}); padding follows the real frames, so nothing is masked."""
    if not isinstance(source, Tensor):
        raise not_a_tensor("cumsum", source)
    key = (source._raw.__class__, source.dims, spatial_dim)
    try:
        cumsum_raw, axis = _plans[key]
    except KeyError:
        cumsum_raw, axis = _plans.make(key, _plan, source, spatial_dim)
    return new_tensor(cumsum_raw(source._raw, axis), source.dims, source)


def _plan(source: Tensor, spatial_dim: Dim) -> tuple[Any, int]:
    return source.backend.cumsum_raw, source.axis_of(spatial_dim, "cumsum")
