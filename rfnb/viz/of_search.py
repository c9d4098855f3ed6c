"""The values that were recorded in the steps of a search, of the hypothesis that went through them.

Values of a step are in slots of the beam, and a hypothesis moves between slots: the row of each step is that of the slot in which the
hypothesis was in that step, found by going back from its end from parent to parent. What was computed before the choice of a step
(attention, gates, scores) is in the slot that the hypothesis came from, what was computed after it (the new state) in the one that it
went to.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rfnb.core.dim import Dim
from rfnb.core.tensor import Tensor
from rfnb.trace.beams import BeamHistory
from rfnb.trace.on_host import on_host
from rfnb.viz.hypotheses import MOST_LIVE, in_slots


@dataclass(frozen=True)
class SearchEvents:
    """One run of a search.

    Attributes:
        path, run: Of its `beams` events.
        choices: By the entry of each of its steps the events of the choices in it.
    """

    path: str
    run: int
    choices: dict[int, list[Any]]
    history: BeamHistory


def searches_of(trace: Any) -> list[SearchEvents]:
    """The searches of a recording."""
    found = []
    for path in trace.beams:
        for run in range(trace.beams.num_runs(path)):
            try:
                history = trace.beams[path, run]
            except Exception:  # of a probe of the user's own, whose view says so
                continue
            choices: dict[int, list[Any]] = {}
            for event in trace.beams.events(path, run):
                choices.setdefault(event.entry, []).append(event)
            found.append(SearchEvents(path, run, choices, history))
    return found


def search_of(events: Sequence[Any], searches: Sequence[SearchEvents]) -> SearchEvents | None:
    """The search in whose steps something was recorded."""
    if events[0].step is None:
        return None
    return next((search for search in searches if events[0].entry in search.choices), None)


@dataclass(frozen=True)
class Followed:
    """The values of one name in the steps of a search.

    Attributes:
        steps: By step of the loop; None where nothing was recorded.
        before: Whether they were computed before the choice.
        inner: The dims beside batch and slots, in the order that all steps have here.
        best: Of each sequence the labels of the best hypothesis, and the step and slot of its end.
    """

    history: BeamHistory
    steps: list[Tensor | None]
    before: bool
    inner: tuple[Dim, ...]
    best: list[tuple[list[str], int, int]]

    @staticmethod
    def of(search: SearchEvents | None, events: Sequence[Any], name: str) -> Followed | None:
        """The values of one name that events have in the steps of a search.

        Returns:
            None if they are not of a search, have no slots, or it is not clear of which choice they are.
        """
        if search is None:
            return None
        history = search.history
        chosen = [event for event in events if event.entry in search.choices]
        if not any(history.slot_dims(event.values[name]) for event in events):  # those of a step that goes on count too
            return None
        given = list(zip(chosen, on_host([event.values[name] for event in chosen]), strict=True))
        telling = [(event, one) for event, one in given if history.slot_dims(one)]
        sides = {_is_before(event, one, search) for event, one in telling or given}
        side = sides.pop()
        if side is None or sides:
            return None
        steps: list[Tensor | None] = [None] * (max(history.loop_steps) + 1)
        inner = max((history.inner_dims(one) for _, one in given), key=len)
        for event, one in given:
            aligned = _aligned(one, history.inner_dims(one), inner)
            if aligned is None:
                return None
            steps[event.step] = aligned
        best = [best_of(history, seq) for seq in range(history.num_seqs)]
        return Followed(history, steps, side, inner, best)

    @property
    def is_whole(self) -> bool:
        """Whether a row is a step of the loop: the search was recorded from its first step on."""
        steps = list(dict.fromkeys(self.history.loop_steps))
        return steps == list(range(len(steps)))

    @property
    def seqs(self) -> list[tuple[str, int]]:
        """(name, size) of the dims that sequences run over."""
        return [(dim.name, dim.extent) for dim in self.history.batch]

    @property
    def slot(self) -> str | None:
        """The name of the dim over slots; None if it has another one in each step."""
        names = {dim.name for one in self.steps if one is not None for dim in self.history.slot_dims(one)}
        return names.pop() if len(names) == 1 else None

    def events(self, events: Sequence[Any]) -> list[Any]:
        """The event of each step of the loop; None where there is none."""
        found: list[Any] = [None] * len(self.steps)
        for event in events:
            if event.step < len(found):
                found[event.step] = event
        return found

    def rows(self) -> list[list[np.ndarray]]:
        """The value of each step of the best hypothesis, for each sequence; NaN where none was recorded."""
        found = []
        for seq, (labels, last, slot) in enumerate(self.best):
            along = self.history.along(self.steps, seq, slot, step=last, before_choice=self.before) if labels else []
            like = next((row for row in along if row is not None), np.zeros(()))
            found.append([np.full_like(like, np.nan) if row is None else row for row in along])
        return found

    def array(self, fill_axis: int | None = None) -> np.ndarray | None:
        """The same as float32 `[seq, step, ...]`, NaN after the end of a hypothesis; None if there is nothing.

        Args:
            fill_axis: Of `inner`, which may be shorter in some steps: what lacks there is 0 (no attention).
        """
        rows = self.rows()
        if not any(rows):
            return None
        shape = [max(sizes) for sizes in zip(*(row.shape for one in rows for row in one))]
        out = np.full((len(rows), max(map(len, rows)), *shape), np.nan, np.float32)
        for seq, one in enumerate(rows):
            for index, row in enumerate(one):
                into = out[seq, index]
                inside = [slice(0, size) for size in row.shape]
                if fill_axis is not None:
                    into[tuple(slice(None) if axis == fill_axis else part for axis, part in enumerate(inside))] = 0
                into[tuple(inside)] = row
        return out

    def in_slots(self, fill_axis: int | None = None, *, live: bool = False) -> np.ndarray | None:
        """The values of all slots, `[seq, step, slot, ...]`; None if that is too much, for what is drawn anew with each step if `live`."""
        more = {"most_values": MOST_LIVE} if live else {}
        return in_slots(self.history, self.steps, fill_axis=fill_axis, **more)


def best_of(history: BeamHistory, seq: int) -> tuple[list[str], int, int]:
    """The labels of the best hypothesis so far in each step, and its last step and slot."""
    top = history.nbest(seq)
    if not top:
        return [], 0, 0
    step, slot = top[0].end
    return history.labels_along(seq, slot, step=step), step, slot


def _is_before(event: Any, value: Tensor, search: SearchEvents) -> bool | None:
    """Whether a value was computed before the choice of its step; None if that is not known.

    Between its choice and its end a step has a beam dim of its own. Between the first and the last of several choices values are in
    slots that neither of them has at the end.
    """
    choices = search.choices[event.entry]
    first, last = choices[0], choices[-1]
    (beam,) = search.history.slot_dims(value) or (None,)
    parents = first.values["parents"].sparse_dim
    if len(choices) == 1:
        known = (parents, *first.values["tokens"].dims)
        return event.index < first.index if beam is None or beam in known else False
    if event.index < first.index:
        return True if beam is None or beam is parents else None
    return False if event.index > last.index and beam in last.values["tokens"].dims else None


def _aligned(value: Tensor, own: tuple[Dim, ...], inner: tuple[Dim, ...]) -> Tensor | None:
    """The value with its inner dims in this order, matched by identity, else by name; None if they do not match."""
    left, order = list(own), []
    for dim in inner:
        found = next((other for other in left if other is dim), None) or next(
            (other for other in left if other.name == dim.name and other not in inner), None
        )
        if found is None:
            return None
        left.remove(found)
        order.append(found)
    if left:
        return None
    return value.copy_transpose([*(dim for dim in value.dims if dim not in own), *order])
