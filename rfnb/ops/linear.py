"""A product with a weight plus a bias in one kernel: the computation of a linear layer."""

from __future__ import annotations

from typing import Any

from rfnb.core.dim import Dim
from rfnb.core.dim_identity import check_remade
from rfnb.core.layout import PlanCache, masks_for, to_order
from rfnb.core.op import op
from rfnb.core.plan_parts import Shape
from rfnb.core.tensor import Tensor, new_tensor
from rfnb.ops.cast import cast
from rfnb.ops.math import add
from rfnb.ops.matmul import matmul
from rfnb.ops.operands import check_devices, need_values

_plans = PlanCache()


@op
def linear(source: Tensor, weight: Tensor, bias: Tensor | None, *, reduce: Dim) -> Tensor:
    """source weight + bias; equal to `matmul(source, weight, reduce=reduce) + bias`, with feature_dim out.

    Args:
        source: {..., reduce}
        weight: {reduce, out}
        bias: {out}

    Returns:
        {..., out}.

    Raises:
        DimError: If source or weight lacks `reduce`.
        TypeError: If an operand is not a Tensor.
    """
    try:
        raw, raw_weight = source._raw, weight._raw
    except AttributeError:
        need_values("linear", source, weight)
        raise
    key = (raw.__class__, source.dims, weight.dims, reduce, bias is None)
    try:
        plan = _plans[key]
    except KeyError:
        plan = _plans.make(key, _plan, source, weight, bias, reduce)
    if plan is None:
        out = matmul(source, weight, reduce=reduce)
        if bias is None:
            return out
        if out.dtype != weight.dtype:  # mixed precision: the sum has the dtype of the product, as in the kernel
            bias = cast(bias, out.dtype)
        return add(out, bias)
    kernel, tracks, where, mask, order, reshape, rows, shape, dims, feature = plan
    finite = source._finite
    if mask is not None and not finite and tracks(raw_weight):
        # The gradient of the weight is a sum over the frames. What arrives from the padding is 0, but 0 * NaN is NaN.
        raw, finite = where(mask(raw), raw, 0), True
    if order is not None:
        raw = order(raw)
    try:
        if bias is None:
            raw = kernel(raw, raw_weight)
        elif shape is None:
            raw = kernel(bias._raw, raw, raw_weight)
        else:
            raw = reshape(kernel(bias._raw, reshape(raw, rows), raw_weight), shape)
    except RuntimeError:
        check_devices("linear", source, weight, *(() if bias is None else (bias,)))
        raise
    out = new_tensor(raw, dims, None, finite)
    out._feature_dim = feature
    return out


def _plan(source: Tensor, weight: Tensor, bias: Tensor | None, reduce: Dim) -> Any:
    """The arguments of the kernel; None if the dims are not those of a linear layer, or matmul should report an error."""
    check_devices("linear", source, weight, *(() if bias is None else (bias,)))
    same_backend = source.backend is weight.backend and (bias is None or bias.backend is weight.backend)
    if reduce not in source.dims or not same_backend or reduce.need_masking() or len(source.dims) == 1:
        return None
    if len(weight.dims) != 2 or weight.dims[0] is not reduce or weight.dims[1] in source.dims:
        return None
    if bias is not None and bias.dims != weight.dims[1:]:
        return None
    check_remade("linear", [("source", source.dims), ("weight", weight.dims)], but=(reduce,))
    backend, rest = source.backend, tuple(dim for dim in source.dims if dim is not reduce)
    mask = masks_for(source.dims, [dim for dim in rest if set(dim.length_dims) <= set(rest)], backend, "linear")
    order = to_order(source.dims, (*rest, reduce), backend)
    dims = (*rest, weight.dims[1])
    rows, shape = Shape(rest, reduce), Shape(*dims)
    kernel = backend.matmul_raw if bias is None else backend.add_matmul_raw
    tracks, where, reshape = backend.tracks_gradient_raw, backend.where_raw, backend.reshape_raw
    return kernel, tracks, where, mask, order, reshape, rows, None if len(rest) == 1 else shape, dims, weight.dims[1]
