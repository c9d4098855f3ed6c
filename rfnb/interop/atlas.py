"""atlas: what would come of one small change at each step of a search, for each position, label, unit or head.

    atlas = rf.atlas(run)                    # each letter hidden in each step; rf.show(atlas) fills while it is computed
    print(atlas)                             # by how much the score changes, and the label that comes instead
    branch = atlas.branch(1, 5)              # one of them as a branch of the run

Each cell is a branch that runs to its end in the background. No tree has it, nobody hears it, and of it only its search is kept.
"""

from __future__ import annotations

import atexit
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from rfnb.control.attention_edits import Known
from rfnb.control.commands import changes_of
from rfnb.control.position import Position
from rfnb.control.run import Run
from rfnb.control.run_steps import StepPlace
from rfnb.control.why_not import Tries, labels_in, searched
from rfnb.core.errors import index_error, type_error, value_error
from rfnb.core.whole_number import whole
from rfnb.interop.measured import Measured
from rfnb.trace.beam_analysis import verdicts
from rfnb.trace.beam_diagnosis import result_of
from rfnb.trace.beams import BeamHistory, Hypothesis
from rfnb.trace.match import is_end_of
from rfnb.viz.group.spec import parts_of
from rfnb.viz.of_trace import spec as trace_spec

_MOST, _LABELS = 10_000, 12
_COMPANIONS = {"position": "attention", "head": "attention", "label": "beams", "unit": "states"}
Command = Mapping[str, Any]


class AtlasColumns(NamedTuple):
    """The columns of an atlas.

    Attributes:
        name: What they are over.
        labels: One for each.
        commands: What each does before a step, as a page asks for it (rfnb/control/commands.py).
        words: The same as a person would say it.
        by_row: What the commands have besides in each step.
        said: What the columns do, in words.
        companion: The view of the run itself that has the same axes; None: it has recorded nothing of that kind.
        is_all: Whether these are all.
    """

    name: str
    labels: list[str]
    commands: list[list[Command]]
    words: list[str]
    by_row: list[Command]
    said: str
    companion: Any
    is_all: bool = False


