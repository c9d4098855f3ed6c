"""Selection between two values by a condition."""

from __future__ import annotations

from typing import Any, Never

import numpy as np

from rfnb.core.errors import type_error
from rfnb.core.fill_values import plain_number
from rfnb.core.generations import aligned
from rfnb.core.layout import PlanCache, union, view
from rfnb.core.op import op
from rfnb.core.tensor import Tensor, keep_marks, new_tensor
from rfnb.core.tensor_text import shape_of
from rfnb.ops.operands import as_tensor, check_devices, common_backend, need_values

_plans = PlanCache()
_NUMPY = (np.ndarray, np.generic)  # raw scalars of torch stay what they are, since they may have gradients
_NO_DIMS: Any = None  # stands for a number among the dims of a plan's key


@op
def where(
    cond: Any, true_: Any, false_: Any, *extra: Never, allow_broadcast_all_sources: bool = False, **unknown: Never
) -> Tensor:
    """true_ where cond, else false_; union of the dims.

    Args:
        cond: bool {any dims}, a Python bool, or a raw scalar.
        true_, false_: Tensors, Python numbers, or raw scalars.

    Raises:
        DimError: For an outer product, unless `allow_broadcast_all_sources`.
    """
    if not isinstance(cond, Tensor):
        cond = as_tensor(cond, "where")
    true_is, false_is = isinstance(true_, Tensor), isinstance(false_, Tensor)
    if not true_is and isinstance(true_, _NUMPY):
        true_ = plain_number(true_)
    if not false_is and isinstance(false_, _NUMPY):
        false_ = plain_number(false_)
    raw_true, raw_false = true_._raw if true_is else true_, false_._raw if false_is else false_
    raw_cond = cond._raw
    key = (
        raw_cond.__class__, cond.dims, true_.dims if true_is else _NO_DIMS, false_.dims if false_is else _NO_DIMS,
        raw_true.__class__, raw_false.__class__, allow_broadcast_all_sources,
    )  # fmt: skip
    try:
        fn, dims, dtype_of, bools = _plans[key]
    except KeyError:
        together = aligned("where", (cond, true_, false_))
        if together is not None:
            return where(*together, allow_broadcast_all_sources=allow_broadcast_all_sources)
        fn, dims, dtype_of, bools = _plans.make(key, _plan, cond, true_, false_, allow_broadcast_all_sources)
    if dtype_of(raw_cond) != bools:
        raise _no_condition(cond, true_, false_)
    try:
        out = new_tensor(fn(raw_cond, raw_true, raw_false), dims, true_ if true_is else None)
    except RuntimeError:
        check_devices("where", *(x for x in (cond, true_, false_) if isinstance(x, Tensor)))
        raise
    if false_is and (false_.sparse_dim is not None or false_._feature_dim is not None):
        return keep_marks(out, false_)
    return out


def _plan(cond: Tensor, true_: Any, false_: Any, outer: bool) -> Any:
    sources = _tensors(cond, true_, false_)
    need_values("where", *(x for _, x in sources))
    if cond.dtype != "bool":
        raise _no_condition(cond, true_, false_)
    backend = common_backend("where", *(x for _, x in sources))
    dims = union("where", [(label, x.dims) for label, x in sources], outer=outer)
    views = tuple(view(x.dims, dims, backend) if isinstance(x, Tensor) else None for x in (cond, true_, false_))
    raw_fn, check = backend.where_raw, (backend.dtype_key_raw, backend.dtype_key_raw(cond._raw))
    if len(sources) == 1:  # two numbers: their own default dtype, not that of the backend
        dtype = as_tensor(max((true_, false_), key=_rank), "where").dtype
        return lambda cond, true, false: backend.cast_raw(raw_fn(cond, true, false), dtype), dims, *check
    if views == (None, None, None):
        return raw_fn, dims, *check

    def fn(*raws: Any) -> Any:
        return raw_fn(*(raw if shape is None else shape(raw) for raw, shape in zip(raws, views)))

    return fn, dims, *check


def _tensors(*operands: Any) -> list[tuple[str, Tensor]]:
    return [(label, x) for label, x in zip(("cond", "true", "false"), operands) if isinstance(x, Tensor)]


def _no_condition(cond: Tensor, true_: Any, false_: Any) -> TypeError:
    return type_error(
        f"where: the condition is {cond.dtype}.",
        [(label, f"{shape_of(x)} {x.dtype}") for label, x in _tensors(cond, true_, false_)],
        "A condition is bool. Say when a value counts as True:",
        "rf.where(cond != 0, ...)",
    )


def _rank(number: Any) -> int:
    """The rank of bool, int, float: the higher one is their common type."""
    return 0 if isinstance(number, bool) else 1 if isinstance(number, int) else 2
