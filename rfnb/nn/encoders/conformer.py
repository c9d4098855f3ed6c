"""Conformer: a frontend that shortens the sequence, and a stack of layers; combined, and separately."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rfnb.core.dim import Dim
from rfnb.core.tensor import Tensor
from rfnb.core.tensor_checks import check_dim
from rfnb.nn.dropout import dropout as drop
from rfnb.nn.encoders.base import ISeqDownsamplingEncoder, ISeqFramewiseEncoder
from rfnb.nn.encoders.conformer_layer import ConformerEncoderLayer
from rfnb.nn.encoders.conformer_subsample import ConformerConvSubsample
from rfnb.nn.linear import Linear
from rfnb.nn.module.container import Sequential
from rfnb.nn.module.module import Module
from rfnb.nn.module.prototype import as_dim, given, make_function, make_layers, make_part
from rfnb.nn.transformer.encoder import MODEL_DIM


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