class Atlas(Measured):
    """The changes of the score, {step, column}; reading them waits until all are there. Made by `rf.atlas`.

    Attributes:
        cells: The first label that is another one, "" where all are the same, "∅" where it ends before.
        said: All labels that come of it, and their score.
        refused: Whether it cannot be done there. Such cells are NaN.
        found, found_texts: The result without a change, and its labels.
        run: What is branched from.
        steps, changes, companion: Which steps of it, what the columns do, and the view of the run that has the same axes.
        kind: Of that.
        pages, closed: Those that show it, and whether it was stopped since none does.
        is_whole, is_all_columns: Whether all steps and all columns are there.
    """

    def __init__(self, run: Run, tries: Tries, steps: Sequence[int], columns: AtlasColumns, kind: str):
        shape = len(steps), len(columns.labels)
        self.found_texts = labels = tries.history.texts(tries.best.tokens)
        self.pages, self.closed = set[str](), False
        self._lock, self._told = threading.Condition(), set[Callable[[], None]]()
        self._going, self._left = True, [(row, col) for row in range(shape[0]) for col in range(shape[1])]
        super().__init__(
            "change of the score", np.full(shape, np.nan), ("step", [labels[row] for row in steps]),
            (columns.name, columns.labels), beside={"score": tries.best.score}, cells=np.full(shape, "", object),
        )  # fmt: skip
        self._said, self._refused = np.full(shape, "", object), np.zeros(shape, bool)
        self.run, self.found, self.steps, self.companion = run, tries.best, list(steps), columns.companion
        self.changes, self._tries, self.kind = columns, tries, kind
        self.is_whole, self.is_all_columns = self.steps == list(range(len(labels))), columns.is_all
        _there[id(self)] = self
        self._worker = threading.Thread(target=self._work, name="rfnb atlas", daemon=True)
        self._worker.start()

    @property
    def values(self) -> np.ndarray:
        """The changes, once all are there, or it was stopped."""
        self.wait()
        return self._values

    @values.setter
    def values(self, given: np.ndarray) -> None:
        self._values = given

    @property
    def cells(self) -> np.ndarray:
        """The same; waits like `values`."""
        self.wait()
        return self._cells

    @cells.setter
    def cells(self, given: np.ndarray) -> None:
        self._cells = given

    @property
    def said(self) -> np.ndarray:
        """The same; waits like `values`."""
        self.wait()
        return self._said

    @property
    def refused(self) -> np.ndarray:
        """The same; waits like `values`."""
        self.wait()
        return self._refused

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes of the axes."""
        return self._values.shape

    @property
    def now(self) -> np.ndarray:
        """The changes so far; NaN for those that are still to come."""
        return self._values

    @property
    def num_left(self) -> int:
        """The number of cells that are still to come."""
        return len(self._left)

    @property
    def going(self) -> bool:
        """Whether more comes."""
        return self._going and bool(self._left) and self._worker.is_alive()

    def place(self, row: int) -> StepPlace:
        """The step of a row, in the run."""
        at, history = self._tries.place, self._tries.history
        return at._replace(step=history.loop_steps[self.steps[row]])

    def commands(self, row: int, col: int) -> list[Command]:
        """The commands of a cell, as a page asks for them."""
        return [{**each, **self.changes.by_row[row]} for each in self.changes.commands[col]]

    def words(self, row: int, col: int) -> str:
        """The change of a cell, as a person would say it."""
        return f"{self.changes.words[col]} at {self.place(row).step}"

    def branch(self, row: int, col: int) -> Run:
        """Make one cell a branch of the run, which runs on.

        Raises:
            IndexError: There is no such cell.
        """
        rows, cols = self.shape
        if not (0 <= row < rows and 0 <= col < cols):
            raise index_error(
                f"atlas: no cell {row}, {col}.",
                [("rows", rows), (self.columns[0], cols)],
                "They are counted from 0.",
                "atlas.branch(0, 0)",
            )
        at = self.place(row)
        do = changes_of(self.commands(row, col))
        return self.run.from_step(at.step, do, path=at.path, nth=at.nth, name=self.words(row, col), paused=False)

    def stop(self) -> Atlas:
        """Compute no further cell."""
        with self._lock:
            self._going = False
            self._lock.notify_all()
        self._tell()
        return self

    def go_on(self) -> Atlas:
        """Compute those that are left."""
        with self._lock:
            self._going = True
            self._lock.notify_all()
        self._tell()
        return self

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until all cells are there, or it was stopped; False: `timeout` seconds were not enough."""
        with self._lock:
            return self._lock.wait_for(lambda: not self.going, timeout)

    def on_change(self, tell: Callable[[], None]) -> None:
        """Call `tell`, in any thread, when there is more, or it has stopped or gone on."""
        self._told.add(tell)

    def _tell(self) -> None:
        for tell in tuple(self._told):
            tell()

    def _work(self) -> None:
        while self._left:
            with self._lock:
                self._lock.wait_for(lambda: self._going)
                if self._over:
                    return
            row, col = self._left[0]
            made = self._tries.made(self.place(row).step, changes_of(self.commands(row, col)))
            if made is None:
                self._refused[row, col] = True
            else:
                self._put(row, col, made[0], made[1])
            with self._lock:
                self._left.pop(0)
                self._lock.notify_all()
            self._tell()

    _over = False  # Python ends

    def _put(self, row: int, col: int, best: Hypothesis, history: BeamHistory) -> None:
        before, after = (
            list(of.texts(item.tokens)) for of, item in ((self._tries.history, self.found), (history, best))
        )
        self._cells[row, col] = first_change(before, after)
        self._said[row, col] = f"{' '.join(after)} {best.score:.2f}".replace("-", "−")
        self._values[row, col] = best.score - self.found.score

    def table(self, seq: int = 0) -> str:
        """The changes as text, each with the label that comes instead."""
        texts = np.array([[f"{round(value, 2) + 0.0:.2f} {label}".strip() for value, label in zip(*both)]
                          for both in zip(self.values, self._cells)], object)  # fmt: skip
        texts[self._refused] = "no"
        return Measured(self.name, self._values, self.rows, self.columns, cells=texts).table()

    def __rfnb_view__(self, **options: Any) -> Any:
        """The view that fills while it is computed."""
        from rfnb.interop.atlas_view import view

        return view(self, **options)

    def __repr__(self) -> str:
        self.wait()
        left = f"\n{self.num_left} of {self._values.size} were not computed: atlas.go_on()" if self._left else ""
        return f"{self.name} of {' '.join(self.rows[1])} ({self.found.score:.3f}), with {self.changes.said}\n{self.table()}{left}"


