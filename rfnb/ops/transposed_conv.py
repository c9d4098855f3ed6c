"""transposed_conv: the adjoint of a convolution, as an op that makes sequences longer; and which of the frames it keeps.

Every input frame contributes a filter's worth of frames, `stride` apart: (time - 1) * stride + reach + 1 of them in total. Of these

    "valid"  keeps all; where the filter is shorter than the stride, `stride` frames for each input frame
    "same"   keeps time * stride, from reach // 2 on: the transpose of `conv` with "same" and this stride
    p        drops p on each side

`output_padding` is the number of frames beyond the minimum that a convolution with this stride maps to the input.

Source: Dumoulin and Visin 2016, "A guide to convolution arithmetic for deep learning", section 4; without output_padding the
lengths are those of Keras (`deconv_output_length`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Never

from rfnb.core.dim import Dim, Dims
from rfnb.core.errors import value_error
from rfnb.core.layout import PlanCache
from rfnb.core.op import op
from rfnb.core.plan_parts import Shape
from rfnb.core.tensor import Tensor
from rfnb.core.tensor_checks import check_unique
from rfnb.ops import math
from rfnb.ops.conv_dims import IntOrDim, Padding, T, Window, make_windows, per_dim, settle_out_dims
from rfnb.ops.conv_filter import apply_filter, check_bias, filter_in_dim, filter_order
from rfnb.ops.conv_layout import check_spatial, from_kernel, to_kernel
from rfnb.ops.operands import need_tensors


class Expansion(NamedTuple):
    """The expansion of one spatial dim."""

    window: Window
    output_padding: int | None
    removed: int = 0

    @property
    def start(self) -> int:
        """The index of the first frame within the full result."""
        return self.window.pads[0] + self.removed

    @property
    def _more(self) -> int:
        """The number of frames beyond time * stride."""
        _, stride, _, padding = self.window
        if self.output_padding is None and padding == "same":
            return -2 * self.removed
        if self.output_padding is None and padding == "valid":
            return max(self.window.reach + 1 - stride, 0) - 2 * self.removed
        fewest = self.window.reach + 1 - sum(self.window.pads) - stride
        return fewest + (self.output_padding or 0) - 2 * self.removed

    def out_length(self, length: Any) -> Any:
        """The output length, for an int, a Dim, or a Tensor of lengths."""
        length = length * self.window.stride + self._more
        if isinstance(length, Dim):
            return length
        return math.maximum(length, 0) if isinstance(length, Tensor) else max(length, 0)


@op
def calc_transposed_conv_out_length(
    in_length: T,
    *extra: Never,
    filter_size: IntOrDim,
    padding: Padding,
    output_padding: int | None = None,
    stride: int | None = None,
    dilation_rate: int = 1,
    name: str | None = None,
    **unknown: Never,
) -> T:
    """The length after a transposed convolution; see above.

    Args:
        in_length: A number, a Dim, or an int Tensor of lengths.
        stride: Default: filter_size.
        padding: "same", "valid", or the number of frames dropped on each side.
        name: Accepted; a dim made by arithmetic has the name of its expression.

    Raises:
        ValueError: For another padding, a negative output_padding, or a size, stride or dilation below 1.
    """
    what = "calc_transposed_conv_out_length"
    dims = (Dim(None, name="in"),)  # one length; the messages for several are never needed
    (expansion,) = make_expansions(what, dims, filter_size, padding, output_padding, stride, dilation_rate)
    return expansion.out_length(in_length)


@op
def make_transposed_conv_out_spatial_dims(
    in_spatial_dims: Sequence[Dim],
    *extra: Never,
    filter_size: IntOrDim | Sequence[IntOrDim],
    padding: Padding | Sequence[Padding],
    output_padding: int | Sequence[int | None] | None = None,
    strides: int | Sequence[int] | None = None,
    dilation_rate: int | Sequence[int] = 1,
    description_prefix: str | None = None,
    **unknown: Never,
) -> list[Dim]:
    """The dims after a transposed convolution over `in_spatial_dims`.

    Args:
        filter_size, padding, output_padding, strides, dilation_rate: One for all dims, or one for each. See
            `calc_transposed_conv_out_length`.
        description_prefix: Accepted; a dim made by arithmetic has the name of its expression.
    """
    what, spatial = "make_transposed_conv_out_spatial_dims", tuple(in_spatial_dims)
    expansions = make_expansions(what, spatial, filter_size, padding, output_padding, strides, dilation_rate)
    return [expansion.out_length(dim) for expansion, dim in zip(expansions, spatial)]


def make_expansions(
    what: str,
    spatial: Dims,
    size: Any,
    padding: Any,
    output_padding: Any,
    strides: Any,
    dilation: Any,
    removed: Any = 0,
) -> tuple[Expansion, ...]:
    """A checked Expansion for each spatial dim."""
    windows = make_windows(what, spatial, size, padding, strides, dilation)
    more = per_dim(what, spatial, "output_padding", output_padding)
    removed = per_dim(what, spatial, "remove_padding", removed)
    for name, values in (("output_padding", more), ("remove_padding", removed)):
        for value in values:
            if value is not None and value < 0:
                raise value_error(f"{what}: {name} {value}.", {name: value}, "It is 0 or more.", f"{name}=0")
    return tuple(Expansion(*row) for row in zip(windows, more, removed))


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
