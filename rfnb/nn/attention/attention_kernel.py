"""Scaled dot-product attention in one fused kernel of the backend, where the dims allow it. The weights are not accessible there.

For few queries without gradients, as in a step of a search, the fused kernel saves nothing on a CPU. Three separate
kernels are used there, and the weights remain accessible.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from rfnb.core.dim import Dim, Dims
from rfnb.core.dim_mask import spread
from rfnb.core.generations import aligned
from rfnb.core.layout import PlanCache, full_shape, masks_for, to_order
from rfnb.core.memo import Memo
from rfnb.core.op import op
from rfnb.core.plan_parts import Shape
from rfnb.core.size_queries import asked
from rfnb.core.tensor import Tensor, new_tensor
from rfnb.nn.attention.causal_mask import keys_before
from rfnb.ops.operands import check_devices

_plans = PlanCache()
Raw = Callable[[Any], Any]
_FEW = 1 << 16  # weights
_Seen = tuple[Dims, Dims, Dim, Dim | None]  # the arguments of `_seen`


class _Plan(NamedTuple):
    """Converters for the arguments of the kernel, arrays [batch, heads, queries | frames, features]. None means that
    nothing needs to be done.
    """

    backend: Any
    masks: tuple[Raw | None, Raw | None, Raw | None]  # the real frames of query, keys, values
    orders: tuple[Raw | None, Raw | None, Raw | None]
    bias: Raw | None
    causal: bool
    finish: Raw | None
    dims: Dims
    # Arrays over the dims of the operands -> result, weights.
    few: Callable[[Any, Any, Any, float], tuple[Any, Any]] | None
    weight_dims: Dims
    one_step: bool  # few queries, without padding


@op
def fused_attention(
    query: Tensor, keys: Tensor, values: Tensor, key_dim: Dim, axis: Dim, causal_dim: Dim | None, scale: float
) -> tuple[Tensor, Tensor | None] | None:
    """The result of `dot_attention` without dropout, and the weights {..., axis} if they were computed; None if the kernel
    does not support these dims.
    """
    q, k, v = query._raw, keys._raw, values._raw
    key = (q.__class__, query.dims, keys.dims, values.dims, key_dim, axis, causal_dim)
    try:
        plan = _plans[key]
    except KeyError:
        together = aligned("dot_attention", (query, keys, values))
        if together is not None:
            query, keys, values = together
            return fused_attention(query, keys, values, key_dim, axis, causal_dim, scale)
        plan = _plans.make(key, _plan, query, keys, values, key_dim, axis, causal_dim)
    if plan is None:
        return None
    backend, finite = plan.backend, query._finite
    mask_q, mask_k, mask_v = plan.masks
    mask_k = None if mask_k is None or keys._finite else mask_k  # a NaN times weight 0 is NaN
    mask_v = None if mask_v is None or values._finite else mask_v
    quick = plan.one_step and (mask_k is not None or mask_v is not None)
    quick = quick and not backend.grad_enabled() and backend.is_on_host_raw(q)
    try:
        # Masking the history takes longer than the step itself. If the result is finite, no masking was needed.
        raw, weights = _attend(plan, backend, q, k, v, scale) if quick else (None, None)
        if not quick or not backend.is_finite_raw(raw):
            where, tracks = backend.where_raw, backend.tracks_gradient_raw
            k = k if mask_k is None else where(mask_k(k), k, 0)
            v = v if mask_v is None else where(mask_v(v), v, 0)
            if mask_q is not None and not finite and (tracks(q) or tracks(k) or tracks(v)):
                q, finite = where(mask_q(q), q, 0), True  # a row of NaN has gradient NaN
            raw, weights = _attend(plan, backend, q, k, v, scale)
    except RuntimeError:
        check_devices("dot_attention", query, keys, values)
        raise
    out = new_tensor(raw, plan.dims, values, finite)
    out.sparse_dim = None
    return out, weights


def _attend(plan: _Plan, backend: Any, q: Any, k: Any, v: Any, scale: float) -> tuple[Any, Tensor | None]:
    if plan.few is not None and backend.is_on_host_raw(q) and not backend.grad_enabled():
        raw, raw_weights = plan.few(q, k, v, scale)
        return raw, new_tensor(raw_weights, plan.weight_dims)
    order_q, order_k, order_v = plan.orders
    q = q if order_q is None else order_q(q)
    k = k if order_k is None else order_k(k)
    v = v if order_v is None else order_v(v)
    raw = backend.attention_raw(q, k, v, None if plan.bias is None else plan.bias(q), plan.causal, scale)
    return raw if plan.finish is None else plan.finish(raw), None


def _plan(query: Tensor, keys: Tensor, values: Tensor, key_dim: Dim, axis: Dim, causal_dim: Dim | None) -> _Plan | None:
    common = tuple(dim for dim in query.dims if dim in keys.dims and dim not in (key_dim, axis))
    queries = tuple(dim for dim in query.dims if dim not in (*common, key_dim))
    features = tuple(dim for dim in values.dims if dim not in (*common, axis))
    fits = key_dim in query.dims and set(keys.dims) == {*common, axis, key_dim} and {*common, axis} <= set(values.dims)
    fits = fits and (causal_dim is None or causal_dim in queries)
    fits = fits and not set(features) & {*common, *queries} and not key_dim.need_masking()
    fits = fits and set(axis.length_dims) <= set(common) and query.backend is keys.backend is values.backend
    if not fits or any(dim.is_empty() for dim in (*query.dims, *values.dims, key_dim)):
        return None
    operands = (query, keys, values)
    if not all(set(dim.length_dims) <= set(operand.dims) for operand in operands for dim in operand.dims):
        return None  # padding can only be located with the dims that the lengths are over
    backend = query.backend
    groups = (common[:-1] if len(common) > 1 else common, common[-1:] if len(common) > 1 else ())
    causal = causal_dim is not None and queries == (causal_dim,) and asked(_is_plain_causal, causal_dim, axis)
    hides = not causal and (axis.has_padding() or (causal_dim is not None and asked(_hides, causal_dim, axis)))
    seen = (common, queries, axis, causal_dim) if hides else None
    blinds = hides and (axis.has_empty() or (causal_dim is not None and asked(_blinds, causal_dim, axis)))
    some = seen if blinds else None
    dims = common + queries + features
    plain = len(common) == 2 and len(queries) == len(features) == 1
    bias = None if seen is None else _bias(seen, (*groups, queries, (axis,)), blinds, backend)
    weight_dims = (*common, *queries, axis)
    plain_3d = len(common) == len(queries) == len(features) == 1
    is_few = plain_3d and causal_dim is None and some is None and axis not in queries
    is_few = is_few and asked(_are_few, *weight_dims)
    return _Plan(
        backend,
        tuple(masks_for(operand.dims, operand.dims, backend, "dot_attention") for operand in operands),  # type: ignore
        (
            _grouped(query.dims, (*groups, queries, (key_dim,)), backend),
            _grouped(keys.dims, (*groups, (axis,), (key_dim,)), backend),
            _grouped(values.dims, (*groups, (axis,), features), backend),
        ),
        bias,
        causal,
        _finish(dims, plain, some, len(features), backend),
        dims,
        _few(operands, (common, queries, features), (key_dim, axis), seen) if is_few else None,
        weight_dims,
        asked(_is_one_step, axis, *queries) and not any(dim.has_padding() for dim in query.dims),
    )


def _are_few(*dims: Dim) -> bool:
    return math.prod(full_shape(dims)) <= _FEW


def _is_one_step(axis: Dim, *queries: Dim) -> bool:
    return math.prod(full_shape(queries)) <= axis.extent


def _is_plain_causal(causal_dim: Dim, axis: Dim) -> bool:
    """True if query i sees the keys 0 .. i. No real query then sees padding, so no further mask is needed."""
    return causal_dim.extent == axis.extent and not np.any(keys_before(causal_dim, axis)[0])


def _hides(causal_dim: Dim, axis: Dim) -> bool:
    """True if some query cannot see all keys, because some come later."""
    return not np.all(np.asarray(keys_before(causal_dim, axis)[0]) >= axis.extent - 1)


def _blinds(causal_dim: Dim, axis: Dim) -> bool:
    """True if some query sees no key at all, because all come later."""
    return bool(np.any(keys_before(causal_dim, axis)[0] < 0))


def _seen(common: Dims, queries: Dims, axis: Dim, causal_dim: Dim | None) -> np.ndarray:
    """The visible keys: bool, broadcasting over {common, queries, axis}."""
    dims: tuple[Any, ...] = (*common, *queries, _KEY)
    seen: Any = True
    lengths = axis.lengths
    if causal_dim is None and lengths is not None and lengths.ndim == 1:  # the usual case, with fewer calls
        sizes = [lengths.size if dim in axis.length_dims else 1 for dim in dims[:-1]]
        return np.arange(axis.extent) < lengths.reshape(*sizes, 1)
    if axis.has_padding():
        over = tuple(dim for dim in dims if dim in axis.length_dims)
        seen = spread(axis.host_mask((*over, axis)), (*over, _KEY), dims)
    if causal_dim is not None:
        before, over = keys_before(causal_dim, axis)
        positions = np.arange(causal_dim.extent)[:, None] + np.asarray(before)[..., None, None]
        seen = seen & spread(np.arange(axis.extent) <= positions, (*over, causal_dim, _KEY), dims)
    found: np.ndarray = seen
    return found


_KEY: Any = object()  # stands for the axis of the keys, which in self-attention is also a dim of the query


def _grouped(dims: Dims, groups: tuple[Dims, ...], backend: Any) -> Raw | None:
    """Converter from a raw array to one with one axis per group of dims."""
    order = to_order(dims, tuple(dim for group in groups for dim in group), backend)
    if all(len(group) == 1 for group in groups):
        return order
    shape, reshape = Shape(*groups), backend.reshape_raw
    return lambda raw: reshape(raw if order is None else order(raw), shape)


def _grouped_mask(seen: np.ndarray, groups: tuple[Dims, ...]) -> np.ndarray:
    """One axis per group, of length 1 where all axes of the group have length 1."""
    full: list[int] = []
    grouped: list[int] = []
    first = 0
    for group in groups:
        own = seen.shape[first : first + len(group)]
        sizes = own if all(size == 1 for size in own) else full_shape(group)
        full += sizes
        grouped.append(math.prod(sizes))
        first += len(group)
    return (seen if seen.shape == tuple(full) else np.broadcast_to(seen, full)).reshape(grouped)


def _bias(dims: _Seen, groups: tuple[Dims, ...], blinds: bool, backend: Any) -> Raw:
    """Bias with -inf where a key is hidden, one axis per group, cached per dtype and device. With `blinds`, a row without
    any visible key gets 0: its result is set to 0 later, so neither the row nor its gradient is NaN in any kernel.
    """
    made, plain = Memo(), all(len(group) == 1 for group in groups)

    def bias(raw: Any) -> Any:
        key = backend.dtype_key_raw(raw), backend.device_key_raw(raw)
        found = made.get(key)
        if found is None:
            seen = _seen(*dims) if plain else _grouped_mask(_seen(*dims), groups)
            seen = seen | ~seen.any(-1, keepdims=True) if blinds else seen
            host = np.where(seen, np.float32(0), -np.float32(np.inf))
            dtype, device = backend.get_dtype_name_raw(raw), backend.get_device_raw(raw)
            found = made.keep(key, backend.from_numpy(host, dtype=dtype, device=device), host.nbytes)
        return found

    return bias


def _few(
    operands: tuple[Tensor, Tensor, Tensor], dims: tuple[Dims, Dims, Dims], over: tuple[Dim, Dim], seen: _Seen | None
) -> Callable[[Any, Any, Any, float], tuple[Any, Any]]:
    """Attention on the unchanged arrays -> the result and the weights. Applies with one dim of each kind, when nothing needs a reshape."""
    (query, keys, values), (common, queries, features), (key_dim, axis) = operands, dims, over
    backend = query.backend
    attend = backend.attention_and_weights_raw
    order_q = to_order(query.dims, (*common, *queries, key_dim), backend)
    order_k = to_order(keys.dims, (*common, key_dim, axis), backend)
    order_v = to_order(values.dims, (*common, axis, *features), backend)
    bias = None if seen is None else _bias(seen, (common, queries, (axis,)), False, backend)

    def few(q: Any, k: Any, v: Any, scale: float) -> tuple[Any, Any]:
        q = q if order_q is None else order_q(q)
        k = k if order_k is None else order_k(k)
        v = v if order_v is None else order_v(v)
        return attend(q, k, v, None if bias is None else bias(q), scale)

    return few


def _finish(dims: Dims, plain: bool, seen: _Seen | None, num_features: int, backend: Any) -> Raw | None:
    """Converter from the raw result (already with one axis per dim if `plain`) to one axis per dim, with 0 where no key is visible."""
    shape, reshape, where = Shape(*dims), backend.reshape_raw, backend.where_raw
    if seen is None:
        return None if plain else (lambda raw: reshape(raw, shape))
    made = Memo()

    def finish(raw: Any) -> Any:
        device = backend.get_device_raw(raw)
        some = made.get(device)
        if some is None:
            host = np.asarray(_seen(*seen).any(-1))
            host = host.reshape(host.shape + (1,) * num_features)
            some = made.keep(device, backend.from_numpy(host, dtype="bool", device=device))
        return where(some, reshape(raw, shape), 0)

    return finish