_there: weakref.WeakValueDictionary[int, Atlas] = weakref.WeakValueDictionary()


@atexit.register
def _end_all() -> None:
    """Let no cell begin while Python ends."""
    for each in list(_there.values()):
        each._over = True
        each.go_on()


def first_change(before: Sequence[str], after: Sequence[str]) -> str:
    """The first label that is another one; "" if none is, "∅" where there are no more."""
    at = next(
        (index for index, (one, other) in enumerate(zip(before, after)) if one != other), min(len(before), len(after))
    )
    return str(after[at]) if at < len(after) else "∅" if at < len(before) else ""


def atlas(
    run: Run,
    over: str = "position",
    *,
    path: str | None = None,
    columns: Sequence[Any] | None = None,
    steps: Sequence[int] | None = None,
    seq: int = 0,
) -> Atlas:
    """The changes of the score of a search by one small change in each of its steps, and the labels that come instead.

        atlas = rf.atlas(run)                                     # each letter hidden in each step
        atlas = rf.atlas(run, "unit", path="decoder.h", columns=range(16))

    The function of the run runs again for each cell, in the background and one after the other; `atlas.stop()` and `atlas.go_on()`. Shown
    in a notebook it fills while it is computed, stops when its page is closed, and goes on when it is opened.

    Args:
        run: Of a function with a search, from `rf.run`; one that is held is compared with how it would end.
        over: "position": one that is attended over is hidden in that step; "label": it is forced, and nothing else goes on in that step;
            "unit": one of a state is 0 before it; "head": it looks everywhere alike in that step.
        path: Of the attention, or of the state. Default: all attention over the same positions; the only state.
        columns: Which positions, labels (texts or indices), units or heads. Default: all; of labels the 12 that are most likely somewhere
            on the way of what was found.
        steps: Which steps of the result, from 0. Default: all.
        seq: Index in the batch.

    Returns:
        An `Atlas`, as an array {step, column}.

    Raises:
        TypeError: If it is no run.
        ValueError: If there is no search in it, nothing of that kind, or more than 10,000 cells.
        IndexError: If there is no such sequence, step or column.
        RuntimeError: If the function leaves something behind each time, so that it is not run again unasked.
    """
    if not isinstance(run, Run):
        raise type_error(
            "atlas: nothing to run again.",
            [("given", type(run).__name__)],
            "Each cell is another run of a function:",
            "run = rf.run(fn); rf.atlas(run)",
        )
    if over not in _COMPANIONS:
        raise value_error(
            f'atlas: over "{over}".',
            [("known", ", ".join(_COMPANIONS))],
            "It is what is changed, one in each column.",
            'rf.atlas(run, "position")',
        )
    history, place = searched(run, "atlas")
    best = result_of(history, seq) if 0 <= seq < history.num_seqs else None
    if best is None:
        raise index_error(
            f"atlas: sequence {seq} has no result.",
            [("sequences", history.num_seqs)],
            "They are counted from 0.",
            "rf.atlas(run, seq=0)",
        )
    rows = _chosen("step", steps, len(best.tokens))
    tries = Tries(run, place, history, seq, best)
    made = _MAKERS[over](tries, rows, path, columns)
    if len(rows) * len(made.labels) > _MOST:
        raise value_error(
            f"atlas: {len(rows) * len(made.labels):,} cells.",
            [("steps", len(rows)), (made.name, len(made.labels)), ("most", f"{_MOST:,}")],
            "Each is a run of the function to its end. Say which are of interest:",
            f'rf.atlas(run, "{over}", columns=range(16), steps=range(8))',
        )
    return Atlas(run, tries, rows, made, _COMPANIONS[over])


