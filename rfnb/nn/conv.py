"""Convolution layers: Conv1d, Conv2d, Conv3d."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rfnb.core.dim import Dim
from rfnb.core.errors import DimError, message
from rfnb.core.tensor import Tensor
from rfnb.nn.init import Glorot
from rfnb.nn.module import Module
from rfnb.nn.parameter import Parameter
from rfnb.ops.conv import conv, filter_in_dim
from rfnb.ops.conv_dims import IntOrDim, Padding


class _Conv(Module):
    """What Conv1d, Conv2d and Conv3d share.

    Args:
        filter_size: Numbers or dims: one for all spatial dims, or one for each.
        padding, strides, dilation_rate, groups: See `conv`.

    Parameters:
        filter: {out, in / groups, *filter_size}, Glorot uniform. Where the input side is out_dim, it is the twin
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
        strides: int | Sequence[int] | None = None,
        dilation_rate: int | Sequence[int] | None = None,
        groups: int | None = None,
        with_bias: bool = True,
    ):
        self.in_dim, self.out_dim = in_dim, out_dim
        self.filter_size = filter_dims(filter_size, self.num_spatial, type(self).__name__)
        self.padding, self.strides, self.dilation_rate = padding, strides, dilation_rate
        self.groups = groups
        self.filter = Parameter((out_dim, filter_in_dim(in_dim, out_dim, groups or 1), *self.filter_size))
        self.filter.initial = GlorotOfFilter()
        self.bias = Parameter((out_dim,)) if with_bias else None

    def _conv(
        self, source: Tensor, in_spatial_dims: Sequence[Dim], out_spatial_dims: Sequence[Dim] | None
    ) -> tuple[Tensor, tuple[Dim, ...]]:
        return conv(
            source,
            in_dim=self.in_dim,
            out_dim=self.out_dim,
            in_spatial_dims=in_spatial_dims,
            out_spatial_dims=out_spatial_dims,
            filter=self.filter,
            filter_size=self.filter_size,
            padding=self.padding,
            strides=self.strides,
            dilation_rate=self.dilation_rate,
            groups=self.groups,
            bias=self.bias,
        )


class Conv1d(_Conv):
    """A filter that moves along one spatial dim; options as in `conv`.

    Parameters:
        filter: {out, in / groups, filter_size}, Glorot uniform. bias: {out}, zero.
    """

    num_spatial = 1

    def __call__(
        self, source: Tensor, *, in_spatial_dim: Dim, out_spatial_dim: Dim | None = None
    ) -> tuple[Tensor, Dim]:
        """{..., in, in_spatial_dim} -> {..., out, out spatial dim} with feature_dim out, and the out spatial dim.

        The out spatial dim is in_spatial_dim itself for padding "same" without stride. See `conv`.
        """
        out, (dim,) = self._conv(source, (in_spatial_dim,), None if out_spatial_dim is None else (out_spatial_dim,))
        return out, dim


class _ConvNd(_Conv):
    def __call__(
        self, source: Tensor, *, in_spatial_dims: Sequence[Dim], out_spatial_dims: Sequence[Dim] | None = None
    ) -> tuple[Tensor, tuple[Dim, ...]]:
        """{..., in, in_spatial_dims} -> {..., out, out spatial dims} with feature_dim out, and the out spatial dims.

        For padding "same" without stride these are in_spatial_dims themselves. See `conv`.
        """
        return self._conv(source, in_spatial_dims, out_spatial_dims)


class Conv2d(_ConvNd):
    """A filter that moves along two spatial dims; options as in `conv`.

    Parameters:
        filter: {out, in / groups, *filter_size}, Glorot uniform. bias: {out}, zero.
    """

    num_spatial = 2


class Conv3d(_ConvNd):
    """A filter that moves along three spatial dims; options as in `conv`.

    Parameters:
        filter: {out, in / groups, *filter_size}, Glorot uniform. bias: {out}, zero.
    """

    num_spatial = 3


def filter_dims(filter_size: IntOrDim | Sequence[IntOrDim], num_spatial: int, what: str) -> tuple[Dim, ...]:
    """The dims of a filter, from numbers or dims, one for all or one for each.

    Raises:
        DimError: If there are not `num_spatial` of them.
    """
    sizes = (filter_size,) * num_spatial if isinstance(filter_size, (int, Dim)) else tuple(filter_size)
    if len(sizes) != num_spatial:
        raise DimError(
            message(
                f"{what}: filter_size has another number of dims.",
                [("filter_size", ", ".join(s.short_repr() if isinstance(s, Dim) else str(s) for s in sizes))],
                f"There is one size for all spatial dims, or {num_spatial} of them.",
            )
        )
    names = ["filter"] if num_spatial == 1 else [f"filter_{axis}" for axis in range(num_spatial)]
    dims = [size if isinstance(size, Dim) else Dim(int(size), name=name) for size, name in zip(sizes, names)]
    # The same dim for several axes: a tensor holds it once, so the others are its twins.
    return tuple(dim.copy(match_priority=-axis) if dim in dims[:axis] else dim for axis, dim in enumerate(dims))


class GlorotOfFilter(Glorot):
    """Glorot for {out, in, *size}: what one output feature sees is in * size, what one input feature reaches is out * size."""

    def __call__(self, dims: Sequence[Dim], dtype: str | None = None, **options: Any) -> Tensor:
        return super().__call__((*dims[2:], dims[1], dims[0]), dtype, **options)
