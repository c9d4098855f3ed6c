"""Backtracking through a search: the hypothesis that each final one descends from, in every step."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from rfnb.core.dim import Dim
from rfnb.core.tensor import Tensor, new_tensor
from rfnb.rec.selection import Selection, align_host, pick, rename, take_host


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
