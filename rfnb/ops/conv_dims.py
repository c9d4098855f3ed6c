"""The number of output frames of a convolution or pooling: the arithmetic of filter size, stride, dilation and padding.

    time -> "same"   ceil(time / stride); with stride 1 that is time itself
            "valid"  ceil((time - reach) / stride)
            p        ceil((time + 2 p - reach) / stride)

reach = (filter size - 1) * dilation: from the first to the last frame under the filter. Dims are made by dim arithmetic, so the same
convolution of the same dim yields the same dim. Negative lengths become 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Never, TypeVar

import numpy as np

from rfnb.core.dim import Dim, Dims
from rfnb.core.errors import dim_error, value_error
from rfnb.core.op import op
from rfnb.core.tensor import Tensor
from rfnb.core.tensor_text import dims_text
from rfnb.ops import math
from rfnb.ops.out_dim import check_size, define_size

T = TypeVar("T", int, Dim, Tensor)
IntOrDim = int | Dim
Padding = str | int


class Window(NamedTuple):
    """A window that moves along one spatial dim."""

    size: int
    stride: int
    dilation: int
    padding: Padding

    @property
    def reach(self) -> int:
        """The distance in frames from the first to the last frame under the window."""
        return (self.size - 1) * self.dilation

    @property
    def pads(self) -> tuple[int, int]:
        """Frames before and after a sequence. "same" is independent of the length: an output frame sees the same frames of its sequence
        regardless of the stride and the lengths of other sequences.
        """
        if self.padding == "same":
            return self.reach // 2, self.reach - self.reach // 2
        return (0, 0) if isinstance(self.padding, str) else (self.padding, self.padding)

    def out_length(self, length: Any) -> Any:
        """The output length, for an int, a Dim, or a Tensor of lengths."""
        if self.padding != "same":
            length = length + (sum(self.pads) - self.reach)
        if isinstance(length, Dim):
            return length if self.stride == 1 else length.ceildiv_right(self.stride)
        if isinstance(length, Tensor):
            return math.maximum(math.ceil_divide(length, self.stride), 0)
        return max(-(-length // self.stride), 0)


@op
def calc_conv_out_length(
    in_length: T,
    *extra: Never,
    filter_size: IntOrDim,
    stride: int,
    padding: Padding,
    dilation_rate: int = 1,
    name: str | None = None,
    **unknown: Never,
) -> T:
    """The length after a convolution or pooling; see above.

    Args:
        in_length: A number, a Dim, or an int Tensor of lengths.
        padding: "same", "valid", or the number of frames on each side.
        name: Accepted; a dim made by arithmetic has the name of its expression.

    Raises:
        ValueError: For another padding, or a size, stride or dilation below 1.
    """
    size = _as_int(filter_size)
    return check_window("calc_conv_out_length", Window(size, stride, dilation_rate, padding)).out_length(in_length)


@op
def make_conv_out_spatial_dims(
    in_spatial_dims: Sequence[Dim],
    *extra: Never,
    filter_size: IntOrDim | Sequence[IntOrDim],
    padding: Padding | Sequence[Padding],
    strides: int | Sequence[int] = 1,
    dilation_rate: int | Sequence[int] = 1,
    description_prefix: str | None = None,
    **unknown: Never,
) -> list[Dim]:
    """The dims after a convolution or pooling over `in_spatial_dims`.

    Args:
        filter_size, padding, strides, dilation_rate: One for all dims, or one for each. See `calc_conv_out_length`.
        description_prefix: Accepted; a dim made by arithmetic has the name of its expression.
    """
    windows = make_windows(
        "make_conv_out_spatial_dims", tuple(in_spatial_dims), filter_size, padding, strides, dilation_rate
    )
    return [window.out_length(dim) for window, dim in zip(windows, in_spatial_dims)]


def make_windows(
    what: str, spatial: Dims, size: Any, padding: Any, strides: Any, dilation: Any, *, size_name: str = "filter_size"
) -> tuple[Window, ...]:
    """A checked Window for each spatial dim. Without strides windows are adjacent. `size_name` is the name of the size in messages."""
    sizes = tuple(map(_as_int, per_dim(what, spatial, size_name, size)))
    options = {"strides": sizes if strides is None else strides, "dilation_rate": dilation, "padding": padding}
    columns = [sizes, *(per_dim(what, spatial, name, value) for name, value in options.items())]
    return tuple(check_window(what, Window(*row), size_name) for row in zip(*columns))


def per_dim(what: str, spatial: Dims, name: str, value: Any) -> tuple[Any, ...]:
    """One value per spatial dim, from one for all or a sequence."""
    if value is None or isinstance(value, (int, str, np.integer, Dim, Tensor)):
        return (value,) * len(spatial)
    values = tuple(value)
    if len(values) != len(spatial):
        raise dim_error(
            f"{what}: {name} is for another number of dims.",
            [("in_spatial_dims", dims_text(spatial)), (name, _shown(values))],
            "There is one value for each spatial dim, or one for all.",
        )
    return values


def check_window(what: str, window: Window, size_name: str = "filter_size") -> Window:
    """The window, with its padding in lower case."""
    padding = window.padding.lower() if isinstance(window.padding, str) else window.padding
    if padding not in ("same", "valid") and (isinstance(padding, str) or padding < 0):
        raise value_error(
            f"{what}: padding {window.padding!r}.",
            {"known": '"same", "valid", a number of frames'},
            "The padding is one of these.",
            'padding="same"',
        )
    for name, value in ((size_name, window.size), ("strides", window.stride), ("dilation_rate", window.dilation)):
        if value < 1:
            raise value_error(f"{what}: {name} {value}.", {name: value}, "It is 1 or more.", f"{name}=1")
    return window._replace(padding=padding)


def settle_out_dims(what: str, computed: Dims, out_spatial_dims: Dims | None) -> Dims:
    """The dims of the result: the requested ones, sized or checked; else the computed ones."""
    if out_spatial_dims is None:
        return computed
    if len(out_spatial_dims) != len(computed):
        raise dim_error(
            f"{what}: another number of out_spatial_dims.",
            {"out_spatial_dims": dims_text(out_spatial_dims), "needed": dims_text(computed)},
            "There is one for each of in_spatial_dims.",
        )
    for own, dim in zip(computed, out_spatial_dims):
        define_size(dim, own)
        check_size(what, dim, own, "out_spatial_dim")
    return out_spatial_dims


def _shown(values: tuple[Any, ...]) -> str:
    return ", ".join(value.short_repr() if isinstance(value, Dim) else repr(value) for value in values)


def _as_int(size: IntOrDim) -> int:
    return size.extent if isinstance(size, Dim) else int(size)
