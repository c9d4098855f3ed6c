"""Convolution layers: Conv1d, Conv2d, Conv3d."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rfnb.core.dim import Dim
from rfnb.core.tensor import Tensor
from rfnb.nn.moving_filter import AlongOneDim, AlongSeveralDims, Moved, MovingFilter
from rfnb.ops.conv import conv
from rfnb.ops.conv_dims import IntOrDim, Padding


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
