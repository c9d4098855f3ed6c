"""Conformer: convolutions that shorten the sequence, in a frontend, and a stack of layers; combined, and separately."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rfnb.core.dim import Dim, Dims
from rfnb.core.errors import value_error
from rfnb.core.tensor import Tensor
from rfnb.core.tensor_checks import check_dim
from rfnb.nn.conv import Conv2d
from rfnb.nn.dropout import dropout as drop
from rfnb.nn.encoders.base import ISeqDownsamplingEncoder, ISeqFramewiseEncoder
from rfnb.nn.encoders.conformer_layer import ConformerEncoderLayer
from rfnb.nn.linear import Linear
from rfnb.nn.module.container import ModuleList, Sequential
from rfnb.nn.module.module import Module
from rfnb.nn.module.prototype import as_dim, given, make_function, make_layers, make_part
from rfnb.nn.transformer.encoder import MODEL_DIM
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


class ConformerFrontend(ISeqDownsamplingEncoder):
    """The frontend: a layer that shortens the sequence, then projection, scale and dropout.

    Args:
        in_dim: Features of the source.
        input_layer: A module ({..., time, in} and in_spatial_dim -> {..., shorter time, its out_dim} and the shorter time),
            a class or {"class": ..., options} that is built with in_dim; None: only the projection.
        input_embedding_scale: Factor on the projection.

    Parameters:
        input_layer: the parameters of this submodule. input_projection: Linear {out_dim of input_layer, out} without bias.

    Source: Gulati et al. 2020, "Conformer", figure 1.
    """

    def __init__(
        self,
        in_dim: Dim,
        out_dim: Dim | int = MODEL_DIM,
        *,
        input_layer: Any,
        input_embedding_scale: float = 1.0,
        input_dropout: float = 0.1,
    ):
        out_dim = as_dim(out_dim, "model")
        self.in_dim, self.out_dim = in_dim, out_dim
        if input_layer is not None and not isinstance(input_layer, Module):  # a module itself is used, not copied
            input_layer = make_part(input_layer, ConformerConvSubsample, "input_layer", in_dim=in_dim)
        self.input_layer = input_layer
        self.downsample_factor = getattr(self.input_layer, "downsample_factor", 1)
        self.input_projection = Linear(in_dim if input_layer is None else input_layer.out_dim, out_dim, with_bias=False)
        self.input_embedding_scale, self.input_dropout = input_embedding_scale, input_dropout

    def __call__(self, source: Tensor, *, in_spatial_dim: Dim) -> tuple[Tensor, Dim]:
        """{..., in_spatial_dim, in} -> {..., out spatial dim, out}, and the out spatial dim.

        Raises:
            DimError: If source has no in_spatial_dim.
        """
        x, spatial_dim = self._embed(source, in_spatial_dim)
        return drop(x, self.input_dropout, axis=self.out_dim), spatial_dim

    def _embed(self, source: Tensor, in_spatial_dim: Dim) -> tuple[Tensor, Dim]:
        """The source after the input layer and the projection, scaled."""
        check_dim(type(self).__name__, source, in_spatial_dim, "source")
        x, spatial_dim = source, in_spatial_dim
        if self.input_layer is not None:
            x, spatial_dim = self.input_layer(source, in_spatial_dim=in_spatial_dim)
        x, scale = self.input_projection(x), self.input_embedding_scale
        return x if scale == 1 else x * scale, spatial_dim


class ConformerEncoderV2(ISeqFramewiseEncoder):
    """The layers alone, without a frontend; see `ConformerFrontend`.

    Args:
        ff_dim, ff_activation, conv_kernel_size, conv_norm, num_heads, att_dropout: Passed to the layers, see
            `ConformerEncoderLayer`; None: its default.
        encoder_layer, encoder_layer_opts: Class, {"class": ..., options}, or a layer to copy, and further options.

    Parameters:
        layers.0, ...: the parameters of these submodules.

    Source: Gulati et al. 2020, "Conformer", figure 1.
    """

    def __init__(
        self,
        out_dim: Dim | int = MODEL_DIM,
        *,
        num_layers: int,
        ff_dim: Dim | int | None = None,
        ff_activation: Any = None,
        dropout: float = 0.1,
        conv_kernel_size: int | None = None,
        conv_norm: Any = None,
        num_heads: int = 4,
        att_dropout: float = 0.1,
        encoder_layer: Any = None,
        encoder_layer_opts: dict[str, Any] | None = None,
        sequential: Any = Sequential,
    ):
        out_dim = as_dim(out_dim, "model")
        self.out_dim, self.dropout = out_dim, dropout
        self.layers = conformer_layers(
            out_dim, num_layers, sequential, encoder_layer, encoder_layer_opts, dropout=dropout, ff_dim=ff_dim,
            ff_activation=ff_activation, conv_kernel_size=conv_kernel_size, conv_norm=conv_norm, num_heads=num_heads,
            att_dropout=att_dropout,
        )  # fmt: skip

    def __call__(self, x: Tensor, *, spatial_dim: Dim, collected_outputs: dict[str, Tensor] | None = None) -> Tensor:
        """{..., spatial_dim, out} -> {..., spatial_dim, out}.

        Args:
            collected_outputs: Filled with the result of each layer by name.

        Raises:
            DimError: If x lacks one of them.
        """
        check_dim(type(self).__name__, x, spatial_dim, "x")
        return self.layers(x, spatial_dim=spatial_dim, collected_outputs=collected_outputs)


class ConformerEncoder(ConformerFrontend):
    """A frontend as in `ConformerFrontend`, optional positional encodings, and the layers of `ConformerEncoderV2`.

    Args:
        input_embedding_scale: Factor on the projection. Default: 1; sqrt(out_dim) with pos_enc, as when positions are
            added to embeddings (Vaswani et al. 2017, section 3.4).
        pos_enc: Called with spatial_dim and feat_dim. Default: none, since the self-attention encodes distances.
        The other arguments are those of these two classes.

    Parameters:
        input_layer, input_projection, layers.0, ...: the parameters of these submodules.

    Source: Gulati et al. 2020, "Conformer", figure 1.
    """

    def __init__(
        self,
        in_dim: Dim,
        out_dim: Dim | int = MODEL_DIM,
        *,
        num_layers: int,
        input_layer: Any,
        input_embedding_scale: float | None = None,
        pos_enc: Callable[..., Tensor] | dict[str, Any] | None = None,
        input_dropout: float = 0.1,
        ff_dim: Dim | int | None = None,
        ff_activation: Any = None,
        dropout: float = 0.1,
        conv_kernel_size: int | None = None,
        conv_norm: Any = None,
        num_heads: int = 4,
        att_dropout: float = 0.1,
        encoder_layer: Any = None,
        encoder_layer_opts: dict[str, Any] | None = None,
        sequential: Any = Sequential,
    ):
        out_dim = as_dim(out_dim, "model")
        if input_embedding_scale is None:
            input_embedding_scale = 1.0 if pos_enc is None else out_dim.extent**0.5
        super().__init__(
            in_dim, out_dim, input_layer=input_layer, input_embedding_scale=input_embedding_scale, input_dropout=input_dropout
        )  # fmt: skip
        self.pos_enc = make_function(pos_enc)
        self.layers = conformer_layers(
            out_dim, num_layers, sequential, encoder_layer, encoder_layer_opts, dropout=dropout, ff_dim=ff_dim,
            ff_activation=ff_activation, conv_kernel_size=conv_kernel_size, conv_norm=conv_norm, num_heads=num_heads,
            att_dropout=att_dropout,
        )  # fmt: skip

    def __call__(
        self, source: Tensor, *, in_spatial_dim: Dim, collected_outputs: dict[str, Tensor] | None = None
    ) -> tuple[Tensor, Dim]:
        """{..., in_spatial_dim, in} -> {..., out spatial dim, out}, and the out spatial dim.

        Args:
            collected_outputs: Filled with the result of each layer by name.

        Raises:
            DimError: If source has no in_spatial_dim.
        """
        x, spatial_dim = self._embed(source, in_spatial_dim)
        if self.pos_enc is not None:
            x = x + self.pos_enc(spatial_dim=spatial_dim, feat_dim=self.out_dim, dtype=x.dtype, device=x.device)
        x = drop(x, self.input_dropout, axis=self.out_dim)
        return self.layers(x, spatial_dim=spatial_dim, collected_outputs=collected_outputs), spatial_dim


def conformer_layers(
    out_dim: Dim, num_layers: int, sequential: Any, layer: Any, layer_opts: dict[str, Any] | None, **options: Any
) -> Any:
    """The stack of layers; options that are None keep the default of the layer."""
    options = given(**options) | (layer_opts or {})
    pattern = make_part(layer, ConformerEncoderLayer, "encoder_layer", out_dim=out_dim, **options)
    return make_layers(sequential, pattern, num_layers)
