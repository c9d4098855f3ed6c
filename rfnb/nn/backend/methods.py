"""Bind the documented Backend methods that are written once for all backends.

`Backend.matmul` is `rf.matmul`; the method costs no more than the function. A backend overrides the raw methods that
these functions call; see `docs/backend.md`.

This file also has the documented attention methods of Backend, which take all dims by name.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any

from rfnb.backends.protocol import Backend
from rfnb.core.dim import Dim
from rfnb.core.tensor import Tensor
from rfnb.nn.backend import adapters
from rfnb.ops.amp import narrowed
from rfnb.ops.concat import stack, unstack
from rfnb.ops.math import combine_bc
from rfnb.ops.matmul import matmul
from rfnb.ops.merge import merge_dims, split_dims
from rfnb.ops.softmax import softmax
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
    """`rf.dot_attention` with a mask of the keys that each query may attend to.

    Args:
        query: {..., query_spatial_dim, qk_feat_dim}
        key: {..., kv_spatial_dim, qk_feat_dim}
        value: {..., kv_spatial_dim, v_feat_dim}
        attention_mask: bool {...}, True where a query may attend. A query without any such key gets 0.
        is_causal: Hide later keys from each query.

    Returns:
        {..., query_spatial_dim, v_feat_dim}.

    Probes:
        attention: weights {..., query_spatial_dim, kv_spatial_dim}.
    """
    from rfnb.nn.attention.causal_mask import causal_mask, unseen
    from rfnb.nn.attention.functions import _energy, dot_attention
    from rfnb.nn.attention.weight_hook import attended  # layers are imported lazily
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
    weights = narrowed(where(attention_mask, weights, 0.0), value)  # for queries that may attend to no key
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
        pos_emb: {..., pos_emb_spatial_dim, qk_feat_dim}, in increasing order of the distance key - query.
        pos_bias_u, pos_bias_v: u and v, {..., qk_feat_dim}.

    Returns:
        {..., query_spatial_dim, v_feat_dim}.

    Source: Dai et al. 2019, "Transformer-XL", section 3.3.
    """
    from rfnb.nn.attention.functions import _apart, _attend, _energy
    from rfnb.nn.attention.relative import relative_shift

    key, value, kv_axis = _apart(query, key, value, kv_spatial_dim)
    scale = max(qk_feat_dim.extent, 1) ** -0.5
    content, position = (query if bias is None else query + bias for bias in (pos_bias_u, pos_bias_v))
    energy = _energy(position, pos_emb, qk_feat_dim, scale)
    energy = relative_shift(energy, query_dim=query_spatial_dim, key_dim=kv_axis, distance_dim=pos_emb_spatial_dim)
    energy = combine_bc(_energy(content, key, qk_feat_dim, scale), "add", energy)
    return _attend(energy, value, kv_axis, att_dropout, att_dropout_broadcast)


def apply_rope(x: Tensor, pos_enc: Tensor, feat_dim: Dim) -> Tensor:
    """The features 2m and 2m + 1 rotated by an angle.

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


# The public function of the same name.
SAME = (
    "assert_ get_tensor_dependencies get_tensor_consumers cond while_loop copy_to_device copy cast set_requires_gradient gradient"
    " stop_gradient stop_gradient_scope scaled_gradient scaled_gradient_ext gradient_checkpoint_scope split_dims reshape split"
    " expand_dim squeeze unstack safe_log softmax log_softmax ctc_loss ctc_best_path edit_distance convert_to_tensor compare"
    " combine gather scatter where sort search_sorted is_finite is_infinite is_neg_infinite clip_by_value lerp cumsum matmul"
    " range_over_dim set_sparse_dim reduce top_k random random_choice_with_replacement masked_select masked_scatter conv"
    " transposed_conv pool real_as_complex complex_as_real make_complex cum_concat_step"
).split()
# The same function without the new dim, which the documented method does not return.
FIRST = "merge_dims concat pad stack slice replace_dim stft".split()
ADAPTED: dict[str, Any] = {
    **{
        name: made
        for name, made in vars(adapters).items()
        if inspect.isfunction(made) and made.__module__ == adapters.__name__ and not name.startswith("_")
    },
    "scaled_dot_product_attention": scaled_dot_product_attention,
    "rel_pos_self_attention": rel_pos_self_attention,
    "apply_rope": apply_rope,
}


def bind(public: Mapping[str, Any]) -> None:
    """Make the functions methods of Backend.

    Args:
        public: The public names of rfnb.
    """
    functions = {name: public[name] for name in SAME if name in public}
    functions |= {name: _first(public[name]) for name in FIRST if name in public}
    functions |= ADAPTED
    for name, function in functions.items():
        setattr(Backend, name, staticmethod(function))
    Backend._of_tensors = frozenset(functions)


def _first(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def method(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)[0]

    return method
