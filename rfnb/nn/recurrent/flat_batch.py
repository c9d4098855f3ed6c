"""The layout for kernels of recurrent layers: time first, all batch-like dims as one axis, and a mask of real frames."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from rfnb.core.dim import Dim, Dims
from rfnb.core.dim_identity import check_remade
from rfnb.core.layout import PlanCache, full_shape, masks_for, spread_mask, view
from rfnb.core.op import op
from rfnb.core.plan_parts import Shape
from rfnb.core.tensor import Tensor
from rfnb.core.tensor_checks import check_lengths_here

_masks = PlanCache()


def batch_dims_of(source: Tensor, state: Tensor, *, skip: Dims, out_dim: Dim) -> Dims:
    """The batch-like dims: those of source except `skip`, then further dims of the state."""
    batch = tuple(dim for dim in source.dims if dim not in skip)
    more = tuple(dim for dim in state.dims if dim not in batch and dim is not out_dim)
    if more:
        check_remade("state", [("source", source.dims), ("state", state.dims)], but=(*skip, out_dim))
    return batch + more


@op
def flat_raw(value: Tensor, dims: Dims, lead: tuple[int, ...]) -> Any:
    """The raw array over `dims`, with its batch dims (those after `lead`, except the last) flattened to one axis."""
    if value.dims == dims:
        if len(dims) == len(lead) + 2:
            return value._raw
        raw = value._raw
    else:
        raw = value.backend.broadcast_raw(value.copy_compatible_to_dims_raw(dims), full_shape(dims))
    size = math.prod(dim.extent for dim in dims[len(lead) : -1])
    return value.backend.reshape_raw(raw, (*lead, size, dims[-1].extent))


def rows_of(dims: Dims, target: Dims, backend: Any) -> Callable[[Any], Any] | None:
    """Converter from a raw array over `dims` to two axes: the features, and all other dims of `target`; None if it has them already."""
    shape, flat, reshape = Shape(*target), Shape(target[:-1], target[-1]), backend.reshape_raw
    if dims == target:
        return None if len(dims) == 2 else lambda raw: reshape(raw, flat)
    order, broadcast = view(dims, target, backend), backend.broadcast_raw
    return lambda raw: reshape(broadcast(raw if order is None else order(raw), shape), flat)


@op
def flat_mask_raw(what: str, source: Tensor, spatial_dim: Dim, batch: Dims) -> Any:
    """The mask of real frames, bool (time, batch); None if all frames are real. Cached per dims.

    Raises:
        DimError: If the lengths are over a dim that is not in `batch`.
    """
    key = (spatial_dim, batch, source._raw.__class__)
    try:
        mask = _masks[key]
    except KeyError:
        mask = _masks.make(key, _plan_mask, what, source, spatial_dim, batch)
    return None if mask is None else mask(source._raw)


def check_lengths(what: str, source: Tensor, spatial_dim: Dim, batch: Dims) -> None:
    """Raise a DimError if the lengths of spatial_dim are over a dim that is not in `batch`."""
    check_lengths_here(what, [("source", source.dims), ("batch dims", batch)], spatial_dim, "source")


def _plan_mask(what: str, source: Tensor, spatial_dim: Dim, batch: Dims) -> Any:
    check_lengths(what, source, spatial_dim, batch)
    dims, backend = (spatial_dim, *batch), source.backend
    mask = masks_for(dims, [spatial_dim], backend, what)
    return None if mask is None else spread_mask(mask, Shape(*dims), Shape(spatial_dim, batch), backend)
