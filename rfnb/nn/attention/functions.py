"""Attention functions. The weights of each pass through `attended`, for editing and recording."""

from __future__ import annotations

from typing import Never

from rfnb.core.dim import Dim
from rfnb.core.finite_padding import finite_with
from rfnb.core.op import op
from rfnb.core.tensor import Tensor
from rfnb.core.tensor_checks import check_dim
from rfnb.nn.attention.attention_kernel import fused_attention
from rfnb.nn.attention.causal_mask import causal_mask, unseen
from rfnb.nn.attention.weight_hook import are_edited, attended, attending_dim, note_fused, offer
from rfnb.nn.dropout import dropout
from rfnb.nn.run import run_ctx
from rfnb.ops.amp import narrowed, widened
from rfnb.ops.defaults import has_fractions
from rfnb.ops.gather import gather
from rfnb.ops.math import combine_bc, tanh
from rfnb.ops.matmul import matmul
from rfnb.ops.operands import check_dtypes, need_tensors
from rfnb.ops.softmax import softmax
from rfnb.ops.where import where
from rfnb.trace.probe import listening


@op
def dot_attention(
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    *extra: Never,
    key_dim: Dim,
    axis: Dim,
    att_dropout: float = 0.0,
    att_dropout_broadcast: bool | None = None,
    causal_query_spatial_dim: Dim | None = None,
    scale: float | None = None,
    **unknown: Never,
) -> Tensor:
    """The weighted mean of `values` over `axis`, weights from scaled dot products.

    Dims of `query` that are not in `keys` (heads, beams, target positions) are kept, so one function serves a full sequence,
    one step, and one step of a beam search. If `query` itself has `axis` (self-attention), a twin dim replaces it in the keys.

    Args:
        query: {..., key_dim}
        keys: {..., axis, key_dim}
        values: {..., axis}
        key_dim: Contracted between query and keys.
        axis: Attended over. Padding gets weight exactly 0.
        att_dropout: Dropout on the weights, in training.
        att_dropout_broadcast: True drops the same weights for all batch entries.
        causal_query_spatial_dim: The dim of the query positions, for causal attention: the last query is aligned with
            the last key, earlier queries with earlier keys.
        scale: Factor on the energies. Default 1/sqrt(key_dim.size), which keeps the variance of the energies near 1.

    Returns:
        {...}: the dims of values without axis, and the further dims of query.

    Raises:
        DimError: If key_dim is missing in query or keys, axis in keys or values, or causal_query_spatial_dim in query.

    Probes:
        attention: weights {..., axis}, non-negative, sum to 1 over axis.

    A fused kernel computes the result if the dims allow it and no weights are dropped or edited. The weights are then
    computed only for a recording, with the same result. On a CPU torch has no second derivative of that kernel: if you
    need it, select
    another one by `torch.nn.attention.sdpa_kernel(SDPBackend.MATH)`.

    Source: Vaswani et al. 2017, "Attention Is All You Need", section 3.2.1, equation (1).
    """
    causal_dim = causal_query_spatial_dim
    scale = max(key_dim.extent, 1) ** -0.5 if scale is None else scale
    drops = att_dropout and run_ctx.get_run_ctx().is_train_flag_enabled(func=dropout)
    if not drops and not are_edited():
        try:
            found = fused_attention(query, keys, values, key_dim, axis, causal_dim, scale)
        except (AttributeError, RuntimeError, TypeError):
            need_tensors("dot_attention", query, keys, values)
            check_dtypes("dot_attention", query=query, keys=keys, values=values)
            raise
        if found is not None:
            out, weights = found
            note_fused(query, key_dim, axis)
            if listening("attention"):
                if weights is None:
                    _offer_weights(query, keys, values, key_dim, axis, causal_dim, scale)
                else:
                    offer(weights, axis, attending_dim(weights, values, axis))
            return out
    need_tensors("dot_attention", query, keys, values)
    _check("dot_attention", query, keys, values, axis, key_dim)
    if causal_dim is not None:
        check_dim("dot_attention", query, causal_dim, "query")
    keys, values, kv_axis = _apart(query, keys, values, axis)
    energy = _energy(query, keys, key_dim, scale)
    return _attend(energy, values, kv_axis, att_dropout, att_dropout_broadcast, causal_dim)


