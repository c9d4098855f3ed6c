"""Ops on dims themselves: ranges, masks, replacing a dim."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Never

import numpy as np

from rfnb.backends import registry
from rfnb.core.dim import Dim, HostArray
from rfnb.core.errors import dim_error
from rfnb.core.op import op
from rfnb.core.tensor import Tensor, new_tensor
from rfnb.core.tensor_checks import check_unique, dims_of
from rfnb.core.tensor_text import no_dim
from rfnb.core.type_errors import not_a_tensor
from rfnb.ops import math
from rfnb.ops.defaults import device_of_new
from rfnb.ops.operands import need_tensors
from rfnb.ops.out_dim import dim_and_lengths


@op
def range_over_dim(
    dim: Dim, *extra: Never, dtype: str | None = None, device: str | None = None, **unknown: Never
) -> Tensor:
    """0, 1, ... along `dim`; {dim}, int32 by default. Integers are sparse over the dim."""
    dtype = dtype or "int32"
    if not isinstance(dim, Dim):
        raise no_dim("range_over_dim", dim)
    out = new_tensor(registry.selected().arange_raw(dim.extent, dtype=dtype, device=device_of_new(device)), (dim,))
    if dtype.startswith(("int", "uint")):
        out.sparse_dim = dim
    return out


@op
def sequence_mask(dims: Sequence[Dim] | Dim, *extra: Never, device: str | None = None, **unknown: Never) -> Tensor:
    """True for real frames over all ragged dims among `dims`; {length dims, ragged dims}, a scalar True if none is ragged."""
    dims = [dims] if isinstance(dims, Dim) else list(dims)
    mask = None
    for dim in dims:
        if dim.need_masking():
            order = [other for other in dims if other is dim or other in dim.length_dims]
            order = [other for other in dim.length_dims if other not in order] + order
            one = dim.get_mask(order, device_of_new(device))
            mask = one if mask is None else math.combine_bc(mask, "logical_and", one)
    if mask is None:
        return new_tensor(registry.selected().full_raw((), True, dtype="bool", device=device_of_new(device)), ())
    return mask


@op
def replace_dim(
    source: Tensor, *extra: Never, in_dim: Dim, out_dim: Dim | None = None, **unknown: Never
) -> tuple[Tensor, Dim]:
    """The same array with `in_dim` replaced by `out_dim` (by default a new dim; one without size takes the size of in_dim).

    {..., in_dim} -> {..., out_dim}.

    Raises:
        DimError: If in_dim is missing, or the sizes or lengths differ.
    """
    if not isinstance(source, Tensor):
        raise not_a_tensor("replace_dim", source)
    index = source.axis_of(in_dim, "replace_dim")
    if out_dim is None:
        out_dim = in_dim.copy(same_as_self=False)
    elif not out_dim.is_dim_known():
        out_dim.dyn_size_ext = in_dim.get_size_tensor()
    elif not _same_lengths(in_dim, out_dim):
        raise dim_error(
            "replace_dim: the sizes differ.",
            {"source": source, "in_dim": dim_and_lengths(in_dim), "out_dim": dim_and_lengths(out_dim)},
            "A replaced dim keeps its size. By a new dim of the same size:",
            "source, new = rf.replace_dim(source, in_dim=in_dim)",
        )
    dims = (*source.dims[:index], out_dim, *source.dims[index + 1 :])
    if out_dim in source.dims:
        check_unique(dims, "replace_dim")
    out = source._like(source._raw, dims)
    if source.feature_dim is in_dim:
        out.feature_dim = out_dim
    return out, out_dim


def _same_lengths(a: Dim, b: Dim) -> bool:
    if a.extent != b.extent:
        return False
    if a.lengths is None or b.lengths is None or a.length_dims != b.length_dims:
        return True  # static for ragged and back is a change of view on the same frames
    return a.lengths.shape == b.lengths.shape and bool((a.lengths == b.lengths).all())


@op
def set_sparse_dim(source: Tensor, sparse_dim: Dim | None, *extra: Never, **unknown: Never) -> Tensor:
    """The same tensor, marked as indices into `sparse_dim`; int {...} -> {...}."""
    if not isinstance(source, Tensor):
        raise not_a_tensor("set_sparse_dim", source)
    out = source._like(source._raw, source.dims)
    out.sparse_dim = sparse_dim
    return out


@op
def last_frame_position_of_dim(
    dim: Dim, *extra: Never, device: str | None = None, allow_scalar_on_cpu: bool = True, **unknown: Never
) -> Tensor:
    """length - 1 (at least 0) of each sequence; {length dims}, sparse over the dim.

    Args:
        allow_scalar_on_cpu: Accepted without effect; a scalar is on `device` too.
    """
    lengths = np.asarray(dim.extent if dim.lengths is None else dim.lengths)
    raw = registry.selected().from_numpy(
        np.clip(lengths - 1, 0, max(dim.extent - 1, 0)), dtype="int32", device=device_of_new(device)
    )
    out = new_tensor(raw, dim.length_dims)
    out.sparse_dim = dim
    return out


@op
def num_elements_of_shape(
    dims: Dim | Sequence[Dim], *extra: Never, use_mask: bool = True, device: str | None = None, **unknown: Never
) -> int | Tensor:
    """The number of real positions of a shape; all positions with `use_mask=False`.

    Args:
        device: Device of a Tensor result; the host by default.

    Returns:
        An int if all dims are static, else int64 {}. For a ragged dim without the dims of its lengths: {these dims}, e.g. for [time]
            the length of each sequence.
    """
    dims = dims_of("num_elements_of_shape", dims)
    count = _num_elements(dims, use_mask)
    if all(dim.is_static() for dim in dims):
        return int(count[0])
    return new_tensor(registry.selected().from_numpy(count[0], dtype="int64", device=device or "cpu"), count[1])


def _num_elements(dims: Sequence[Dim], use_mask: bool) -> HostArray:
    """The numbers and their dims."""
    if not use_mask:
        return np.asarray(np.prod([dim.extent for dim in dims]), np.int64), ()
    ragged = [dim for dim in dims if dim.need_masking()]
    over = tuple(dict.fromkeys(other for dim in ragged for other in dim.length_dims if other not in dims))
    if not over:
        return np.asarray(Tensor(None, dims).num_elements(), np.int64), ()
    real = np.ones([dim.extent for dim in (*over, *dims)], dtype=bool)
    for dim in ragged:
        real &= dim.host_mask((*over, *dims))
    return real.sum(axis=tuple(range(len(over), real.ndim)), dtype=np.int64), over


@op
def replace_dim_v2(
    source: Tensor,
    *extra: Never,
    in_dim: Dim,
    out_dim: Dim,
    allow_expand: bool = True,
    allow_shrink: bool = True,
    **unknown: Never,
) -> Tensor:
    """Like `replace_dim`, for a dim of another size: frames are cut off at the end, or frames of zeros added.

    Args:
        source: {..., in_dim}
        out_dim: A dim; without size it takes that of in_dim.

    Returns:
        {..., out_dim}; 0 where a sequence of in_dim has no frame.

    Raises:
        DimError: If in_dim is missing, or frames would be added without `allow_expand` or cut off without `allow_shrink`.
    """
    need_tensors("replace_dim_v2", source)
    index = source.axis_of(in_dim, "replace_dim_v2")
    if not out_dim.is_dim_known():
        return replace_dim(source, in_dim=in_dim, out_dim=out_dim)[0]
    same_dims = in_dim.length_dims == out_dim.length_dims or not (in_dim.length_dims and out_dim.length_dims)
    old, new = (
        np.asarray(dim.extent if dim.lengths is None or not same_dims else dim.lengths) for dim in (in_dim, out_dim)
    )
    for allowed, happens, what in (
        (allow_expand, (new > old).any(), "expand"),
        (allow_shrink, (new < old).any(), "shrink"),
    ):
        if happens and not allowed:
            raise dim_error(
                f"replace_dim_v2: this would {what} the dim.",
                {
                    "source": source,
                    "in_dim": dim_and_lengths(in_dim),
                    "out_dim": dim_and_lengths(out_dim),
                },
                f"Sizes differ, and allow_{what} is False.",
                f"rf.replace_dim_v2(..., allow_{what}=True)",
            )
    dims = check_unique((*source.dims[:index], out_dim, *source.dims[index + 1 :]), "replace_dim_v2")
    raw, backend = source.copy_masked(0, dims=[in_dim])._raw, source.backend
    missing = out_dim.extent - in_dim.extent
    if missing > 0:
        raw = backend.pad_raw(raw, [(0, missing if axis == index else 0) for axis in range(len(dims))], 0)
    elif missing < 0:
        raw = backend.slice_raw(raw, index, 0, out_dim.extent)
    out = source._like(raw, dims)
    if source.feature_dim is in_dim:
        out.feature_dim = out_dim
    return out


@op
def dim_match_priority_when_needed(dim: Dim, *other_dims: Dim, **unknown: Never) -> Dim:
    """`dim`, or its twin with match_priority 1 if it is also among `other_dims`: for weights from a dim to itself."""
    return dim.copy(match_priority=1) if dim in other_dims else dim


@op
def masked_fraction_of_shape(
    dims: Dim | Sequence[Dim], *extra: Never, inverse: bool = False, device: str | None = None, **unknown: Never
) -> int | float | Tensor:
    """The fraction of real positions in a shape, or its inverse; a Tensor unless all dims are static.

    Args:
        device: Device of a Tensor result; see `num_elements_of_shape`.
    """
    real, total = (num_elements_of_shape(dims, use_mask=use_mask, device=device) for use_mask in (True, False))
    if not isinstance(real, Tensor):
        return 1
    return math.true_divide(total, math.maximum(real, 1)) if inverse else math.true_divide(real, math.maximum(total, 1))


def use_mask_default(
    *extra: Never,
    default: bool | None = None,
    default_false_for_behavior_version_up_to: int | None = None,
    func_name: str | None = None,
    **unknown: Never,
) -> bool:
    """The meaning of `use_mask=None` for a function: `default`, or by default True, i.e. padding is masked.

    Args:
        default: The caller's own default.
        default_false_for_behavior_version_up_to: Accepted without effect. rfnb has only the newest behaviour, which masks.
        func_name: Accepted without effect. rfnb has no global configuration by function.
    """
    return True if default is None else default
