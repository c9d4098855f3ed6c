"""Concatenation along dims, and splitting."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from types import MappingProxyType
from typing import Any, Never

from rfnb.core.dim import Dim, Dims
from rfnb.core.dim_identity import check_remade, dim_among
from rfnb.core.errors import dim_error, type_error, value_error
from rfnb.core.generations import aligned, only_beams, with_beams
from rfnb.core.layout import PlanCache, union, view
from rfnb.core.op import op
from rfnb.core.plan_parts import Shape
from rfnb.core.tensor import Tensor, keep_marks, new_tensor
from rfnb.core.tensor_checks import check_lengths_here, check_unique
from rfnb.core.tensor_text import operand_rows, shape_of
from rfnb.core.type_errors import not_a_tensor
from rfnb.ops import dims as dim_ops
from rfnb.ops import math
from rfnb.ops.cast import cast
from rfnb.ops.expand import expand_dim
from rfnb.ops.gather import gather
from rfnb.ops.operands import check_devices, common_backend, need_tensors, need_values
from rfnb.ops.out_dim import settle_size
from rfnb.ops.where import where


@op
def concat(
    *sources: tuple[Tensor, Dim],
    allow_broadcast: bool = False,
    out_dim: Dim | None = None,
    handle_dynamic_dims: bool | None = None,
    **unknown: Never,
) -> tuple[Tensor, Dim]:
    """Concatenate (tensor, dim) pairs along their dims.

    If any dim but the last is ragged, the frames of each sequence are concatenated without padding between the parts
    (`handle_dynamic_dims=False` concatenates the raw arrays).

    Returns:
        {other dims, out_dim}, out_dim: by default the sum of the dims.

    Raises:
        DimError: If the other dims differ, unless `allow_broadcast`.
    """
    if unknown:
        raise _no_pairs(sources, unknown)
    try:
        if len(sources) == 2:  # without a loop: what a search does in each of its steps
            (first, dim), (second, other) = sources
            raws = [raw, raw_2] = [first._raw, second._raw]
            key: Any = (
                raw.__class__, first.dims, dim, raw_2.__class__, second.dims, other, out_dim, allow_broadcast, handle_dynamic_dims,
            )  # fmt: skip
        else:
            second = None
            raws = [tensor._raw for tensor, _ in sources]
            parts = tuple([(tensor._raw.__class__, tensor.dims, dim) for tensor, dim in sources])
            key = (parts, out_dim, allow_broadcast, handle_dynamic_dims)
    except (AttributeError, TypeError, ValueError):
        if all(isinstance(source, (tuple, list)) and len(source) == 2 for source in sources):
            need_values("concat", *(tensor for tensor, _ in sources))
        raise _no_pairs(sources) from None
    try:
        concat_raw, fns, axis, dims, out_dim, ragged = _concat_plans[key]
    except KeyError:
        together = aligned("concat", tuple(tensor for tensor, _ in sources))
        if together is not None:
            pairs = [(tensor, dim_among(axis, (tensor,))) for tensor, (_, axis) in zip(together, sources)]
            return concat(
                *pairs, allow_broadcast=allow_broadcast, out_dim=out_dim, handle_dynamic_dims=handle_dynamic_dims
            )
        concat_raw, fns, axis, dims, out_dim, ragged = _concat_plans.make(
            key, _plan_concat, sources, out_dim, allow_broadcast, handle_dynamic_dims is not False
        )
    if fns is not None:
        raws = [raw if fn is None else fn(raw) for raw, fn in zip(raws, fns)]
    try:
        out = new_tensor(concat_raw(raws, axis), dims, sources[0][0])
    except RuntimeError:
        check_devices("concat", *(tensor for tensor, _ in sources))
        raise
    if second is None or second.sparse_dim is not None or second._feature_dim is not None:
        for further, _ in sources[1:]:
            keep_marks(out, further)
    if ragged:
        padded = Dim(sum(dim.extent for _, dim in sources), name="joined")
        joined = out._like(out._raw, tuple(padded if dim is out_dim else dim for dim in dims))
        out = gather(joined, indices=_packed_positions(sources, out_dim, padded, out), axis=padded).copy_transpose(dims)
    return out, out_dim


_concat_plans = PlanCache()


def _no_pairs(sources: Any, unknown: Mapping[str, Any] = MappingProxyType({})) -> TypeError:
    """The error for sources without the dim to concatenate along."""
    if len(sources) == 1 and isinstance(sources[0], (list, tuple)):
        sources = sources[0]
    rows = [(f"source {place}", _part_text(each)) for place, each in enumerate(sources)]
    rows += [(name, _part_text(value)) for name, value in unknown.items()]
    dims = [value for value in unknown.values() if isinstance(value, Dim)]
    dim = dims[0].name if dims and dims[0].name.isidentifier() else "dim"
    letters = "abcdefghij"[: max(len(sources), 2)]
    return type_error(
        "concat: it takes (tensor, dim) pairs.",
        rows,
        "Each source has a dim of its own along which it is joined, and the result a new one:",
        f"joined, joined_dim = rf.concat({', '.join(f'({letter}, {dim})' for letter in letters)})",
    )


def _part_text(part: Any) -> str:
    if isinstance(part, (list, tuple)):
        return f"({', '.join(map(_part_text, part))})"
    if isinstance(part, Tensor):
        return shape_of(part)
    return part.short_repr() if isinstance(part, Dim) else type(part).__name__


def _plan_concat(sources: Any, out_dim: Dim | None, allow_broadcast: bool, handle_dynamic_dims: bool) -> Any:
    if not sources:
        fix = "rf.concat((a, a_dim), (b, b_dim))"
        raise value_error("concat: no sources.", {"sources": "none"}, "It takes (tensor, dim) pairs.", fix)
    backend = common_backend("concat", *(tensor for tensor, _ in sources))
    total = sources[0][1]
    for _, dim in sources[1:]:
        total = total + dim
    ragged = any(dim.has_padding() for _, dim in sources[:-1])
    if ragged and not handle_dynamic_dims:  # with the padding in the middle, lengths would not describe it
        ragged, total = False, Dim(sum(dim.extent for _, dim in sources), name=total.name)
    out_dim = total if out_dim is None else out_dim
    if out_dim is not total:
        settle_size("concat", out_dim, total)
    for place, (tensor, axis) in enumerate(sources if ragged else ()):
        check_lengths_here("concat", [(f"source {place}", tensor.dims)], axis)
    rests = [tuple(dim for dim in tensor.dims if dim is not axis) for tensor, axis in sources]
    for tensor, axis in sources:
        tensor.axis_of(axis, "concat")
    first_tensor, first_axis = sources[0]
    check_remade("concat", [(f"source {i}", rest) for i, rest in enumerate(rests)])
    full = union("concat", [(f"source {i}", rest) for i, rest in enumerate(rests)], outer=True)
    place = first_tensor.dims.index(first_axis)
    if any(len(rest) != len(full) for rest in rests):
        lacking = [dim for rest in rests for dim in full if dim not in rest]
        if not allow_broadcast and not only_beams(lacking):
            raise dim_error(
                "concat: the dims beside the joined ones differ.",
                operand_rows([(f"source {i}", tensor) for i, (tensor, _) in enumerate(sources)]),
                "All sources need the same other dims; if a source should be repeated, say so:",
                "rf.concat(..., allow_broadcast=True)",
            )
        place = len(full)
    else:
        full = rests[0]
    fns = []
    for (tensor, axis), rest in zip(sources, rests):
        target = (*full[:place], axis, *full[place:])
        shape = view(tensor.dims, target, backend)
        if len(rest) != len(full):
            shape = _repeated(shape, Shape(*target), backend)
        fns.append(shape)
    dims = check_unique((*full[:place], out_dim, *full[place:]), "concat")
    return backend.concat_raw, tuple(fns) if any(fns) else None, place, dims, out_dim, ragged


def _repeated(view: Any, shape: tuple[int, ...], backend: Any) -> Any:
    """A view expanded to `shape`."""
    return lambda raw: backend.broadcast_raw(raw if view is None else view(raw), shape)


def _packed_positions(sources: Any, out_dim: Dim, padded: Dim, like: Tensor) -> Tensor:
    """The position of frame t of each concatenated sequence in the concatenated padded arrays; {length dims, out_dim}."""
    frames = dim_ops.range_over_dim(out_dim, dtype="int64", device=like.device)
    position, start, offset = frames, None, 0
    for _, dim in sources[:-1]:
        length = _length_on(dim, like.device)
        start = length if start is None else math.combine_bc(start, "add", length)
        offset += dim.extent
        shifted = math.combine_bc(frames, "sub", start) + offset
        position = where(
            math.compare_bc(frames, "greater_equal", start), shifted, position, allow_broadcast_all_sources=True
        )
    return math.clip_by_value(position, 0, padded.extent - 1)


def _length_on(dim: Dim, device: str | None) -> Any:
    return dim.size if dim.size is not None else cast(dim.get_size_tensor(device=device), "int64")


@op
def concat_features(*sources: Tensor, allow_broadcast: bool = False, **unknown: Never) -> Tensor:
    """Concatenate along each source's feature_dim; the result has it marked; {..., feature of each} -> {..., their sum}.

    Raises:
        DimError: If a source has no feature_dim.
    """
    pairs = []
    for index, source in enumerate(sources):
        if not isinstance(source, Tensor):
            need_tensors("concat_features", *sources)
        dim = source._feature_dim
        if dim is None:
            raise dim_error(
                f"concat_features: source {index} has no feature_dim.",
                {f"source {index}": source},
                "Mark the dim to join along, or name it:",
                "rf.concat((a, a_dim), (b, b_dim))",
            )
        pairs.append((source, dim))
    out, joined = concat(*pairs, allow_broadcast=allow_broadcast)
    out._feature_dim = joined
    return out


@op
def split(source: Tensor, *extra: Never, axis: Dim, out_dims: Sequence[Dim], **unknown: Never) -> tuple[Tensor, ...]:
    """Split a static `axis` into consecutive pieces, one per dim of `out_dims`.

    {..., axis} -> {..., out_dim} for each of out_dims.

    Raises:
        DimError: If the sizes do not add up to that of axis.
    """
    if not isinstance(source, Tensor):
        raise not_a_tensor("split", source)
    out_dims = tuple(out_dims)
    raw = source._raw
    try:
        split_raw, sizes, index, dims = _split_plans[raw.__class__, source.dims, axis, out_dims]
    except KeyError:
        key = (raw.__class__, source.dims, axis, out_dims)
        split_raw, sizes, index, dims = _split_plans.make(key, _plan_split, source, axis, out_dims)
    finite = source._finite
    pieces = []
    for piece_raw, piece_dims in zip(split_raw(raw, sizes, index), dims):
        pieces.append(new_tensor(piece_raw, piece_dims, source, finite))
    if source._feature_dim is axis:
        for piece, dim in zip(pieces, out_dims):
            piece._feature_dim = dim
    return tuple(pieces)


_split_plans = PlanCache()


def _plan_split(source: Tensor, axis: Dim, out_dims: Dims) -> Any:
    index = source.axis_of(axis, "split")
    if (given := sum(dim.extent for dim in out_dims)) != axis.extent:
        fitting = ", ".join(f'rf.Dim({size}, name="{name}")' for size, name in _pieces(out_dims, axis.extent - given))
        raise dim_error(
            "split: the pieces do not add up to the axis.",
            {"axis": axis, "out_dims": ", ".join(dim.short_repr() for dim in out_dims)},
            "The pieces cover the axis exactly. As many entries as they have, and the rest:",
            f"rf.split(source, axis=axis, out_dims=[{fitting}])",
        )
    dims = tuple(check_unique((*source.dims[:index], dim, *source.dims[index + 1 :]), "split") for dim in out_dims)
    return source.backend.split_raw, Shape(*out_dims), index, dims


def _pieces(out_dims: Dims, rest: int) -> list[tuple[int, str]]:
    """The sizes and names of pieces, with another one for the remainder, or with fewer if they are too large."""
    if rest > 0:
        return [*((dim.extent, dim.name) for dim in out_dims), (rest, "rest")]
    left, sizes = sum(dim.extent for dim in out_dims) + rest, []
    for dim in out_dims:
        sizes.append((min(dim.extent, left), dim.name))
        left -= sizes[-1][0]
    return sizes


_one_frame = Dim(1, name="frame")


@op
def cum_concat_step(
    source: Tensor, *extra: Never, prev_accum: Tensor, axis: Dim, out_spatial_dim: Dim | None = None, **unknown: Never
) -> tuple[Tensor, Dim]:
    """Append one frame to the accumulated ones, e.g. to the keys and values of self-attention.

    Args:
        source: {...}, the new frame.
        prev_accum: {..., axis}
        out_spatial_dim: Default: axis + 1.

    Returns:
        {..., out_spatial_dim}, out_spatial_dim. The state of a loop carries both.

    Raises:
        DimError: If axis is not in prev_accum.
    """
    need_tensors("cum_concat_step", source, prev_accum)
    prev_accum.axis_of(axis, "cum_concat_step")
    out_dim = axis + 1 if out_spatial_dim is None else out_spatial_dim
    frame = expand_dim(source, _one_frame)
    return concat((prev_accum, axis), (frame, _one_frame), allow_broadcast=True, out_dim=out_dim)


@op
def stack(sources: Sequence[Tensor], *extra: Never, out_dim: Dim | None = None, **unknown: Never) -> tuple[Tensor, Dim]:
    """Stack tensors of the same dims along a new leading dim; {...} each -> {out_dim, ...}.

    Raises:
        DimError: If their dims differ.
        ValueError: Without sources.
    """
    need_tensors("stack", *sources)
    if not sources:
        raise value_error("stack: no tensors.", {"sources": "none"}, "The dims come from the first tensor.")
    first = sources[0]
    out_dim = out_dim or Dim(len(sources), name="stack")
    settle_size("stack", out_dim, len(sources))
    dims = check_unique((out_dim, *first.dims), "stack")
    for index, source in enumerate(sources):
        if set(source.dims) != set(first.dims):
            together = aligned("stack", tuple(sources)) or with_beams(sources)
            if together is not None:
                return stack(together, out_dim=out_dim)
            raise dim_error(
                "stack: the dims differ.",
                operand_rows([("source 0", first), (f"source {index}", source)]),
                "Stacked tensors have the same dims. To repeat one over a dim that it lacks:",
                "rf.expand_dim(source, dim=...)",
            )
    raws = [source.copy_transpose(first.dims)._raw for source in sources]
    try:
        raw = first.backend.stack_raw(raws, 0)
    except RuntimeError:
        check_devices("stack", *sources)
        raise
    return reduce(keep_marks, sources, first._like(raw, dims)), out_dim


@op
def unstack(source: Tensor, *extra: Never, axis: Dim, **unknown: Never) -> tuple[Tensor, ...]:
    """One tensor per entry of a static `axis`; {..., axis} -> {...} for each entry of axis."""
    need_tensors("unstack", source)
    source.axis_of(axis, "unstack")
    return tuple(gather(source, indices=index, axis=axis) for index in range(axis.extent))
