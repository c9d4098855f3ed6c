"""Convolution layers: Conv1d, Conv2d, Conv3d."""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType
from typing import Any

from rfnb.core.dim import Dim
from rfnb.core.tensor import Tensor
from rfnb.nn.moving_filter import AlongOneDim, AlongSeveralDims, Moved, MovingFilter
from rfnb.ops.conv import conv
from rfnb.ops.conv_dims import IntOrDim, Padding
from rfnb.ops.transposed_conv import transposed_conv


class _Conv(MovingFilter):
    """The base of Conv1d, Conv2d and Conv3d.

    Args:
        filter_size: Numbers or dims: one for all spatial dims, or one for each.
        padding, strides, dilation_rate, groups: See `conv`.

    Parameters:
        filter, bias: See `MovingFilter`.
    """

    def __init__(
        self,
        in_dim: Dim,
        out_dim: Dim,
        filter_size: IntOrDim | Sequence[IntOrDim],
        *,
        padding: Padding | Sequence[Padding],
        strides: int | Sequence[int] | None = None,
        dilation_rate: int | Sequence[int] | None = None,
        groups: int | None = None,
        with_bias: bool = True,
    ):
        super().__init__(
            in_dim, out_dim, filter_size, padding=padding, strides=strides, groups=groups or 1, with_bias=with_bias
        )
        self.dilation_rate, self.groups = dilation_rate, groups

    def move(self, source: Tensor, **options: Any) -> Moved:
        return conv(source, dilation_rate=self.dilation_rate, groups=self.groups, **options)


class Conv1d(_Conv, AlongOneDim):
    """A filter that moves along one spatial dim; options as in `conv`.

    Parameters:
        filter: {out, in / groups, filter_size}, Glorot uniform. bias: {out}, zero.
    """


class Conv2d(_Conv, AlongSeveralDims):
    """A filter that moves along two spatial dims; options as in `conv`.

    Parameters:
        filter: {out, in / groups, *filter_size}, Glorot uniform. bias: {out}, zero.
    """

    num_spatial = 2


class Conv3d(_Conv, AlongSeveralDims):
    """A filter that moves along three spatial dims; options as in `conv`.

    Parameters:
        filter: {out, in / groups, *filter_size}, Glorot uniform. bias: {out}, zero.
    """

    num_spatial = 3


class _TransposedConv(MovingFilter):
    """The base of TransposedConv1d, TransposedConv2d and TransposedConv3d.

    Args:
        filter_size: Numbers or dims: one for all spatial dims, or one for each.
        padding, remove_padding, output_padding, strides: See `transposed_conv`.

    Parameters:
        filter, bias: See `MovingFilter`.
    """

    in_first = True
    _rfnb_layout_1 = MappingProxyType({"filter": "[out, in, *filter_size]"})

    def __init__(
        self,
        in_dim: Dim,
        out_dim: Dim,
        filter_size: IntOrDim | Sequence[IntOrDim],
        *,
        padding: Padding | Sequence[Padding],
        remove_padding: int | Sequence[int] = 0,
        output_padding: int | Sequence[int | None] | None = None,
        strides: int | Sequence[int] | None = None,
        with_bias: bool = True,
    ):
        super().__init__(in_dim, out_dim, filter_size, padding=padding, strides=strides, with_bias=with_bias)
        self.remove_padding, self.output_padding = remove_padding, output_padding

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        filter = vars(self)["filter"]
        if filter.dims[0] is self.out_dim:  # of a pickle in the old layout
            backend, dims = filter.backend, (filter.dims[1], self.out_dim, *filter.dims[2:])
            raw = backend.copy_raw(backend.detach_raw(filter.copy_compatible_to_dims_raw(dims)))
            filter.dims, filter._raw = dims, backend.parameter_raw(raw, filter.trainable)

    def move(self, source: Tensor, **options: Any) -> Moved:
        cut, more = self.remove_padding, self.output_padding
        return transposed_conv(source, remove_padding=cut, output_padding=more, **options)


class TransposedConv1d(_TransposedConv, AlongOneDim):
    """A filter that makes one spatial dim longer; options as in `transposed_conv`.

    Parameters:
        filter: {in, out, filter_size}, Glorot uniform. bias: {out}, zero.
    """


class TransposedConv2d(_TransposedConv, AlongSeveralDims):
    """A filter that makes two spatial dims longer; options as in `transposed_conv`.

    Parameters:
        filter: {in, out, *filter_size}, Glorot uniform. bias: {out}, zero.
    """

    num_spatial = 2


class TransposedConv3d(_TransposedConv, AlongSeveralDims):
    """A filter that makes three spatial dims longer; options as in `transposed_conv`.

    Parameters:
        filter: {in, out, *filter_size}, Glorot uniform. bias: {out}, zero.
    """

    num_spatial = 3
