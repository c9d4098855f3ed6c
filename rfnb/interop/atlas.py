"""atlas: the effect of one small change at each step of a search, for each position, label, unit or head.

    atlas = rf.atlas(run)                    # each letter hidden in each step; rf.show(atlas) fills while it is computed
    print(atlas)                             # the change of the score, and the label that replaces the original
    branch = atlas.branch(1, 5)              # one of them as a branch of the run

Each cell is a branch that runs to its end in the background. It is not part of a tree and has no listeners, and only its search is kept.
"""

from __future__ import annotations

import atexit
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from rfnb.control.commands import changes_of
from rfnb.control.position import Change
from rfnb.control.run import Run
from rfnb.control.run_steps import StepPlace
from rfnb.control.search_rewind import SearchRewind
from rfnb.control.why_not import Tries, found_in, searched
from rfnb.core.errors import index_error, type_error, value_error
from rfnb.interop.atlas_columns import MAKERS, AtlasColumns, Command, chosen
from rfnb.interop.measurement import Measurement
from rfnb.trace.beams import BeamHistory, Hypothesis

_MOST = 10_000
_COMPANIONS = {"position": "attention", "head": "attention", "label": "beams", "unit": "states"}


def _awaited(name: str) -> property:
    """An array that is available once all cells are computed, or the atlas was stopped."""

    def get(atlas: Atlas) -> np.ndarray:
        atlas.wait()
        found: np.ndarray = getattr(atlas, name)
        return found

    return property(get, lambda atlas, given: setattr(atlas, name, given))


