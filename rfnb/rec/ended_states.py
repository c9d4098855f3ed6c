"""The rule that an ended sequence keeps its state, shared by loops, `scan` and recurrent units."""

from __future__ import annotations

from typing import Any

from rfnb.core.dim import Dim
from rfnb.core.tensor import Tensor, new_tensor
from rfnb.ops.frames import marked_like
from rfnb.ops.where import where


def kept(active: Tensor, new: Tensor, old: Any) -> Tensor:
    """`new` for sequences that are `active` in this step, else `old`, a Tensor or a number; with the marks of `new`."""
    if new is old:
        return new
    return marked_like(where(active, new, old, allow_broadcast_all_sources=True), new)


def active_in_steps(axis: Dim, backend: Any, device: str | None) -> list[Tensor | None]:
    """For each frame of `axis`, the sequences that have it, bool {length dims}; None means all. Known before the first step."""
    over = axis.length_dims
    if not over or not axis.has_padding():
        return [None] * axis.extent
    assert axis.lengths is not None
    shortest = int(axis.lengths.min(initial=axis.extent))
    masks = backend.unbind_raw(axis._raw_mask((axis, *over), backend, device), 0)
    return [None if index < shortest else new_tensor(raw, over) for index, raw in enumerate(masks)]
