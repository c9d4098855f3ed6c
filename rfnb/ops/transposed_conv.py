"""transposed_conv: the adjoint of a convolution, as an op that makes sequences longer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Never

from rfnb.core.dim import Dim, Dims
from rfnb.core.layout import PlanCache
from rfnb.core.op import op
from rfnb.core.plan_parts import Shape
from rfnb.core.tensor import Tensor
from rfnb.core.tensor_checks import check_unique
from rfnb.ops.conv_dims import Padding, settle_out_dims
from rfnb.ops.conv_filter import apply_filter, check_bias, filter_in_dim, filter_order
from rfnb.ops.conv_layout import check_spatial, from_kernel, to_kernel
from rfnb.ops.operands import need_tensors
from rfnb.ops.transposed_conv_dims import make_expansions

_plans = PlanCache()


@op
def transposed_conv(
    source: Tensor,
    *extra: Never,
    in_dim: Dim,
    out_dim: Dim,
    in_spatial_dims: Sequence[Dim],
    out_spatial_dims: Sequence[Dim] | None = None,
    filter: Tensor,
    filter_size: Dim | Sequence[Dim],
    padding: Padding | Sequence[Padding],
    remove_padding: int | Sequence[int] = 0,
    output_padding: int | Sequence[int | None] | None = None,
    strides: int | Sequence[int] | None = None,
    bias: Tensor | None = None,
    use_mask: bool | None = None,
    **unknown: Never,
) -> tuple[Tensor, tuple[Dim, ...]]:
    """Add each input frame, times the filter, to the output frames from which a convolution would have seen it.

        out[t * stride + k - left] += filter[k] source[t]     for all t and k; then out += bias

    Args:
        source: {..., in_dim, in_spatial_dims}
        in_spatial_dims: One to three dims, which become longer.
        out_spatial_dims: Dims of the result; those without size are filled in. Default: `make_transposed_conv_out_spatial_dims`,
            less the frames dropped by `remove_padding`.
        filter: {out_dim, in_dim, filter_size}; where in_dim is out_dim, the input side is `out_dim.copy(match_priority=1)`.
        filter_size: The dims of the filter, in the order of in_spatial_dims.
        padding: "valid", "same" or the number of frames dropped on each side; see `make_transposed_conv_out_spatial_dims`. One value
            for all dims or one for each, like:
        remove_padding: The number of frames dropped on each side, after the padding.
        output_padding: Frames beyond the minimum; they receive the remaining filter output and the bias. Default: stride * length
            with "same", no frame lost with "valid", none with a number.
        strides: Output frames for each input frame. Default: filter_size.
        bias: {out_dim}
        use_mask: Treat frames past a sequence's end as 0 (the default).

    Returns:
        {..., out_dim, out spatial dims} with feature_dim out_dim, and the out spatial dims.

    Raises:
        DimError: If a dim is missing, or an out_spatial_dim has another size.
        ValueError: For an unknown padding, a negative number of frames, or a stride below 1.

    Source: Dumoulin and Visin 2016, section 4.
    """
    need_tensors("transposed_conv", source, filter)
    options = (padding, remove_padding, output_padding, strides, use_mask)
    return apply_filter(
        _plans, _plan, source, filter, bias, in_dim, out_dim, in_spatial_dims, out_spatial_dims, filter_size, options
    )


def _plan(source: Tensor, filter: Tensor, bias: Tensor | None, given: tuple[Any, ...]) -> tuple[Any, Dims, Dims]:
    what = "transposed_conv"
    in_dim, out_dim, spatial, out_spatial, size, padding, removed, output_padding, strides, use_mask = given
    check_spatial(what, source, spatial, in_dim)
    expansions = make_expansions(what, spatial, size, padding, output_padding, strides, 1, removed)
    order = filter_order(what, filter, (filter_in_dim(in_dim, out_dim), out_dim, *size))
    check_bias(what, bias, out_dim)
    computed = tuple(expansion.out_length(dim) for expansion, dim in zip(expansions, spatial))
    out_spatial = settle_out_dims(what, computed, out_spatial)
    backend = source.backend
    arrange, batch = to_kernel(what, source, (in_dim,), spatial, 0, use_mask is not False)
    own = (out_dim, *out_spatial)
    dims = check_unique(batch + own, what)
    restore, transposed_conv_raw = from_kernel(batch, own, (), backend), backend.transposed_conv_raw
    stride, starts = ([each.window.stride for each in expansions], [each.start for each in expansions])
    shape = Shape(*out_spatial)

    def fn(raw: Any, raw_filter: Any, raw_bias: Any) -> Any:
        raw_filter = raw_filter if order is None else order(raw_filter)
        return restore(transposed_conv_raw(arrange(raw), raw_filter, raw_bias, stride, starts, shape))

    return fn, dims, out_spatial
