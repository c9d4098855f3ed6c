"""Multi-head self-attention over a whole sequence, and the base that it shares with its variants and cross-attention."""

from __future__ import annotations

from rfnb.core.dim import Dim
from rfnb.core.errors import dim_error
from rfnb.core.tensor import Tensor
from rfnb.core.tensor_checks import check_dim
from rfnb.nn.attention.functions import dot_attention
from rfnb.nn.dropout import dropout_broadcast_default
from rfnb.nn.linear import Linear
from rfnb.nn.module.module import Module
from rfnb.ops.concat import split
from rfnb.ops.merge import merge_dims, split_dims


class MultiHead(Module):
    """The base of multi-head attention: the dims of the heads, attention per head, output projection. Abstract.

    A subclass sets proj after its own projections, since parameters keep the order in which they are set.
    """

    proj: Linear | None

    def __init__(
        self,
        proj_dim: Dim | None,
        *,
        key_dim_total: Dim,
        value_dim_total: Dim,
        num_heads: int | Dim,
        att_dropout: float,
        att_dropout_broadcast: bool | None,
    ):
        self.out_dim = value_dim_total if proj_dim is None else proj_dim
        self.key_dim_total, self.value_dim_total = key_dim_total, value_dim_total
        self.num_heads = num_heads if isinstance(num_heads, Dim) else Dim(num_heads, name="heads")
        self.key_dim_per_head = one_head_of(key_dim_total, self.num_heads, "key")
        self.value_dim_per_head = one_head_of(value_dim_total, self.num_heads, "value")
        self.att_dropout, self.att_dropout_broadcast = att_dropout, att_dropout_broadcast
        if att_dropout_broadcast is None:
            self.att_dropout_broadcast = dropout_broadcast_default()

    def attention(
        self, q: Tensor, k: Tensor, v: Tensor, *, kv_axis: Dim, causal_query_spatial_dim: Dim | None = None
    ) -> Tensor:
        """Attend over `kv_axis`, join the heads, project; {..., out}. See `dot_attention`."""
        att = dot_attention(
            q, k, v, key_dim=self.key_dim_per_head, axis=kv_axis, att_dropout=self.att_dropout,
            att_dropout_broadcast=self.att_dropout_broadcast, causal_query_spatial_dim=causal_query_spatial_dim,
        )  # fmt: skip
        return self._joined(att)

    def _joined(self, att: Tensor) -> Tensor:
        """{..., heads, value} -> {..., out}: the heads concatenated and projected."""
        out, _ = merge_dims(att, dims=(self.num_heads, self.value_dim_per_head), out_dim=self.value_dim_total)
        out.feature_dim = self.value_dim_total
        return out if self.proj is None else self.proj(out)


class SelfAttentionBase(MultiHead):
    """The base of self-attention: projections to queries, keys and values, attention per head, output projection.

    Args:
        in_dim: Features of the source.
        proj_dim: Features of the result. None omits the output projection; the features are then value_dim_total.
        key_dim_total, value_dim_total: Summed over all heads.
        num_heads: int, or a Dim.
        att_dropout: Dropout on the weights, in training.
        att_dropout_broadcast: False draws a mask per sequence, head and query. Default: they share one mask.

    Parameters:
        qkv: Linear to the features of all heads, head by head, in each query, key, value side by side.
        proj: Linear {value_dim_total, proj_dim}.

    Raises:
        DimError: If num_heads does not divide key_dim_total and value_dim_total.

    Source: Vaswani et al. 2017, section 3.2.2.
    """

    def __init__(
        self,
        in_dim: Dim,
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
        self.in_dim = in_dim
        size = 2 * self.key_dim_per_head.extent + self.value_dim_per_head.extent
        self.qkv_dim_per_head = Dim(size, name="qkv_per_head")
        self.qkv_dim_total = Dim(size * self.num_heads.extent, name="qkv")
        self.qkv = Linear(in_dim, self.qkv_dim_total, with_bias=with_bias)
        self.proj = None if proj_dim is None else Linear(value_dim_total, proj_dim, with_bias=with_bias)

    def forward_qkv(self, source: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """{..., in} -> query {..., heads, key}, key {..., heads, key}, value {..., heads, value}."""
        return self._per_head(self.qkv(source))

    def _per_head(self, qkv: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        qkv = split_dims(qkv, axis=self.qkv_dim_total, dims=(self.num_heads, self.qkv_dim_per_head))
        key, value = self.key_dim_per_head, self.value_dim_per_head
        q, k, v = split(qkv, axis=self.qkv_dim_per_head, out_dims=(key, key, value))
        return q, k, v


class SelfAttention(SelfAttentionBase):
    """Each frame attends to all frames. See `SelfAttentionBase` for arguments and parameters."""

    def __call__(self, source: Tensor, *, axis: Dim) -> Tensor:
        """{..., axis, in} -> {..., axis, out}.

        Raises:
            DimError: If source has no in_dim or no axis.

        Probes:
            attention: weights {..., heads, axis, twin of axis}.
        """
        check_dim(type(self).__name__, source, axis, "source")
        q, k, v = self.forward_qkv(source)
        return self.attention(q, k, v, kv_axis=axis)


def one_head_of(total: Dim, heads: Dim, name: str) -> Dim:
    """The dim of one head.

    Raises:
        DimError: If the number of heads does not divide the total.
    """
    if not heads.extent or total.extent % heads.extent:
        raise dim_error(
            "Attention: the features do not split into equal heads.",
            [(f"{name}_dim_total", total), ("num_heads", heads.extent)],
            f"num_heads divides {name}_dim_total.",
        )
    return Dim(total.extent // heads.extent, name=f"{name}_per_head")
