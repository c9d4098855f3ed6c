"""Sorting along a dim, and searching in sorted values."""

from __future__ import annotations

from typing import Never

from rfnb.core.dim import Dim
from rfnb.core.dim_identity import check_remade
from rfnb.core.errors import dim_error, not_one_of
from rfnb.core.layout import full_shape
from rfnb.core.op import op
from rfnb.core.tensor import Tensor, new_tensor
from rfnb.ops.cast import cast
from rfnb.ops.defaults import is_float_dtype
from rfnb.ops.expand import expand_dims
from rfnb.ops.operands import check_dtypes, common_backend, need_tensors
from rfnb.ops.out_dim import check_movable


@op
def sort(
    source: Tensor, *extra: Never, axis: Dim, descending: bool = False, stable: bool = True, **unknown: Never
) -> tuple[Tensor, Tensor, Dim]:
    """The entries along `axis` in order.

    Args:
        source: {..., axis}
        stable: Keep equal entries in their order.

    Returns:
        values {..., new dim}, int64 indices {..., new dim} (sparse over axis), the new dim.

    Raises:
        DimError: If axis is not a dim of source, is ragged, or the lengths of another dim are over it.
    """
    need_tensors("sort", source)
    index = source.axis_of(axis, "sort")
    _check_full("sort", "source", source, axis)
    check_movable("sort", source, axis)
    out_dim = Dim(axis.extent, name=f"{axis.name}:sorted")
    if source.dtype.startswith("complex"):
        check_dtypes("sort", source=source)
    values, indices = source.backend.sort_raw(source._raw, index, descending, stable)
    dims = (*source.dims[:index], out_dim, *source.dims[index + 1 :])
    order = new_tensor(indices, dims)
    order.sparse_dim = axis
    return source._like(values, dims), order, out_dim


@op
def search_sorted(
    sorted_seq: Tensor,
    values: Tensor,
    *extra: Never,
    axis: Dim,
    side: str = "left",
    out_dtype: str = "int32",
    **unknown: Never,
) -> Tensor:
    """The position along `axis` at which each of `values` would be inserted to keep the order; 0 to the size of axis.

    Args:
        sorted_seq: {..., axis}, ascending along axis.
        values: {...}; dims in common with sorted_seq are batch dims.
        side: "left": before equal entries; "right": after them.

    Returns:
        The dims of values, and those of sorted_seq (without axis) that it lacks; sparse over axis; the size of axis where a value is
            larger than all entries.

    Raises:
        DimError: If axis is not a dim of sorted_seq, is in values, or is ragged.
        ValueError: For another side.
    """
    need_tensors("search_sorted", sorted_seq, values)
    sorted_seq.axis_of(axis, "search_sorted")
    _check_full("search_sorted", "sorted_seq", sorted_seq, axis)
    if side not in ("left", "right"):
        raise not_one_of(f'search_sorted: side "{side}".', "side", side, ("left", "right"))
    if axis in values.dims:
        raise dim_error(
            "search_sorted: values have the sorted dim.",
            {"sorted_seq": sorted_seq, "values": values},
            "Each value is compared with all of axis. Replace its dim first:",
            f"values, _ = rf.replace_dim(values, in_dim={axis.name})",
        )
    backend = common_backend("search_sorted", sorted_seq, values)
    if is_float_dtype(values.dtype) and not is_float_dtype(sorted_seq.dtype):
        sorted_seq = cast(sorted_seq, values.dtype)
    if sorted_seq.dtype.startswith(("complex", "bool")) or values.dtype.startswith("complex"):
        check_dtypes("search_sorted", sorted_seq=sorted_seq, values=values)
    values = cast(values, sorted_seq.dtype)
    batch = tuple(dim for dim in sorted_seq.dims if dim is not axis)
    check_remade("search_sorted", [("sorted_seq", sorted_seq.dims), ("values", values.dims)], but=(axis,))
    values = expand_dims(values, [dim for dim in batch if dim not in values.dims])
    own = tuple(dim for dim in values.dims if dim not in batch)
    ordered = values.copy_transpose((*batch, *own))
    count = [1, 1]
    for place, dims in enumerate((batch, own)):
        for dim in dims:
            count[place] *= dim.extent
    rows = backend.reshape_raw(sorted_seq.copy_transpose((*batch, axis))._raw, (count[0], axis.extent))
    raw = backend.search_sorted_raw(rows, backend.reshape_raw(ordered._raw, count), side == "right")
    out = new_tensor(backend.reshape_raw(raw, full_shape(ordered.dims)), ordered.dims)
    out = cast(out.copy_transpose(values.dims), out_dtype)
    out.sparse_dim = axis
    return out


def _check_full(what: str, label: str, tensor: Tensor, axis: Dim) -> None:
    if axis.has_padding():
        raise dim_error(
            f"{what}: the axis is ragged.",
            [(label, tensor), ("axis", axis)],
            "Sorting would mix the padding with the frames. Give the padding a value that is sorted to the end:",
            f'x, axis = rf.replace_dim(x.copy_masked(float("inf")), in_dim={axis.name}, out_dim=rf.Dim({axis.extent}))',
        )
