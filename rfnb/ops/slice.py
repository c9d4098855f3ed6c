"""Ranges of frames of a dim."""

from __future__ import annotations

from typing import Any, Never

import numpy as np

from rfnb.core.dim import Dim, Dims
from rfnb.core.dim_identity import check_remade
from rfnb.core.errors import dim_error, value_error
from rfnb.core.op import op
from rfnb.core.size_queries import asked
from rfnb.core.tensor import Tensor, new_tensor
from rfnb.core.tensor_checks import check_lengths_here, check_unique
from rfnb.core.tensor_text import shape_of
from rfnb.ops import math
from rfnb.ops.cast import cast
from rfnb.ops.defaults import copy_to_device
from rfnb.ops.dims import range_over_dim
from rfnb.ops.gather import gather
from rfnb.ops.math import clip_by_value, combine_bc, compare_bc
from rfnb.ops.operands import need_tensors
from rfnb.ops.out_dim import dim_and_lengths, settle_size
from rfnb.ops.pad import expand_make_non_empty
from rfnb.ops.ranges import range_over_dim_strided
from rfnb.ops.reduce import reduce_all
from rfnb.ops.where import where


@op
def slice(
    source: Tensor,
    *extra: Never,
    axis: Dim,
    start: int | Dim | Tensor | None = None,
    end: int | Dim | Tensor | None = None,
    step: int | None = None,
    size: int | Dim | Tensor | None = None,
    out_dim: Dim | None = None,
    **unknown: Never,
) -> tuple[Tensor, Dim]:
    """Frames start to end (excluded) of `axis`; negative values count from the end of each sequence.

    Args:
        source: {..., axis}
        start: Default 0. -2 begins two frames before the end, or at the first frame of a shorter sequence. A Tensor gives a start
            for each of its entries, e.g. int {batch}: one per sequence. A Dim stands for its size.
        end: Like start. Default: the end of each sequence.
        step: Only every step-th of these frames.
        size: Number of frames, instead of end. If start is a Tensor, the last frame of a sequence that ends earlier is repeated; 0
            if it has none.

    Returns:
        {..., out_dim}, out_dim: by default from dim arithmetic, or `size` if that is a Dim, or separate lengths, limited by what a
            sequence has. With Tensors, their dims are added to source.

    Raises:
        DimError: If axis is not in source, out_dim has another size, or size exceeds the axis.
        ValueError: If end and size are given, or step is not positive.
    """
    need_tensors("slice", source)
    index = source.axis_of(axis, "slice")
    negative = isinstance(size, (int, np.integer)) and size < 0
    if step is not None and step < 1 or end is not None and size is not None or negative:
        given = {"source": source, "axis": axis, "end": end, "size": size, "step": step}
        rule = "Either end or size, which is 0 or more; a step is positive: frames backwards are those of rf.reverse_sequence."
        raise value_error("slice: which frames?", [(name, _shown(value)) for name, value in given.items()], rule)
    step = None if step is None else int(step)  # one for all sequences, and known on the host
    if step not in (None, 1):
        every, _ = slice(source, axis=axis, start=start, end=end, size=size)
        return _strided(every, source.dims, axis, step, out_dim)
    first, last = _plain(start), _plain(end)
    if isinstance(first, (int, np.integer)) and first < 0:
        first = _from_the_end(axis, int(first))
        if isinstance(first, Tensor) and isinstance(size, (int, np.integer)):
            last, size = first + int(size), None  # what a sequence has of them
    if isinstance(first, Tensor) or isinstance(last, Tensor) or isinstance(size, Tensor):
        return _per_entry(source, axis, first, last, size, out_dim)
    first = first or 0
    if size is not None:
        last = first + (size.extent if isinstance(size, Dim) else size)
        out_dim = out_dim or (size if isinstance(size, Dim) else None)
    if isinstance(size, Dim) and size.is_dim_known() and size.need_masking():
        dim = size
        _check_enough(axis, first, size)
    elif last is not None and last < 0:
        dim = axis.sub_left(first) + last if first else axis + last
    elif last is None or last >= axis.extent:
        dim = axis.sub_left(first) if first else axis
    else:
        dim = _cut(axis, first, max(first, last))
    out_dim = out_dim or dim
    settle_size("slice", out_dim, dim)
    first = min(first, axis.extent)
    out_dims = check_unique((*source.dims[:index], out_dim, *source.dims[index + 1 :]), "slice")
    out = source._like(source.backend.slice_raw(source._raw, index, first, first + dim.extent), out_dims)
    if source.feature_dim is axis:
        out.feature_dim = out_dim
    return out, out_dim


def _shown(value: Any) -> Any:
    return shape_of(value) if isinstance(value, Tensor) else value.short_repr() if isinstance(value, Dim) else value


def _plain(bound: Any) -> Any:
    """A Dim as its size: an int, or its lengths."""
    if not isinstance(bound, Dim):
        return bound
    return bound.get_size_tensor() if bound.need_masking() else bound.extent


def _from_the_end(axis: Dim, start: int) -> int | Tensor:
    """The first frame, counted from the end of each sequence, or its beginning if it is shorter."""
    if not axis.need_masking():
        return max(axis.extent + start, 0)
    return math.maximum(axis.get_size_tensor() + start, 0)


