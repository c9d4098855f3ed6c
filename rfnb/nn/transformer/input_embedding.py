"""The shared beginning of transformer encoder and decoder: embedding, positional encoding, dropout, projection."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rfnb.core.dim import Dim
from rfnb.core.tensor import Tensor
from rfnb.nn.dropout import dropout as drop
from rfnb.nn.linear import Linear
from rfnb.nn.module.module import Module
from rfnb.nn.module.prototype import as_dim, make_embedding, make_function


class InputEmbedding(Module):
    """A module that first embeds its source.

    Args:
        vocab_dim: Sparse dim of the source, or its features if there is no embedding.
        model_dim: A Dim, or an int for a new one.
        embed_dim: Features of the embedding; None: model_dim. If it is another dim, a projection follows.
        input_embedding: See `make_embedding`.
        input_embedding_scale: Default: sqrt(model_dim), 1 without embedding.
        pos_enc: See `make_function`; None for no positional encoding.
        input_dropout: Dropout after adding positions.

    Parameters:
        input_embedding, input_embedding_proj (with embed_dim): the parameters of these submodules.

    Source: Vaswani et al. 2017, section 3.4.
    """

    def __init__(
        self,
        vocab_dim: Dim,
        model_dim: Dim | int,
        *,
        embed_dim: Dim | int | None,
        input_embedding: Any,
        input_embedding_scale: float | None,
        pos_enc: Callable[..., Tensor] | dict[str, Any] | None,
        input_dropout: float,
    ):
        self.vocab_dim, self.model_dim = vocab_dim, as_dim(model_dim, "model")
        self.embed_dim = self.model_dim if embed_dim is None else as_dim(embed_dim, "embed")
        self.pos_enc = make_function(pos_enc)
        self.input_embedding = make_embedding(input_embedding, vocab_dim, self.embed_dim)
        if input_embedding_scale is None:
            input_embedding_scale = 1.0 if self.input_embedding is None else self.model_dim.extent**0.5
        self.input_embedding_scale = input_embedding_scale
        same = self.embed_dim is self.model_dim
        self.input_embedding_proj = None if same else Linear(self.embed_dim, self.model_dim, with_bias=False)
        self.input_dropout = input_dropout

    def _embed(self, source: Tensor, *, spatial_dim: Dim, **of_positions: Any) -> Tensor:
        """{..., spatial_dim} -> {..., spatial_dim, model}."""
        x = source if self.input_embedding is None else self.input_embedding(source)
        x = x if self.input_embedding_scale == 1 else x * self.input_embedding_scale
        if self.pos_enc is not None:
            x = x + self.pos_enc(spatial_dim=spatial_dim, feat_dim=self.embed_dim, dtype=x.dtype, **of_positions)
        x = drop(x, self.input_dropout, axis=self.embed_dim)
        return x if self.input_embedding_proj is None else self.input_embedding_proj(x)