def _offer_weights(
    query: Tensor, keys: Tensor, values: Tensor, key_dim: Dim, axis: Dim, causal_dim: Dim | None, scale: float
) -> None:
    """Send the weights behind a fused result to recordings. Recording does not change the result."""
    with query.backend.no_grad():
        keys, values, axis = _apart(query, keys, values, axis)
        weights = narrowed(_weights(_energy(query, keys, key_dim, scale), axis, causal_dim)[0], query)
    offer(weights, axis, attending_dim(weights, values, axis))


@op
def additive_attention(
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    *extra: Never,
    energy_weight: Tensor,
    key_dim: Dim,
    axis: Dim,
    att_dropout: float = 0.0,
    att_dropout_broadcast: bool | None = None,
    **unknown: Never,
) -> Tensor:
    """The weighted mean of `values` over `axis`, weights from energies v · tanh(query + key).

    Args:
        query: {..., key_dim}, already projected.
        keys: {..., axis, key_dim}, already projected.
        values: {..., axis}
        energy_weight: v, {key_dim}.
        axis: Attended over. Padding gets weight exactly 0.

    Returns:
        {...}: the dims of values without axis, and the further dims of query.

    Raises:
        DimError: If key_dim is missing in query or keys, or axis in keys or values.

    Probes:
        attention: weights {..., axis}, non-negative, sum to 1 over axis.

    Source: Bahdanau et al. 2015, "Neural Machine Translation by Jointly Learning to Align and Translate", appendix A.1.2.
    """
    need_tensors("additive_attention", query, keys, values, energy_weight)
    _check("additive_attention", query, keys, values, axis, key_dim)
    keys, values, kv_axis = _apart(query, keys, values, axis)
    energy = _additive_energy(query, keys, energy_weight, key_dim)
    return _attend(energy, values, kv_axis, att_dropout, att_dropout_broadcast)


@op
def dot_attention_weights(
    query: Tensor, keys: Tensor, *extra: Never, key_dim: Dim, axis: Dim, scale: float | None = None, **unknown: Never
) -> Tensor:
    """The weights of `dot_attention` alone: {..., axis}, 0 in the padding, sum 1 over axis.

    Args:
        query: {..., key_dim}. If it has `axis`, the weights are over a twin of `axis`.
        keys: {..., axis, key_dim}
        scale: Default 1/sqrt(key_dim.size).

    Raises:
        DimError: If key_dim is missing in query or keys, or axis in keys.

    Source: Vaswani et al. 2017, section 3.2.1, equation (1).
    """
    need_tensors("dot_attention_weights", query, keys)
    _check("dot_attention_weights", query, keys, keys, axis, key_dim)
    scale = max(key_dim.extent, 1) ** -0.5 if scale is None else scale
    keys, _, kv_axis = _apart(query, keys, keys, axis)
    return narrowed(softmax(_energy(query, keys, key_dim, scale), axis=kv_axis), query)


@op
def additive_attention_weights(
    query: Tensor, keys: Tensor, *extra: Never, energy_weight: Tensor, key_dim: Dim, axis: Dim, **unknown: Never
) -> Tensor:
    """The weights of `additive_attention` alone: {..., axis}, 0 in the padding, sum 1 over axis.

    Args:
        query: {..., key_dim}. If it has `axis`, the weights are over a twin of `axis`.
        keys: {..., axis, key_dim}
        energy_weight: v, {key_dim}.

    Raises:
        DimError: If key_dim is missing in query or keys, or axis in keys.

    Source: Bahdanau et al. 2015, appendix A.1.2.
    """
    need_tensors("additive_attention_weights", query, keys, energy_weight)
    _check("additive_attention_weights", query, keys, keys, axis, key_dim)
    keys, _, kv_axis = _apart(query, keys, keys, axis)
    return softmax(_additive_energy(query, keys, energy_weight, key_dim), axis=kv_axis)


