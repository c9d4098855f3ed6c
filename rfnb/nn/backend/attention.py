"""The documented attention methods of Backend, which take all dims by name."""

from __future__ import annotations

from rfnb.core.dim import Dim
from rfnb.core.tensor import Tensor
from rfnb.ops.half import narrowed
from rfnb.ops.math import combine_bc
from rfnb.ops.matmul import matmul
from rfnb.ops.merge import merge_dims, split_dims
from rfnb.ops.softmax import softmax
from rfnb.ops.stack import stack, unstack
from rfnb.ops.where import where


def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    attention_mask: Tensor | None = None,
    att_dropout: float = 0.0,
    att_dropout_broadcast: bool | None = None,
    v_feat_dim: Dim | None = None,
    qk_feat_dim: Dim,
    kv_spatial_dim: Dim,
    query_spatial_dim: Dim | None = None,
    is_causal: bool = False,
    scale: float | None = None,
) -> Tensor:
    """`rf.dot_attention`, with a mask of which query may look at which key.

    Args:
        query: {..., query_spatial_dim, qk_feat_dim}
        key: {..., kv_spatial_dim, qk_feat_dim}
        value: {..., kv_spatial_dim, v_feat_dim}
        attention_mask: bool {...}, True where a query may look. A query that may look nowhere gets 0.
        is_causal: No query looks ahead.

    Returns:
        {..., query_spatial_dim, v_feat_dim}.

    Probes:
        attention: weights {..., query_spatial_dim, kv_spatial_dim}.
    """
    from rfnb.nn.attention.attended import attended  # layers are loaded by who uses them
    from rfnb.nn.attention.causal_mask import causal_mask, unseen
    from rfnb.nn.attention.functions import _energy, dot_attention
    from rfnb.nn.dropout import dropout

    causal_dim = query_spatial_dim if is_causal else None
    if attention_mask is None:
        return dot_attention(
            query,
            key,
            value,
            key_dim=qk_feat_dim,
            axis=kv_spatial_dim,
            att_dropout=att_dropout,
            att_dropout_broadcast=att_dropout_broadcast,
            causal_query_spatial_dim=causal_dim,
            scale=scale,
        )
    energy = _energy(query, key, qk_feat_dim, max(qk_feat_dim.extent, 1) ** -0.5 if scale is None else scale)
    if causal_dim is not None:
        attention_mask = combine_bc(attention_mask, "logical_and", causal_mask(causal_dim, kv_spatial_dim, energy)[0])
    weights = softmax(where(attention_mask, energy, unseen(energy)), axis=kv_spatial_dim)
    weights = narrowed(where(attention_mask, weights, 0.0), value)  # of a query that may look nowhere
    weights = attended(weights, axis=kv_spatial_dim, target=query_spatial_dim, seen=attention_mask)
    if att_dropout:
        weights = dropout(weights, att_dropout, axis=kv_spatial_dim if att_dropout_broadcast else None)
    return matmul(weights, value, reduce=kv_spatial_dim)


def rel_pos_self_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    pos_emb: Tensor,
    *,
    pos_bias_u: Tensor | None,
    pos_bias_v: Tensor | None,
    att_dropout: float = 0.0,
    att_dropout_broadcast: bool | None = None,
    v_feat_dim: Dim | None = None,
    qk_feat_dim: Dim,
    kv_spatial_dim: Dim,
    query_spatial_dim: Dim,
    pos_emb_spatial_dim: Dim,
) -> Tensor:
    """Attention with energies ((q + u) · k + (q + v) · r) / sqrt(qk_feat_dim), where r is the vector of the distance.

    Args:
        query: {..., query_spatial_dim, qk_feat_dim}
        key, value: {..., kv_spatial_dim, ...}
        pos_emb: {..., pos_emb_spatial_dim, qk_feat_dim}, from the most negative distance of key to query up.
        pos_bias_u, pos_bias_v: u and v, {..., qk_feat_dim}.

    Returns:
        {..., query_spatial_dim, v_feat_dim}.

    Source: Dai et al. 2019, "Transformer-XL", section 3.3.
    """
    from rfnb.nn.attention.functions import _apart, _attend, _energy
    from rfnb.nn.attention.relative_shift import relative_shift

    key, value, kv_axis = _apart(query, key, value, kv_spatial_dim)
    scale = max(qk_feat_dim.extent, 1) ** -0.5
    content, position = (query if bias is None else query + bias for bias in (pos_bias_u, pos_bias_v))
    energy = _energy(position, pos_emb, qk_feat_dim, scale)
    energy = relative_shift(energy, query_dim=query_spatial_dim, key_dim=kv_axis, distance_dim=pos_emb_spatial_dim)
    energy = combine_bc(_energy(content, key, qk_feat_dim, scale), "add", energy)
    return _attend(energy, value, kv_axis, att_dropout, att_dropout_broadcast)


def apply_rope(x: Tensor, pos_enc: Tensor, feat_dim: Dim) -> Tensor:
    """The features 2m and 2m + 1 turned by an angle.

    Args:
        x: {..., feat_dim}
        pos_enc: {..., feat_dim}: the sines of all angles, then their cosines.

    Returns:
        {..., feat_dim}.

    Source: Su et al. 2021, "RoFormer", equation (34).
    """
    half, pair = Dim(feat_dim.extent // 2, name="half"), Dim(2, name="pair")
    even, odd = unstack(split_dims(x, axis=feat_dim, dims=(half, pair)), axis=pair)
    sines, cosines = unstack(split_dims(pos_enc, axis=feat_dim, dims=(pair, half)), axis=pair)
    turned, _ = stack([even * cosines - odd * sines, even * sines + odd * cosines], out_dim=pair)
    out, _ = merge_dims(turned, dims=(half, pair), out_dim=feat_dim)
    return out
