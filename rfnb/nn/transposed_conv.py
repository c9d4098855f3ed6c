"""Transposed convolution layers: TransposedConv1d, TransposedConv2d, TransposedConv3d."""

from __future__ import annotations

from collections.abc import Sequence

from rfnb.core.dim import Dim
from rfnb.core.tensor import Tensor
from rfnb.nn.conv import GlorotOfFilter, filter_dims
from rfnb.nn.module import Module
from rfnb.nn.parameter import Parameter
from rfnb.ops.conv import filter_in_dim
from rfnb.ops.conv_dims import IntOrDim, Padding
from rfnb.ops.transposed_conv import transposed_conv


class _TransposedConv(Module):
    """What TransposedConv1d, TransposedConv2d and TransposedConv3d share.

    Args:
        filter_size: Numbers or dims: one for all spatial dims, or one for each.
        padding, remove_padding, output_padding, strides: See `transposed_conv`.

    Parameters:
        filter: {out, in, *filter_size}, Glorot uniform. Where in_dim is out_dim, the input side is the twin
            `out_dim.copy(match_priority=1)`.
        bias: {out}, zero.
    """

    num_spatial: int

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
        self.in_dim, self.out_dim = in_dim, out_dim
        self.filter_size = filter_dims(filter_size, self.num_spatial, type(self).__name__)
        self.padding, self.remove_padding, self.output_padding = padding, remove_padding, output_padding
        self.strides = strides
        self.filter = Parameter((out_dim, filter_in_dim(in_dim, out_dim), *self.filter_size))
        self.filter.initial = GlorotOfFilter()
        self.bias = Parameter((out_dim,)) if with_bias else None

    def _transposed(
        self, source: Tensor, in_spatial_dims: Sequence[Dim], out_spatial_dims: Sequence[Dim] | None
    ) -> tuple[Tensor, tuple[Dim, ...]]:
        return transposed_conv(
            source,
            in_dim=self.in_dim,
            out_dim=self.out_dim,
            in_spatial_dims=in_spatial_dims,
            out_spatial_dims=out_spatial_dims,
            filter=self.filter,
            filter_size=self.filter_size,
            padding=self.padding,
            remove_padding=self.remove_padding,
            output_padding=self.output_padding,
            strides=self.strides,
            bias=self.bias,
        )


class TransposedConv1d(_TransposedConv):
    """Makes one spatial dim longer; options as in `transposed_conv`.

    Parameters:
        filter: {out, in, filter_size}, Glorot uniform. bias: {out}, zero.
    """

    num_spatial = 1

    def __call__(
        self, source: Tensor, *, in_spatial_dim: Dim, out_spatial_dim: Dim | None = None
    ) -> tuple[Tensor, Dim]:
        """{..., in, in_spatial_dim} -> {..., out, out spatial dim} with feature_dim out, and the out spatial dim."""
        new = None if out_spatial_dim is None else (out_spatial_dim,)
        out, (dim,) = self._transposed(source, (in_spatial_dim,), new)
        return out, dim


class _TransposedConvNd(_TransposedConv):
    def __call__(
        self, source: Tensor, *, in_spatial_dims: Sequence[Dim], out_spatial_dims: Sequence[Dim] | None = None
    ) -> tuple[Tensor, tuple[Dim, ...]]:
        """{..., in, in_spatial_dims} -> {..., out, out spatial dims} with feature_dim out, and the out spatial dims."""
        return self._transposed(source, in_spatial_dims, out_spatial_dims)


class TransposedConv2d(_TransposedConvNd):
    """Makes two spatial dims longer; options as in `transposed_conv`.

    Parameters:
        filter: {out, in, *filter_size}, Glorot uniform. bias: {out}, zero.
    """

    num_spatial = 2


class TransposedConv3d(_TransposedConvNd):
    """Makes three spatial dims longer; options as in `transposed_conv`.

    Parameters:
        filter: {out, in, *filter_size}, Glorot uniform. bias: {out}, zero.
    """

    num_spatial = 3
