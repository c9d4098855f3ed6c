"""The newest positions: the part that each step of a loop adds, where every step recomputes all positions.

    for t in range(20):
        rf.gate(t)
        ids = torch.cat([ids, model(ids)[:, -1:].argmax(-1)], 1)      # without a cache: one position more in each step

`newest(events)` keeps only that position of each step, like the steps of a search. If all steps have the same positions (an encoder
called repeatedly) it keeps the last step, outside of any loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

from rfnb.core.dim import Dim
from rfnb.core.tensor import Tensor
from rfnb.trace.event import Event

_WITHOUT = ("target", "causal", "mask")


def newest(events: Sequence[Event]) -> list[Event]:
    """The events of a loop's run, reduced to one position per step; unchanged if they are not of this form."""
    found = list(events)
    if len(found) < 2 or any(event.step is None for event in found):
        return found
    over = [_over(event) for event in found]
    sizes = [0 if dim is None else dim.extent for dim in over]
    if 0 in sizes or set(sizes) == {1}:  # of one position each anyway
        return found
    if len(set(sizes)) == 1 and found[0].kind == "attention":
        return [replace(found[-1], step=None, steps=found[-1].steps[:-1], loop_dim=None, entry=0)]
    steps = [event.step or 0 for event in found]
    if any(now - before != later - step for (before, now), (step, later) in zip(pairwise(sizes), pairwise(steps))):
        return found
    return [replace(event, values=_last(event, dim)) for event, dim in zip(found, over)]


def _over(event: Event) -> Dim | None:
    """The dim of an event's positions: for attention its targets, for outputs the only dim that is not a batch."""
    values = event.values
    if event.kind == "attention":
        target = values.get("target") if isinstance(values.get("weights"), Tensor) else None
        return target if isinstance(target, Dim) else None
    if event.kind == "outputs":
        scores = next((each for each in values.values() if isinstance(each, Tensor)), None)
        dims = () if scores is None or "reference" in values else scores.dims
        left = [dim for dim in dims if dim is not values.get("axis") and dim.kind not in ("batch", "beam")]
        return left[0] if len(left) == 1 else None
    return None


def _last(event: Event, over: Dim | None) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for name, value in event.values.items():
        if isinstance(value, Tensor) and over in value.dims:
            at = value.dims.index(over)
            dims = [dim for dim in value.dims if dim is not over]
            value = Tensor(value.name, dims, raw_tensor=value.raw_tensor.select(at, -1), sparse_dim=value.sparse_dim)
        if name not in _WITHOUT:
            made[name] = value
    return made
