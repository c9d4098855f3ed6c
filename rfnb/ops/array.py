"""Rearranging: cast, merge, split, concat, pad, gather, slice, shift, reverse, stack, one-hot."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rfnb.core.dim import Dim
from rfnb.core.errors import DimError, message
from rfnb.core.layout import PlanCache, full_shape, masks_for, to_order, union, view
from rfnb.core.tensor import Tensor, check_unique, dims_text, missing_dim, new_tensor, operand_rows, shape_of
from rfnb.ops import dims as dim_ops
from rfnb.ops import math
from rfnb.ops.math import _common_backend

_make = Tensor.__new__


def copy(tensor: Tensor) -> Tensor:
    """A real copy."""
    return tensor._like(tensor.backend.copy_raw(tensor._raw), tensor.dims)


def cast(tensor: Tensor, dtype: str) -> Tensor:
    """Another dtype; the same object if it is that already. Marks are kept."""
    if tensor.dtype == dtype:
        return tensor
    return tensor._like(tensor.backend.cast_raw(tensor._raw, dtype), tensor.dims)


def merge_dims(source: Tensor, *, dims: Sequence[Dim], out_dim: Dim | None = None) -> tuple[Tensor, Dim]:
    """Flatten `dims` (first is major) into one, at the place of the first merged axis.

    Args:
        source: {..., dims}
        out_dim: Default: the product of the dims; if any but the first is ragged, a new dim of plain size (padding included),
            since a product of lengths would not describe where the frames are.

    Returns:
        {..., out_dim}, out_dim.
    """
    dims = tuple(dims)
    key = (source._raw.__class__, source.dims, dims, out_dim)
    try:
        order, reshape, shape, out_dims, merged = _merge_plans[key]
    except KeyError:
        if not dims:
            out_dim = out_dim or Dim(1, name="merged")
            return expand_dim(source, out_dim), out_dim
        if len(dims) == 1:
            return dim_ops.replace_dim(source, in_dim=dims[0], out_dim=out_dim) if out_dim else (source, dims[0])
        order, reshape, shape, out_dims, merged = _merge_plans.put(key, _plan_merge(source, dims, out_dim))
    raw = source._raw if order is None else order(source._raw)
    out = new_tensor(reshape(raw, shape), out_dims)
    if source.sparse_dim is not None:
        out.sparse_dim = source.sparse_dim
    feature = source._feature_dim
    if feature is not None:
        out._feature_dim = merged if feature in dims else feature
    return out, merged


_merge_plans = PlanCache()


def _plan_merge(source: Tensor, dims: tuple[Dim, ...], out_dim: Dim | None) -> Any:
    axes = [source.axis_of(dim, "merge_dims") for dim in dims]
    volume = int(np.prod(full_shape(dims)))
    if out_dim is None:
        if any(dim.need_masking() for dim in dims[1:]):
            out_dim = Dim(volume, name="*".join(dim.name for dim in dims))
        else:
            out_dim = dims[0]
            for dim in dims[1:]:
                out_dim = out_dim * dim
    _define(out_dim, volume)
    _check_size("merge_dims", out_dim, volume)
    rest = [dim for dim in source.dims if dim not in dims]
    place = sum(1 for dim in rest if source.dims.index(dim) < min(axes))
    before, after = tuple(rest[:place]), tuple(rest[place:])
    order = to_order(source.dims, before + dims + after, source.backend)
    shape = (*full_shape(before), volume, *full_shape(after))
    out_dims = check_unique((*before, out_dim, *after), "merge_dims")
    return order, source.backend.reshape_raw, shape, out_dims, out_dim


def _define(dim: Dim, size: int) -> None:
    if not dim.is_dim_known():
        dim.dyn_size_ext = np.int32(size)


def _check_size(what: str, out_dim: Dim, size: int) -> None:
    if out_dim.extent != size:
        raise DimError(
            message(
                f"{what}: out_dim has another size.",
                [("out_dim", out_dim.short_repr()), ("needed", size)],
                "An out_dim fits, or has no size yet and takes it over.",
                f'Dim(None, name="{out_dim.name}")',
            )
        )


def split_dims(source: Tensor, *, axis: Dim, dims: Sequence[Dim]) -> Tensor:
    """Split `axis` into `dims` (first is major); at most one of them may have no size yet.

    Raises:
        DimError: If the sizes do not multiply to that of axis.
    """
    index = source.axis_of(axis, "split_dims")
    unknown = [dim for dim in dims if not dim.is_dim_known()]
    known = int(np.prod([dim.extent for dim in dims if dim not in unknown]))
    if len(unknown) == 1 and known and axis.extent % known == 0:
        _define(unknown[0], axis.extent // known)
    elif unknown or known != axis.extent:
        raise DimError(
            message(
                "split_dims: the sizes do not multiply to the size of the axis.",
                [
                    ("source", shape_of(source)),
                    ("axis", axis.short_repr()),
                    ("dims", " * ".join(d.short_repr() for d in dims)),
                ],
                "A split keeps the number of entries.",
            )
        )
    out_dims = (*source.dims[:index], *dims, *source.dims[index + 1 :])
    check_unique(out_dims, "split_dims")
    raw = source.backend.reshape_raw(source._raw, full_shape(out_dims))
    return source._like(raw, out_dims)


def split(source: Tensor, *, axis: Dim, out_dims: Sequence[Dim]) -> tuple[Tensor, ...]:
    """Cut a static `axis` into consecutive pieces, one per dim of `out_dims`.

    Raises:
        DimError: If the sizes do not add up to that of axis.
    """
    index = source.axis_of(axis, "split")
    if sum(dim.extent for dim in out_dims) != axis.extent:
        raise DimError(
            message(
                "split: the pieces do not add up to the axis.",
                [("axis", axis.short_repr()), ("out_dims", ", ".join(dim.short_repr() for dim in out_dims))],
                "The pieces cover the axis exactly.",
            )
        )
    pieces, start = [], 0
    for dim in out_dims:
        raw = source.backend.slice_raw(source._raw, index, start, start + dim.extent)
        start += dim.extent
        piece_dims = check_unique((*source.dims[:index], dim, *source.dims[index + 1 :]), "split")
        piece = source._like(raw, piece_dims)
        if source.feature_dim is axis:
            piece.feature_dim = dim
        pieces.append(piece)
    return tuple(pieces)


def expand_dim(source: Tensor, dim: Dim) -> Tensor:
    """Repeat along a new dim, without copying; static dims go before the feature axis, dynamic ones after the last dynamic.

    Raises:
        DimError: If the dim is there already.
    """
    if dim in source.dims:
        raise DimError(
            message(
                "expand_dim: the dim is there already.",
                [("source", shape_of(source)), ("dim", dim.short_repr())],
                "A dim occurs once.",
            )
        )
    if dim.is_static():
        place = len(source.dims)
        if source.feature_dim is not None:
            place = source.dims.index(source.feature_dim)
    else:
        place = max((axis + 1 for axis, other in enumerate(source.dims) if other.is_dynamic()), default=0)
    dims = (*source.dims[:place], dim, *source.dims[place:])
    backend = source.backend
    raw = backend.expand_raw(backend.expand_dims_raw(source._raw, place), full_shape(dims))
    return source._like(raw, dims)


def expand_dims(source: Tensor, dims: Sequence[Dim]) -> Tensor:
    """`expand_dim` for several dims."""
    for dim in dims:
        source = expand_dim(source, dim)
    return source


def squeeze(source: Tensor, axis: Dim) -> Tensor:
    """Drop an axis of static size 1."""
    index = source.axis_of(axis, "squeeze")
    if axis.size != 1:
        raise DimError(
            message("squeeze: the axis is not of size 1.", [("source", shape_of(source)), ("axis", axis.short_repr())],
                    "Only an axis of one entry can go without losing values.", f"rf.gather(x, indices=0, axis={axis.name})")
        )  # fmt: skip
    return source._like(
        source.backend.squeeze_raw(source._raw, (index,)), source.dims[:index] + source.dims[index + 1 :]
    )


_concat_plans = PlanCache()


def concat(
    *sources: tuple[Tensor, Dim],
    allow_broadcast: bool = False,
    out_dim: Dim | None = None,
    handle_dynamic_dims: bool | None = None,
) -> tuple[Tensor, Dim]:
    """Join (tensor, dim) pairs along their dims.

    If any dim but the last is ragged, the frames of each sequence are joined without padding between the parts
    (`handle_dynamic_dims=False` joins the raw arrays).

    Returns:
        {other dims, out_dim}, out_dim: by default the sum of the dims.

    Raises:
        DimError: If the other dims differ, unless `allow_broadcast`.
    """
    key = (
        *((tensor._raw.__class__, tensor.dims, dim) for tensor, dim in sources),
        out_dim,
        allow_broadcast,
        handle_dynamic_dims,
    )
    try:
        concat_raw, fns, axis, dims, out_dim, ragged = _concat_plans[key]
    except KeyError:
        plan = _plan_concat(sources, out_dim, allow_broadcast, handle_dynamic_dims is not False)
        concat_raw, fns, axis, dims, out_dim, ragged = _concat_plans.put(key, plan)
    if fns is None:
        raws = [tensor._raw for tensor, _ in sources]
    else:
        raws = [tensor._raw if fn is None else fn(tensor._raw) for (tensor, _), fn in zip(sources, fns)]
    out = new_tensor(concat_raw(raws, axis), dims)
    first = sources[0][0]
    if first.sparse_dim is not None:
        out.sparse_dim = first.sparse_dim
    if first._feature_dim is not None and first._feature_dim in dims:
        out._feature_dim = first._feature_dim
    if ragged:
        padded = Dim(sum(dim.extent for _, dim in sources), name="joined")
        joined = out._like(out._raw, tuple(padded if dim is out_dim else dim for dim in dims))
        out = gather(joined, indices=_packed_positions(sources, out_dim, padded, out), axis=padded).copy_transpose(dims)
    return out, out_dim


def _plan_concat(sources: Any, out_dim: Dim | None, allow_broadcast: bool, handle_dynamic_dims: bool) -> Any:
    if not sources:
        fix = "rf.concat((a, a_dim), (b, b_dim))"
        raise ValueError(message("concat: of nothing.", [("sources", "none")], "It takes (tensor, dim) pairs.", fix))
    backend = _common_backend("concat", *(tensor for tensor, _ in sources))
    total = sources[0][1]
    for _, dim in sources[1:]:
        total = total + dim
    ragged = any(dim.has_padding() for _, dim in sources[:-1])
    if ragged and not handle_dynamic_dims:  # with the padding in the middle, lengths would not describe it
        ragged, total = False, Dim(sum(dim.extent for _, dim in sources), name=total.name)
    out_dim = total if out_dim is None else out_dim
    if not out_dim.is_dim_known():
        out_dim.dyn_size_ext = total.get_size_tensor()
    _check_size("concat", out_dim, total.extent)
    rests = [tuple(dim for dim in tensor.dims if dim is not axis) for tensor, axis in sources]
    for tensor, axis in sources:
        tensor.axis_of(axis, "concat")
    first_tensor, first_axis = sources[0]
    full = union("concat", [(f"source {i}", rest) for i, rest in enumerate(rests)], outer=True)
    place = first_tensor.dims.index(first_axis)
    if any(len(rest) != len(full) for rest in rests):
        if not allow_broadcast:
            raise DimError(
                message(
                    "concat: the dims beside the joined ones differ.",
                    operand_rows([(f"source {i}", tensor) for i, (tensor, _) in enumerate(sources)]),
                    "All sources need the same other dims; if a source should be repeated, say so:",
                    "rf.concat(..., allow_broadcast=True)",
                )
            )
        place = len(full)
    else:
        full = rests[0]
    fns = []
    for (tensor, axis), rest in zip(sources, rests):
        target = (*full[:place], axis, *full[place:])
        shape = view(tensor.dims, target, backend)
        if len(rest) != len(full):
            size, inner = full_shape(target), shape
            shape = lambda raw, inner=inner, size=size: backend.expand_raw(raw if inner is None else inner(raw), size)  # noqa: E731
        fns.append(shape)
    dims = check_unique((*full[:place], out_dim, *full[place:]), "concat")
    return backend.concat_raw, fns if any(fns) else None, place, dims, out_dim, ragged


def _packed_positions(sources: Any, out_dim: Dim, padded: Dim, like: Tensor) -> Tensor:
    """Where frame t of each joined sequence stands among the joined padded arrays; {length dims, out_dim}."""
    frames = dim_ops.range_over_dim(out_dim, dtype="int64")
    position, start, offset = frames, None, 0
    for _, dim in sources[:-1]:
        length = _length_of(dim)
        start = length if start is None else math.combine_bc(start, "add", length)
        offset += dim.extent
        shifted = math.combine_bc(frames, "sub", start) + offset
        position = math.where(
            math.compare_bc(frames, "greater_equal", start), shifted, position, allow_broadcast_all_sources=True
        )
    position = math.clip_by_value(position, 0, padded.extent - 1)
    return _on_device(position, like)


def _length_of(dim: Dim) -> Any:
    return dim.size if dim.size is not None else cast(dim.get_size_tensor(), "int64")


def concat_features(*sources: Tensor, allow_broadcast: bool = False) -> Tensor:
    """Join along each source's feature_dim; the result has it marked.

    Raises:
        DimError: If a source has no feature_dim.
    """
    for index, source in enumerate(sources):
        if source.feature_dim is None:
            raise DimError(
                message(f"concat_features: source {index} has no feature_dim.", [(f"source {index}", shape_of(source))],
                        "Mark the dim to join along, or name it:", "rf.concat((a, a_dim), (b, b_dim))")
            )  # fmt: skip
    pairs = [(source, source.feature_dim) for source in sources if source.feature_dim is not None]
    out, dim = concat(*pairs, allow_broadcast=allow_broadcast)
    out.feature_dim = dim
    return out


def stack(sources: Sequence[Tensor], *, out_dim: Dim | None = None) -> tuple[Tensor, Dim]:
    """A new leading dim over tensors of the same dims.

    Raises:
        DimError: If their dims differ.
        ValueError: Of nothing.
    """
    if not sources:
        raise ValueError(message("stack: of nothing.", [("sources", "none")], "The dims come from the first tensor."))
    first = sources[0]
    out_dim = out_dim or Dim(len(sources), name="stack")
    _define(out_dim, len(sources))
    _check_size("stack", out_dim, len(sources))
    dims = check_unique((out_dim, *first.dims), "stack")
    for index, source in enumerate(sources):
        if set(source.dims) != set(first.dims):
            raise DimError(
                message("stack: the dims differ.", operand_rows([("source 0", first), (f"source {index}", source)]),
                        "Stacked tensors have the same dims.")
            )  # fmt: skip
    raws = [source.copy_transpose(first.dims)._raw for source in sources]
    return first._like(first.backend.stack_raw(raws, 0), dims), out_dim


def unstack(source: Tensor, *, axis: Dim) -> tuple[Tensor, ...]:
    """One tensor per entry of a static `axis`."""
    return tuple(gather(source, indices=index, axis=axis) for index in range(axis.extent))


_gather_plans = PlanCache()


def gather(source: Tensor, *, indices: Tensor | int, axis: Dim | None = None, clip_to_valid: bool = False) -> Tensor:
    """Pick entries along `axis`.

    Args:
        source: {..., axis}
        indices: int {...}; dims in common with source (besides axis) are batch dims. An int drops the axis.
        axis: Default: the sparse_dim of indices.
        clip_to_valid: Clip the indices to each sequence's real frames.

    Returns:
        The dims of source, with axis replaced by the further dims of indices.

    Raises:
        DimError: If axis is not a dim of source.
    """
    if isinstance(indices, int):
        if axis is None:
            raise TypeError("gather: an int index needs the axis.\n    rf.gather(x, indices=0, axis=time)")
        index = source.axis_of(axis, "gather")
        if not -axis.extent <= indices < axis.extent:
            raise IndexError(
                f"gather: index {indices} of {axis.short_repr()}.\n  source  {shape_of(source)}\nIndices start at 0."
            )
        raw = source.backend.select_raw(source._raw, index, indices % axis.extent)
        return source._like(raw, source.dims[:index] + source.dims[index + 1 :])
    if axis is None:
        axis = indices.sparse_dim
        if axis is None:
            raise DimError(
                message("gather: which axis?", [("source", shape_of(source)), ("indices", shape_of(indices))],
                        "The indices have no sparse_dim, so name the axis:", "rf.gather(x, indices=i, axis=...)")
            )  # fmt: skip
    if clip_to_valid:
        last = (
            cast(dim_ops.last_frame_position_of_dim(axis), indices.dtype) if not axis.is_static() else axis.extent - 1
        )
        indices = math.clip_by_value(indices, 0, last)
    try:
        fn, dims = _gather_plans[source._raw.__class__, source.dims, indices.dims, axis]
    except KeyError:
        key = (source._raw.__class__, source.dims, indices.dims, axis)
        fn, dims = _gather_plans.put(key, _plan_gather(source, indices, axis))
    out = _make(Tensor)
    out._raw = fn(source._raw, indices._raw)
    out.dims = dims
    if source.sparse_dim is not None:
        out.sparse_dim = source.sparse_dim
    feature = source._feature_dim
    if feature is not None and feature in dims:
        out._feature_dim = feature
    return out


def _plan_gather(source: Tensor, indices: Tensor, axis: Dim) -> Any:
    if axis not in source.dims:
        raise missing_dim("gather", source, axis, "source")
    backend = _common_backend("gather", source, indices)
    common = tuple(dim for dim in source.dims if dim in indices.dims and dim is not axis)
    own = tuple(dim for dim in indices.dims if dim not in common)
    index = source.dims.index(axis)
    if not common:
        dims = source.dims[:index] + own + source.dims[index + 1 :]
        take = backend.take_raw
        return (lambda raw, raw_indices: take(raw, raw_indices, index)), dims
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

    return fn, dims


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
    _check_size("slice", out_dim, dim.extent)
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
        _check_size("pad", out_dim, width[0] + axis.extent + width[1])
    check_unique(tuple(dims), "pad")
    backend = source.backend
    out = source._like(backend.pad_raw(source._raw, widths, value), tuple(dims))
    for axis, (left, right), out_dim in zip(axes, padding, out_dims):
        if right and axis.has_padding():
            inside = left + axis  # its lengths end where the padding on the right begins
            frames = dim_ops.range_over_dim(out_dim, dtype="int32", device=out.device)
            real = math.compare_bc(frames, "less", _on_device(inside.get_size_tensor(), out))
            out = out._like(math.where(real, out, value).copy_transpose(dims)._raw, tuple(dims))
    return out, list(out_dims)


def _on_device(tensor: Tensor, like: Tensor) -> Tensor:
    if tensor.device == like.device:
        return tensor
    return tensor._like(tensor.backend.to_device_raw(tensor._raw, like.device), tensor.dims)


def _check_movable(what: str, tensor: Tensor, axis: Dim) -> None:
    """Frames cannot change places within an axis that the lengths of another dim are over."""
    for dim in tensor.dims:
        if axis in dim.length_dims:
            raise DimError(
                message(
                    f"{what}: the lengths of {dim.short_repr()} are over {axis.short_repr()}.",
                    [
                        ("tensor", shape_of(tensor)),
                        ("axis", axis.short_repr()),
                        ("lengths", dims_text(dim.length_dims)),
                    ],
                    "Frames that change places would leave their lengths behind. Work on a copy of the axis with its own lengths, or "
                    f"without {dim.name}.",
                )
            )


def shift_right(source: Tensor, *, axis: Dim, pad_value: float | int, amount: int = 1) -> Tensor:
    """Each sequence moved by `amount` frames to the right, `pad_value` in front; same dims."""
    _check_movable("shift_right", source, axis)
    padded, (longer,) = pad(source, axes=[axis], padding=[(amount, 0)], value=pad_value)
    index = padded.axis_of(longer)
    raw = padded.backend.slice_raw(padded._raw, index, 0, axis.extent)
    return source._like(raw, source.dims)


def shift_left(source: Tensor, *, axis: Dim, pad_value: float | int, amount: int = 1) -> Tensor:
    """Each sequence moved by `amount` frames to the left, `pad_value` at each sequence's end; same dims."""
    _check_movable("shift_left", source, axis)
    padded, (longer,) = pad(source, axes=[axis], padding=[(0, amount)], value=pad_value)
    index = padded.axis_of(longer)
    raw = padded.backend.slice_raw(padded._raw, index, amount, amount + axis.extent)
    return source._like(raw, source.dims)


