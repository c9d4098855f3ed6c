"""Shared parts of convolutions and transposed convolutions: the dims of a filter, and the call of a plan with filter and bias."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rfnb.core.dim import Dim, Dims
from rfnb.core.errors import dim_error
from rfnb.core.layout import PlanCache, to_order
from rfnb.core.tensor import Tensor, new_tensor
from rfnb.ops.operands import check_devices, check_dtypes


def apply_filter(
    plans: PlanCache,
    make_plan: Callable[..., tuple[Any, Dims, Dims]],
    source: Tensor,
    filter: Tensor,
    bias: Tensor | None,
    in_dim: Dim,
    out_dim: Dim,
    in_spatial_dims: Sequence[Dim],
    out_spatial_dims: Sequence[Dim] | None,
    filter_size: Dim | Sequence[Dim],
    options: tuple[Any, ...],
) -> tuple[Tensor, Dims]:
    """Apply a filter by the plan for these dims and options.

    Args:
        make_plan: (source, filter, bias, given) -> (fn of the three raw arrays, dims of the result, out spatial dims), where
            `given` is a tuple of all arguments from in_dim on, sequences as tuples.
        options: Numbers, or one for each spatial dim.

    Returns:
        The result with feature_dim out_dim, and the out spatial dims.
    """
    out_spatial = None if out_spatial_dims is None else tuple(out_spatial_dims)
    sizes = (filter_size,) if isinstance(filter_size, Dim) else tuple(filter_size)
    given = (in_dim, out_dim, tuple(in_spatial_dims), out_spatial, sizes, *map(hashable, options))
    key = (source._raw.__class__, source.dims, filter.dims, None if bias is None else bias.dims, given)
    try:
        fn, dims, spatial = plans[key]
    except KeyError:
        fn, dims, spatial = plans.make(key, make_plan, source, filter, bias, given)
    try:
        out = new_tensor(fn(source._raw, filter._raw, None if bias is None else bias._raw), dims)
    except (RuntimeError, TypeError):
        check_devices("conv", source, filter, *(() if bias is None else (bias,)))
        check_dtypes("conv", source=source, filter=filter, bias=bias)
        raise
    out._feature_dim = out_dim
    return out, spatial


def hashable(option: Any) -> Any:
    """An option for a plan's key: one value for all dims, or a tuple with one for each."""
    return tuple(option) if isinstance(option, list) else option


def filter_in_dim(in_dim: Dim, out_dim: Dim, groups: int = 1) -> Dim:
    """The input side of a filter."""
    side = in_dim if groups == 1 else in_dim // groups
    return side.copy(match_priority=1) if side is out_dim else side


def filter_order(what: str, filter: Tensor, dims: Dims) -> Any:
    """The function that transposes a filter to the order of `dims`."""
    if set(filter.dims) != set(dims) or len(filter.dims) != len(dims):
        raise dim_error(
            f"{what}: the filter has other dims.",
            {"filter": filter, "needed": ", ".join(dim.short_repr() for dim in dims)},
            "A filter is over the features that go out and in, and over its sizes along the spatial dims.",
        )
    return to_order(filter.dims, dims, filter.backend)


def check_bias(what: str, bias: Tensor | None, out_dim: Dim) -> None:
    """Raise a DimError unless the bias is over out_dim only."""
    if bias is not None and bias.dims != (out_dim,):
        raise dim_error(
            f"{what}: the bias is over out_dim.",
            {"bias": bias, "out_dim": out_dim},
            "There is one number for each output feature.",
        )
