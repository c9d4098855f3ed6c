"""The rule that what has ended keeps its state: one for loops, `scan` and recurrent units."""

from __future__ import annotations

from typing import Any

from rfnb.core.dim import Dim
from rfnb.core.intercept import is_intercepted
from rfnb.core.layout import PlanCache, view
from rfnb.core.tensor import Tensor, new_tensor
from rfnb.ops.frames import marked_like
from rfnb.ops.where import where

_plans = PlanCache()


def kept(active: Tensor, new: Tensor, old: Any) -> Tensor:
    """`new` for the sequences that are `active` in this step, else `old`, a Tensor or a number; with the marks of `new`."""
    if new is old:
        return new
    if isinstance(old, Tensor) and old.dims == new.dims and not is_intercepted():  # the usual state: its dims are known
        raw, raw_new, raw_old = active._raw, new._raw, old._raw
        key = (raw.__class__, raw_new.__class__, raw_old.__class__, active.dims, new.dims)
        try:
            plan = _plans[key]
        except KeyError:
            plan = _plans.make(key, _plan, active, new, old)
        if plan is not None:
            choose, shape, dtype_of, bools = plan
            if dtype_of(raw) == bools:
                try:
                    return new._like(choose(raw if shape is None else shape(raw), raw_new, raw_old), new.dims)
                except RuntimeError:  # as `where` explains it
                    pass
    return marked_like(where(active, new, old, allow_broadcast_all_sources=True), new)


def _plan(active: Tensor, new: Tensor, old: Tensor) -> Any:
    raws = active._raw, new._raw, old._raw
    if not raws[0].__class__ is raws[1].__class__ is raws[2].__class__ or raws[0] is None:
        return None
    if active.dtype != "bool" or not (active.dims == new.dims or set(active.dims) < set(new.dims)):
        return None
    backend = new.backend
    return (
        backend.where_raw,
        view(active.dims, new.dims, backend),
        backend.dtype_key_raw,
        backend.dtype_key_raw(raws[0]),
    )


def active_in_steps(axis: Dim, backend: Any, device: str | None) -> list[Tensor | None]:
    """For each frame of `axis` which sequences have it, bool {length dims}; None: all. Known before the first step."""
    over = axis.length_dims
    if not over or not axis.has_padding():
        return [None] * axis.extent
    assert axis.lengths is not None
    shortest = int(axis.lengths.min(initial=axis.extent))
    masks = backend.unbind_raw(axis.raw_mask((axis, *over), backend, device), 0)
    return [None if index < shortest else new_tensor(raw, over) for index, raw in enumerate(masks)]
