"""Multi-head attention from one sequence to another."""

from __future__ import annotations

from rfnb.core.dim import Dim
from rfnb.core.tensor import Tensor
from rfnb.core.tensor_checks import check_dim
from rfnb.nn.attention.self_attention import MultiHead
from rfnb.nn.linear import Linear
from rfnb.ops.concat import split
from rfnb.ops.merge import split_dims
from rfnb.rec.state import State


class CrossAttention(MultiHead):
    """Multi-head attention with queries from one sequence, and keys and values from an encoder, which are projected once.

    Args:
        encoder_dim, query_in_dim: Features of the encoder and the query.
        The other arguments are those of `SelfAttentionBase`.

    Parameters:
        q: Linear {query_in_dim, key_dim_total}, head by head.
        kv: Linear to the features of all heads, head by head, in each key and value side by side.
        proj: Linear {value_dim_total, proj_dim}.

    Raises:
        DimError: If num_heads does not divide key_dim_total and value_dim_total.

    Source: Vaswani et al. 2017, sections 3.2.2 and 3.2.3.
    """

    def __init__(
        self,
        encoder_dim: Dim,
        query_in_dim: Dim,
        proj_dim: Dim | None,
        *,
        key_dim_total: Dim,
        value_dim_total: Dim,
        num_heads: int | Dim,
        with_bias: bool = True,
        att_dropout: float = 0.1,
        att_dropout_broadcast: bool | None = None,
    ):
        super().__init__(
            proj_dim, key_dim_total=key_dim_total, value_dim_total=value_dim_total, num_heads=num_heads,
            att_dropout=att_dropout, att_dropout_broadcast=att_dropout_broadcast,
        )  # fmt: skip
        self.encoder_dim, self.query_in_dim = encoder_dim, query_in_dim
        size = self.key_dim_per_head.extent + self.value_dim_per_head.extent
        self.kv_dim_per_head = Dim(size, name="kv_per_head")
        self.kv_dim_total = Dim(size * self.num_heads.extent, name="kv")
        self.q = Linear(query_in_dim, key_dim_total, with_bias=with_bias)
        self.kv = Linear(encoder_dim, self.kv_dim_total, with_bias=with_bias)
        self.proj = None if proj_dim is None else Linear(value_dim_total, proj_dim, with_bias=with_bias)

    def transform_encoder(self, encoder: Tensor, *, axis: Dim) -> State:
        """{..., axis, encoder} -> State(k {..., axis, heads, key}, v {..., axis, heads, value}, kv_axis).

        Raises:
            DimError: If encoder has no encoder_dim or no axis.
        """
        check_dim("CrossAttention", encoder, axis, "encoder")
        k, v = self.forward_kv(encoder)
        return State(k=k, v=v, kv_axis=axis)

    def forward_kv(self, source: Tensor) -> tuple[Tensor, Tensor]:
        """{..., encoder} -> key {..., heads, key}, value {..., heads, value}."""
        kv = split_dims(self.kv(source), axis=self.kv_dim_total, dims=(self.num_heads, self.kv_dim_per_head))
        k, v = split(kv, axis=self.kv_dim_per_head, out_dims=(self.key_dim_per_head, self.value_dim_per_head))
        return k, v

    def forward_query(self, source: Tensor) -> Tensor:
        """{..., query_in} -> {..., heads, key}."""
        return split_dims(self.q(source), axis=self.key_dim_total, dims=(self.num_heads, self.key_dim_per_head))

    def __call__(self, q: Tensor, encoder: State) -> Tensor:
        """{..., query_in}, and the result of `transform_encoder` -> {..., out}.

        Raises:
            DimError: If q has no query_in_dim.

        Probes:
            attention: weights {..., heads, kv_axis}.
        """
        return self.attention(self.forward_query(q), encoder.k, encoder.v, kv_axis=encoder.kv_axis)
