"""Edit handles: the mapping from values in views of a held run to commands that change them.

A view shows rows of numbers; a command names a step of a loop, and entries in it by the names of dims. The `held` of a
map, a track or a search (`docs/contracts/views.md`) maps one to the other, and marks the rows that `run.changes` lists.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from rfnb.control.run_steps import StepPlace
from rfnb.core.strict_json import JsonObject
from rfnb.core.tensor import Tensor
from rfnb.trace.editing import BESIDE, EFFECTIVE, GATES, OF_STATES, OF_UNITS
from rfnb.trace.event import Event
from rfnb.trace.run_tree import AppliedChange
from rfnb.viz.axes import Axis
from rfnb.viz.trace_search import SearchValues

_MOST_LABELS = 2000  # of a vocabulary sent to a page; in a larger one a label is typed in full
_OF_RANK = "The rank follows from the state: change its matrix, its norm or a gate."
_SEVERAL = "A step chooses from several sources: a label of each is forced or banned by code alone."


Sizes = Sequence[tuple[str, int]]  # of named dims


class EditHandles:
    """The mapping from rows of views to steps of a run.

    Args:
        place_of: The step of an event by its `entry`; None outside of held steps.
        changes: The changes so far.
        edits: Whether values of a recorded model can be edited, such as gates and whole heads.
    """

    def __init__(
        self, place_of: Callable[[int], StepPlace | None], changes: Sequence[AppliedChange] = (), *, edits: bool = False
    ):
        self._place_of, self._changes, self._edits = place_of, changes, edits

    def rows(self, events: Sequence[Event | None]) -> JsonObject | None:
        """The steps of the rows of a view: {path, nth, steps?}; None if they are not held, or belong to several runs of loops.

        Args:
            events: The event of each row, or None.
        """
        places = [None if event is None else self._place_of(event.entry) for event in events]
        there = [place for place in places if place is not None]
        if not there or len(there) != sum(event is not None for event in events) or len({at.path for at in there}) > 1:
            return None
        if len({at.nth for at in there}) > 1:
            return None
        steps = [None if place is None else place.step for place in places]
        made: JsonObject = {"path": there[0].path, "nth": there[0].nth}
        if steps != list(range(len(steps))):
            made["steps"] = steps
        return made

    def marks(self, events: Sequence[Event | None]) -> list[list[Any]]:
        """The rows whose steps were changed, and the changes: [[row, words]]."""
        said: dict[int, list[str]] = {}
        for change in self._changes:
            said.setdefault(change.tick, []).append(change.words)
        found = []
        for row, event in enumerate(events):
            place = None if event is None or not said else self._place_of(event.entry)
            if place is not None:
                # With several choices in a step, at the first one.
                found += [[row, words] for words in said.pop(place.tick, ())]
        return found

    def of_search(self, events: Sequence[Event], several: bool) -> JsonObject | None:
        """The `held` of a search, whose rows are its choices."""
        held = self.rows(events)
        if held is not None and several:
            held["cannot"] = _SEVERAL
        return held

    def of_state(
        self,
        events: Sequence[Event | None],
        name: str,
        seqs: Sizes,
        units: Sizes,
        slot: str | None = None,
    ) -> JsonObject | None:
        """The `held` of a track if it is a state of the loop over its rows, or a gate of a recorded unit.

        Args:
            name: The name of the state.
            seqs, units: (name, size) of the dims that sequences and units run over.
            slot: The dim of hypotheses, if the rows are those of one hypothesis.
        """
        held, there = self.rows(events), [event for event in events if event is not None]
        unit, _, last = there[0].path.rpartition(".") if there else ("", "", "")
        if held is None:
            return None
        if all(_is_own(event, held["path"]) for event in there):
            own: JsonObject = {"state": name}
        elif self._edits and last == GATES and OF_UNITS.fullmatch(name) and there[0].path == there[0].module:
            own = {"gate": f"{unit}.{name}"}
        elif self._edits and _is_linear(there[0]) and name in (*OF_STATES, "norm"):
            own = {"gate": f"{there[0].path}.{name if name in OF_STATES else OF_STATES[0]}", "always": {"time": -1}}
            own |= {"norm": True} if name == "norm" else {}
        else:
            return None
        made = _with_dims(held, [None if event is None else event.values[name] for event in events], seqs, units, slot)
        return made and {**made, **own}

    def cannot(self, events: Sequence[Event | None], name: str) -> str | None:
        """The reason why a visible gate cannot be edited; None if there is none."""
        first = next(event for event in events if event is not None)
        told = first.values
        if self._edits and _is_linear(first) and name == "rank":
            return _OF_RANK
        own = self._edits and "h" in told and ("reset_gate" in told or "input_gate" in told)
        return BESIDE if own and (OF_UNITS.fullmatch(name) or name == "candidate") else None

    def of_maps(
        self,
        events: Sequence[Event | None],
        axis: str,
        seqs: Sizes,
        maps: Sizes,
        count: int,
        slot: str | None = None,
    ) -> list[JsonObject]:
        """The `held` of each map, whose rows are steps of a loop; [] if they are not.

        Args:
            axis: The name of the dim attended over.
            seqs, maps: (name, size) of the dims that sequences and maps run over.
            count: The number of maps.
            slot: As in `of_state`.
        """
        if is_effective(next(event.path for event in events if event)):
            return []
        held = self.rows(events)
        weights = [None if event is None else event.values["weights"] for event in events]
        made = held and _with_dims(held, weights, seqs, [*maps, (axis, 0)], slot)
        if not made:
            return []
        del made["units"]
        widths = [_extent(one, axis) for one in weights]
        made.update(attention=next(event.path for event in events if event), axis=axis)
        wide = {"widths": widths if len(set(widths)) > 1 else widths[0]}
        if self._edits:
            made["weights"] = f"{made['attention']}.weights"
        return [{**made, "fixed": _unravel(number, maps), **wide} for number in range(count)]


def vocabulary(labels: Any) -> list[str]:
    """The labels sent to a page to choose from; [] if there are too many."""
    texts = list(labels) if labels is not None else []
    return [str(text) for text in texts] if len(texts) <= _MOST_LABELS else []


def best_slots(followed: SearchValues) -> dict[str, list[list[int]]]:
    """The slots of the best hypothesis of each sequence, before and after the choice of each step."""
    history, made = followed.history, {"before": [], "after": []}  # type: tuple[Any, dict[str, list[list[int]]]]
    for seq, (labels, last, slot) in enumerate(followed.best):
        before: dict[int, int] = {}
        after: dict[int, int] = {}
        for step, own in history.path(seq, slot, last) if labels else ():
            at = history.loop_steps[step]
            before.setdefault(at, int(history.steps[step]["parents"][seq, own]) if step else 0)
            after[at] = own
        made["before"].append(list(before.values()))
        made["after"].append(list(after.values()))
    return made


def sizes(axes: Iterable[Axis]) -> list[tuple[str, int]]:
    """The (name, size) of axes."""
    return [(axis.name, axis.size) for axis in axes]


def is_effective(path: str) -> bool:
    """Whether this is the path of the attention that a linear recurrence is equivalent to: it follows from the states."""
    return path.removesuffix(".prompt").rpartition(".")[2] == EFFECTIVE


def _is_linear(event: Event) -> bool:
    """Whether an event has the states of a linear recurrence of a model of torch, itself."""
    return event.path == event.module and "norm" in event.values and not event.values.keys().isdisjoint(OF_STATES)


def _is_own(event: Event, path: str) -> bool:
    """Whether an event belongs to the loop with this path itself, not to a module in it."""
    loops = event.path[len(event.module) :].strip(".")
    return bool(loops) and (path == loops or path.endswith("." + loops))


def _with_dims(
    held: JsonObject,
    values: Sequence[Tensor | None],
    seqs: Sizes,
    units: Sizes,
    slot: str | None,
) -> JsonObject | None:
    """Add the names of dims; None if they are not unique."""
    named = [name for name, _ in (*seqs, *units)] + ([slot] if slot else [])
    lacks: dict[str, list[str]] = {}
    for row, value in enumerate(values):
        if value is None:
            continue
        own = [dim.name for dim in value.dims]
        if len(set(own)) < len(own) or not set(own) <= set(named):
            return None
        missing = [name for name in named if name not in own]
        if missing:
            lacks[str(row)] = missing
    if len(set(named)) < len(named):
        return None
    made = {**held, "seqs": [list(one) for one in seqs], "units": [list(one) for one in units]}
    return made | ({"slot": slot} if slot else {}) | ({"lacks": lacks} if lacks else {})


def _extent(value: Tensor | None, name: str) -> int:
    return 0 if value is None else next((dim.extent for dim in value.dims if dim.name == name), 0)


def _unravel(number: int, dims: Sizes) -> dict[str, int]:
    found: dict[str, int] = {}
    for name, size in reversed(dims):
        number, found[name] = divmod(number, size)
    return dict(reversed(found.items()))
