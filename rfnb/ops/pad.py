"""Padding: frames of one value before and after each sequence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Never

import numpy as np

from rfnb.core.dim import Dim, Dims
from rfnb.core.errors import dim_error, not_one_of, type_error, value_error
from rfnb.core.fill_values import check_entries_to_fill, number_to_fill
from rfnb.core.layout import PlanCache, full_shape
from rfnb.core.op import op
from rfnb.core.tensor import Tensor, new_tensor
from rfnb.core.tensor_checks import check_lengths_here, check_unique, dims_of
from rfnb.core.tensor_text import dims_text
from rfnb.ops import dims as dim_ops
from rfnb.ops import math
from rfnb.ops.cast import cast
from rfnb.ops.defaults import copy_to_device
from rfnb.ops.gather import gather
from rfnb.ops.operands import need_tensors
from rfnb.ops.out_dim import check_size, define_size, settle_size
from rfnb.ops.where import where

# The names of torch, and what NumPy calls the same.
_MODES = {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}


@op
def pad(
    source: Tensor,
    *extra: Never,
    axes: Sequence[Dim],
    padding: Sequence[tuple[int | Dim | Tensor, int | Dim | Tensor]],
    out_dims: Sequence[Dim] | None = None,
    mode: str = "constant",
    value: Tensor | float | int | None = None,
    handle_dynamic_dims: bool | None = None,
    **unknown: Never,
) -> tuple[Tensor, list[Dim]]:
    """Add frames of `value` before and after each of `axes`; after a ragged axis they start at each sequence's end.

    A negative number of frames cuts off that many, or as many as there are.

    Args:
        source: {..., axes}
        padding: For each axis the number of frames (left, right). A Tensor gives a number for each sequence; only on the right.
        mode: "reflect", "replicate" and "circular" repeat frames of source instead; for axes without lengths per sequence.
        value: Default 0. A Tensor {...} without the axes gives a value for each of its entries.
        handle_dynamic_dims: False pads the raw arrays, so that the frames after a ragged axis follow its padding; the new dim then
            has no lengths.

    Returns:
        {..., out_dims}, out_dims: by default left + axis + right.

    Raises:
        DimError: If an axis is not in source, an out_dim has another size, or the frames on the left are ragged.
        TypeError: If the padding of an axis is not two numbers, or the dtype of source cannot hold value.
        ValueError: Unknown mode, or other numbers of axes and widths.
    """
    need_tensors("pad", source)
    known = ("constant", *_MODES)
    if mode not in known:
        raise not_one_of(f'pad: unknown mode "{mode}".', "mode", mode, known, "A mode is one of these.")
    axes, padding = dims_of("pad", axes), list(padding)
    if any(not isinstance(width, (tuple, list)) or len(width) != 2 for width in padding):
        rows = {"source": source, "axes": dims_text(axes), "padding": padding}
        rule = "padding has two numbers of frames for each axis, before and after it:"
        each, widths = ", ".join(axis.name for axis in axes), ", ".join(["(1, 1)"] * len(axes))
        raise type_error("pad: how many frames?", rows, rule, f"rf.pad(source, axes=[{each}], padding=[{widths}])")
    if len(axes) != len(padding) or len(axes) != len(axes if out_dims is None else out_dims):
        counts = [("axes", len(axes)), ("padding", len(padding))]
        counts += [] if out_dims is None else [("out_dims", len(out_dims))]
        rule = "Each axis has one (left, right), and one of out_dims if those are given."
        raise value_error("pad: the numbers of axes and widths differ.", counts, rule)
    out, dims = source, []
    for number, (axis, (left, right)) in enumerate(zip(axes, padding)):
        out_dim = None if out_dims is None else out_dims[number]
        if mode == "constant":
            out, out_dim = _pad_one(out, axis, left, right, out_dim, value, handle_dynamic_dims is not False)
        else:
            out, out_dim = _repeat_frames(out, axis, left, right, out_dim, mode)
        dims.append(out_dim)
    return out, dims


def _pad_one(
    source: Tensor, axis: Dim, left: Any, right: Any, out_dim: Dim | None, value: Any, at_the_ends: bool
) -> tuple[Tensor, Dim]:
    left, right, per_entry = _as_width(left), _as_width(right), isinstance(value, Tensor)
    if per_entry:
        check_entries_to_fill("pad", source, value)
    key = (source._raw.__class__, source.device, source.dims, axis, left, right, out_dim, at_the_ends, per_entry)
    try:
        plan = _plans[key]
    except KeyError:
        plan = _plans.make(key, _plan, source, axis, left, right, out_dim, at_the_ends, per_entry)
    dims, out_dim, widths, real = plan
    number = number_to_fill("pad", source, 0 if value is None or per_entry else value)
    if widths is None:
        shape, device = full_shape(dims), source.device
        return source._like(source.backend.full_raw(shape, 0, dtype=source.dtype, device=device), dims), out_dim
    out = source._like(source.backend.pad_raw(source._raw, widths, number), dims)
    if source.feature_dim is axis:
        out.feature_dim = out_dim
    if real is not None:
        fill = cast(copy_to_device(value, out.device), source.dtype) if per_entry else number
        filled = where(real, out, fill, allow_broadcast_all_sources=True)
        further = [dim for dim in filled.dims if dim not in dims]
        out = out._like(filled.copy_transpose([*further, *dims])._raw, (*further, *dims))
    return out, out_dim


_plans = PlanCache()


def _plan(
    source: Tensor, axis: Dim, left: Any, right: Any, out_dim: Dim | None, at_the_ends: bool, per_entry: bool
) -> tuple[Dims, Dim, list[tuple[int, int]] | None, Tensor | None]:
    """The dims of the result, the new dim, the widths in the raw array (None: it has no entries), and a mask of the source's frames
    where the raw array does not determine them.
    """
    index = source.axis_of(axis, "pad")
    if isinstance(left, Dim) and left.need_masking():
        raise dim_error(
            "pad: a different number of frames on the left of each sequence.",
            {"source": source, "axis": axis, "left": left},
            "Padding on the left has one size for all sequences. To put other frames before each of them, concatenate:",
            "rf.concat((frames, frames_dim), (source, axis))",
        )
    before, total = _extent(left), left + axis + right
    if not at_the_ends and axis.has_padding():  # with the padding in the middle, lengths would not describe it
        total = Dim(max(max(before + axis.extent, 0) + _extent(right), 0), name=total.name)
    out_dim = total if out_dim is None else out_dim
    define_size(out_dim, total)
    dims = check_unique((*source.dims[:index], out_dim, *source.dims[index + 1 :]), "pad")
    if np.size(total.lengths) == 0:  # without sequences the longest of them has 0 frames, whatever is put before
        return dims, out_dim, None, None
    check_size("pad", out_dim, total)
    widths = [(0, 0)] * len(dims)
    before = min(max(before, -axis.extent), total.extent)  # no more is cut off than there is
    widths[index] = before, total.extent - before - axis.extent
    # What was padding of the axis is now in the places of the frames on the right.
    overwrites = at_the_ends and axis.has_padding() and (isinstance(right, Dim) or right != 0)
    if not (per_entry or overwrites):
        return dims, out_dim, widths, None
    check_lengths_here("pad", [("source", source.dims)], axis, "source")
    frames = dim_ops.range_over_dim(out_dim, dtype="int32", device=source.device)
    end = (left + axis).get_size_tensor(device=source.device) if at_the_ends else before + axis.extent
    real = math.compare_bc(frames, "less", end)
    if per_entry:
        real = math.combine_bc(real, "logical_and", math.compare(frames, "greater_equal", before))
    return dims, out_dim, widths, real


def _as_width(width: Any) -> int | Dim:
    """Convert a number per sequence to a dim with these lengths."""
    return Dim(width, name="padding") if isinstance(width, Tensor) else width


def _extent(width: int | Dim) -> int:
    return width.extent if isinstance(width, Dim) else width


def _repeat_frames(
    source: Tensor, axis: Dim, left: Any, right: Any, out_dim: Dim | None, mode: str
) -> tuple[Tensor, Dim]:
    left, right = _as_width(left), _as_width(right)
    if axis.need_masking() or any(isinstance(width, Dim) and width.need_masking() for width in (left, right)):
        raise dim_error(
            f'pad: mode "{mode}" of a ragged axis.',
            {"source": source, "axis": axis},
            "Frames of the sequence itself are repeated only where all sequences have the same length.",
            'rf.pad(..., mode="constant")',
        )
    total, before, after = left + axis + right, _extent(left), _extent(right)
    frames = np.arange(axis.extent)[max(-before, 0) : max(axis.extent - max(-after, 0), 0)]
    if not frames.size or (mode == "reflect" and max(before, after) >= frames.size):
        sizes = {"source": source, "axis": axis, "padding": f"({before}, {after})"}
        raise value_error(f'pad: mode "{mode}" needs more frames.', sizes, "There is nothing more to repeat.")
    out_dim = total if out_dim is None else out_dim
    settle_size("pad", out_dim, total)
    positions = np.pad(frames, (max(before, 0), max(after, 0)), mode=_MODES[mode])  # type: ignore[call-overload]
    raw = source.backend.from_numpy(positions.astype(np.int64), dtype="int64", device=source.device)
    out = gather(source, indices=new_tensor(raw, (out_dim,)), axis=axis)
    if source.feature_dim is axis:
        out.feature_dim = out_dim
    return out, out_dim


@op
def expand_make_non_empty(
    source: Tensor, *extra: Never, axis: Dim, out_dim: Dim | None = None, **unknown: Never
) -> tuple[Tensor, Dim]:
    """Extend an empty `axis` by one entry of zeros; otherwise return source as it is.

    Returns:
        {..., out_dim}, out_dim: axis itself if it has entries and no out_dim is given, else of size 1.

    Raises:
        DimError: If axis is not in source, or out_dim has another size.
    """
    need_tensors("expand_make_non_empty", source)
    source.axis_of(axis, "expand_make_non_empty")
    if axis.extent > 0:
        return (source, axis) if out_dim is None else dim_ops.replace_dim(source, in_dim=axis, out_dim=out_dim)
    out_dim = Dim(1, name=axis.name) if out_dim is None else out_dim
    settle_size("expand_make_non_empty", out_dim, 1)
    dims = check_unique(tuple(out_dim if dim is axis else dim for dim in source.dims), "expand_make_non_empty")
    raw = source.backend.full_raw(full_shape(dims), 0, dtype=source.dtype, device=source.device)
    out = source._like(raw, dims)
    if source.feature_dim is axis:
        out.feature_dim = out_dim
    return out, out_dim
