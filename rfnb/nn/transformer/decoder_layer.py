"""One layer of a transformer decoder."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rfnb.core.dim import Dim
from rfnb.core.errors import dim_error
from rfnb.core.tensor import Tensor
from rfnb.nn.attention.causal import CausalSelfAttention
from rfnb.nn.attention.cross import CrossAttention
from rfnb.nn.dropout import dropout as drop
from rfnb.nn.module.module import Module
from rfnb.nn.module.prototype import given, make_norm, make_part
from rfnb.nn.normalization import LayerNorm
from rfnb.nn.transformer.encoder import MODEL_DIM
from rfnb.nn.transformer.feed_forward import FeedForward
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