def _additive_energy(query: Tensor, keys: Tensor, energy_weight: Tensor, key_dim: Dim) -> Tensor:
    query, keys = finite_with(query, keys), finite_with(keys, query)
    return matmul(
        tanh(combine_bc(query, "add", keys)), energy_weight, reduce=key_dim
    )  # every query is combined with every key


def _energy(query: Tensor, keys: Tensor, key_dim: Dim, scale: float = 1.0) -> Tensor:
    """query · keys * scale, with the factor applied first. float16 is computed in float32, as in fused kernels: energies
    may exceed its range.
    """
    if query.dtype == "float16":
        query, keys = widened(query), widened(keys)
    elif not has_fractions(query.dtype):
        check_dtypes("attention", query=query, keys=keys)
    return matmul(query * scale if scale != 1 else query, keys, reduce=key_dim)


def _attend(
    energy: Tensor,
    values: Tensor,
    axis: Dim,
    att_dropout: float,
    att_dropout_broadcast: bool | None,
    causal_dim: Dim | None = None,
) -> Tensor:
    weights, seen = _weights(energy, axis, causal_dim)
    weights = narrowed(weights, values)
    weights = attended(weights, axis=axis, values=values, seen=seen)
    if att_dropout:
        shared = axis if att_dropout_broadcast else None
        weights = dropout(weights, att_dropout, axis=shared)
    out = matmul(weights, values, reduce=axis)
    if values.feature_dim is not None and values.feature_dim in out.dims:
        out._feature_dim = values.feature_dim
    return out


def _weights(energy: Tensor, axis: Dim, causal_dim: Dim | None) -> tuple[Tensor, Tensor | None]:
    """The weights, and the mask of visible keys, or None if all are visible."""
    if causal_dim is None:
        return softmax(energy, axis=axis), None
    seen, some_empty = causal_mask(causal_dim, axis, energy)
    weights = softmax(where(seen, energy, unseen(energy)), axis=axis)
    return (where(seen, weights, 0.0) if some_empty else weights), seen


def _check(what: str, query: Tensor, keys: Tensor, values: Tensor, axis: Dim, key_dim: Dim) -> None:
    for label, tensor, dim in (
        ("query", query, key_dim),
        ("keys", keys, key_dim),
        ("keys", keys, axis),
        ("values", values, axis),
    ):
        check_dim(what, tensor, dim, label)


def _apart(query: Tensor, keys: Tensor, values: Tensor, axis: Dim) -> tuple[Tensor, Tensor, Dim]:
    """In self-attention a twin replaces the axis of the keys, since a tensor cannot hold a dim twice."""
    if axis not in query.dims:
        return keys, values, axis
    twin = axis.copy(match_priority=axis.match_priority - 1)
    keys, values = [
        tensor._like(tensor._raw, tuple([twin if dim is axis else dim for dim in tensor.dims]))
        for tensor in (keys, values)
    ]
    return keys, values, twin


@op
def generic_attention(
    weights: Tensor, base: Tensor, *extra: Never, axis: Dim, auto_squeeze: bool = True, **unknown: Never
) -> Tensor:
    """The sum of the frames of `base`, weighted by `weights`.

    Args:
        weights: {..., axis}. They are used unchanged, without softmax.
        base: {..., axis, features}
        axis: Summed over, without its padding.
        auto_squeeze: Drop static dims of size 1 that only weights has (a single head).

    Returns:
        {..., features}: the common dims (batch, heads), then the further dims of weights (query positions), then those of base.

    Raises:
        DimError: If axis is missing in weights or base.

    Probes:
        attention: weights {..., axis}.

    Source: Bahdanau et al. 2015, "Neural Machine Translation by Jointly Learning to Align and Translate", equation (5).
    """
    need_tensors("generic_attention", weights, base)
    for label, tensor in (("weights", weights), ("base", base)):
        check_dim("generic_attention", tensor, axis, label)
    if auto_squeeze:
        for dim in weights.dims:
            if dim.size == 1 and dim not in base.dims:
                weights = gather(weights, indices=0, axis=dim)
    weights = attended(weights, axis=axis, values=base)
    out = matmul(weights, base, reduce=axis)
    if base.feature_dim is not None and base.feature_dim in out.dims:
        out._feature_dim = base.feature_dim
    return out
