"""Transformer encoder: pre-norm layers of self-attention and feed-forward."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rfnb.core.dim import Dim
from rfnb.core.tensor import Tensor
from rfnb.core.tensor_checks import check_dim
from rfnb.nn.attention.positional_encoding import sinusoidal_positional_encoding
from rfnb.nn.attention.self_attention import SelfAttention
from rfnb.nn.dropout import dropout as drop
from rfnb.nn.linear import Embedding
from rfnb.nn.module.container import Sequential
from rfnb.nn.module.module import Module
from rfnb.nn.module.prototype import given, make_layers, make_norm, make_part
from rfnb.nn.normalization import LayerNorm
from rfnb.nn.transformer.feed_forward import FeedForward
from rfnb.nn.transformer.input_embedding import InputEmbedding
from rfnb.rec.state import State

MODEL_DIM = Dim(512, name="model", kind="feature")  # the base model of the paper


class TransformerEncoderLayer(Module):
    """x + self_att(norm(x)), then x + ff(norm(x)); dropout applies to both summands.

    Args:
        ff, self_att: Class, {"class": ..., options}, or a module to copy. Default: FeedForward, SelfAttention.
        ff_dim, ff_activation: Options for ff.
        norm: See `make_norm`.

    Parameters:
        ff, ff_layer_norm, self_att, self_att_layer_norm: the parameters of these submodules.

    Source: Vaswani et al. 2017, section 3.1, with the normalisation of Xiong et al. 2020, figure 1 (b).
    """

    def __init__(
        self,
        out_dim: Dim = MODEL_DIM,
        *,
        ff: Any = None,
        ff_dim: Dim | int | None = None,
        ff_activation: Any = None,
        dropout: float = 0.1,
        num_heads: int = 8,
        self_att: Any = None,
        att_dropout: float = 0.1,
        norm: Any = LayerNorm,
    ):
        self.out_dim, self.dropout = out_dim, dropout
        of_ff = given(ff_dim=ff_dim, activation=ff_activation)
        self.ff = make_part(ff, FeedForward, "ff", out_dim=out_dim, dropout=dropout, **of_ff)
        self.ff_layer_norm = make_norm(norm, out_dim)
        self.self_att = make_part(
            self_att, SelfAttention, "self_att", in_dim=out_dim, proj_dim=out_dim, key_dim_total=out_dim,
            value_dim_total=out_dim, num_heads=num_heads, att_dropout=att_dropout,
        )  # fmt: skip
        self.self_att_layer_norm = make_norm(norm, out_dim)

    def default_initial_state(self, *, batch_dims: Sequence[Dim]) -> State:
        """An empty State: an encoder layer has no state, unless one of its parts does."""
        return super().default_initial_state(batch_dims=batch_dims) or State()

    def __call__(self, x: Tensor, *, spatial_dim: Dim) -> Tensor:
        """{..., spatial_dim, out} -> {..., spatial_dim, out}.

        Raises:
            DimError: If x lacks one of them.
        """
        check_dim("TransformerEncoderLayer", x, spatial_dim, "x")
        attended = self.self_att(self.self_att_layer_norm(x), axis=spatial_dim)
        x = x + drop(attended, self.dropout, axis=self.out_dim)
        return x + drop(self.ff(self.ff_layer_norm(x)), self.dropout, axis=self.out_dim)


class TransformerEncoder(InputEmbedding):
    """Embedding, positional encoding, layers, normalisation.

    Args:
        vocab_dim: Sparse dim of the source; with `input_embedding=None` its features.
        model_dim: Features of the result, a Dim or an int.
        ff, ff_dim, ff_activation, num_heads, att_dropout, norm: Passed to the layers, see `TransformerEncoderLayer`.
        pos_enc: Called with spatial_dim and feat_dim; a function, {"class": ..., options}, or None for no positional encoding.
        layer, layer_opts: Class, {"class": ..., options}, or a layer to copy, and further options.
        embed_dim: Features of the embedding, if they differ from model_dim; a projection then follows.
        input_embedding: A class, called with two dims, {"class": ..., options}, or a module itself; None: source
            already has model_dim (or embed_dim).
        input_embedding_scale: Default: sqrt(model_dim), 1 without embedding.
        input_dropout: Default: dropout.
        sequential: The container of the layers: a class, a function, or {"class": ..., options}.

    Parameters:
        input_embedding, input_embedding_proj (with embed_dim), layers.0, ..., final_layer_norm: the parameters of these submodules.

    Source: Vaswani et al. 2017, "Attention Is All You Need", section 3.1 and figure 1.
    """

    def __init__(
        self,
        vocab_dim: Dim,
        model_dim: Dim | int = MODEL_DIM,
        *,
        num_layers: int,
        ff: Any = None,
        ff_dim: Dim | int | None = None,
        ff_activation: Any = None,
        pos_enc: Callable[..., Tensor] | dict[str, Any] | None = sinusoidal_positional_encoding,
        dropout: float = 0.1,
        num_heads: int = 8,
        att_dropout: float = 0.1,
        norm: Any = LayerNorm,
        layer: Any = None,
        layer_opts: dict[str, Any] | None = None,
        embed_dim: Dim | int | None = None,
        input_embedding: Any = Embedding,
        input_embedding_scale: float | None = None,
        input_dropout: float | None = None,
        sequential: Any = Sequential,
    ):
        super().__init__(
            vocab_dim, model_dim, embed_dim=embed_dim, input_embedding=input_embedding, pos_enc=pos_enc,
            input_embedding_scale=input_embedding_scale, input_dropout=dropout if input_dropout is None else input_dropout,
        )  # fmt: skip
        model_dim = self.model_dim
        options = {"dropout": dropout, "num_heads": num_heads, "att_dropout": att_dropout, "norm": norm}
        options |= {**given(ff=ff, ff_dim=ff_dim, ff_activation=ff_activation), **(layer_opts or {})}
        pattern = make_part(layer, TransformerEncoderLayer, "layer", out_dim=model_dim, **options)
        self.layers = make_layers(sequential, pattern, num_layers)
        self.final_layer_norm = make_norm(norm, model_dim)

    def default_initial_state(self, *, batch_dims: Sequence[Dim]) -> State:
        """The state of each layer by name; the layers of this file have none."""
        return State(
            (name, layer.default_initial_state(batch_dims=batch_dims) or State()) for name, layer in self.layers.items()
        )

    def transform_encoder(self, encoder: Tensor, *, axis: Dim) -> State:
        """{..., axis, features} -> the result of each layer's `transform_encoder`, by name.

        For your own layers that attend to another encoder and have this method; empty for others.
        """
        made = ((name, getattr(layer, "transform_encoder", None)) for name, layer in self.layers.items())
        return State((name, State() if fn is None else fn(encoder, axis=axis)) for name, fn in made)

    def __call__(
        self, source: Tensor, *, spatial_dim: Dim, collected_outputs: dict[str, Tensor] | None = None
    ) -> Tensor:
        """{..., spatial_dim}, sparse over vocab_dim -> {..., spatial_dim, model}.

        Args:
            collected_outputs: Filled with the result of each layer by name.

        Raises:
            DimError: If source has no spatial_dim, or is sparse over another dim.
        """
        check_dim("TransformerEncoder", source, spatial_dim, "source")
        x = self._embed(source, spatial_dim=spatial_dim, device=source.device)
        x = self.layers(x, spatial_dim=spatial_dim, collected_outputs=collected_outputs)
        return self.final_layer_norm(x)
