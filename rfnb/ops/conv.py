"""conv: a filter that moves along one, two or three spatial dims."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Never

from rfnb.core.dim import Dim, Dims
from rfnb.core.errors import dim_error
from rfnb.core.layout import PlanCache
from rfnb.core.op import op
from rfnb.core.tensor import Tensor
from rfnb.core.tensor_checks import check_unique
from rfnb.ops.conv_dims import Padding, make_windows, settle_out_dims
from rfnb.ops.conv_filter import apply_filter, check_bias, filter_in_dim, filter_order
from rfnb.ops.conv_layout import check_spatial, from_kernel, to_kernel
from rfnb.ops.operands import need_tensors

_plans = PlanCache()


@op
def conv(
    source: Tensor,
    *extra: Never,
    in_dim: Dim,
    out_dim: Dim,
    in_spatial_dims: Sequence[Dim],
    out_spatial_dims: Sequence[Dim] | None = None,
    filter: Tensor,
    filter_size: Dim | Sequence[Dim],
    padding: Padding | Sequence[Padding],
    strides: int | Sequence[int] | None = None,
    dilation_rate: int | Sequence[int] | None = None,
    groups: int | None = None,
    bias: Tensor | None = None,
    use_mask: bool | None = None,
    **unknown: Never,
) -> tuple[Tensor, tuple[Dim, ...]]:
    """The convolution: each output frame is the sum of the frames under the filter, times the filter.

        out[t] = bias + sum_k filter[k] source[t * stride + k * dilation - left]

    Args:
        source: {..., in_dim, in_spatial_dims}
        in_spatial_dims: One to three dims along which the filter moves.
        out_spatial_dims: Dims of the result; those without size are filled in. Default: `make_conv_out_spatial_dims`, e.g. the input
            dim itself for padding "same" and stride 1.
        filter: {out_dim, in_dim (in_dim // groups with groups), filter_size}; if in_dim equals out_dim, the input side is the twin
            `out_dim.copy(match_priority=1)`.
        filter_size: The dims of the filter, in the order of in_spatial_dims.
        padding: Zeros around each sequence: "same" (as many as the filter reaches, one more after than before if that is odd,
            whatever the stride), "valid" (none), or their number on each side. One value for all dims or one for each, like:
        strides: Frames from one output frame to the next. Default 1.
        dilation_rate: Frames from one entry of the filter to the next. Default 1.
        groups: The number of groups into which the features of in_dim and out_dim are divided; each sees only its own. Default 1.
        bias: {out_dim}
        use_mask: Treat frames past a sequence's end as 0 (the default).

    Returns:
        {..., out_dim, out spatial dims} with feature_dim out_dim, and the out spatial dims. A sequence shorter than the filter has
            length 0.

    Raises:
        DimError: If a dim is missing, in_dim or out_dim do not divide into groups, or an out_spatial_dim has another size.
        ValueError: For an unknown padding, or a stride or dilation below 1.
    """
    need_tensors("conv", source, filter)
    options = (padding, strides, dilation_rate, groups, use_mask)
    return apply_filter(
        _plans, _plan, source, filter, bias, in_dim, out_dim, in_spatial_dims, out_spatial_dims, filter_size, options
    )


def _plan(source: Tensor, filter: Tensor, bias: Tensor | None, given: tuple[Any, ...]) -> tuple[Any, Dims, Dims]:
    in_dim, out_dim, spatial, out_spatial, size, padding, strides, dilation, groups, use_mask = given
    groups = groups or 1
    check_spatial("conv", source, spatial, in_dim)
    _check_groups(source, in_dim, out_dim, groups)
    windows = make_windows("conv", spatial, size, padding, strides or 1, dilation or 1)
    order = filter_order("conv", filter, (out_dim, filter_in_dim(in_dim, out_dim, groups), *size))
    check_bias("conv", bias, out_dim)
    computed = tuple(window.out_length(dim) for window, dim in zip(windows, spatial))
    out_spatial = settle_out_dims("conv", computed, out_spatial)
    backend = source.backend
    arrange, batch = to_kernel("conv", source, (in_dim,), spatial, 0, use_mask is not False)
    own = (out_dim, *out_spatial)
    dims = check_unique(batch + own, "conv")
    restore, conv_raw = from_kernel(batch, own, zip(windows, spatial, out_spatial), backend), backend.conv_raw
    pads, stride, dilation = ([getattr(window, name) for window in windows] for name in ("pads", "stride", "dilation"))

    def fn(raw: Any, raw_filter: Any, raw_bias: Any) -> Any:
        raw_filter = raw_filter if order is None else order(raw_filter)
        return restore(conv_raw(arrange(raw), raw_filter, raw_bias, pads, stride, dilation, groups))

    return fn, dims, out_spatial


def _check_groups(source: Tensor, in_dim: Dim, out_dim: Dim, groups: int) -> None:
    if groups < 1 or in_dim.extent % groups or out_dim.extent % groups:
        raise dim_error(
            f"conv: {groups} groups.",
            {"source": source, "in_dim": in_dim, "out_dim": out_dim},
            "The number of groups divides the sizes of in_dim and out_dim.",
        )
