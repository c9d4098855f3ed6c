"""Selection of entries by index."""

from __future__ import annotations

from typing import Any, Never

import numpy as np

from rfnb.core.dim import Dim, Dims
from rfnb.core.dim_identity import check_remade, dim_among, looked_up
from rfnb.core.dim_mask import real_entries
from rfnb.core.errors import dim_error, index_error, message, type_error
from rfnb.core.finite_padding import _steps, picked
from rfnb.core.generations import aligned
from rfnb.core.layout import PlanCache, masks_for, to_order
from rfnb.core.memo import Memo
from rfnb.core.op import op
from rfnb.core.place import warn_user
from rfnb.core.size_queries import watching
from rfnb.core.tensor import Tensor, new_tensor
from rfnb.core.tensor_checks import check_dim, check_lengths_here
from rfnb.core.type_errors import not_a_tensor
from rfnb.ops import dims as dim_ops
from rfnb.ops import math
from rfnb.ops.cast import cast
from rfnb.ops.index_range import check_integers, check_not_negative, mended, on_host
from rfnb.ops.operands import check_devices, common_backend, need_tensors, need_values
from rfnb.ops.where import where


@op
def gather(
    source: Tensor,
    *extra: Never,
    indices: Tensor | int,
    axis: Dim | None = None,
    clip_to_valid: bool = False,
    **unknown: Never,
) -> Tensor:
    """Select entries along `axis` by index.

    Args:
        source: {..., axis}
        indices: int {...}; dims in common with source (besides axis) are batch dims. An int drops the axis; a negative one counts
            from the end of each sequence, and selects padding, with a warning, in sequences that are too short. In a Tensor, a negative
            index is an error; with both batch dims and further dims this is checked only in the first call for these dims
            (`rf.debug(indices=True)`: in all), since the check takes half as long as the selection.
        axis: Default: the sparse_dim of indices. For a square table it refers to the input side, `dim.copy(match_priority=1)`.
        clip_to_valid: Clip the indices to each sequence's real frames; the result is 0 for a sequence without frames.

    Returns:
        The dims of source, with axis replaced by the further dims of indices.

    Raises:
        DimError: If axis is not a dim of source.
        IndexError: For an int index past the end or before the beginning of some sequence.
        TypeError: For indices that are not integers, or an int index without axis.
    """
    if not isinstance(indices, Tensor):
        return _gather_one(source, indices, axis, clip_to_valid)
    if axis is None:
        axis = indices.sparse_dim
        if axis is None:
            need_tensors("gather", source)
            raise dim_error(
                "gather: which axis?",
                {"source": source, "indices": indices},
                "The indices have no sparse_dim, so name the axis:",
                "rf.gather(x, indices=i, axis=...)",
            )
    if clip_to_valid:  # by the lengths of source: the indices have all its dims then
        need_tensors("gather", source)
        check_remade("gather", [("source", source.dims), ("indices", indices.dims)], but=(axis,))
        check_lengths_here("gather", [("source", source.dims), ("indices", indices.dims)], axis, "source")
        indices = _clipped(indices, axis)
        if axis.extent == 0 or (axis.lengths is not None and (axis.lengths == 0).any()):
            return _gather_or_zero(source, indices, axis)
    try:
        fn, dims, unseen = _gather_plans[source._raw.__class__, source.dims, indices.dims, axis]
    except AttributeError:
        need_values("gather", source, indices)
        raise
    except KeyError:
        together = aligned("gather", (source, indices), (axis,))
        if together is not None:
            source, indices = together
            return gather(source, indices=indices, axis=dim_among(axis, (source,)))
        key = (source._raw.__class__, source.dims, indices.dims, axis)
        fn, dims, unseen = _gather_plans.make(key, _plan_gather, source, indices, looked_up(source.dims, axis))
    if unseen is not None and not unseen:
        if on_host(indices.device):
            check_not_negative("gather", "indices", indices, axis)  # this kernel counts from the end without a word
        unseen[True] = True
    try:
        raw = fn(source._raw, indices._raw)
    except (IndexError, RuntimeError) as error:
        check_devices("gather", source, indices)
        raw = fn(source._raw, mended(error, "gather", "indices", indices, axis, ("source", source))._raw)
    out = new_tensor(raw, dims, source)
    return picked(out, source) if _steps else out


