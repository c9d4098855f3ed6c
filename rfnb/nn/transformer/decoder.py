"""Transformer decoder, or language model, and its layer: over a whole sequence, or step by step in a loop."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rfnb.core.dim import Dim, single_step_dim
from rfnb.core.errors import dim_error
from rfnb.core.tensor import Tensor
from rfnb.core.tensor_checks import check_dim
from rfnb.nn.attention.causal import CausalSelfAttention
from rfnb.nn.attention.cross import CrossAttention
from rfnb.nn.attention.positional_encoding import sinusoidal_positional_encoding
from rfnb.nn.dropout import dropout as drop
from rfnb.nn.linear import Linear
from rfnb.nn.module.container import Sequential
from rfnb.nn.module.module import Module
from rfnb.nn.module.prototype import given, make_layers, make_norm, make_part
from rfnb.nn.normalization import LayerNorm
from rfnb.nn.transformer.encoder import MODEL_DIM
from rfnb.nn.transformer.feed_forward import FeedForward
from rfnb.nn.transformer.input_embedding import InputEmbedding
from rfnb.ops.const import zeros
from rfnb.ops.dims import last_frame_position_of_dim
from rfnb.ops.gather import gather
from rfnb.ops.math import combine_bc
from rfnb.rec.state import State


class TransformerDecoderLayer(Module):
    """x + self_att(norm(x)), x + cross_att(norm(x)), x + ff(norm(x)); dropout applies to all summands.

    Args:
        encoder_dim: Features of the encoder; None: no cross-attention.
        ff, self_att, cross_att: Class, {"class": ..., options}, or a module to copy. Default: FeedForward,
            CausalSelfAttention, CrossAttention.
        ff_dim, ff_activation: Options for ff.
        self_att_opts: Options for self_att.
        norm: See `make_norm`.

    Parameters:
        ff, ff_layer_norm, self_att, self_att_layer_norm, cross_att, cross_att_layer_norm: the parameters of these submodules.

    Source: Vaswani et al. 2017, section 3.1, with the normalisation of Xiong et al. 2020, figure 1 (b).
    """

    def __init__(
        self,
        encoder_dim: Dim | None,
        out_dim: Dim = MODEL_DIM,
        *,
        ff: Any = None,
        ff_dim: Dim | int | None = None,
        ff_activation: Any = None,
        dropout: float = 0.1,
        num_heads: int = 8,
        self_att: Any = None,
        self_att_opts: dict[str, Any] | None = None,
        att_dropout: float = 0.1,
        cross_att: Any = None,
        norm: Any = LayerNorm,
    ):
        self.encoder_dim, self.out_dim, self.dropout = encoder_dim, out_dim, dropout
        of_ff = given(ff_dim=ff_dim, activation=ff_activation)
        self.ff = make_part(ff, FeedForward, "ff", out_dim=out_dim, dropout=dropout, **of_ff)
        self.ff_layer_norm = make_norm(norm, out_dim)
        sizes = {"key_dim_total": out_dim, "value_dim_total": out_dim, "num_heads": num_heads}
        sizes = {"proj_dim": out_dim, **sizes, "att_dropout": att_dropout}
        own = {"in_dim": out_dim, **sizes, **(self_att_opts or {})}
        self.self_att = make_part(self_att, CausalSelfAttention, "self_att", **own)
        self.self_att_layer_norm = make_norm(norm, out_dim)
        self.cross_att: Any = None
        self.cross_att_layer_norm: Any = None
        if encoder_dim is not None:
            own = {"encoder_dim": encoder_dim, "query_in_dim": out_dim, **sizes}
            self.cross_att = make_part(cross_att, CrossAttention, "cross_att", **own)
            self.cross_att_layer_norm = make_norm(norm, out_dim)

    def default_initial_state(self, *, batch_dims: Sequence[Dim]) -> State:
        """The empty State(self_att)."""
        return State(self_att=self.self_att.default_initial_state(batch_dims=batch_dims))

    def transform_encoder(self, encoder: Tensor, *, axis: Dim) -> State:
        """State(cross_att): the `encoder` argument of `__call__`; empty without cross-attention."""
        return (
            State() if self.cross_att is None else State(cross_att=self.cross_att.transform_encoder(encoder, axis=axis))
        )

    def __call__(
        self, x: Tensor, *, spatial_dim: Dim, state: State, encoder: State | None = None
    ) -> tuple[Tensor, State]:
        """Run a whole sequence, or one step with `single_step_dim`.

        Args:
            x: {..., spatial_dim, out}; for one step {..., out}.
            encoder: From `transform_encoder`.

        Returns:
            {..., spatial_dim, out} and the new state.

        Raises:
            DimError: If x lacks a dim, or the encoder is missing.
        """
        attended, self_att = self.self_att(self.self_att_layer_norm(x), spatial_dim, state=state.self_att)
        x = x + drop(attended, self.dropout, axis=self.out_dim)
        if self.cross_att is not None:
            if encoder is None:
                raise dim_error(
                    "TransformerDecoderLayer: no encoder.",
                    {"encoder_dim": self.encoder_dim if self.encoder_dim is not None else "None"},
                    "A layer with encoder_dim attends to an encoder, which is projected once:",
                    "encoder = decoder.transform_encoder(encoder, axis=time)",
                )
            attended = self.cross_att(self.cross_att_layer_norm(x), encoder.cross_att)
            x = x + drop(attended, self.dropout, axis=self.out_dim)
        x = x + drop(self.ff(self.ff_layer_norm(x)), self.dropout, axis=self.out_dim)
        return x, State(self_att=self_att)


class TransformerDecoder(InputEmbedding):
    """Embedding, positional encoding, layers, normalisation, logits.

    Args:
        encoder_dim: Features of the encoder; None: a language model.
        vocab_dim: Sparse dim of the source, and of the logits.
        ff, ff_dim, ff_activation, num_heads, att_dropout, norm: Passed to the layers, see `TransformerDecoderLayer`.
        share_embedding: Use the weight of the embedding for the logits. Default: if they have the same dims.
        input_embedding: True: `Embedding`. False: source already has model_dim (or embed_dim).
        The other arguments are those of `TransformerEncoder`.

    Parameters:
        input_embedding, input_embedding_proj (with embed_dim), layers.0, ..., final_layer_norm, logits: the parameters of these submodules.

    Raises:
        DimError: If embedding and logits share a weight but have different dims, or if labels and features have the same dim.

    Source: Vaswani et al. 2017, "Attention Is All You Need", section 3.1 and figure 1.
    """

    def __init__(
        self,
        encoder_dim: Dim | None,
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
        share_embedding: bool | None = None,
        input_embedding: Any = True,
        input_embedding_scale: float | None = None,
        input_dropout: float | None = None,
        logits_with_bias: bool = False,
        sequential: Any = Sequential,
    ):
        super().__init__(
            vocab_dim, model_dim, embed_dim=embed_dim, input_embedding=input_embedding, pos_enc=pos_enc,
            input_embedding_scale=input_embedding_scale, input_dropout=dropout if input_dropout is None else input_dropout,
        )  # fmt: skip
        model_dim = self.model_dim
        self.encoder_dim = encoder_dim
        options = {"dropout": dropout, "num_heads": num_heads, "att_dropout": att_dropout, "norm": norm}
        options |= given(ff=ff, ff_dim=ff_dim, ff_activation=ff_activation)
        options |= {"encoder_dim": encoder_dim, "out_dim": model_dim, **(layer_opts or {})}
        pattern = make_part(layer, TransformerDecoderLayer, "layer", **options)
        self.layers = make_layers(sequential, pattern, num_layers)
        self.final_layer_norm = make_norm(norm, model_dim)
        self.logits = Linear(model_dim, vocab_dim, with_bias=logits_with_bias)
        can_share = self.input_embedding is not None and self.embed_dim is model_dim
        if share_embedding and not can_share:
            raise dim_error(
                "TransformerDecoder: there is no embedding of the size of the logits to share.",
                {"embed_dim": self.embed_dim, "model_dim": model_dim},
                "Embedding and logits have one weight only if their dims are the same.",
                "rf.TransformerDecoder(..., share_embedding=False)",
            )
        if self.input_embedding is not None and can_share and share_embedding is not False:
            if model_dim is vocab_dim:
                raise dim_error(
                    "TransformerDecoder: the labels and the features have one dim.",
                    {"vocab_dim": vocab_dim, "model_dim": model_dim},
                    "Embedding and logits use one weight from different sides, which could not be told apart.",
                    f'model_dim = rf.Dim({model_dim.size}, name="model")',
                )
            self.logits.weight = self.input_embedding.weight

    def default_initial_state(self, *, batch_dims: Sequence[Dim]) -> State:
        """The position, 0, and the state of each layer by name."""
        state = State(pos=zeros((), dtype="int32", device=self.logits.weight.device))
        for name, layer in self.layers.items():
            state[name] = layer.default_initial_state(batch_dims=batch_dims)
        return state

    def transform_encoder(self, encoder: Tensor, *, axis: Dim) -> State:
        """{..., axis, encoder} -> the `encoder` argument of `__call__`, for each layer by name."""
        return State((name, layer.transform_encoder(encoder, axis=axis)) for name, layer in self.layers.items())

    def __call__(
        self,
        source: Tensor,
        *,
        spatial_dim: Dim,
        state: State,
        encoder: State | None = None,
        collected_outputs: dict[str, Tensor] | None = None,
        output_only_last_frame: bool = False,
    ) -> tuple[Tensor, State]:
        """Run a whole sequence (or its next part), or one step with `single_step_dim`; both give the same numbers.

        Args:
            source: {..., spatial_dim}, sparse over vocab_dim; for one step {...}.
            state: From `default_initial_state`, or the state after the previous frames.
            encoder: From `transform_encoder`.
            collected_outputs: Filled with the result of each layer by name.
            output_only_last_frame: Return only the logits of the last frame of each sequence, without spatial_dim.

        Returns:
            logits {..., spatial_dim, vocab} and the new state.

        Raises:
            DimError: If source has no spatial_dim, is sparse over another dim, or the encoder is missing.
        """
        single = spatial_dim is single_step_dim
        if not single:
            check_dim("TransformerDecoder", source, spatial_dim, "source")
        x = self._embed(source, spatial_dim=spatial_dim, offset=state.pos)
        count = 1 if single else spatial_dim.get_size_tensor(device=state.pos.device)
        new = State(pos=combine_bc(state.pos, "add", count))
        for name, layer in self.layers.items():
            part = None if encoder is None else encoder[name]
            x, new[name] = layer(x, spatial_dim=spatial_dim, state=state[name], encoder=part)
            if collected_outputs is not None:
                collected_outputs[name] = x
        if output_only_last_frame and not single:
            last = last_frame_position_of_dim(spatial_dim, device=x.device)
            x = gather(x, indices=last, axis=spatial_dim)
        return self.logits(self.final_layer_norm(x)), new
