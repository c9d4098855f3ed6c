"""Frames of one value put before and after each sequence."""

from __future__ import annotations

from collections.abc import Sequence

from rfnb.core.dim import Dim
from rfnb.core.errors import message
from rfnb.core.tensor import Tensor, check_unique
from rfnb.ops import dims as dim_ops
from rfnb.ops import math
from rfnb.ops.default import copy_to_device
from rfnb.ops.out_dim import check_size, define_size


def pad(
    source: Tensor,
    *,
    axes: Sequence[Dim],
    padding: Sequence[tuple[int, int]],
    out_dims: Sequence[Dim] | None = None,
    mode: str = "constant",
    value: float | int = 0,
) -> tuple[Tensor, list[Dim]]:
    """Frames of `value` before and after each of `axes`; after a ragged axis they start at each sequence's end.

    Returns:
        {..., out_dims}, out_dims: by default left + axis + right.

    Raises:
        ValueError: A mode other than "constant", or other numbers of axes and widths.
    """
    if mode != "constant":
        raise ValueError(
            message(
                f'pad: mode "{mode}".',
                [("known", "constant")],
                "Only a constant can be padded with.",
                'rf.pad(..., mode="constant")',
            )
        )
    if len(axes) != len(padding) or len(axes) != len(axes if out_dims is None else out_dims):
        counts = [("axes", len(axes)), ("padding", len(padding))]
        counts += [] if out_dims is None else [("out_dims", len(out_dims))]
        rule = "Each axis has one (left, right), and one of out_dims if those are given."
        raise ValueError(message("pad: other numbers of axes and widths.", counts, rule))
    out_dims = (
        list(out_dims) if out_dims is not None else [left + axis + right for axis, (left, right) in zip(axes, padding)]
    )
    widths = [(0, 0)] * len(source.dims)
    dims = list(source.dims)
    for axis, width, out_dim in zip(axes, padding, out_dims):
        index = source.axis_of(axis, "pad")
        widths[index], dims[index] = width, out_dim
        if not out_dim.is_dim_known():
            out_dim.dyn_size_ext = (width[0] + axis + width[1]).get_size_tensor()
        check_size("pad", out_dim, width[0] + axis.extent + width[1])
    check_unique(tuple(dims), "pad")
    backend = source.backend
    out = source._like(backend.pad_raw(source._raw, widths, value), tuple(dims))
    for axis, (left, right), out_dim in zip(axes, padding, out_dims):
        if right and axis.has_padding():
            inside = left + axis  # its lengths end where the padding on the right begins
            frames = dim_ops.range_over_dim(out_dim, dtype="int32", device=out.device)
            real = math.compare_bc(frames, "less", copy_to_device(inside.get_size_tensor(), out.device))
            out = out._like(math.where(real, out, value).copy_transpose(dims)._raw, tuple(dims))
    return out, list(out_dims)


def expand_make_non_empty(source: Tensor, *, axis: Dim, out_dim: Dim | None = None) -> tuple[Tensor, Dim]:
    """An `axis` without any entry gets one, of zeros; otherwise source as it is.

    Returns:
        {..., out_dim}, out_dim: axis itself if it has entries and no out_dim is given, else of size 1.

    Raises:
        DimError: If axis is not in source, or out_dim has another size.
    """
    source.axis_of(axis, "expand_make_non_empty")
    if axis.extent > 0:
        return (source, axis) if out_dim is None else dim_ops.replace_dim(source, in_dim=axis, out_dim=out_dim)
    out_dim = Dim(1, name=axis.name) if out_dim is None else out_dim
    define_size(out_dim, 1)
    out, _ = pad(source, axes=[axis], padding=[(0, 1)], out_dims=[out_dim])
    return out, out_dim
