"""Self-attention whose energies also depend on the distance from query to key."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rfnb.core.dim import Dim, single_step_dim
from rfnb.core.layout import PlanCache, to_order
from rfnb.core.op import op
from rfnb.core.plan_parts import Shape
from rfnb.core.tensor import Tensor, new_tensor
from rfnb.core.tensor_checks import check_dim
from rfnb.nn.attention.causal import CausalSelfAttention, CausalSelfAttentionState
from rfnb.nn.attention.causal_mask import query_offset
from rfnb.nn.attention.functions import _apart, _attend, _energy
from rfnb.nn.attention.positional_encoding import relative_positional_encoding
from rfnb.nn.attention.relative_learned import LearnedRelativePositionalEncoding
from rfnb.nn.attention.self_attention import SelfAttentionBase
from rfnb.nn.dropout import dropout
from rfnb.nn.init import Glorot
from rfnb.nn.linear import Linear
from rfnb.nn.module.parameter import Parameter
from rfnb.ops.math import combine_bc
from rfnb.ops.merge import split_dims


class _RelPosAttention(SelfAttentionBase):
    """Shared base of both kinds: the vectors of the distances, and the energies."""

    _causal = False

    def __init__(
        self,
        in_dim: Dim,
        proj_dim: Dim | None,
        *,
        key_dim_total: Dim,
        value_dim_total: Dim,
        num_heads: int | Dim,
        with_bias: bool = True,
        with_linear_pos: bool = True,
        with_pos_bias: bool = True,
        learnable_pos_emb: bool = False,
        learnable_pos_emb_clipping: int = 16,
        separate_pos_emb_per_head: bool = True,
        pos_emb_dropout: float = 0.0,
        att_dropout: float = 0.1,
    ):
        super().__init__(
            in_dim, proj_dim, key_dim_total=key_dim_total, value_dim_total=value_dim_total, num_heads=num_heads,
            with_bias=with_bias, att_dropout=att_dropout,
        )  # fmt: skip
        self.separate_pos_emb_per_head, self.pos_emb_dropout = separate_pos_emb_per_head, pos_emb_dropout
        energy_dim = key_dim_total if separate_pos_emb_per_head else self.key_dim_per_head
        self.pos_emb_feat_dim = in_dim if with_linear_pos else energy_dim
        self.linear_pos = Linear(in_dim, energy_dim, with_bias=False) if with_linear_pos else None
        self.learned_pos_emb = None
        if learnable_pos_emb:
            self.learned_pos_emb = LearnedRelativePositionalEncoding(
                self.pos_emb_feat_dim, clipping=learnable_pos_emb_clipping, causal=self._causal
            )
        per_head = (self.num_heads, self.key_dim_per_head)
        self.pos_bias_u = Parameter(per_head, initial=Glorot()) if with_pos_bias else None
        self.pos_bias_v = Parameter(per_head, initial=Glorot()) if with_pos_bias else None

    def _attend_at_distances(
        self, q: Tensor, k: Tensor, v: Tensor, axis: Dim | None, kv_axis: Dim, first: Any
    ) -> Tensor:
        """Args:
        axis: The axis of the queries; None for a single query.
        first: Position of the first query.
        """
        scale = max(self.key_dim_per_head.extent, 1) ** -0.5
        content, position = (q if bias is None else q + bias for bias in (self.pos_bias_u, self.pos_bias_v))
        vectors, distance = self._vectors(axis, kv_axis, first, q)
        energy = _energy(position, vectors, self.key_dim_per_head, scale)
        energy = relative_shift(energy, query_dim=axis, key_dim=kv_axis, distance_dim=distance)
        energy = combine_bc(_energy(content, k, self.key_dim_per_head, scale), "add", energy)
        causal_dim = axis if self._causal else None
        att = _attend(energy, v, kv_axis, self.att_dropout, self.att_dropout_broadcast, causal_dim)
        return self._joined(att)

    def _vectors(self, axis: Dim | None, kv_axis: Dim, first: Any, like: Tensor) -> tuple[Tensor, Dim]:
        """Vectors {distance, key}, or per head {distance, heads, key}; with the dims of `first`, if it has any."""
        dims: dict[str, Any] = {
            "query_spatial_dim": single_step_dim if axis is None else axis,
            "key_value_spatial_dim": kv_axis,
        }
        if self.learned_pos_emb is not None:
            vectors, distance = self.learned_pos_emb(**dims, query_offset=first)
        else:
            vectors, distance = relative_positional_encoding(
                **dims, feat_dim=self.pos_emb_feat_dim, query_offset=first, dtype=like.dtype, device=like.device
            )
        vectors = dropout(vectors, self.pos_emb_dropout)
        vectors = vectors if self.linear_pos is None else self.linear_pos(vectors)
        if self.separate_pos_emb_per_head:
            vectors = split_dims(vectors, axis=self.key_dim_total, dims=(self.num_heads, self.key_dim_per_head))
        return vectors, distance


class RelPosSelfAttention(_RelPosAttention):
    """`SelfAttention` with energies (q + u) · k + (q + v) · W r, where r is the vector of the distance from query to key.

    The defaults are those of Transformer-XL. Without W, u and v, and with learned vectors, it is the key side of Shaw et al.

    Args:
        with_linear_pos: Whether to use W.
        with_pos_bias: Whether to use u and v.
        learnable_pos_emb: r is a parameter (see `LearnedRelativePositionalEncoding`), not sines and cosines.
        learnable_pos_emb_clipping: Larger distances share a vector.
        separate_pos_emb_per_head: False: W r (or r) is the same for all heads.
        pos_emb_dropout: Dropout on r, in training.
        The other arguments are those of `SelfAttentionBase`.

    Parameters:
        qkv, proj: those of `SelfAttentionBase`.
        linear_pos: W, Linear {in, key_dim_total} without bias; {in, key_per_head} if shared by the heads.
        learned_pos_emb: the parameter of this module, with the input features of linear_pos, or its output features without linear_pos.
        pos_bias_u, pos_bias_v: {heads, key_per_head}, Glorot uniform.

    Source: Dai et al. 2019, "Transformer-XL", section 3.3; Shaw et al. 2018, equation (4).
    """

    def __call__(self, source: Tensor, *, axis: Dim, **_kwargs: Any) -> Tensor:
        """{..., axis, in} -> {..., axis, out}. Options of other kinds of self-attention are ignored.

        Raises:
            DimError: If source has no in_dim or no axis.

        Probes:
            attention: weights {..., heads, axis, twin of axis}.
        """
        check_dim(type(self).__name__, source, axis, "source")
        q, k, v = self.forward_qkv(source)
        k, v, kv_axis = _apart(q, k, v, axis)
        return self._attend_at_distances(q, k, v, axis, kv_axis, 0)


class RelPosCausalSelfAttention(_RelPosAttention, CausalSelfAttention):
    """`CausalSelfAttention` with the energies, options and parameters of `RelPosSelfAttention`.

    Learned vectors exist only for distances to past keys.
    """

    _causal = True

    def _attend(self, q: Tensor, state: CausalSelfAttentionState, axis: Dim | None) -> Tensor:
        k, v, kv_axis = state.k_accum, state.v_accum, state.accum_axis
        assert k is not None and v is not None and kv_axis is not None  # set just above
        return self._attend_at_distances(q, k, v, axis, kv_axis, query_offset(axis, kv_axis, k))


_plans = PlanCache()


@op
def relative_shift(x: Tensor, *, query_dim: Dim | None, key_dim: Dim, distance_dim: Dim) -> Tensor:
    """out[query, key] = x[query, key - query + queries - 1]: distances increase with the key, and each row starts at another one.

    This needs no gather: viewing the flat array with rows that are one entry shorter shifts each row by one more.

    Args:
        x: {..., query_dim, distance_dim}, distance_dim of size queries + keys - 1.
        query_dim: None for a single query, whose distances correspond to its keys.

    Returns:
        {..., query_dim, key_dim}.

    Source: Dai et al. 2019, "Transformer-XL", appendix B.
    """
    key = (x._raw.__class__, x.dims, query_dim, key_dim, distance_dim)
    try:
        fn, dims = _plans[key]
    except KeyError:
        fn, dims = _plans.make(key, _plan, x, query_dim, key_dim, distance_dim)
    return new_tensor(fn(x._raw), dims)


def _plan(x: Tensor, query_dim: Dim | None, key_dim: Dim, distance_dim: Dim) -> tuple[Callable[[Any], Any], Any]:
    backend = x.backend
    lead = tuple(dim for dim in x.dims if dim is not query_dim and dim is not distance_dim)
    rows = () if query_dim is None else (query_dim,)
    dims, shape = (*lead, *rows, key_dim), Shape(*lead)
    order = to_order(x.dims, (*lead, *rows, distance_dim), backend)
    last = len(lead)

    def fn(raw: Any) -> Any:
        sizes = tuple(shape)
        queries, keys, count = 1 if query_dim is None else query_dim.extent, key_dim.extent, distance_dim.extent
        raw = raw if order is None else order(raw)
        if queries <= 1 or not keys:
            return (
                backend.slice_raw(raw, len(dims) - 1, 0, keys)
                if queries
                else backend.reshape_raw(raw, (*sizes, 0, keys))
            )
        flat = backend.reshape_raw(raw, (*sizes, queries * count))
        flat = backend.slice_raw(flat, last, queries - 1, queries - 1 + queries * (count - 1))
        return backend.slice_raw(backend.reshape_raw(flat, (*sizes, queries, count - 1)), last + 1, 0, keys)

    return fn, dims