def _chosen(what: str, given: Sequence[Any] | None, count: int) -> list[int]:
    """The numbers that were given, of so many; all without."""
    numbers = list(range(count)) if given is None else [whole(each) for each in given]
    wrong = [each for each, number in zip(given or (), numbers) if number is None or not 0 <= number < count]
    if wrong or not numbers:
        raise index_error(
            f"atlas: no {what} {wrong[0]!r}." if wrong else f"atlas: no {what}s.",
            [(f"{what}s", count)],
            "They are counted from 0, and there is one or more.",
            f"rf.atlas(run, {'steps' if what == 'step' else 'columns'}=range({count}))",
        )
    return [number for number in numbers if number is not None]


def _companion(run: Run, kind: str, path: str) -> Any:
    """The view of the run itself of a path, or of what has it as a part; None: it has recorded none."""
    if run.trace is None:
        return None
    for part in parts_of(trace_spec(run.trace, kinds=kind, live=False)):
        own = str(part.head.get("key", "")).split(" ")[1:2]
        names = [f"{own[0]}.{each['label']}" for each in part.head.get("tracks", ())] if own else []
        if part.kind == kind and (path in (*own, *names) or not path):
            return part
    return None


# -- columns ---------------------------------------------------------------------------------------------------------------


def _looked(tries: Tries, what: Callable[[Position], Any]) -> Any:
    """Something of the place before the last step of the search."""
    found: list[Any] = []
    tries.made(tries.history.loop_steps[-1], lambda at: found.append(what(at)))
    return found[0] if found else {}


def _attended(tries: Tries, path: str | None) -> dict[str, Any]:
    """The attention of the run by path: all that is over the same positions."""
    known = _recorded(tries) or _looked(tries, lambda at: dict(at.attention._known()))
    found = {each: one for each, one in known.items() if path is None or is_end_of(path, each)}
    axes = {id(one.axis): one.axis for one in found.values()}
    if len(axes) != 1:
        raise value_error(
            f"atlas: {'attention over several dims' if axes else 'no attention'}{'' if path is None else f' at {path!r}'}.",
            [("attention", ", ".join(found or known) or "none")],
            "Columns are the positions or heads of one attention that rf makes, or several over the same positions.",
            f'rf.atlas(run, path="{next(iter(found or known), "att")}")',
        )
    return found


def _recorded(tries: Tries) -> dict[str, Known]:
    """The attention in the steps of the search that the run has recorded."""
    run, found = tries.run, dict[str, Known]()
    if run.trace is None:
        return found
    attention = run.trace.attention
    for path in attention:
        event = attention.events(path)[-1]
        place, weights = run.place_of(event.entry), event.values.get("weights")
        axis = attention.axis(path)
        if place is None or weights is None or axis is None:
            continue
        if place[:2] == (tries.place.path, tries.place.nth):
            found[path] = Known(tuple(dim for dim in weights.dims if dim is not axis), axis, True)
    return found


def _in_seq(tries: Tries, dims: Sequence[Any]) -> dict[str, int]:
    """The entry of the sequence, where there are several."""
    batch = [dim for dim in dims if dim.kind == "batch"]
    return {batch[0].name: tries.seq} if batch and tries.history.num_seqs > 1 else {}


def _positions(tries: Tries, rows: list[int], path: str | None, columns: Any) -> AtlasColumns:
    found = _attended(tries, path)
    axis = next(iter(found.values())).axis
    companion = _companion(tries.run, "attention", next(iter(found)))
    seqs = [] if companion is None else companion.head["seqs"]
    names = seqs[tries.seq]["cols"] if tries.seq < len(seqs) else []
    count = len(names) or int(axis.extent)
    numbers = _chosen("position", columns, count)
    labels = [names[number] if names else str(number) for number in numbers]

    def do(number: int) -> list[Command]:
        return [
            {"do": "attention", "path": each, "entries": _in_seq(tries, one.dims), "hide": number}
            for each, one in found.items()
        ]

    return AtlasColumns(
        axis.name,
        labels,
        [do(number) for number in numbers],
        [f"{label} hidden" for label in labels],
        [{}] * len(rows),
        f"one of {axis.name} hidden from {', '.join(found)} in one step",
        companion,
        numbers == list(range(count)),
    )


