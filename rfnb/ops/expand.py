"""Adding a broadcast dim, and dropping a dim of size 1."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Never

from rfnb.core.dim import Dim
from rfnb.core.errors import dim_error
from rfnb.core.layout import full_shape
from rfnb.core.op import op
from rfnb.core.tensor import Tensor
from rfnb.core.type_errors import not_a_tensor


@op
def expand_dim(source: Tensor, dim: Dim, *extra: Never, **unknown: Never) -> Tensor:
    """Repeat along a new dim, without copying; static dims are inserted before the feature axis, dynamic ones after the last dynamic
    one.

    {...} -> {..., dim}.

    Raises:
        DimError: If the dim is there already.
    """
    if not isinstance(source, Tensor):
        raise not_a_tensor("expand_dim", source)
    if dim in source.dims:
        raise dim_error(
            "expand_dim: source already has the dim.",
            {"source": source, "dim": dim},
            "A dim occurs once. To repeat the values over another one, make it:",
            'rf.expand_dim(source, dim=rf.Dim(3, name="..."))',
        )
    if dim.is_static():
        place = len(source.dims)
        if source.feature_dim is not None:
            place = source.dims.index(source.feature_dim)
    else:
        place = max((axis + 1 for axis, other in enumerate(source.dims) if other.is_dynamic()), default=0)
    dims = (*source.dims[:place], dim, *source.dims[place:])
    backend = source.backend
    raw = backend.broadcast_raw(backend.expand_dims_raw(source._raw, place), full_shape(dims))
    return source._like(raw, dims)


@op
def expand_dims(source: Tensor, dims: Sequence[Dim], *extra: Never, **unknown: Never) -> Tensor:
    """`expand_dim` for several dims."""
    if not isinstance(source, Tensor):
        raise not_a_tensor("expand_dims", source)
    for dim in dims:
        source = expand_dim(source, dim)
    return source


@op
def squeeze(source: Tensor, axis: Dim, *extra: Never, **unknown: Never) -> Tensor:
    """Drop an axis of static size 1; {..., axis} -> {...}.

    Raises:
        DimError: If axis is not a dim of source, or its size is not 1.
    """
    if not isinstance(source, Tensor):
        raise not_a_tensor("squeeze", source)
    index = source.axis_of(axis, "squeeze")
    if axis.size != 1:
        raise dim_error(
            "squeeze: the axis is not of size 1.",
            {"source": source, "axis": axis},
            "Only an axis of one entry can be removed without losing values.",
            f"rf.gather(x, indices=0, axis={axis.name})",
        )
    return source._like(
        source.backend.squeeze_raw(source._raw, (index,)), source.dims[:index] + source.dims[index + 1 :]
    )
