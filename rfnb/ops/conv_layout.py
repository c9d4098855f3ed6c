"""Rearranges a tensor for a kernel that moves along spatial dims, [batch, (channels,) *spatial], and back."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from rfnb.core.dim import Dim, Dims
from rfnb.core.errors import dim_error
from rfnb.core.layout import masks_for, to_order
from rfnb.core.plan_parts import Shape
from rfnb.core.size_queries import asked
from rfnb.core.tensor import Tensor
from rfnb.core.tensor_checks import check_dim
from rfnb.core.tensor_text import dims_text
from rfnb.ops.operands import need_values
from rfnb.ops.out_dim import check_movable


def check_spatial(what: str, source: Tensor, spatial: Dims, in_dim: Dim | None = None) -> None:
    """Check that each of `spatial` is present, occurs once, is not `in_dim`, and that no other dim has its lengths over it."""
    need_values(what, source)
    if in_dim is not None:
        check_dim(what, source, in_dim, "source")
    if in_dim in spatial:
        raise dim_error(
            f"{what}: {spatial[spatial.index(in_dim)].short_repr()} is in_dim and spatial dim.",
            {"source": source, "in_spatial_dims": dims_text(spatial)},
            "A filter sees all features of a frame, and moves along other dims.",
        )
    for dim in spatial:
        check_dim(what, source, dim, "source")
        check_movable(what, source, dim)
    if not 1 <= len(set(spatial)) == len(spatial) <= 3:
        raise dim_error(
            f"{what}: one, two or three different spatial dims are needed.",
            {"source": source, "in_spatial_dims": dims_text(spatial)},
            "The dims that it does not move along are batch dims, which need no mention.",
        )


def to_kernel(
    what: str, source: Tensor, channels: Dims, spatial: Dims, mask_value: Any, use_mask: bool
) -> tuple[Callable[[Any], Any], Dims]:
    """A function from the raw array to [batch, *channels, *spatial] with `mask_value` in the padding, and the batch dims."""
    backend = source.backend
    batch = tuple(dim for dim in source.dims if dim not in channels and dim not in spatial)
    # Of the batch dims too: 0 * NaN of a frame in the padding would go into the gradient of the filter.
    over = [dim for dim in batch if all(other in source.dims for other in dim.length_dims)]
    mask = masks_for(source.dims, [*spatial, *over], backend, what) if use_mask else None
    order = to_order(source.dims, batch + channels + spatial, backend)
    shape = Shape(batch, *channels, *spatial)
    where, reshape = backend.where_raw, backend.reshape_raw
    flat = len(batch) == 1

    def arrange(raw: Any) -> Any:
        if mask is not None:
            raw = where(mask(raw), raw, mask_value)
        if order is not None:
            raw = order(raw)
        return raw if flat else reshape(raw, shape)

    return arrange, batch


def from_kernel(batch: Dims, own: Dims, made: Iterable[tuple[Any, Dim, Dim]], backend: Any) -> Callable[[Any], Any]:
    """A function from [batch, *own] to the axes of `batch` and `own`.

    Args:
        made: The window that the kernel moves along a dim, this, and the resulting one of `own`.
    """
    shape, reshape, slice_raw = Shape(*batch, *own), backend.reshape_raw, backend.slice_raw
    # A dim is as long as its longest sequence, so of an empty batch it is 0, whatever the padding around would give.
    cuts = tuple((1 + own.index(new), new) for window, dim, new in made if asked(_is_cut, window, dim, new))
    flat = len(batch) == 1
    if flat and not cuts:
        return lambda raw: raw

    def restore(raw: Any) -> Any:
        for axis, dim in cuts:
            raw = slice_raw(raw, axis, 0, dim.extent)
        return raw if flat else reshape(raw, shape)

    return restore


def _is_cut(window: Any, dim: Dim, new: Dim) -> bool:
    return bool(window.out_length(dim.extent) != new.extent)
