"""Convolution layers: Conv1d, Conv2d, Conv3d, and the transposed ones; their base is a filter that moves along spatial dims."""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType
from typing import Any

from rfnb.core.dim import Dim, Dims
from rfnb.core.errors import dim_error
from rfnb.core.tensor import Tensor
from rfnb.nn.init import Glorot
from rfnb.nn.module.module import Module
from rfnb.nn.module.parameter import Parameter
from rfnb.ops.conv import conv
from rfnb.ops.conv_dims import IntOrDim, Padding
from rfnb.ops.conv_filter import filter_in_dim
from rfnb.ops.transposed_conv import transposed_conv

Moved = tuple[Tensor, tuple[Dim, ...]]


class MovingFilter(Module):
    """A filter and a bias. The `move` of a subclass defines the op.

    Args:
        filter_size: Numbers or dims: one for all spatial dims, or one for each.
        padding, strides, groups: Options of the op.

    Parameters:
        filter: {out, in / groups, *filter_size}, or {in, out, *filter_size} where `in_first`, Glorot uniform. If the
            input side is out_dim, it is the twin `out_dim.copy(match_priority=1)`.
        bias: {out}, zero.
    """

    num_spatial: int
    in_first = False

    def __init__(
        self,
        in_dim: Dim,
        out_dim: Dim,
        filter_size: IntOrDim | Sequence[IntOrDim],
        *,
        padding: Padding | Sequence[Padding],
        strides: int | Sequence[int] | None,
        groups: int = 1,
        with_bias: bool,
    ):
        self.in_dim, self.out_dim = in_dim, out_dim
        self.filter_size = filter_dims(filter_size, self.num_spatial, type(self).__name__)
        self.padding, self.strides = padding, strides
        sides = (out_dim, filter_in_dim(in_dim, out_dim, groups))
        self.filter = Parameter((*(sides[::-1] if self.in_first else sides), *self.filter_size))
        self.filter.initial = GlorotOfFilter()
        self.bias = Parameter((out_dim,)) if with_bias else None

    def move(self, source: Tensor, **options: Any) -> Moved:
        """The op with these options, the options of all filters, and its own."""
        raise NotImplementedError

    def _moved(self, source: Tensor, in_spatial_dims: Sequence[Dim], out_spatial_dims: Sequence[Dim] | None) -> Moved:
        return self.move(
            source, in_dim=self.in_dim, out_dim=self.out_dim, in_spatial_dims=in_spatial_dims, out_spatial_dims=out_spatial_dims,
            filter=self.filter, filter_size=self.filter_size, padding=self.padding, strides=self.strides, bias=self.bias,
        )  # fmt: skip


class AlongOneDim(MovingFilter):
    """A filter that moves along one dim, which the call takes and returns as a Dim."""

    num_spatial = 1

    def __call__(
        self, source: Tensor, *, in_spatial_dim: Dim, out_spatial_dim: Dim | None = None
    ) -> tuple[Tensor, Dim]:
        """{..., in, in_spatial_dim} -> {..., out, out spatial dim} with feature_dim out, and the out spatial dim.

        For a convolution with padding "same" and no stride it is in_spatial_dim itself. See `conv`, `transposed_conv`.
        """
        out, (dim,) = self._moved(source, (in_spatial_dim,), None if out_spatial_dim is None else (out_spatial_dim,))
        return out, dim


class AlongSeveralDims(MovingFilter):
    """A filter that moves along several dims, which the call takes and returns as tuples."""

    def __call__(
        self, source: Tensor, *, in_spatial_dims: Sequence[Dim], out_spatial_dims: Sequence[Dim] | None = None
    ) -> Moved:
        """{..., in, in_spatial_dims} -> {..., out, out spatial dims} with feature_dim out, and the out spatial dims.

        For a convolution with padding "same" and no stride they are in_spatial_dims themselves. See `conv`, `transposed_conv`.
        """
        return self._moved(source, in_spatial_dims, out_spatial_dims)


def filter_dims(filter_size: IntOrDim | Sequence[IntOrDim], num_spatial: int, what: str) -> Dims:
    """The dims of a filter, from numbers or dims: one for all axes or one for each.

    Raises:
        DimError: If there are not `num_spatial` of them.
    """
    sizes = (filter_size,) * num_spatial if isinstance(filter_size, (int, Dim)) else tuple(filter_size)
    if len(sizes) != num_spatial:
        raise dim_error(
            f"{what}: filter_size has another number of dims.",
            {"filter_size": ", ".join(s.short_repr() if isinstance(s, Dim) else str(s) for s in sizes)},
            f"There is one size for all spatial dims, or {num_spatial} of them.",
        )
    names = ["filter"] if num_spatial == 1 else [f"filter_{axis}" for axis in range(num_spatial)]
    dims = [size if isinstance(size, Dim) else Dim(int(size), name=name) for size, name in zip(sizes, names)]
    # The same dim for several axes: a tensor holds a dim once, so the other axes get twins.
    return tuple(dim.copy(match_priority=-axis) if dim in dims[:axis] else dim for axis, dim in enumerate(dims))


class GlorotOfFilter(Glorot):
    """Glorot for {out, in, *size} or {in, out, *size}: fan-in is in * size and fan-out is out * size; Glorot uses their mean."""

    def __call__(self, dims: Sequence[Dim], dtype: str | None = None, **options: Any) -> Tensor:
        return super().__call__((*dims[2:], dims[1], dims[0]), dtype, **options)


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