def _heads(tries: Tries, rows: list[int], path: str | None, columns: Any) -> AtlasColumns:
    every = [
        (each, dim.name, index, _in_seq(tries, one.dims))
        for each, one in _attended(tries, path).items()
        for dim in one.dims
        if "head" in dim.name
        for index in range(dim.extent)
    ]
    if not every:
        raise value_error(
            "atlas: this attention has no heads.",
            [("path", path or "all")],
            "Columns over heads are those of a dim that is called so. Of one head, positions:",
            "rf.atlas(run)",
        )
    several = len({each for each, *_ in every}) > 1
    chosen = [every[number] for number in _chosen("head", columns, len(every))]
    labels = [f"{each} {index}" if several else str(index) for each, _, index, _ in chosen]
    return AtlasColumns(
        "head",
        labels,
        [
            [{"do": "attention", "path": each, "entries": {**own, name: index}, "uniform": True}]
            for each, name, index, own in chosen
        ],
        [f"head {label} even" for label in labels],
        [{}] * len(rows),
        "one head that looks everywhere alike in one step",
        _companion(tries.run, "attention", chosen[0][0]),
    )


def _units(tries: Tries, rows: list[int], path: str | None, columns: Any) -> AtlasColumns:
    states = _looked(tries, lambda at: {each: leaf.dims for each, (_, _, leaf) in at.states._tensors().items()
                                        if leaf.dtype.startswith("float")})  # fmt: skip
    found = {
        each: [dim for dim in dims if dim.kind not in ("batch", "beam")]
        for each, dims in states.items()
        if path is None or is_end_of(path, each)
    }
    found = {each: dims for each, dims in found.items() if len(dims) == 1}
    if len(found) != 1:
        raise value_error(
            f"atlas: {'several states' if found else 'no state'} of one dim{'' if path is None else f' at {path!r}'}.",
            [("states", ", ".join(found or states) or "none")],
            "Columns are the units of one state of the loop.",
            f'rf.atlas(run, "unit", path="{next(iter(found or states), "h")}")',
        )
    ((state, (dim,)),) = found.items()
    own = _in_seq(tries, states[state])
    numbers = _chosen("unit", columns, int(dim.extent))
    return AtlasColumns(
        dim.name,
        [str(number) for number in numbers],
        [[{"do": "set", "state": state, "entries": {**own, dim.name: number}, "value": 0}] for number in numbers],
        [f"{state} {number} = 0" for number in numbers],
        [{}] * len(rows),
        f"one unit of {state} 0 before one step",
        _companion(tries.run, "states", state),
    )


def _labels(tries: Tries, rows: list[int], path: str | None, columns: Any) -> AtlasColumns:
    history, best = tries.history, tries.best
    tokens = _likely(tries) if columns is None else labels_in(history, columns, best, "atlas")
    texts = [history.label(token, 0) for token in tokens]
    before = [" ".join(history.texts(best.tokens[:row])) if row else 0 for row in rows]
    return AtlasColumns(
        "label",
        texts,
        [[{"do": "force", "label": token, "seq": tries.seq, "only": True}] for token in tokens],
        texts,
        [{"hypothesis": each} for each in before],
        "one label forced in one step",
        _companion(tries.run, "beams", ""),
    )


def _likely(tries: Tries) -> list[int]:
    """The labels that were most likely somewhere on the way of what was found."""
    history, seq, most = tries.history, tries.seq, dict[int, float]()
    slot, before = None, 0.0
    for row, own in tries.best.path:
        for item in verdicts(history, seq, row):
            if slot in (None, item.parent) and item.score > -np.inf:
                most[item.token] = max(most.get(item.token, -np.inf), item.score - before)
        slot, before = own, float(history.steps[row]["scores"][seq, own])
    return sorted(most, key=lambda token: -most[token])[:_LABELS]


_MAKERS: dict[str, Callable[..., AtlasColumns]] = {
    "position": _positions,
    "label": _labels,
    "unit": _units,
    "head": _heads,
}
