"""Matches the events of two recordings at the same place of a run: same kind and path, same step of the same run of a loop."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from rfnb.core.dim import Dim, HostArray
from rfnb.core.tensor import Tensor
from rfnb.core.tree import is_container
from rfnb.trace.event import Event, named_tensors
from rfnb.trace.probe import Later
from rfnb.trace.stacked_events import loop_dim_of

_CALLS = ("module", "op")
_NOT_COMPARED = frozenset({"inputs", "reads", "writes", "axis", "dim", "target", "beam"})


class Ident(NamedTuple):
    """The place of an event in the run, by which events of two recordings are matched.

    Attributes:
        kind, path: Kind and path of the event.
        op: The op for events of kind "op"; else "".
        steps: Steps of all running loops, outermost first.
        run: How often this loop began before at this path.
        call: How often this event occurred before in this step, or overall outside of loops.
    """

    kind: str
    path: str
    op: str
    steps: tuple[int, ...]
    run: int
    call: int


def identified(events: Sequence[Event]) -> dict[Ident, Event]:
    """The events by their place in the run, in order."""
    found: dict[Ident, Event] = {}
    calls: dict[Any, int] = {}
    runs: dict[Any, tuple[int, int]] = {}  # of a loop at a path: its number, its latest step
    for event in events:
        place = event.kind, event.path, event.values.get("op", "") if event.kind == "op" else ""
        if event.step is None:
            number = calls[place] = calls.get(place, -1) + 1
            found[Ident(*place, (), 0, number)] = event
            continue
        within = *place, event.entry
        call = calls[within] = calls.get(within, -1) + 1
        loop = *place, event.steps[:-1], call
        run, latest = runs.get(loop, (0, -1))
        if event.step <= latest:
            run += 1
        runs[loop] = run, event.step
        steps = event.steps or (event.step,)  # one that a test or a file has made may have none
        found[Ident(*place, steps, run, call)] = event
    return found


def in_order(a: Mapping[Ident, Event], b: Mapping[Ident, Event]) -> Iterator[tuple[Ident, Event | None, Event | None]]:
    """The events of both in the order of computation, with those that only one has in between; None for the missing one."""
    left = list(b)
    place = {ident: number for number, ident in enumerate(left)}
    at = 0
    for ident, event in a.items():
        number = place.get(ident)
        if number is not None:
            for other in left[at:number]:  # what only b has before it
                if other not in a:
                    yield other, None, b[other]
            at = max(at, number + 1)
        yield ident, event, b.get(ident)
    for other in left[at:]:
        if other not in a:
            yield other, None, b[other]


def values_of(event: Event) -> dict[str, Any]:
    """The values of an event that are compared, by name: Tensors, arrays and plain data, including those in lists and dicts."""
    values = event.values.made() if isinstance(event.values, Later) else event.values
    if event.kind in _CALLS:
        outputs = [(f"output.{label}" if label else "output", x) for label, x in values.get("outputs", ())]
        raised = {"raised": values["raised"]} if values.get("raised") else {}
        return {**dict(outputs), **raised}
    found: dict[str, Any] = {}
    for name, value in values.items():
        if name in _NOT_COMPARED:
            continue
        if is_container(value):
            tensors = named_tensors([(name, value)])
            found.update(tensors)
            if not tensors:
                found[name] = value
        elif not isinstance(value, Dim) and value is not None:
            found[name] = value
    return found


def is_part_of_values(value: Any) -> bool:
    """True for a Tensor with values, or an array."""
    return value.raw_tensor is not None if isinstance(value, Tensor) else isinstance(value, np.ndarray)


def loop_lengths(event: Event) -> HostArray | None:
    """The number of steps of the innermost loop for each sequence, and the dims of these numbers; None if all are equal."""
    dim = loop_dim_of(event)
    if event.step is None or dim is None or dim.size is not None or dim.lengths is None or not dim.length_dims:
        return None
    return dim.lengths, dim.length_dims
