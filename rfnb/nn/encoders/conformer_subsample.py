"""Convolutions over time and features that shorten a sequence."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rfnb.core.dim import Dim, Dims
from rfnb.core.errors import value_error
from rfnb.core.tensor import Tensor
from rfnb.core.tensor_checks import check_dim
from rfnb.nn.conv import Conv2d
from rfnb.nn.encoders.base import ISeqDownsamplingEncoder
from rfnb.nn.module.container import ModuleList
from rfnb.nn.module.prototype import as_dim, make_function
from rfnb.ops.conv_dims import make_conv_out_spatial_dims
from rfnb.ops.expand import expand_dim
from rfnb.ops.math import relu
from rfnb.ops.merge import merge_dims
from rfnb.ops.pool import pool2d

Pair = int | tuple[int, int]
_one = Dim(1, name="one")


class ConformerConvSubsample(ISeqDownsamplingEncoder):
    """2-D convolutions over time and features, each with an activation and optional max-pooling.

    Args:
        in_dim: Features of the source, treated as a spatial dim; the input has one channel.
        out_dims: Channels after each convolution, each a Dim or an int.
        filter_sizes, strides, pool_sizes: For each convolution: a pair (time, feature), or one number for both. Without
            strides all are 1. pool_sizes may be shorter, or contain None for no pooling.
        activation: A function, or {"class": ..., options} (see `build_from_dict`).
        padding: Padding of the convolutions. Pooling always uses "same", so that a short sequence keeps a frame.

    Attributes:
        out_dim: The remaining features times the last channels; the channels of one feature are adjacent.
        downsample_factor: For time: product of all strides and pool sizes.

    Parameters:
        conv_layers.0, ...: Conv2d {out, in, *filter_size}.

    Raises:
        ValueError: If filter_sizes or strides do not have the length of out_dims, or pool_sizes is longer.

    Source: Gulati et al. 2020, section 2, "convolution subsampling layer".
    """

    def __init__(
        self,
        in_dim: Dim,
        *,
        out_dims: Sequence[Dim | int],
        filter_sizes: Sequence[Pair],
        strides: Sequence[Pair] | None = None,
        pool_sizes: Sequence[Pair | None] | None = None,
        activation: Callable[[Tensor], Tensor] | dict[str, Any] = relu,
        padding: str = "same",
    ):
        count = len(out_dims)
        strides = [1] * count if strides is None else strides
        pool_sizes = [*(pool_sizes or ()), *[None] * (count - len(pool_sizes or ()))]
        if not count or {len(filter_sizes), len(strides), len(pool_sizes)} != {count}:
            raise _other_counts(out_dims, filter_sizes, strides, pool_sizes)
        channels = tuple(as_dim(dim, "channels") for dim in out_dims)
        self.in_dim, self.out_dims, self.padding = in_dim, channels, padding
        self.activation = make_function(activation)
        self.pool_sizes = [None if size is None else _pair(size) for size in pool_sizes]
        self.conv_layers = ModuleList(
            Conv2d(before, after, _pair(size), strides=_pair(stride), padding=padding)
            for before, after, size, stride in zip((_one, *channels), channels, filter_sizes, strides)
        )
        self.out_dim = self._after(in_dim, axis=1) * self.out_dims[-1]
        self.downsample_factor = 1
        for conv, pool_size in zip(self.conv_layers, self.pool_sizes):
            self.downsample_factor *= conv.strides[0] * (pool_size[0] if pool_size else 1)

    def __call__(self, source: Tensor, *, in_spatial_dim: Dim) -> tuple[Tensor, Dim]:
        """{..., in_spatial_dim, in} -> {..., out spatial dim, out}, and the out spatial dim.

        Raises:
            DimError: If source lacks one of them.
        """
        for dim in (in_spatial_dim, self.in_dim):
            check_dim(type(self).__name__, source, dim, "source")
        x = expand_dim(source, _one)
        spatial: Dims = (in_spatial_dim, self.in_dim)
        for conv, pool_size in zip(self.conv_layers, self.pool_sizes):
            x, spatial = conv(x, in_spatial_dims=spatial)
            x = self.activation(x)
            if pool_size is not None:
                x, spatial = pool2d(x, mode="max", pool_size=pool_size, padding="same", in_spatial_dims=spatial)
        features = (spatial[1], self.out_dims[-1])
        x = x.copy_transpose([*x.remaining_dims(features), *features])  # the next op works on the features
        out, _ = merge_dims(x, dims=features, out_dim=self.out_dim)
        out.feature_dim = self.out_dim
        return out, spatial[0]

    def get_out_spatial_dim(self, in_spatial_dim: Dim) -> Dim:
        """The dim that `__call__` returns for this one."""
        return self._after(in_spatial_dim, axis=0)

    def _after(self, dim: Dim, *, axis: int) -> Dim:
        """The dim that replaces an axis, 0 for time and 1 for features."""
        for conv, pool_size in zip(self.conv_layers, self.pool_sizes):
            size, stride = conv.filter_size[axis], conv.strides[axis]
            (dim,) = make_conv_out_spatial_dims([dim], filter_size=size, strides=stride, padding=self.padding)
            if pool_size is not None:
                size = pool_size[axis]
                (dim,) = make_conv_out_spatial_dims([dim], filter_size=size, strides=size, padding="same")
        return dim


def _pair(size: Pair) -> tuple[int, int]:
    return (size, size) if isinstance(size, int) else (size[0], size[1])


def _other_counts(out_dims: Sequence, filter_sizes: Sequence, strides: Sequence, pool_sizes: Sequence) -> ValueError:
    counts = {"out_dims": out_dims, "filter_sizes": filter_sizes, "strides": strides, "pool_sizes": pool_sizes}
    return value_error(
        "ConformerConvSubsample: there are other numbers of options than convolutions.",
        [(name, len(values)) for name, values in counts.items()],
        "Each convolution has one entry in every list, pool_sizes may be fewer.",
        "rf.ConformerConvSubsample(in_dim, out_dims=[a, b], filter_sizes=[3, 3], strides=[2, 2])",
    )
