"""The order of the dims of a marked output, so that code that reads its raw array knows its axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rfnb.core.dim import Dim, Dims
from rfnb.core.errors import dim_error
from rfnb.core.fill_values import kind_of_dtype
from rfnb.core.tensor import Tensor
from rfnb.core.tensor_checks import check_shape
from rfnb.core.tensor_text import dims_text
from rfnb.ops.const import convert_to_tensor


def declare_lengths(expected: Tensor) -> None:
    """Declare that the one dim of a template without size, apart from a batch dim, has a length per batch entry."""
    batch = [dim for dim in expected.dims if dim.is_batch_dim()]
    others = [dim for dim in expected.dims if _is_new(dim) and not dim.is_batch_dim()]
    if len(batch) == len(others) == 1:
        others[0].dyn_size_ext = Tensor(f"{others[0].name}:size", batch, "int32")


def of_raw(name: str, raw: Any, dims: Sequence[Dim] | None, expected: Tensor | None) -> Tensor:
    """A raw array as a Tensor of `dims`, else of the dims of the expected output. Declared lengths may be set later: `check_lengths`.

    Raises:
        DimError: If its axes are unknown.
        ShapeError: If it does not fit them.
    """
    marks: dict[str, Any] = {} if expected is None else {"sparse_dim": expected.sparse_dim}
    if expected is not None:
        dims = expected.dims if dims is None else dims
        marks["feature_dim"] = expected.feature_dim if expected.feature_dim in dims else None
    plain = convert_to_tensor(raw, dtype=None if expected is None or hasattr(raw, "dtype") else expected.dtype)
    if dims is None and plain.dims:
        raise dim_error(
            f'mark_as_output "{name}": which dims has it?',
            {"array": tuple(dim.size for dim in plain.dims)},
            "A raw array only has the dims that are given here or by the expected output:",
            f'rf.get_run_ctx().mark_as_output(x, "{name}", dims=[...])',
        )
    dims = tuple(dims or ())
    later = [dim for dim in dims if not dim.is_dim_known() and dim.declared_length_dims]
    if not later or len(dims) != len(plain.dims):
        return Tensor(name, dims, raw_tensor=plain.raw_tensor, **marks)
    # Dims with known sizes are checked and sized now; the remaining axes later.
    now = [(dim, axis.get_dim_value()) for dim, axis in zip(dims, plain.dims) if dim not in later]
    check_shape(Tensor(name, [dim for dim, _ in now]), [size for _, size in now])
    out = Tensor(name, dims, plain.dtype, **marks)
    out._raw = plain.raw_tensor
    return out


def check_lengths(output: Tensor) -> None:
    """Check a raw array against lengths that were set later.

    Raises:
        DimError: If they were not set.
        ShapeError: If they do not fit.
    """
    for dim in output.dims:
        dim.get_size_tensor()
    check_shape(output, output.backend.get_shape_tuple_raw(output.raw_tensor))


def _is_new(dim: Dim) -> bool:
    return not dim.is_dim_known() and dim.expr is None and dim.twin_of is None and not dim.declared_length_dims


def in_order(name: str, tensor: Tensor, dims: Sequence[Dim] | None) -> Tensor:
    """The tensor with its dims in the order of `dims`; without `dims` batch, time, feature, if that is unambiguous.

    Raises:
        DimError: If `dims` are not those of the tensor, or the order is ambiguous.
    """
    order = _batch_time_feature(tensor) if dims is None else tuple(dims)
    if order is None:
        raise dim_error(
            f'mark_as_output "{name}": in which order?',
            {"tensor": tensor},
            "The order of dims is only clear for a batch, a ragged and a feature dim. Say it:",
            f"dims=[{', '.join(dim.name for dim in tensor.dims)}]",
        )
    if set(order) != set(tensor.dims) or len(order) != len(tensor.dims):
        raise dim_error(
            f'mark_as_output "{name}": other dims than those of the tensor.',
            {"tensor": tensor, "dims": dims_text(order)},
            "The order names each dim once.",
        )
    return tensor.copy_transpose(order)


def like_expected(name: str, tensor: Tensor, expected: Tensor, dims: Sequence[Dim] | None) -> Tensor:
    """The tensor with its dims in the order of the expected ones. A dim of the template may stand for another dim of the
    same size, or of any size if it has none yet.

    Raises:
        DimError: If dims, kind of dtype or sparse dim do not fit.
    """
    order = _pairs(tensor, expected) if dims is None else tuple(dims)
    fits = (
        order is not None
        and set(order) == set(tensor.dims)
        and len(order) == len(expected.dims)
        and all(map(_stands_for, expected.dims, order))
        and kind_of_dtype(tensor.dtype) == kind_of_dtype(expected.dtype)  # an argmax has int64, ids are declared int32
        and (tensor.sparse_dim is None) == (expected.sparse_dim is None)
        and (tensor.sparse_dim is None or _stands_for(expected.sparse_dim, tensor.sparse_dim))
    )
    if order is None or not fits:
        given = [] if dims is None else [("dims", dims_text(tuple(dims)))]
        raise dim_error(
            f'mark_as_output "{name}": not as expected.',
            [("expected", repr(expected)), ("tensor", repr(tensor)), *given],
            "The output has the expected dims, kind of dtype and sparse dim. If only the order is unclear, say it:",
            f"dims=[{', '.join(dim.name for dim in tensor.dims)}]",
        )
    return tensor.copy_transpose(order)


def _batch_like(tensor: Tensor) -> list[Dim]:
    over = {dim for ragged in tensor.dims for dim in ragged.length_dims}
    return [dim for dim in tensor.dims if dim.is_batch_dim() or (dim in over and not dim.length_dims)]


def _batch_time_feature(tensor: Tensor) -> Dims | None:
    if len(tensor.dims) <= 1:
        return tensor.dims
    batch = _batch_like(tensor)
    spatial = [dim for dim in tensor.dims if dim not in batch and (dim.need_masking() or dim.is_spatial_dim())]
    rest = [dim for dim in tensor.dims if dim not in batch and dim not in spatial]
    if not batch and len(rest) == 2 and tensor.feature_dim in rest:
        rest.remove(tensor.feature_dim)
        batch, rest = rest, [tensor.feature_dim]
    if max(len(batch), len(spatial), len(rest)) > 1:
        return None
    return (*batch, *spatial, *rest)


def _pairs(tensor: Tensor, expected: Tensor) -> Dims | None:
    """The dim of the tensor for each expected dim; None if that is ambiguous."""
    order: list[Dim] = []
    batch = _batch_like(tensor)
    others = [dim for dim in tensor.dims if dim not in expected.dims]
    for wanted in expected.dims:
        if wanted in tensor.dims:
            order.append(wanted)
            continue
        found = [dim for dim in others if _stands_for(wanted, dim)]
        if len(found) > 1:
            found = [dim for dim in found if (dim in batch) == wanted.is_batch_dim()]
        if len(found) > 1 and not wanted.is_static():
            found = [dim for dim in found if dim.need_masking() != wanted.is_batch_dim()]
        if len(found) != 1:
            return None
        order += found
        others.remove(found[0])
    return tuple(order)


def _stands_for(wanted: Dim | None, dim: Dim) -> bool:
    if wanted is None or wanted is dim:
        return wanted is dim
    if wanted.is_static():
        return wanted.size == dim.size
    return not (wanted.is_batch_dim() and dim.need_masking())
