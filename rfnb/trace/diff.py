"""diff: the first place where two runs differ, and how the difference grows from there.

    with rf.record(values=True) as alone:
        model(one)
    with rf.record(values=True) as batched:
        model(eight)
    d = rf.diff(alone, batched, seq_b=3)
    print(d.text)                  # the first module, step and cell that differ; what grows from it; searches; what only one has
    d.first, d.by_path, d.growth("decoder.lstm"), d.pair(d.first)

Two recordings of the same code: other parameters, seeds, devices, dtypes, batches, beams. Events are matched by kind, path and step,
dims by name and kind, hypotheses by their labels. Padding is not compared.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from rfnb.core.dim import Dim
from rfnb.core.errors import NearNames, index_error, type_error, value_error
from rfnb.core.tensor import Tensor
from rfnb.core.whole_number import whole
from rfnb.trace import diff_text
from rfnb.trace.attach import attacher_of, compared
from rfnb.trace.diff_cell import DiffCell, cell_of, region
from rfnb.trace.diff_dims import IndexOfBoth, Plan, Sides, batch_dims
from rfnb.trace.diff_events import Ident, identified, values_of
from rfnb.trace.diff_hints import hints
from rfnb.trace.diff_numbers import Tolerance, largest, to_order
from rfnb.trace.diff_rows import NO_VALUES, Pair, Row, RowComparison
from rfnb.trace.diff_searches import SearchDiff, SequenceDiff, StepOfSearch
from rfnb.trace.diff_slots import Slots
from rfnb.trace.event import Event
from rfnb.trace.lookup import find_path, searches_of
from rfnb.trace.trace import Trace


@dataclass(frozen=True)
class PathDiff:
    """All values at one path.

    Attributes:
        path: Path of a module, a loop or a search.
        rows: All values that both have, in order.
        first: The first one that differs, or None.
        worst: The one that differs most relative to its size, or None.
    """

    path: str
    rows: list[Row]
    first: Row | None
    worst: Row | None


@dataclass(frozen=True)
class Growth:
    """The differences at one path over the steps.

    Attributes:
        steps: Steps of the innermost loop, or call numbers outside of loops; one for each time that the path was run.
        max_abs: The largest absolute difference in each; NaN where only one side is NaN.
        units: The largest difference relative to the size of its cell, in epsilons of the dtype.
        differs: Whether that exceeds the tolerance.
    """

    steps: np.ndarray
    max_abs: np.ndarray
    units: np.ndarray
    differs: np.ndarray


class Diff(NearNames):
    """Two recordings side by side; made by `rf.diff`. It keeps both, and reads single values from them on demand.

    Attributes:
        a, b: The recordings.
        names: Their names.
        seqs: The sequence compared on each side; (None, None) means all.
        rows: All values that both have, in the order in which a computed them, each with its measured difference.
        only_a, only_b: The events that the other one lacks, except for steps after the end of a sequence.
        searches: For each search the first step with other hypotheses, ties and real changes separately, and both results with their
            edits.
    """

    def __init__(self, a: Trace, b: Trace, comparison: RowComparison, names: tuple[str, str]):
        self.a, self.b, self.names, self._comparison = a, b, names, comparison
        self.seqs = comparison.sides.seqs
        self.rows: list[Row] = comparison.rows
        self.only_a, self.only_b = comparison.only
        self.searches: list[SearchDiff] = comparison.searches

    @property
    def same(self) -> bool:
        """True if nothing differs by more than the tolerance, and neither has events that the other lacks."""
        results = [seq.result for search in self.searches for seq in search.seqs]
        found = all(result is None or result.same for result in results)
        return self.first is None and not self.only_a and not self.only_b and found

    @cached_property
    def first(self) -> Row | None:
        """The first value that differs by more than the tolerance, in order of computation; None if there is none."""
        return next((row for row in self.rows if row.differs), None)

    @cached_property
    def worst(self) -> Row | None:
        """The value that differs most relative to its size."""
        return _worst(self.rows)

    @cached_property
    def by_path(self) -> dict[str, PathDiff]:
        """The values of each path, ordered by their first one."""
        rows: dict[str, list[Row]] = {}
        for row in self.rows:
            rows.setdefault(row.path, []).append(row)
        return {
            path: PathDiff(path, each, next((row for row in each if row.differs), None), _worst(each))
            for path, each in rows.items()
        }

    @cached_property
    def dtypes(self) -> Row | None:
        """The first value that has another dtype in b; None if there is none."""
        return next((row for row in self.rows if row.dtypes[0] != row.dtypes[1]), None)

    @property
    def tolerance(self) -> Tolerance:
        """The tolerance at the end of the run: that of the coarsest dtype seen in either."""
        return self.rows[-1].tolerance if self.rows else Tolerance()

    def growth(self, path: str, name: str | None = None) -> Growth:
        """The differences at a path over the steps.

        Args:
            path: A recorded path, or the end of exactly one.
            name: Name of one value there, such as `h`. Default: the largest difference of all.

        Raises:
            PathError: If there is no such path, or several.
        """
        full = find_path(
            "diff.growth", path, {each: each for each in self.by_path}, ", ".join(self.by_path) or "nothing"
        )
        rows = [row for row in self.by_path[full].rows if row.status != NO_VALUES and name in (None, row.name)]
        places: dict[Any, list[Row]] = {}
        for row in rows:
            places.setdefault((row.ident.run, row.ident.call, row.ident.steps), []).append(row)
        steps = [ident[2][-1] if ident[2] else ident[1] for ident in places]
        most = [largest(row.numbers.max_abs for row in each) for each in places.values()]
        units = [max(row.numbers.units for row in each) for each in places.values()]
        differs = [any(row.differs for row in each) for each in places.values()]
        return Growth(np.array(steps, np.int64), np.array(most, float), np.array(units, float), np.array(differs, bool))

    def find(self, path: str, name: str | None = None, step: int | None = None) -> Row:
        """The first matching value at a path.

        Args:
            path: A recorded path, or the end of exactly one.
            name: Name of the value. Default: any.
            step: Step of the innermost loop. Default: any.

        Raises:
            PathError: If there is no such path, or several.
            IndexError: If there is no such value.
        """
        full = find_path("diff.find", path, {each: each for each in self.by_path}, ", ".join(self.by_path) or "nothing")
        rows = self.by_path[full].rows
        found = [row for row in rows if name in (None, row.name) and (step is None or whole(step) == row.step)]
        if not found:
            steps = [row.step for row in rows if row.step is not None]
            raise index_error(
                f'diff.find: "{full}" has no such value.',
                {
                    "asked": ", ".join(
                        f"{key} {value}" for key, value in (("name", name), ("step", step)) if value is not None
                    ),
                    "names": ", ".join(dict.fromkeys(row.name for row in rows)),
                    "steps": f"{min(steps)} to {max(steps)}" if steps else "it was run outside of loops",
                },
                "Only what both recordings have is compared.",
                f'd.find("{full}")',
            )
        return next((row for row in found if row.differs), found[0])

    def pair(self, row: Row) -> Pair | None:
        """Both values of a row along the same axes, hypotheses of b in the slots of a; None if they are not Tensors or do not match."""
        return None if row.status == NO_VALUES else self.pair_of(*self.events_of(row), row.name)

    def pair_of(self, a: Event, b: Event, name: str) -> Pair | None:
        """The same for any two events, such as two steps."""
        one, other = values_of(a).get(name), values_of(b).get(name)
        if not isinstance(one, Tensor) or not isinstance(other, Tensor):
            return None
        found = self._comparison.aligned(a, b, one, other)
        return None if isinstance(found, Plan) else found

    def value(self, row: Row, side: int) -> Any:
        """The value of a row as it was recorded, in a (0) or b (1)."""
        return values_of(self.events_of(row)[side]).get(row.name)

    def event_at(self, ident: Ident, side: int) -> Event | None:
        """The event at a place in the run of a (0) or b (1)."""
        return self._comparison.events[side].get(ident)

    def events_of(self, row: Row) -> tuple[Event, Event]:
        """The events of a row, in a and in b."""
        return self.a.events[row.events[0]], self.b.events[row.events[1]]

    def steps_of(self, row: Row) -> list[tuple[SequenceDiff, StepOfSearch]]:
        """The steps of a search that a row of hypotheses belongs to, one for each sequence; empty for other rows."""
        return self._comparison.steps_of.get(row.events[0], [])

    def cell(self, row: Row) -> DiffCell | None:
        """The cell of a row that differs most, by the names of its dims; None if there is none."""
        pair = self.pair(row)
        return None if pair is None or row.numbers.worst < 0 else cell_of(pair, row.numbers.worst, self.seqs)

    def region(self, row: Row) -> dict[str, str]:
        """The indices at which a value differs, by dim, as text; only for dims where this is informative."""
        pair = self.pair(row)
        return {} if pair is None else region(pair, row.tolerance)

    def hints(self, row: Row | None = None) -> list[str]:
        """Sentences that characterize a difference by its values. Default: the first difference."""
        row = row or self.first
        return [] if row is None else hints(self, row)

    @cached_property
    def text(self) -> str:
        """The complete text: the first difference, its character, its growth, searches, and events that only one side has."""
        return diff_text.text(self)

    def __repr__(self) -> str:
        return f"<Diff: {diff_text.sentence(self)}>"


def diff(
    trace_a: Any,
    trace_b: Any,
    *,
    tolerance: float | None = None,
    seq_a: int | None = None,
    seq_b: int | None = None,
    names: Sequence[str] = ("a", "b"),
    inputs: Any = None,
    inputs_b: Any = None,
) -> Any:
    """Find where two recorded runs differ, how the difference grows, and what only one has; or compare two codes of one model.

    For two models, such as a port and its original with other names and other code, it names the module and the line of code in which the
    first one departs from the second, and tries the usual causes on it: rotary base, pairing and part, grouped heads, scales, norms, soft
    cap, gate order and complement, bias, mask, transposed weight, activation, dropout. `d = rf.diff(mine, theirs, inputs=ids)`, `d.place`,
    `d.line`, `d.cause`; a cause is sure if both results agree once it is removed.

    Args:
        trace_a, trace_b: Recordings (from `rf.record`, `rf.load_trace`), held runs that have one; or two torch.nn.Modules.
        tolerance: The largest difference that is ignored, relative to the size of a cell: the larger of both values, or the typical
            value of its tensor if that is more. Default: 128 epsilons of float32 and float64, several times the error of sums in another
            order; 4 of bfloat16 and float16, whose sums are computed in float32. For two dtypes, and values computed from them, the
            coarser one counts. 0: bit for bit, including the sign of zero. Integers, labels and text are compared exactly.
        seq_a, seq_b: Compare only this sequence of the batch, e.g. a sequence computed alone with the same one in a batch:
            `seq_b=3`. Default: compare sequences of the same index.
        names: Names of the two in text and views.
        inputs: For two models: a tensor, a tuple of arguments, or a dict of keyword arguments.
        inputs_b: The inputs of the second model, if they differ in form.

    Returns:
        A `Diff`; for two models a `CodeDiff`. `print(d.text)` describes it, `rf.show(d)` draws it.

    Raises:
        TypeError: For anything that is not a recording.
        ValueError: If the recordings have nothing in common; for batches of different sizes without a sequence to compare; for a
            negative tolerance.
        IndexError: If there is no such sequence.
    """
    if attacher_of(trace_a) is not None and attacher_of(trace_b) is not None:
        called_so = ("mine", "theirs") if tuple(names) == ("a", "b") else tuple(map(str, names))
        return compared(trace_a, trace_b, inputs=inputs, inputs_b=inputs_b, tolerance=tolerance, names=called_so)
    a, b = _trace_of(trace_a, "trace_a"), _trace_of(trace_b, "trace_b")
    if tolerance is not None and not (isinstance(tolerance, (int, float)) and 0 <= tolerance < math.inf):
        raise value_error(
            "diff: this is no tolerance.",
            {"tolerance": repr(tolerance)},
            "It is relative to the size of a cell, 0 for bit for bit; None: by the dtypes.",
            "rf.diff(a, b, tolerance=1e-3)",
        )
    called = tuple(map(str, names))
    if len(called) != 2 or called[0] == called[1]:
        raise value_error(
            "diff: two recordings have two names.",
            {"names": ", ".join(called)},
            "They stand for the two in text and views.",
            'rf.diff(a, b, names=("cpu", "gpu"))',
        )
    events = identified(list(a.events)), identified(list(b.events))
    if not events[0].keys() & events[1].keys() and (events[0] or events[1]):
        raise _nothing_in_common(a, b, called)
    sides = _sides(a, b, (seq_a, seq_b), (called[0], called[1]))
    searches = searches_of(a), searches_of(b)
    slots = Slots(searches)
    others = {(search.path, search.run): search for search in searches[1]}
    comparison = RowComparison(events, sides, slots, None if tolerance is None else float(tolerance))
    pairs = [(search, others.get((search.path, search.run))) for search in searches[0]]
    comparison.run([(search, other) for search, other in pairs if other is not None])
    return Diff(a, b, comparison, (called[0], called[1]))


def _trace_of(value: Any, which: str) -> Trace:
    found = value if isinstance(value, Trace) else getattr(value, "trace", None)
    if isinstance(found, Trace):
        return found
    got = f"{type(value).__name__} without a recording" if hasattr(value, "trace") else type(value).__name__
    if isinstance(value, str):
        raise type_error(
            f"diff: {which} is text, no recording.",
            {which: repr(value)},
            "A file is loaded first.",
            f"rf.diff(rf.load_trace({value!r}), ...)",
        )
    raise type_error(
        f"diff: {which} is no recording.",
        {which: got},
        "Two recorded runs are compared:",
        "with rf.record(values=True) as trace:\n    ...    # the run\nrf.diff(trace, other)",
    )


def _nothing_in_common(a: Trace, b: Trace, names: tuple[str, str]) -> ValueError:
    def content(trace: Trace) -> str:
        paths = [f"{kind} at {path or 'no path'}" for kind in trace.kinds for path in trace.by_path(kind)]
        return ", ".join(paths[:6]) + (f" and {len(paths) - 6} more" if len(paths) > 6 else "") or "nothing"

    return value_error(
        "diff: the two recordings have no event in common.",
        [(names[0], content(a)), (names[1], content(b))],
        "Events are matched by kind, path and step. Paths begin at the model passed to the recording:",
        "with rf.record(model=model, values=True) as trace:",
    )


def _sides(a: Trace, b: Trace, seqs: IndexOfBoth, names: tuple[str, str]) -> Sides:
    """The sequences that are compared."""
    tensors = [[value for event in trace.events for value in _tensors_of(event)] for trace in (a, b)]
    batch = batch_dims(tensors[0]), batch_dims(tensors[1])
    sizes = [_batch_size(each, dims) for each, dims in zip(tensors, batch)]
    for side, (seq, size) in enumerate(zip(seqs, sizes)):
        if seq is not None and not 0 <= seq < max(size, 1):
            raise index_error(
                f"diff: {names[side]} has no sequence {seq}.",
                [(f"seq_{'ab'[side]}", seq), ("sequences", f"{size}, 0 to {size - 1}")],
                "Sequences are counted from 0, in the order of the batch.",
                f"rf.diff(a, b, seq_{'ab'[side]}={max(size, 1) - 1})",
            )
    if seqs == (None, None):
        if sizes[0] == sizes[1] or not min(sizes):
            return Sides((None, None), batch)
        if 1 not in sizes:
            raise _which_sequence(sizes, names, "seq_a=0, seq_b=0")
    for side in (0, 1):
        if seqs[side] is None and sizes[side] > 1:
            raise _which_sequence(sizes, names, f"seq_{'ab'[side]}=0" if None in seqs and seqs == (None, None) else
                                  ", ".join(f"seq_{'ab'[other]}={seqs[other] or 0}" for other in (0, 1)))  # fmt: skip
    return Sides((seqs[0] or 0, seqs[1] or 0), batch)


def _which_sequence(sizes: Sequence[int], names: tuple[str, str], fix: str) -> ValueError:
    return value_error(
        "diff: the batches have other numbers of sequences.",
        [(name, f"{size} sequence{'s' * (size != 1)}") for name, size in zip(names, sizes)],
        "Say which sequence is which, counted from 0:",
        f"rf.diff(a, b, {fix})",
    )


def _tensors_of(event: Event) -> list[Tensor]:
    if event.kind == "beams":
        return []  # made when somebody looks; the dims of the batch are those of its labels
    return [value for value in values_of(event).values() if isinstance(value, Tensor)]


def _batch_size(tensors: Sequence[Tensor], batch: frozenset[Dim]) -> int:
    """The number of sequences, the largest of several batches; 0 without a batch."""
    dims = {dim for tensor in tensors for dim in tensor.dims if dim in batch}
    return max((dim.extent for dim in dims if dim.is_dim_known()), default=0)


def _worst(rows: Sequence[Row]) -> Row | None:
    found = [row for row in rows if row.numbers.units > 0 or row.differs]
    return max(found, key=lambda row: (row.numbers.units, row.differs, to_order(row.numbers.max_abs)), default=None)
