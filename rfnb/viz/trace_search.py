"""Values recorded in the steps of a search, followed along one hypothesis.

Values of a step are in slots of the beam, and a hypothesis moves between slots: the row of each step is that of its
slot in that step, found by following parents back from its end. Values computed before the choice of a step (attention,
gates, scores) are in the parent's slot, values computed after it (the new state) in the new slot.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rfnb.core.dim import Dims
from rfnb.core.tensor import Tensor
from rfnb.trace.beams import BeamHistory
from rfnb.trace.host_copies import on_host
from rfnb.trace.lookup import SearchEvents
from rfnb.trace.stacked_events import alike
from rfnb.viz.hypotheses import MOST_LIVE, in_slots


def search_of(events: Sequence[Any], searches: Sequence[SearchEvents]) -> SearchEvents | None:
    """The search in whose steps the events were recorded."""
    if events[0].step is None:
        return None
    return next((search for search in searches if events[0].entry in search.choices), None)


@dataclass(frozen=True)
class SearchValues:
    """The values of one name in the steps of a search.

    Attributes:
        steps: The values by step of the loop, or None.
        before: Whether they were computed before the choice.
        inner: The dims apart from batch and slots, in a common order for all steps.
        best: For each sequence the labels of the best hypothesis, and the step and slot of its end.
    """

    history: BeamHistory
    steps: list[Tensor | None]
    before: bool
    inner: Dims
    best: list[tuple[list[str], int, int]]

    @staticmethod
    def of(search: SearchEvents | None, events: Sequence[Any], name: str) -> SearchValues | None:
        """The values of one name in events that belong to the steps of a search.

        Returns:
            None if they are outside a search, have no slots, or their choice is ambiguous.
        """
        if search is None:
            return None
        history = search.history
        chosen = [event for event in events if event.entry in search.choices]
        if not any(history.slot_dims(event.values[name]) for event in events):  # steps that are still running count too
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
        return SearchValues(history, steps, side, inner, best)

    @property
    def is_whole(self) -> bool:
        """Whether each row is a step of the loop: the search was recorded from its first step on."""
        steps = list(dict.fromkeys(self.history.loop_steps))
        return steps == list(range(len(steps)))

    @property
    def seqs(self) -> list[tuple[str, int]]:
        """(name, size) of the dims that sequences run over."""
        return [(dim.name, dim.extent) for dim in self.history.batch]

    @property
    def slot(self) -> str | None:
        """The name of the dim of slots; None if it differs between steps."""
        names = {dim.name for one in self.steps if one is not None for dim in self.history.slot_dims(one)}
        return names.pop() if len(names) == 1 else None

    def events(self, events: Sequence[Any]) -> list[Any]:
        """The event of each step of the loop, or None."""
        found: list[Any] = [None] * len(self.steps)
        for event in events:
            if event.step < len(found):
                found[event.step] = event
        return found

    def rows(self) -> list[list[np.ndarray]]:
        """The values of the best hypothesis per step, for each sequence; NaN if nothing was recorded."""
        found = []
        for seq, (labels, last, slot) in enumerate(self.best):
            along = self.history.along(self.steps, seq, slot, step=last, before_choice=self.before) if labels else []
            like = next((row for row in along if row is not None), np.zeros(()))
            found.append([np.full_like(like, np.nan) if row is None else row for row in along])
        return found

    def array(self, fill_axis: int | None = None) -> np.ndarray | None:
        """The same as float32 `[seq, step, ...]`, NaN after the end of a hypothesis; None if there are no values.

        Args:
            fill_axis: An axis of `inner` that may be shorter in some steps; it is padded with 0 (no attention).
        """
        rows = self.rows()
        if not any(rows):
            return None
        shape = [max(sizes) for sizes in zip(*(row.shape for one in rows for row in one))]
        if fill_axis is not None:  # as long as of hypotheses that go on for longer
            sizes = [one.raw_tensor.shape[fill_axis - len(self.inner)] for one in self.steps if one is not None]
            shape[fill_axis] = max(shape[fill_axis], *sizes)
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
        """The values of all slots, `[seq, step, slot, ...]`; None if too large; with `live` for a view that is redrawn in each step."""
        more = {"most_values": MOST_LIVE} if live else {}
        return in_slots(self.history, self.steps, fill_axis=fill_axis, **more)


def best_of(history: BeamHistory, seq: int) -> tuple[list[str], int, int]:
    """The labels of the best hypothesis so far, and its last step and slot."""
    top = history.nbest(seq)
    if not top:
        return [], 0, 0
    step, slot = top[0].end
    return history.labels_along(seq, slot, step=step), step, slot


def _is_before(event: Any, value: Tensor, search: SearchEvents) -> bool | None:
    """Whether a value was computed before the choice of its step; None if unknown.

    Between its choice and its end a step has its own beam dim. Values between the first and the last of several choices
    are in intermediate slots, which no longer exist at the end.
    """
    choices = [choice for choice, _ in search.choices[event.entry]]
    first, last = choices[0], choices[-1]
    (beam,) = search.history.slot_dims(value) or (None,)
    parents = first.values["parents"].sparse_dim
    if len(choices) == 1:
        known = (parents, *first.values["tokens"].dims)
        return event.index < first.index if beam is None or beam in known else False
    if event.index < first.index:
        return True if beam is None or beam is parents else None
    return False if event.index > last.index and beam in last.values["tokens"].dims else None


def _aligned(value: Tensor, own: Dims, inner: Dims) -> Tensor | None:
    """The value with its inner dims in this order, matched by identity, else as `alike`; None if they do not match."""
    left, order = list(own), []
    for dim in inner:
        found = next((other for other in left if other is dim), None) or next(
            (other for other in left if alike(other, dim) and other not in inner), None
        )
        if found is None:
            return None
        left.remove(found)
        order.append(found)
    if left:
        return None
    return value.copy_transpose([*(dim for dim in value.dims if dim not in own), *order])
