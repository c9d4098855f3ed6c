"""Softmax and its logarithm, over the real frames of a dim."""

from __future__ import annotations

from typing import Any, Never

from rfnb.core.dim import Dim
from rfnb.core.dim_identity import looked_up
from rfnb.core.errors import type_error
from rfnb.core.finite_padding import finite_rest
from rfnb.core.layout import PlanCache, masks_for
from rfnb.core.op import op
from rfnb.core.tensor import Tensor, new_tensor
from rfnb.core.tensor_checks import check_dim
from rfnb.core.tensor_text import no_dim, shape_of
from rfnb.ops.defaults import is_float_dtype
from rfnb.ops.operands import need_values

_make = Tensor.__new__
_plans = PlanCache()


@op
def softmax(a: Tensor, *extra: Never, axis: Dim, use_mask: bool = True, **unknown: Never) -> Tensor:
    """The softmax over `axis`; the padding of `axis` gets exactly 0, and so does a row without any real frame.

    Args:
        a: {..., axis}

    Raises:
        DimError: If axis is not a dim of a.
    """
    out = _softmax("softmax", a, axis, use_mask)
    out._is_softmax = True
    return out


@op
def log_softmax(a: Tensor, *extra: Never, axis: Dim, use_mask: bool = True, **unknown: Never) -> Tensor:
    """log(softmax(a)), stable; -inf in the padding of `axis`. Dims as in `softmax`."""
    return _softmax("log_softmax", a, axis, use_mask)


def _softmax(kind: str, a: Tensor, axis: Dim, use_mask: bool) -> Tensor:
    try:
        raw = a._raw
        fn, index, tracks, made_finite = _plans[kind, raw.__class__, a.dims, axis, use_mask]
    except KeyError:
        key = (kind, raw.__class__, a.dims, axis, use_mask)
        fn, index, tracks, made_finite = _plans.make(key, _plan, kind, a, looked_up(a.dims, axis), use_mask)
    except (AttributeError, TypeError):  # no Tensor, or no Dim
        need_values(kind, a)
        raise no_dim(kind, axis, a) from None
    finite = a._finite
    if tracks is not None and not finite and tracks(raw):  # a row of NaN has NaN as gradient
        raw, finite = made_finite(raw), True
    try:
        out = new_tensor(fn(raw, index), a.dims, a, finite and kind == "softmax")
    except (RuntimeError, TypeError):
        _check_floats(kind, a, axis)
        raise
    out.sparse_dim = None
    return out


def _check_floats(kind: str, a: Tensor, axis: Dim) -> None:
    if not is_float_dtype(a.dtype):
        raise type_error(
            f"{kind}: of {a.dtype}.",
            {"a": f"{shape_of(a)} {a.dtype}", "axis": axis},
            "Probabilities are floats.",
            f'rf.{kind}(rf.cast(a, "float32"), axis=...)',
        )


def _plan(kind: str, a: Tensor, axis: Dim, use_mask: bool) -> Any:
    need_values(kind, a)
    check_dim(kind, a, axis)
    _check_floats(kind, a, axis)
    backend, index = a.backend, a.dims.index(axis)
    raw_fn = backend.softmax_raw if kind == "softmax" else backend.log_softmax_raw
    mask = masks_for(a.dims, [axis], backend, kind) if use_mask else None
    careful = finite_rest(a, (axis,))
    if mask is None:
        return raw_fn, index, *careful
    where, only_floats = backend.where_raw, _only_floats(backend)
    outside = 0 if kind == "softmax" else float("-inf")
    if axis.has_empty():
        # A row without any real frame would be NaN, forward and backward: compute it from zeros, then set it.
        from_right = len(a.dims) - index  # the mask may lack the leading axes

        def with_empty_rows(raw: Any, index: int) -> Any:
            real = mask(only_floats(raw))
            inside = where(_or_empty(real, from_right, backend), where(real, raw, 0), float("-inf"))
            return where(real, raw_fn(inside, index), outside)

        return with_empty_rows, index, *careful
    lowest = float("-inf")
    return (lambda raw, index: raw_fn(where(mask(only_floats(raw)), raw, lowest), index)), index, *careful


def _only_floats(backend: Any) -> Any:
    """raw -> raw; raises a TypeError for numbers other than floats, which masking would convert although kernels refuse them."""
    name_of = backend.get_dtype_name_raw

    def check(raw: Any) -> Any:
        if not is_float_dtype(name_of(raw)):
            raise TypeError
        return raw

    return check


def _or_empty(mask: Any, from_right: int, backend: Any) -> Any:
    """The mask, but True everywhere in rows (along the axis counted from the right) without any real frame."""
    index = backend.get_ndim_raw(mask) - from_right
    some = backend.expand_dims_raw(backend.reduce_raw(mask, "any", (index,)), index)
    return backend.binary_fn("logical_or")(mask, backend.unary_fn("logical_not")(some))