def _check_enough(axis: Dim, start: int, size: Dim) -> None:
    """Raise a DimError if a sequence has fewer frames from start on."""
    rest = _cut(axis, start, max(start, axis.extent))
    if asked(_within, size, rest):
        return
    raise dim_error(
        "slice: size has frames that axis lacks.",
        {"axis": dim_and_lengths(axis), "start": start, "size": dim_and_lengths(size)},
        "Each sequence has as many frames from start on.",
        f'size = Dim(rf.minimum({size.name}.get_size_tensor(), rest), name="{size.name}")',
    )


def _within(inner: Dim, outer: Dim) -> bool:
    enough = compare_bc(inner.get_size_tensor(), "<=", outer.get_size_tensor())
    return bool(reduce_all(enough, axis=enough.dims))


def _cut(axis: Dim, start: int, end: int) -> Dim:
    """The dim of frames start..end: each sequence keeps those that it has."""
    if axis.lengths is None or not axis.length_dims:
        return Dim(end - start, name=f"{axis.name}[{start}:{end}]")
    raw = axis.get_size_tensor()
    lengths = np.clip(axis.lengths - start, 0, end - start)
    return Dim(
        new_tensor(raw.backend.from_numpy(lengths, dtype="int32", device="cpu"), axis.length_dims),
        name=f"{axis.name}[{start}:{end}]",
    )


def _strided(every: Tensor, before: Dims, axis: Dim, step: int, out_dim: Dim | None) -> tuple[Tensor, Dim]:
    cut = next((dim for dim in every.dims if dim not in before), axis)
    indices, out_dim = range_over_dim_strided(cut, stride=step, out_dim=out_dim, device=every.device)
    out = gather(every, indices=indices, axis=cut)
    if every.feature_dim is cut:
        out.feature_dim = out_dim
    return out, out_dim


def _per_entry(source: Tensor, axis: Dim, start: Any, end: Any, size: Any, out_dim: Dim | None) -> tuple[Tensor, Dim]:
    """Separate frames for each entry of start, end or size. Lengths are on the host, so end and size are read there."""
    bounds = [(name, x.dims) for name, x in (("start", start), ("end", end), ("size", size)) if isinstance(x, Tensor)]
    check_remade("slice", [("source", source.dims), *bounds])
    here = set(source.dims).union(*(dims for _, dims in bounds))
    # Of a sequence that was picked out of a batch, the frames are those that were asked for.
    has_lengths = set(axis.length_dims) <= here
    if size is None and not isinstance(end, Tensor):
        check_lengths_here("slice", [("source", source.dims), *bounds], axis, "source")
    if isinstance(start, Tensor) or isinstance(end, Tensor):
        start, end = (_counted(x, axis, has_lengths) if isinstance(x, Tensor) else x for x in (start, end))
    if isinstance(size, Dim):
        dim = size
    elif isinstance(size, int):
        dim = Dim(size, name=f"{axis.name}[:{size}]")
    else:
        lengths = size
        if size is None:  # computed where start and end are, so that only the result is read
            places = {x.device for x in (start, end) if isinstance(x, Tensor)}
            place = places.pop() if len(places) == 1 else "cpu"
            first, last = (copy_to_device(x, place) if isinstance(x, Tensor) else x for x in (start, end))
            all_frames = axis.get_size_tensor(device=place) if has_lengths else axis.extent
            lengths = _remaining(all_frames, first, last)
        dim = Dim(copy_to_device(cast(lengths, "int32"), "cpu"), name=f"{axis.name}[...]")
    out_dim = out_dim or dim
    settle_size("slice", out_dim, dim)
    if out_dim in source.dims:
        raise dim_error(
            "slice: out_dim is a dim of source already.",
            {"source": source, "out_dim": out_dim},
            "The selected frames need a dim of their own.",
            f'size = Dim({out_dim.extent}, name="{out_dim.name}")',
        )
    indices = range_over_dim(out_dim, device=source.device)
    if start is not None:
        first = cast(copy_to_device(start, source.device), "int32") if isinstance(start, Tensor) else start
        indices = combine_bc(indices, "add", first)
    marked = source.feature_dim is axis
    if axis.has_padding() and not np.asarray(axis.lengths).all():
        # A sequence without frames has nothing to pick.
        source = source.copy_masked(False if source.dtype == "bool" else 0, dims=[axis])
    source, axis = expand_make_non_empty(source, axis=axis)
    if not has_lengths:
        indices = clip_by_value(indices, 0, axis.extent - 1)
    out = gather(source, indices=indices, axis=axis, clip_to_valid=has_lengths)
    if marked:
        out.feature_dim = out_dim
    return out, out_dim


def _counted(bound: Tensor, axis: Dim, has_lengths: bool) -> Tensor:
    """Negative bounds as positions from the beginning of each sequence."""
    bound = cast(bound, "int32")
    frames = axis.get_size_tensor(device=bound.device) if has_lengths else axis.extent
    from_the_end = clip_by_value(combine_bc(bound, "add", frames), 0, None)
    return where(bound < 0, from_the_end, bound, allow_broadcast_all_sources=True)


def _remaining(all_frames: Any, start: Any, end: Any) -> Tensor:
    """The number of frames from start to end, or to the end of the sequence if that comes first."""
    start, end = (cast(x, "int32") if isinstance(x, Tensor) else x for x in (start, end))
    if end is None:
        end = all_frames
    elif isinstance(end, int):
        end = combine_bc(all_frames, "add", end) if end < 0 else clip_by_value(all_frames, None, end)
    else:
        end = clip_by_value(end, None, all_frames, allow_broadcast_all_sources=True)
    return clip_by_value(end if start is None else combine_bc(end, "sub", start), 0, None)
