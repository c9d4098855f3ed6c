"""Merging several dims into one, and splitting one into several."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Never

from rfnb.core.dim import Dim, Dims
from rfnb.core.errors import dim_error, not_implemented_error
from rfnb.core.layout import PlanCache, full_shape, to_order
from rfnb.core.op import op
from rfnb.core.plan_parts import Shape
from rfnb.core.size_queries import asked
from rfnb.core.tensor import Tensor, new_tensor
from rfnb.core.tensor_checks import check_unique
from rfnb.core.type_errors import not_a_tensor
from rfnb.ops import dims as dim_ops
from rfnb.ops.expand import expand_dim
from rfnb.ops.operands import need_tensors
from rfnb.ops.out_dim import define_size, dim_and_lengths, settle_size


@op
def merge_dims(
    source: Tensor, *extra: Never, dims: Sequence[Dim], out_dim: Dim | None = None, **unknown: Never
) -> tuple[Tensor, Dim]:
    """Flatten `dims` (first is major) into one, at the place of the first merged axis.

    Args:
        source: {..., dims}
        out_dim: Default: the product of the dims; if any but the first is ragged, a new dim of plain size (padding included), since
            a product of lengths would not describe the positions of the frames. An op that reduces over it warns.

    Returns:
        {..., out_dim}, out_dim.
    """
    dims = tuple(dims)
    try:
        raw = source._raw
        order, reshape, shape, out_dims, merged = _merge_plans[raw.__class__, source.dims, dims, out_dim]
    except AttributeError:
        raise not_a_tensor("merge_dims", source) from None
    except KeyError:
        if not dims:
            out_dim = out_dim or Dim(1, name="merged")
            return expand_dim(source, out_dim), out_dim
        if len(dims) == 1:
            source.axis_of(dims[0], "merge_dims")
            return dim_ops.replace_dim(source, in_dim=dims[0], out_dim=out_dim) if out_dim else (source, dims[0])
        key = (raw.__class__, source.dims, dims, out_dim)
        order, reshape, shape, out_dims, merged = _merge_plans.make(key, _plan_merge, source, dims, out_dim)
    out = new_tensor(reshape(raw if order is None else order(raw), shape), out_dims, source, source._finite)
    if source._feature_dim is not None and source._feature_dim in dims:
        out._feature_dim = merged
    return out, merged


_merge_plans = PlanCache()


def _plan_merge(source: Tensor, dims: Dims, out_dim: Dim | None) -> Any:
    check_unique(dims, "merge_dims")
    axes = [source.axis_of(dim, "merge_dims") for dim in dims]
    if out_dim is None and not any(dim.need_masking() for dim in dims[1:]):
        out_dim = math.prod(dims[1:], start=dims[0])
    else:
        volume = math.prod(full_shape(dims))
        new = out_dim is None or not out_dim.is_dim_known()
        out_dim = Dim(volume, name="*".join(dim.name for dim in dims)) if out_dim is None else out_dim
        in_order = not any(dim.need_masking() for dim in dims[1:]) and (new or out_dim.need_masking())
        settle_size("merge_dims", out_dim, math.prod(dims[1:], start=dims[0]) if in_order else volume)
        if new and not in_order and any(dim.has_padding() for dim in dims):
            out_dim.padded_parts = tuple(dim.short_repr() for dim in dims)
    rest = [dim for dim in source.dims if dim not in dims]
    place = sum(1 for dim in rest if source.dims.index(dim) < min(axes))
    before, after = tuple(rest[:place]), tuple(rest[place:])
    order = to_order(source.dims, before + dims + after, source.backend)
    shape = Shape(*before, dims, *after)
    out_dims = check_unique((*before, out_dim, *after), "merge_dims")
    return order, source.backend.reshape_raw, shape, out_dims, out_dim


@op
def split_dims(
    source: Tensor,
    *extra: Never,
    axis: Dim,
    dims: Sequence[Dim],
    pad_to_multiples: bool | None = None,
    pad_value: float | int | None = None,
    **unknown: Never,
) -> Tensor:
    """Split `axis` into `dims` (first is major); at most one of them may be without size.

    {..., axis} -> {..., dims}. The first gets lengths where axis has some.

    Args:
        pad_to_multiples: Must not be True.
        pad_value: Belongs to pad_to_multiples.

    Raises:
        DimError: If the product of the sizes is not that of axis, or, for a ragged axis, of each sequence.
        NotImplementedError: For an axis that would need padding first.
    """
    dims = tuple(dims)
    if pad_to_multiples:
        need_tensors("split_dims", source)
        raise not_implemented_error(
            "split_dims: padding to a multiple of the sizes.",
            {"source": source, "axis": axis, "pad_value": pad_value},
            "It splits an axis as it is. Pad it first:",
            "source, (axis,) = rf.pad(source, axes=[axis], padding=[(0, missing)], value=pad_value)",
        )
    try:
        raw = source._raw
        reshape, shape, out_dims = _split_plans[raw.__class__, source.dims, axis, dims]
    except AttributeError:
        raise not_a_tensor("split_dims", source) from None
    except KeyError:
        key = (raw.__class__, source.dims, axis, dims)
        reshape, shape, out_dims = _split_plans.make(key, _plan_split, source, axis, dims)
    return new_tensor(reshape(raw, shape), out_dims, source, source._finite)


_split_plans = PlanCache()


def _plan_split(source: Tensor, axis: Dim, dims: Dims) -> Any:
    index = source.axis_of(axis, "split_dims")
    unknown = [dim for dim in dims if not dim.is_dim_known()]
    known = math.prod(dim.extent for dim in dims if dim not in unknown)
    if len(unknown) == 1 and known and axis.extent % known == 0:
        ragged = axis.need_masking() and unknown[0] is dims[0]
        define_size(unknown[0], axis // known if ragged else axis.extent // known)
    elif unknown or known != axis.extent:
        raise dim_error(
            "split_dims: the sizes do not multiply to the size of the axis.",
            {
                "source": source,
                "axis": axis,
                "dims": " * ".join(d.short_repr() for d in dims),
            },
            "A split keeps the number of entries. Make the first dim as long as the others require, and pad the axis to that:",
            _fitting_split(axis, dims, unknown),
        )
    if axis.has_padding() and not asked(_split_in_each, axis, *dims):
        name = axis.name if axis.name.isidentifier() else "axis"
        lines = [
            f"missing = rf.ceil_divide({name}.dyn_size_ext, size) * size - {name}.dyn_size_ext    # to a multiple of size"
        ]
        lines.append(f"source, ({name},) = rf.pad(source, axes=[{name}], padding=[(0, missing)])")
        raise dim_error(
            "split_dims: the sizes do not multiply to the lengths of the axis.",
            [
                ("source", source),
                ("axis", dim_and_lengths(axis)),
                *((f"dim {place}", dim_and_lengths(dim)) for place, dim in enumerate(dims)),
            ],
            "The padding of a sequence would become its data. Of a ragged axis the first dim has lengths, and each sequence is as many\n"
            "times as long. Pad it to a multiple of the sizes, and leave the first dim without size:",
            "\n".join(lines),
        )
    out_dims = (*source.dims[:index], *dims, *source.dims[index + 1 :])
    check_unique(out_dims, "split_dims")
    return source.backend.reshape_raw, Shape(*out_dims), out_dims


def _fitting_split(axis: Dim, dims: Dims, unknown: list[Dim]) -> str:
    """The lines that split an axis into dims, the first of which takes the remaining size."""
    others = [f"dims[{place}]" if dim not in unknown else "..." for place, dim in enumerate(dims)][1:]
    rest = max(1, math.prod(dim.extent for dim in dims[1:] if dim not in unknown))
    first = -(-axis.extent // rest)
    lines, name = [], "axis"
    if missing := first * rest - axis.extent:
        lines, name = [f"source, (padded,) = rf.pad(source, axes=[axis], padding=[(0, {missing})])"], "padded"
    made = f'rf.Dim({first}, name="{dims[0].name if dims else "all"}")'
    return "\n".join([*lines, f"rf.split_dims(source, axis={name}, dims=[{', '.join([made, *others])}])"])


def _split_in_each(axis: Dim, *dims: Dim) -> bool:
    """True if each sequence of a ragged axis factors into the first dim and the others, which have one size for all sequences."""
    first, lengths = dims[0]._known(), axis._known()
    if first is None or lengths is None or first.over != lengths.over or any(dim.need_masking() for dim in dims[1:]):
        return False
    return bool((first.valid() * math.prod(full_shape(dims[1:])) == lengths.valid()).all())


@op
def reshape(source: Tensor, in_dims: Sequence[Dim], out_dims: Sequence[Dim], *extra: Never, **unknown: Never) -> Tensor:
    """Regroup `in_dims` (first is major) into `out_dims` with the same entries, at the place of the first old dim.

    Args:
        source: {..., in_dims}
        out_dims: At most one of them may be without size.

    Returns:
        {..., out_dims}.

    Raises:
        DimError: If the products of the sizes differ, or one of in_dims is missing.
    """
    need_tensors("reshape", source)
    merged, dim = merge_dims(source, dims=in_dims, out_dim=Dim(math.prod(full_shape(tuple(in_dims))), name="merged"))
    return split_dims(merged, axis=dim, dims=out_dims)
