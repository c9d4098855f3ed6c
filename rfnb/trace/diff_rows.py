"""The values that two recordings have at the same place of a run, in order of computation."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rfnb.core.beam_dim import is_beam
from rfnb.core.dim import Dim
from rfnb.core.tensor import Tensor
from rfnb.trace.diff_dims import Plan, Planner, Sides, placed
from rfnb.trace.diff_events import Ident, in_order, is_part_of_values, loop_lengths, values_of
from rfnb.trace.diff_numbers import DiffNumbers, Tolerance, compare, epsilon, largest
from rfnb.trace.diff_searches import REAL, SearchDiff, SequenceDiff, StepOfSearch, search_diff
from rfnb.trace.diff_slots import Slots
from rfnb.trace.event import Event

SAME, NO_VALUES = "same", "no values"
VALUES, LABELS, LENGTHS, DIMS, PLAIN, HYPOTHESES = "values", "labels", "lengths", "dims", "plain", "hypotheses"


@dataclass(slots=True)
class Row:
    """A value that both recordings have.

    Attributes:
        ident: Its place in the run.
        name: Name of the value in its event.
        events: The numbers of the events in a and in b.
        status: "same" (within the tolerance), "values", "labels" (integers and bools, exactly), "lengths", "dims" (they do not
            match), "plain" (numbers and text beside Tensors), "hypotheses" (of a search), or "no values" (only dims were recorded).
        numbers: The measured difference.
        tolerance: The tolerance that applies here.
        dtypes: Dtypes of both; "" for values that are not Tensors.
        note: The problem with its dims or lengths, as text.
    """

    ident: Ident
    name: str
    events: tuple[int, int]
    status: str
    numbers: DiffNumbers
    tolerance: Tolerance
    dtypes: tuple[str, str] = ("", "")
    note: str = ""

    @property
    def differs(self) -> bool:
        """True if this row is a difference."""
        return self.status not in (SAME, NO_VALUES)

    @property
    def step(self) -> int | None:
        """The step of the innermost loop; None outside of loops."""
        return self.ident.steps[-1] if self.ident.steps else None

    @property
    def path(self) -> str:
        """The path of the event."""
        return self.ident.path


@dataclass(frozen=True)
class Pair:
    """Two values along the same axes.

    Attributes:
        a, b: Arrays of one shape.
        mask: The cells that both have, of that shape; None means all.
        plan: The plan of their dims.
    """

    a: np.ndarray
    b: np.ndarray
    mask: np.ndarray | None
    plan: Plan


class RowComparison:
    """The comparison of two recordings.

    Args:
        events: The events of a and of b, by place in the run.
        sides: The sequences that are compared.
        slots: The matching slots of their searches.
        given: The requested tolerance; None: that of the dtypes.
    """

    def __init__(
        self,
        events: tuple[Mapping[Ident, Event], Mapping[Ident, Event]],
        sides: Sides,
        slots: Slots,
        given: float | None,
    ):
        self.events, self.sides, self.slots = events, sides, slots
        self.planner = Planner(sides)
        self.rows: list[Row] = []
        self.only: tuple[list[Event], list[Event]] = [], []
        self.searches: list[SearchDiff] = []
        self.steps_of: dict[int, list[tuple[SequenceDiff, StepOfSearch]]] = {}  # by the number of a choice in a
        self._tolerance = Tolerance("float64", given)
        self._exact = Tolerance("float64", given)

    def run(self, searches: Sequence[tuple[Any, Any]]) -> None:
        """Compare everything that both have.

        Args:
            searches: The searches that both have.
        """
        coarsest = self._coarsest_of_searches()
        for a, b in searches:
            pairs = self.pairs_of(a.history.num_seqs, b.history.num_seqs)
            found = search_diff(a, b, pairs, coarsest)
            self.searches.append(found)
            by_step: dict[int, list[tuple[SequenceDiff, StepOfSearch]]] = {}
            for seq in found.seqs:
                for step in seq.steps:
                    by_step.setdefault(step.step, []).append((seq, step))
            for event, index in (choice for step in a.choices.values() for choice in (step[0], step[-1])):
                self.steps_of[event.index] = by_step.get(a.history.loop_steps[index], [])
        known = {id(event) for a, _ in searches for step in a.choices.values() for event, _ in (step[0], step[-1])}
        for ident, a, b in in_order(*self.events):
            if a is None or b is None:
                self._note_only(a, b)
            elif id(a) in known:
                self._add_beams(ident, a, b, [step for _, step in self.steps_of[a.index]], coarsest)
            else:
                self._add(ident, a, b)

    def pairs_of(self, seqs_a: int, seqs_b: int) -> list[tuple[int, int]]:
        """The indices of the sequences that are compared."""
        one, other = self.sides.seqs
        if one is None or other is None:
            return [(seq, seq) for seq in range(min(seqs_a, seqs_b))]
        return [(one, other)]

    def aligned(self, a: Event, b: Event, one: Tensor, other: Tensor) -> Pair | Plan:
        """Two Tensors of two events along the same axes, or the plan that says why that is impossible."""
        plan = self.planner.plan(one, other)
        if plan.problem is not None:
            return plan
        arrays = [placed(value.numpy(), plan, side, self.sides.seqs[side]) for side, value in enumerate((one, other))]
        masks = [] if plan.real is None else [plan.real]
        for side, (event, value) in enumerate(((a, one), (b, other))):
            going_on = self.planner.going_on(plan, value.dims, side, loop_lengths(event), event.step)
            if going_on is not None:
                masks.append(going_on)
        if plan.beam is not None:
            arrays, masks = self._in_slots(a, b, plan, arrays, masks)
        mask: np.ndarray | None = None
        for each in masks:
            mask = each if mask is None else mask & each
        arrays = list(np.broadcast_arrays(*arrays)) if arrays[0].shape != arrays[1].shape else arrays
        if mask is not None:
            mask = np.broadcast_to(mask, arrays[0].shape)
        labels = _other_labels(one, other)
        if labels is not None:
            arrays[1] = np.where(
                (arrays[1] >= 0) & (arrays[1] < len(labels)), labels[np.clip(arrays[1], 0, len(labels) - 1)], -1
            )
        return Pair(arrays[0], arrays[1], mask, plan)

    def _in_slots(
        self, a: Event, b: Event, plan: Plan, arrays: list[np.ndarray], masks: list[np.ndarray]
    ) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """The values of b in the slots of the same hypotheses in a, and a mask of where these exist."""
        axis, batch = plan.beam, plan.batch
        assert axis is not None
        width = [array.shape[axis] for array in arrays]
        seqs = self.pairs_of(*(array.shape[batch] if batch is not None else 1 for array in arrays))
        matched = self.slots.of(a, b, seqs)
        if matched is not None and matched[0].shape[1] == width[0] and matched[0].max(initial=0) < width[1]:
            slots, there = matched
            shape = [1] * arrays[0].ndim
            shape[axis] = width[0]
            if batch is not None:
                shape[batch] = len(seqs)
            slots, there = (
                each.reshape(shape) if batch is None or batch < axis else each.T.reshape(shape)
                for each in (slots, there)
            )
            turned = np.take_along_axis(arrays[1], slots, axis)
            masks = [
                mask if mask.shape[axis] in (1, width[0]) else mask[(slice(None),) * axis + (slice(0, width[0]),)]
                for mask in masks
            ]
            return [arrays[0], turned], [*masks, there]
        both = (slice(None),) * axis + (slice(0, min(width)),)
        masks = [mask if mask.shape[axis] == 1 else mask[both] for mask in masks]
        return [array[both] for array in arrays], masks

    def _add(self, ident: Ident, a: Event, b: Event) -> None:
        mine, other = values_of(a), values_of(b)
        for name in mine:
            if name in other:
                self._compare(ident, name, a, b, mine[name], other[name])
        for name in [*(name for name in mine if name not in other), *(name for name in other if name not in mine)]:
            note = f"only {'a' if name in mine else 'b'} has it"
            self._put(ident, name, (a, b), PLAIN, DiffNumbers(1, 1), note=note)
        if not mine and not other:
            self._put(ident, "", (a, b), NO_VALUES, DiffNumbers(0))

    def _compare(self, ident: Ident, name: str, a: Event, b: Event, one: Any, other: Any) -> None:
        if isinstance(one, Tensor) and isinstance(other, Tensor):
            dtypes = one.dtype, other.dtype
            if not is_part_of_values(one) or not is_part_of_values(other):
                return self._put(ident, name, (a, b), NO_VALUES, DiffNumbers(0), dtypes)
            self._note_dtypes(dtypes)
            pair = self.aligned(a, b, one, other)
            if isinstance(pair, Plan):
                return self._put(ident, name, (a, b), DIMS, DiffNumbers(1, 1), dtypes, pair.problem or "")
            if a.kind == "tokens" and pair.plan.beam is not None and not self.slots.in_search(a, 0):
                return None  # the results of a search, by rank: the search itself says more
            numbers = compare(pair.a, pair.b, pair.mask, self._tolerance)
            status = SAME
            if numbers.differing:
                status = VALUES if "float" in dtypes[0] or "complex" in dtypes[0] else LABELS
            elif pair.plan.lengths is not None:
                status = LENGTHS
            note = "" if pair.plan.lengths is None else f"other lengths of {pair.plan.lengths}"
            return self._put(ident, name, (a, b), status, numbers, dtypes, note)
        if isinstance(one, np.ndarray) and isinstance(other, np.ndarray) and one.shape == other.shape:
            numbers = compare(one, other, None, self._tolerance)
            return self._put(ident, name, (a, b), VALUES if numbers.differing else SAME, numbers)
        same, apart = _plain(one, other, self._exact)
        numbers = DiffNumbers(1, 0 if same else 1, apart, 0.0 if same else math.inf)
        return self._put(ident, name, (a, b), SAME if same else PLAIN, numbers)

    def _add_beams(self, ident: Ident, a: Event, b: Event, steps: list[StepOfSearch], tolerance: Tolerance) -> None:
        real = [step for step in steps if step.verdict in REAL]
        cells = sum(max(step.sizes) for step in steps)
        units = max((step.units for step in steps), default=0.0)
        most = largest(step.max_abs for step in steps)
        if real and any(step.verdict != "scores" for step in real):
            units = math.inf
        missing = sum(max(len(step.only_a), len(step.only_b)) or 1 for step in real)
        note = real[0].verdict if real else ""
        numbers = DiffNumbers(cells, missing, most, units)
        self.rows.append(
            Row(ident, "hypotheses", (a.index, b.index), HYPOTHESES if real else SAME, numbers, tolerance, note=note)
        )

    def _put(
        self, ident: Ident, name: str, events: tuple[Event, Event], status: str, numbers: DiffNumbers,
        dtypes: tuple[str, str] = ("", ""), note: str = "",
    ) -> None:  # fmt: skip
        self.rows.append(
            Row(ident, name, (events[0].index, events[1].index), status, numbers, self._tolerance, dtypes, note)
        )

    def _note_only(self, a: Event | None, b: Event | None) -> None:
        """Record an event that only one side has, unless the sequence has ended by then."""
        side = 0 if b is None else 1
        event: Any = a if b is None else b
        tensors = [value for value in values_of(event).values() if isinstance(value, Tensor)]
        lengths, step = loop_lengths(event), event.step
        if tensors and not any(self.planner.cells(value, side, lengths, step) for value in tensors):
            return
        if self.slots.is_over(event, side, self.sides.seqs[side]):
            return
        self.only[side].append(event)

    def _note_dtypes(self, dtypes: tuple[str, str]) -> None:
        for dtype in dtypes:
            if epsilon(dtype) > self._tolerance.epsilon:
                self._tolerance = replace(self._tolerance, dtype=dtype)

    def _coarsest_of_searches(self) -> Tolerance:
        """The tolerance for scores, which are sums of values computed in the coarsest dtype of the run."""
        found = self._tolerance
        for events in self.events:
            for event in events.values():
                for value in values_of(event).values() if event.kind != "beams" else ():
                    if isinstance(value, Tensor) and epsilon(value.dtype) > found.epsilon:
                        found = replace(found, dtype=value.dtype)
        return found


def _plain(one: Any, other: Any, tolerance: Tolerance) -> tuple[bool, float]:
    """Whether plain values are equal, and by how much numbers differ."""
    if isinstance(one, float) or isinstance(other, float):
        try:
            numbers = compare(np.array([one], np.float64), np.array([other], np.float64), None, tolerance)
        except (TypeError, ValueError):
            return False, 0.0
        return not numbers.differing, numbers.max_abs
    try:
        same = type(one) is type(other) and bool(one == other)
    except (TypeError, ValueError):  # lists with arrays in them
        same = False
    number = isinstance(one, int) and isinstance(other, int)
    return same, float(abs(one - other)) if number else 0.0


def _other_labels(a: Tensor, b: Tensor) -> np.ndarray | None:
    """The number in the vocabulary of a for each label of b; None if both vocabularies agree."""
    one, other = a.sparse_dim, b.sparse_dim
    if one is None or other is None or one is other or is_beam(one) or one.vocab is None or other.vocab is None:
        return None
    mine, theirs = _labels(one), _labels(other)
    if mine == theirs:
        return None
    number = {label: index for index, label in enumerate(mine)}
    return np.array([number.get(label, -1) for label in theirs], np.int64)


def _labels(dim: Dim) -> list[str]:
    vocab: Any = dim.vocab
    return [str(label) for label in getattr(vocab, "labels", vocab)]