_gather_plans = PlanCache()


def _gather_one(source: Tensor, index: Any, axis: Dim | None, clip_to_valid: bool) -> Tensor:
    """The entry at an int index along `axis`, which is dropped."""
    need_tensors("gather", source)
    if isinstance(index, float):
        raise type_error(
            "gather: the index is a float.",
            {"source": source, "index": index},
            "Indices are integers.",
            f"rf.gather(source, indices={int(index)}, axis=...)",
        )
    if not isinstance(index, (int, np.integer)):
        raise not_a_tensor("gather", index)
    if axis is None:
        raise TypeError("gather: an int index needs the axis.\n    rf.gather(x, indices=0, axis=time)")
    axis, index = looked_up(source.dims, axis), int(index)
    place = source.axis_of(axis, "gather")
    if clip_to_valid:
        return _gather_in_each(source, index, axis, clip_to_valid)
    if axis.size is None and (watching or axis._memo is None or not 0 <= index < axis._memo.get("shortest", 0)):
        ragged = axis.has_padding() and set(axis.length_dims) <= set(source.dims)
        if ragged and index < 0:
            return _gather_in_each(source, index, axis, clip_to_valid)
        if ragged and index < axis.extent:
            _warn_of_some(source, index, axis)
    if not -axis.extent <= index < axis.extent:
        raise _past_the_end(source, index, axis)
    raw = source.backend.select_raw(source._raw, place, index % axis.extent)
    return picked(source._like(raw, source.dims[:place] + source.dims[place + 1 :]), source)


def _gather_in_each(source: Tensor, index: int, axis: Dim, clip_to_valid: bool) -> Tensor:
    """The frame at an int index in each sequence."""
    lengths = np.asarray(axis.extent if axis.lengths is None else axis.lengths)
    if not clip_to_valid and (shortest := _shortest(axis)) < -index:
        raise _past_the_end(source, index, axis, shortest)
    positions = np.clip(lengths + index if index < 0 else np.full_like(lengths, index), 0, None)
    raw = source.backend.from_numpy(positions, dtype="int64", device=source.device)
    return gather(source, indices=new_tensor(raw, axis.length_dims), axis=axis, clip_to_valid=clip_to_valid)


def _shortest(axis: Dim) -> int:
    """The length of the shortest sequence; lengths that are themselves padding do not count."""
    lengths, real = axis.lengths, real_entries(axis.length_dims)
    return (
        axis.extent if lengths is None else int((lengths if real is None else lengths[real]).min(initial=axis.extent))
    )


def _warn_of_some(source: Tensor, index: int, axis: Dim) -> None:
    """Warn about an index that some sequences lack, once for these lengths."""
    shortest = _shortest(axis)
    axis._masks.keep("shortest", shortest, 0)
    if axis._masks.get("warned") is not None or shortest > index:
        return
    axis._masks.keep("warned", True, 0)
    name = axis.name if axis.name.isidentifier() else f"source.dims[{source.dims.index(axis)}]"
    rows = {"source": source, "axis": axis, "shortest": f"{shortest} frames"}
    rule = "For sequences that end earlier, the result is padding. Take their last frame instead, or mask the result:"
    fix = f"rf.gather(source, indices={index}, axis={name}, clip_to_valid=True)\nrf.where({name}.get_size_tensor() > {index}, ..., 0)"
    warn_user(message(f"gather: some sequences of {axis.short_repr()} have no frame {index}.", rows, rule, fix))


def _past_the_end(source: Tensor, index: int, axis: Dim, shortest: int | None = None) -> IndexError:
    name = axis.name if axis.name.isidentifier() else f"source.dims[{source.dims.index(axis)}]"
    allowed = f"{-axis.extent} to {axis.extent - 1}" if axis.extent else "none: it is empty"
    lines = [f"rf.gather(source, indices={axis.extent - 1 if index > 0 else 0}, axis={name})"] if axis.extent else []
    longest = " of each sequence" if axis.is_dynamic() else ""
    if shortest is not None:
        allowed = (
            f"{-shortest} to {shortest - 1} in the shortest sequence" if shortest else "none: one sequence is empty"
        )
        lines = [f"rf.gather(source, indices={index}, axis={name}, clip_to_valid=True)    # the nearest frame there is"]
    elif longest:
        last = f"rf.last_frame_position_of_dim({name})"
        lines.append(f"rf.gather(source, indices={last}, axis={name})    # the last of each sequence")
    return index_error(
        f"gather: there is no index {index} of {axis.short_repr()}.",
        {"source": source, "axis": axis, "allowed": allowed},
        f"Indices count from 0, or as -1, -2, ... from the end{longest}:",
        "\n".join(lines) or None,
    )