def reverse_sequence(tensor: Tensor, *, axis: Dim, handle_dynamic_dims: bool = True) -> Tensor:
    """The real frames of each sequence in reverse order; padding stays at the end."""
    index = tensor.axis_of(axis, "reverse_sequence")
    _check_movable("reverse_sequence", tensor, axis)
    if not handle_dynamic_dims or not axis.has_padding():
        return tensor._like(tensor.backend.flip_raw(tensor._raw, index), tensor.dims)
    masks_for(tensor.dims, [axis], tensor.backend, "reverse_sequence")
    lengths = np.minimum(np.asarray(axis.lengths), axis.extent)[..., None].astype(
        np.int64
    )  # lengths may have padding themselves
    steps = np.arange(axis.extent)
    positions = np.where(steps < lengths, lengths - 1 - steps, steps)
    raw = tensor.backend.from_numpy(positions, dtype="int64", device=tensor.device)
    return gather(tensor, indices=new_tensor(raw, (*axis.length_dims, axis)), axis=axis).copy_transpose(tensor.dims)


def one_hot(source: Tensor) -> Tensor:
    """1.0 at the index, 0.0 elsewhere; {dims of source, sparse_dim}, feature_dim is the sparse dim."""
    return sparse_to_dense(source, label_value=1.0, other_value=0.0)


def sparse_to_dense(labels: Tensor, *, label_value: float, other_value: float, axis: Dim | None = None) -> Tensor:
    """`label_value` at the index, `other_value` elsewhere; {dims of labels, axis}; axis defaults to the sparse_dim."""
    axis = axis or labels.sparse_dim
    if axis is None:
        raise DimError(
            message(
                "sparse_to_dense: into which dim?",
                [("labels", shape_of(labels))],
                "The labels have no sparse_dim.",
                "rf.set_sparse_dim(labels, vocab)",
            )
        )
    raw = labels.backend.one_hot_raw(labels._raw, axis.extent, label_value, other_value, "float32")
    out = new_tensor(raw, (*labels.dims, axis))
    out.feature_dim = axis
    return out