class Atlas(Measurement):
    """The changes of the score, {step, column}; reading them waits for all cells. Made by `rf.atlas`.

    Attributes:
        cells: The first label that differs; "" if none does, "∅" if the result ends earlier.
        said: All labels of the new result, and their score.
        refused: Whether the change is impossible there. Such cells are NaN.
        found, found_texts: The result without a change, and its labels.
        run: The run from which cells branch.
        steps, changes, companion: Its steps, the changes of the columns, and the view of the run with the same axes.
        kind: The kind of that view.
        pages, closed: The pages that show it, and whether it was stopped because there is none.
        is_whole, is_all_columns: Whether it has all steps and all columns.
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

    values, cells, said, refused = map(_awaited, ("_values", "_cells", "_said", "_refused"))

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes of the axes."""
        return self._values.shape

    @property
    def now(self) -> np.ndarray:
        """The changes so far; NaN for cells that are not computed yet."""
        return self._values

    @property
    def num_left(self) -> int:
        """The number of cells that are not computed yet."""
        return len(self._left)

    @property
    def going(self) -> bool:
        """Whether cells are still being computed."""
        return self._going and bool(self._left) and self._worker.is_alive()

    def place(self, row: int) -> StepPlace:
        """The step of the run for a row."""
        at, history = self._tries.place, self._tries.history
        return at._replace(step=history.loop_steps[self.steps[row]])

    def commands(self, row: int, col: int) -> list[Command]:
        """The commands of a cell, in the form of a page."""
        besides = self.changes.by_row[row] if self.changes.by_row else {}
        return [{**each, **besides} for each in self.changes.commands[col]]

    def words(self, row: int, col: int) -> str:
        """The change of a cell as text."""
        return f"{self.changes.words[col]} at {self.place(row).step}"

    def branch(self, row: int, col: int) -> Run:
        """Make one cell a branch of the run, which continues.

        Raises:
            IndexError: If there is no such cell.
        """
        rows, cols = self.shape
        if not (0 <= row < rows and 0 <= col < cols):
            raise index_error(
                f"atlas: no cell {row}, {col}.",
                [("rows", rows), (self.columns[0], cols)],
                "Indices begin at 0.",
                "atlas.branch(0, 0)",
            )
        at = self.place(row)
        do = changes_of(self.commands(row, col))
        return self.run.from_step(at.step, do, path=at.path, nth=at.nth, name=self.words(row, col), paused=False)

    def stop(self) -> Atlas:
        """Stop computing cells."""
        with self._lock:
            self._going = False
            self._lock.notify_all()
        self._tell()
        return self

    def go_on(self) -> Atlas:
        """Resume computing cells."""
        with self._lock:
            self._going = True
            self._lock.notify_all()
        self._tell()
        return self

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until all cells are computed, or the atlas was stopped; False after `timeout` seconds."""
        with self._lock:
            return self._lock.wait_for(lambda: not self.going, timeout)

    def on_change(self, tell: Callable[[], None]) -> None:
        """Call `tell`, in any thread, whenever cells are added, or it stops or resumes."""
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
            if self._rewinds:
                rewound = SearchRewind(self._tries, self._following, self._give)
                self._rewinds = rewound.run()
            elif (asked := self._following()) is not None:
                self._give(self._tries.made(*asked))

    def _following(self) -> tuple[int, Change] | None:
        """The step and the change of the next cell; None if no cell is to be computed now."""
        if not self._left or not self._going or self._over:
            return None
        row, col = self._left[0]
        return self.place(row).step, changes_of(self.commands(row, col))

    def _give(self, made: tuple[Hypothesis, BeamHistory] | None) -> None:
        """Store the result of the next cell; None if it was refused."""
        row, col = self._left[0]
        if made is None:
            self._refused[row, col] = True
        else:
            self._put(row, col, *made)
        with self._lock:
            self._left.pop(0)
            if not self._left:  # wake waiting threads only at the end
                self._lock.notify_all()
        self._tell()

    _over = False  # the interpreter is exiting
    _rewinds = True  # assume so until shown otherwise

    def _put(self, row: int, col: int, best: Hypothesis, history: BeamHistory) -> None:
        before, after = (
            list(of.texts(item.tokens)) for of, item in ((self._tries.history, self.found), (history, best))
        )
        self._cells[row, col] = first_change(before, after)
        self._said[row, col] = f"{' '.join(after)} {best.score:.2f}".replace("-", "−")
        self._values[row, col] = best.score - self.found.score

    def table(self, seq: int = 0) -> str:
        """The changes as text, each with the label that replaces the original."""
        texts = np.array([[f"{round(value, 2) + 0.0:.2f} {label}".strip() for value, label in zip(*both)]
                          for both in zip(self.values, self._cells)], object)  # fmt: skip
        texts[self._refused] = "no"
        return Measurement(self.name, self._values, self.rows, self.columns, cells=texts).table()

    def __rfnb_view__(self, **options: Any) -> Any:
        """The view, which fills while cells are computed."""
        from rfnb.interop.atlas_view import view

        return view(self, **options)

    def __repr__(self) -> str:
        self.wait()
        left = f"\n{self.num_left} of {self._values.size} were not computed: atlas.go_on()" if self._left else ""
        return f"{self.name} of {' '.join(self.rows[1])} ({self.found.score:.3f}), with {self.changes.said}\n{self.table()}{left}"


_there: weakref.WeakValueDictionary[int, Atlas] = weakref.WeakValueDictionary()


@atexit.register
def _end_all() -> None:
    """Start no cell while the interpreter exits."""
    for each in list(_there.values()):
        each._over = True
        each.go_on()


def first_change(before: Sequence[str], after: Sequence[str]) -> str:
    """The first label that differs; "" if none does, "∅" if the second result is a prefix of the first."""
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
    """Compute how one small change in each step of a search changes its score and its labels.

        atlas = rf.atlas(run)                                     # each letter hidden in each step
        atlas = rf.atlas(run, "unit", path="decoder.h", columns=range(16))

    For each cell, the search is rewound to the step, or its function is rerun, in the background; see `atlas.stop()`
    and `atlas.go_on()`. In a notebook, the view fills during the computation, which stops when its page is closed and
    resumes when it is opened.

    Args:
        run: A run of `rf.run` of a function with a search; a held run is compared with its continuation to the end.
        over: "position": hide a source position in that step; "label": force a label, as the only continuation in that
            step; "unit": set a unit of a state to 0 before the step; "head": make the attention of a head uniform in that
            step.
        path: The path of the attention, or of the state. Default: all attention over the same positions; the only state.
        columns: The positions, labels (texts or indices), units or heads. Default: all; for labels the 12 most probable
            ones in any step of the result.
        steps: The steps of the result, from 0. Default: all.
        seq: Index in the batch.

    Returns:
        An `Atlas`, as an array {step, column}.

    Raises:
        TypeError: If it is not a run.
        ValueError: If it has no search, nothing of that kind, or more than 10,000 cells.
        IndexError: If there is no such sequence, step or column.
        RuntimeError: If the function has side effects, so that it is not rerun without permission.
    """
    if not isinstance(run, Run):
        raise type_error(
            "atlas: not a run.",
            {"given": type(run).__name__},
            "Each cell needs a rerun of a function:",
            "run = rf.run(fn); rf.atlas(run)",
        )
    if over not in _COMPANIONS:
        raise value_error(
            f'atlas: unknown value of over: "{over}".',
            {"known": ", ".join(_COMPANIONS)},
            "over is the kind of value that each column changes.",
            'rf.atlas(run, "position")',
        )
    history, place = searched(run, "atlas")
    best = found_in(history, seq, "atlas")
    rows = chosen("step", steps, len(best.tokens))
    tries = Tries(run, place, history, seq, best)
    made = MAKERS[over](tries, rows, path, columns)
    if len(rows) * len(made.labels) > _MOST:
        raise value_error(
            f"atlas: {len(rows) * len(made.labels):,} cells.",
            [("steps", len(rows)), (made.name, len(made.labels)), ("most", f"{_MOST:,}")],
            "Each cell is a complete run of the function. Select some of them:",
            f'rf.atlas(run, "{over}", columns=range(16), steps=range(8))',
        )
    return Atlas(run, tries, rows, made, _COMPANIONS[over])
