"""Some consecutive frames of a dim."""

from __future__ import annotations

import numpy as np

from rfnb.core.dim import Dim
from rfnb.core.tensor import Tensor, check_unique, new_tensor
from rfnb.ops.out_dim import check_size


def slice(
    source: Tensor,
    *,
    axis: Dim,
    start: int | None = None,
    end: int | None = None,
    size: Dim | int | None = None,
    out_dim: Dim | None = None,
) -> tuple[Tensor, Dim]:
    """Frames start to end (not included) of `axis`; a negative end takes that many frames off every sequence.

    Returns:
        {..., out_dim}, out_dim: by default from dim arithmetic.
    """
    index = source.axis_of(axis, "slice")
    start = start or 0
    if start < 0:
        start = max(start + axis.extent, 0)
    if size is not None:
        end = start + (size.extent if isinstance(size, Dim) else size)
        out_dim = out_dim or (size if isinstance(size, Dim) else None)
    if end is not None and end < 0:
        dim = axis.sub_left(start) + end if start else axis + end
    elif end is None or end >= axis.extent:
        dim = axis.sub_left(start) if start else axis
    else:
        dim = _cut(axis, start, max(start, end))
    out_dim = out_dim or dim
    if not out_dim.is_dim_known():
        out_dim.dyn_size_ext = dim.get_size_tensor()
    check_size("slice", out_dim, dim.extent)
    start = min(start, axis.extent)
    out_dims = check_unique((*source.dims[:index], out_dim, *source.dims[index + 1 :]), "slice")
    out = source._like(source.backend.slice_raw(source._raw, index, start, start + dim.extent), out_dims)
    if source.feature_dim is axis:
        out.feature_dim = out_dim
    return out, out_dim


def _cut(axis: Dim, start: int, end: int) -> Dim:
    """The dim of frames start..end: each sequence keeps what it has of them."""
    if axis.lengths is None or not axis.length_dims:
        return Dim(end - start, name=f"{axis.name}[{start}:{end}]")
    raw = axis.get_size_tensor()
    lengths = np.clip(axis.lengths - start, 0, end - start)
    return Dim(
        new_tensor(raw.backend.from_numpy(lengths, dtype="int32", device="cpu"), axis.length_dims),
        name=f"{axis.name}[{start}:{end}]",
    )
