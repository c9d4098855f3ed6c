"""The selections of a loop's choices, step by step; shared by the loop, its states, the search and backtracking.

A hold on the run may decide a choice from outside: labels that hypotheses must take, or may not.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from rfnb.core.dim import Dim, Dims
from rfnb.core.op import op
from rfnb.core.pickling import NotPicklable
from rfnb.core.tensor import Tensor, new_tensor
from rfnb.core.tree import map_nested
from rfnb.rec.device_reads import DeviceReads
from rfnb.rec.selection import Selection, align_host, pick, rename, take_host


class Selections(NotPicklable):
    """The selections of one loop.

    Attributes:
        now: The selection after the choices of this step so far; None before the first one, and outside of steps.
        last: The selection after the most recent choice.
        steps: The selection of each finished step; None in one without choice.
        wanted: Values that the host will read.
    """

    def __init__(self) -> None:
        self.now: Selection | None = None
        self.last: Selection | None = None
        self.steps: list[Selection | None] = []
        self.wanted = DeviceReads()
        self._paths: Paths | None = None  # back through a finished search

    def select(self, selection: Selection) -> None:
        """Make a selection: from here on in this step, values are those of the selected hypotheses, and states follow their parents."""
        self.now = self.last = selection

    def go_back(self, last: Selection | None) -> None:
        """Restart the step; `last` is the previous selection."""
        self.now, self.last = None, last

    def note_step(self, count: int = 1) -> None:
        """End the body of a step, or of `count` steps that ran at once."""
        self.steps += [self.now] * count

    def end_step(self) -> None:
        """Close the step, once all values have followed or the loop was left."""
        if self.now is not None:
            self.now.close()
            self.now = None

    def paths(self, values: Sequence[Tensor]) -> Paths | None:
        """Paths through the steps of this loop, if these values allow the usual method; else use `back`."""
        if self._paths is None:
            self._paths = Paths(self.steps)
        return self._paths if self._paths.fit(values) else None

    def back(self, values: Sequence[Tensor]) -> tuple[list[Tensor], np.ndarray, Dims]:
        """See `backtrack`, for the steps of this loop; `last` must not be None."""
        return backtrack(values, self.steps)


@op(decides=True)
def bring(selections: Selections, value: Any) -> Any:
    """Move a nested value of this step to the hypotheses chosen so far. An op of its own, since each step chooses others."""
    now = selections.now
    return value if now is None else map_nested(now.bring, value)


class LabelDecision(NamedTuple):
    """A label that a hypothesis must take, or must not.

    Attributes:
        kind: "force" keeps it, whatever its rank; "ban" drops it.
        label: Index or text.
        hypothesis: Place in the beam before the choice, or the labels so far, as one string or a sequence; None in a ban means any
            hypothesis.
        seq: The sequence.
        only: Drop all other hypotheses of the sequence.
        then: Labels that the hypothesis takes in the following steps, one in each.
    """

    kind: str
    label: Any
    hypothesis: Any
    seq: int
    only: bool = False
    then: tuple[Any, ...] = ()


class Paths:
    """Backtracking for the usual search: each step makes one choice, {batch, beam}, and the beam size stays the same.

    Args:
        history: The selection of each step; None in a step without choice.
    """

    def __init__(self, history: Sequence[Selection | None]):
        last = history[-1] if history else None
        self.last = last
        self._history: list[Selection] = []
        self._rows: np.ndarray | None = None
        if last is None or len(last.parents.dims) != 2 or last.parents.dims[1] is not last.out_dim:
            return
        dims, start = last.parents.dims, last.carried if len(history) > 1 else last.start
        usual = [one for one in history if one is not None and one.parents.dims == dims and len(one.sources) <= 1]
        if len(usual) == len(history) and all(one.start is start for one in usual[1:]):
            self._history = usual

    def fit(self, values: Sequence[Tensor]) -> bool:
        """True if `along` can follow these values, one per step."""
        first, last = values[0], self.last
        if not self._history or last is None or first.dims[:2] != last.parents.dims:
            return False
        if any(type(value) is not Tensor or value.dims != first.dims for value in values):
            return False
        last.check(first)
        return all(last.out_dim not in dim.length_dims for dim in first.dims)

    def along(self, stacked: Tensor) -> Tensor:
        """The values {step, batch, beam, ...} along the path of each final hypothesis, by a single row lookup."""
        last, backend = self.last, stacked.backend
        assert last is not None
        if self._rows is None:
            self._rows = self._rows_of_steps()
        shape, rows = backend.get_shape_tuple_raw(stacked._raw), self._rows
        num_rows = rows.shape[1]
        raw_rows = backend.from_numpy(rows[: shape[0]].reshape(-1), dtype="int64", device=stacked.device)
        flat = backend.reshape_raw(stacked._raw, (shape[0] * num_rows, math.prod(shape[3:])))  # rows are taken quickest
        raw = backend.reshape_raw(backend.take_raw(flat, raw_rows, 0), shape)
        return stacked._like(raw, last.carried_dims(stacked.dims))

    def _rows_of_steps(self) -> np.ndarray:
        """The row of {step, batch, beam} that each final hypothesis passes through, for each step."""
        backend = self._history[0].parents.backend
        parents = backend.raw_to_numpy(backend.stack_raw([one.parents._raw for one in self._history], 0))
        num_steps, num_batch, beam = parents.shape
        before = (parents + (np.arange(num_batch) * beam)[:, None]).reshape(num_steps, -1)
        out = np.empty_like(before)
        rows = out[-1] = np.arange(num_batch * beam)
        for step in range(num_steps - 1, 0, -1):
            rows = out[step - 1] = before[step][rows]
        out += (np.arange(num_steps) * (num_batch * beam))[:, None]
        return out


def backtrack(
    values: Sequence[Tensor], history: Sequence[Selection | None]
) -> tuple[list[Tensor], np.ndarray, tuple[Dim, ...]]:
    """Find, for every step, the hypothesis that each final one descends from.

    Args:
        values: One per step, under a beam of that step, or without beam.
        history: The selection of each step; None in a step without choice. At least one is not.

    Returns:
        The values with the final carried beam in place of theirs; for each step the index of the hypothesis to take there; the
        dims of these indices, {batch dims, carried}.
    """
    final = next(selection for selection in reversed(history) if selection is not None)
    carried = final.carried
    dims = tuple(carried if dim is final.out_dim else dim for dim in final.parents.dims)
    axis = dims.index(carried)
    shape = [dim.extent for dim in dims]
    same = np.broadcast_to(np.arange(carried.extent).reshape([-1 if dim is carried else 1 for dim in dims]), shape)
    rows = np.arange(shape[0])[:, None]
    for selection in history:
        if selection is not None:
            selection.want_parents()
    now: Dim | None = carried
    position = same  # of the final hypotheses, in the beam after the step
    renamed, positions = [], []
    for value, selection in zip(reversed(values), reversed(history)):
        beam: Dim | None = now
        here = position
        if selection is not None:
            selection.check(value)
            beam = selection.out_dim

            def at_parents(dim: Dim, selection: Selection = selection, position: np.ndarray = position) -> np.ndarray:
                own = selection.parents.dims
                if len(own) == 2 and own[0] is dims[0] and axis == 1:  # the usual {batch, beam}
                    return selection.host_parents(dim)[rows, position]
                target = tuple(selection.out_dim if other is carried else other for other in dims)
                host = align_host(selection.host_parents(dim), own, target)
                return take_host(
                    np.broadcast_to(host, [*shape[:axis], host.shape[axis], *shape[axis + 1 :]]), position, axis
                )

            source = selection.source_of(value)
            if source is not None:
                beam, here = source, at_parents(source)
            position = np.zeros_like(same) if selection.start is None else at_parents(selection.start)
            now = selection.start
        if beam is not None and beam in value.dims and beam is not carried:
            if beam.extent == carried.extent:
                value = rename(value, beam, carried)
            else:  # the beam has grown since: here its hypotheses are fewer
                index = new_tensor(value.backend.from_numpy(here, dtype="int64", device=value.device), dims)
                value, here = pick(value, index, beam, carried, carried), same
        renamed.append(value)
        positions.append(here)
    return renamed[::-1], np.stack(positions[::-1]), dims
