"""matmul: multiply and sum over named dims, with the padding of ragged dims masked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Never

from rfnb.core.dim import Dim, Dims
from rfnb.core.dim_identity import check_remade, dim_among, looked_up_in_both
from rfnb.core.errors import DimError, type_error
from rfnb.core.finite_padding import whole_padding
from rfnb.core.generations import aligned
from rfnb.core.layout import PlanCache, composed, masks_for, to_order
from rfnb.core.op import op
from rfnb.core.plan_parts import Shape
from rfnb.core.tensor import Tensor, new_tensor
from rfnb.core.tensor_checks import dims_of
from rfnb.core.tensor_text import missing_dim, shape_of
from rfnb.ops.operands import check_devices, check_dtypes, common_backend, need_values

_plans = PlanCache()


@op
def matmul(
    a: Tensor, b: Tensor, *extra: Never, reduce: Dim | Sequence[Dim], use_mask: bool = True, **unknown: Never
) -> Tensor:
    """The product of a and b, summed over `reduce`.

    Args:
        a, b: {..., reduce}; further common dims are batch dims.
        reduce: One dim or several. Frames past a sequence's end are excluded (in both operands). For a square weight it refers to
            the input side, `dim.copy(match_priority=1)`.
        use_mask: False includes the padding.

    Returns:
        {common dims in the order of a, further dims of a, further dims of b}.

    Raises:
        DimError: If a or b lacks one of `reduce`.
    """
    if reduce.__class__ is not Dim:
        reduce = tuple(reduce) if reduce.__class__ is list or reduce.__class__ is tuple else dims_of("matmul", reduce)
    try:
        fn, dims, tracked, made_finite = _plans[a._raw.__class__, b._raw.__class__, a.dims, b.dims, reduce, use_mask]
    except KeyError:
        key = (a._raw.__class__, b._raw.__class__, a.dims, b.dims, reduce, use_mask)
        need_values("matmul", a, b)
        together = aligned("matmul", (a, b), (reduce,) if isinstance(reduce, Dim) else reduce)
        if together is not None:
            several = (reduce,) if isinstance(reduce, Dim) else reduce
            return matmul(*together, reduce=[dim_among(dim, together) for dim in several], use_mask=use_mask)
        several = (reduce,) if isinstance(reduce, Dim) else reduce
        fn, dims, tracked, made_finite = _plans.make(key, _plan, a, b, several, use_mask)
    except AttributeError:
        need_values("matmul", a, b)
        raise
    raw_a, raw_b, finite = a._raw, b._raw, a._finite and b._finite
    if tracked is not None and not finite and tracked(raw_a, raw_b):
        raw_a, raw_b, finite = made_finite(a, b)
    try:
        return new_tensor(fn(raw_a, raw_b), dims, None, finite)
    except (RuntimeError, TypeError):
        check_devices("matmul", a, b)
        other = _other_dtype(a, b)
        if other is not None:
            raise other from None
        check_dtypes("matmul", a=a, b=b)
        raise


dot = matmul


def _other_dtype(a: Tensor, b: Tensor) -> TypeError | None:
    if a.dtype == b.dtype:
        return None
    return type_error(
        "matmul: the operands have different dtypes.",
        {"a": f"{shape_of(a)} {a.dtype}", "b": f"{shape_of(b)} {b.dtype}"},
        "A product-sum is computed in one dtype. Choose it:",
        "rf.matmul(a, rf.cast(b, a.dtype), reduce=...)",
    )


def _plan(a: Tensor, b: Tensor, reduce: Sequence[Dim], use_mask: bool) -> tuple[Any, Dims, Any, Any]:
    for dim in reduce:
        for label, operand in (("a", a), ("b", b)):
            if dim not in operand.dims:
                raise _missing(label, a, b, dim)
    dims_a, dims_b, reduce = looked_up_in_both(a.dims, b.dims, reduce)
    check_remade("matmul", [("a", dims_a), ("b", dims_b)], but=reduce)
    backend = common_backend("matmul", a, b)
    common = tuple([dim for dim in dims_a if dim in dims_b and dim not in reduce])
    only_a = tuple([dim for dim in dims_a if dim not in dims_b])
    only_b = tuple([dim for dim in dims_b if dim not in dims_a])
    dims = common + only_a + only_b
    mask_a = masks_for(dims_a, _maskable(dims_a, dims_b, reduce), backend, "matmul") if use_mask else None
    mask_b = masks_for(dims_b, _maskable(dims_b, dims_a, reduce), backend, "matmul") if use_mask else None
    fn = _product(dims_a, dims_b, common, only_a, only_b, reduce, backend)
    tracked, made_finite = _careful(dims_a, dims_b, backend) if use_mask else (None, None)
    if mask_a is None and mask_b is None:
        return fn, dims, tracked, made_finite
    where = backend.where_raw

    # Both sides: a NaN in one operand's padding survives multiplication by the other's zero.
    def masked(raw_a: Any, raw_b: Any) -> Any:
        raw_a = raw_a if mask_a is None else where(mask_a(raw_a), raw_a, 0)
        raw_b = raw_b if mask_b is None else where(mask_b(raw_b), raw_b, 0)
        return fn(raw_a, raw_b)

    return masked, dims, tracked, made_finite


def _maskable(operand: Dims, other: Dims, reduce: Sequence[Dim]) -> list[Dim]:
    """The dims of `reduce` that are masked in `operand`: not those whose lengths are over a dim that only `other` has, as for a history
    that grows in each step of a loop and is the same array for all steps (`cum_concat`). The mask of `other` suffices.
    """
    return [dim for dim in reduce if set(dim.length_dims) <= set(operand) or not set(dim.length_dims) <= set(other)]


def _careful(dims_a: Dims, dims_b: Dims, backend: Any) -> tuple[Any, Any]:
    """Whether the gradient of one of two raw arrays is tracked (None: there is no padding), and a function of the operands: their raw
    arrays, with finite padding where the other one's gradient is tracked, and whether the padding of the result is finite.

    The gradient of the padding is 0 in the backward pass, but 0 * NaN is NaN.
    """
    mask_a, mask_b = whole_padding(dims_a, backend), whole_padding(dims_b, backend)
    if mask_a is None and mask_b is None:
        return None, None
    where, tracks = backend.where_raw, backend.tracks_gradient_raw

    def made_finite(a: Tensor, b: Tensor) -> tuple[Any, Any, bool]:
        raw_a, raw_b = a._raw, b._raw
        finite_a, finite_b = mask_a is None or a._finite, mask_b is None or b._finite
        needs_a, needs_b = not finite_a and tracks(raw_b), not finite_b and tracks(raw_a)
        if mask_a is not None and needs_a:
            raw_a = where(mask_a(raw_a), raw_a, 0)
        if mask_b is not None and needs_b:
            raw_b = where(mask_b(raw_b), raw_b, 0)
        return raw_a, raw_b, (finite_a or needs_a) and (finite_b or needs_b)

    return backend.tracks_gradients_raw, made_finite


def _product(
    dims_a: Dims, dims_b: Dims, common: Dims, only_a: Dims, only_b: Dims, reduce: Dims, backend: Any
) -> Callable[[Any, Any], Any]:
    matmul_raw, reshape = backend.matmul_raw, backend.reshape_raw
    order_a = to_order(dims_a, common + only_a + reduce, backend)
    order_b = to_order(dims_b, common + reduce + only_b, backend)
    if not common and len(reduce) == 1 and len(only_b) == 1:  # a linear layer: the 2-D side is not folded by us
        if only_a:
            return composed(matmul_raw, order_a, order_b)
    if len(common) <= 1 and len(only_a) == 1 and len(only_b) == 1 and len(reduce) == 1:
        return composed(backend.batched_matmul_raw if common else matmul_raw, order_a, order_b)
    if common:
        matmul_raw = backend.batched_matmul_raw
    batch = (common,) if common else ()
    shape_out = Shape(*common, *only_a, *only_b)
    shape_a, shape_b = Shape(*batch, only_a, reduce), Shape(*batch, reduce, only_b)

    def general(raw_a: Any, raw_b: Any) -> Any:
        raw_a = raw_a if order_a is None else order_a(raw_a)
        raw_b = raw_b if order_b is None else order_b(raw_b)
        return reshape(matmul_raw(reshape(raw_a, shape_a), reshape(raw_b, shape_b)), shape_out)

    return general


def _missing(label: str, a: Tensor, b: Tensor, dim: Dim) -> DimError:
    return missing_dim("matmul", a if label == "a" else b, dim, label, [("a", a), ("b", b)], "reduce")