def _clipped(indices: Tensor, axis: Dim) -> Tensor:
    """The indices, clipped to at least 0 and at most the last frame of each sequence (0 if it has none)."""
    last: Tensor | int = max(axis.extent - 1, 0)
    if not axis.is_static():
        last = cast(dim_ops.last_frame_position_of_dim(axis, device=indices.device), indices.dtype)
    return math.clip_by_value(indices, 0, last, allow_broadcast_all_sources=True)


def _gather_or_zero(source: Tensor, indices: Tensor, axis: Dim) -> Tensor:
    """Gather by clipped indices where some sequences along `axis` have no frame: 0 for these, whether alone or in a batch."""
    axis = looked_up(source.dims, axis)
    fn, dims, _ = _plan_gather(source, indices, axis)
    backend, raw, zero = source.backend, source._raw, False if source.dtype == "bool" else 0
    if axis.extent == 0:  # an array without frames has none to pick: one of zeros
        raw = backend.pad_raw(raw, [(0, int(dim is axis)) for dim in source.dims], zero)
    picked = source._like(fn(raw, indices._raw), dims)
    if axis.lengths is None:
        return picked
    has_frames = backend.from_numpy(axis.lengths > 0, dtype="bool", device=source.device)
    return where(new_tensor(has_frames, axis.length_dims), picked, zero)


def _plan_gather(source: Tensor, indices: Tensor, axis: Dim) -> Any:
    need_values("gather", source, indices)
    check_integers("gather", "indices", indices, ("source", source))
    check_dim("gather", source, axis, "source")
    check_remade("gather", [("source", source.dims), ("indices", indices.dims)], but=(axis,))
    backend = common_backend("gather", source, indices)
    common = tuple(dim for dim in source.dims if dim in indices.dims and dim is not axis)
    own = tuple(dim for dim in indices.dims if dim not in common)
    index = source.dims.index(axis)
    if not common:
        dims = source.dims[:index] + own + source.dims[index + 1 :]
        take = backend.take_raw
        return _guarded(lambda raw, raw_indices: take(raw, raw_indices, index), indices.dims, backend), dims, None
    rest = tuple(dim for dim in source.dims if dim not in common and dim is not axis)
    order = to_order(source.dims, (*common, axis, *rest), backend)
    order_indices = to_order(indices.dims, common + own, backend)
    dims_raw = common + own + rest
    dims = tuple(part for dim in source.dims for part in (own if dim is axis else (dim,)))
    back, take, count = to_order(dims_raw, dims, backend), backend.batched_take_raw, len(common)

    def fn(raw: Any, raw_indices: Any) -> Any:
        raw = raw if order is None else order(raw)
        raw_indices = raw_indices if order_indices is None else order_indices(raw_indices)
        out = take(raw, raw_indices, count)
        return out if back is None else back(out)

    unseen = Memo() if len(source.dims) > count + 1 else None  # of indices over these dims, the first are looked at
    return _guarded(fn, indices.dims, backend), dims, unseen


def _guarded(fn: Any, dims: Dims, backend: Any) -> Any:
    """`fn` applied to indices with 0 in their padding, where an index out of range would be fatal (on a GPU)."""
    known = tuple(dim for dim in dims if set(dim.length_dims) <= set(dims))
    mask, where_raw, on_host_raw = masks_for(dims, known, backend, "gather"), backend.where_raw, backend.is_on_host_raw
    if mask is None:
        return fn

    def guarded(raw: Any, raw_indices: Any) -> Any:
        return fn(raw, raw_indices if on_host_raw(raw_indices) else where_raw(mask(raw_indices), raw_indices, 0))

    return guarded
