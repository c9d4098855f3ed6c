"""Training: the observations of a training as plain numbers: curves, norms by module, activations, and one example run repeatedly.

`rf.watch` fills one while a model is trained; `rf.load_trace(path).training` is one written by `watch.save`. Nothing here depends on a
library. Its summary describes norms and activations, module by module, in sentences.

The thresholds are rules of thumb, stated in each sentence: updates of about 1e-3 of the weights are usual (1e-4 to 1e-2 passes here); a
gradient 1000 times smaller or larger than the median of the modules has vanished or exploded.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from os import PathLike
from typing import Any, NamedTuple

import numpy as np

from rfnb.core.place import warn_user
from rfnb.trace.trace import Trace

MOST_POINTS, MOST_ROWS = 1 << 16, 2048
"""So many points of a curve are kept, and so many rows of a table; of more every second one goes."""

NORMS = ("gradient norm", "update ratio", "weight norm")
ACTIVATIONS = ("mean", "std", "zeros", "saturated", "largest", "dead units")


class TrainingCurve:
    """A number over the updates; several values for one update are averaged."""

    def __init__(self) -> None:
        self.steps: list[int] = []
        self.values: list[float] = []
        self._count = 0
        self._stride = 1

    def add(self, step: int, value: float) -> None:
        """Add a value for an update."""
        if self.steps and self.steps[-1] == step:
            self._count += 1
            self.values[-1] += (value - self.values[-1]) / self._count if np.isfinite(value) else value
            return
        if len(self.steps) >= MOST_POINTS:
            self.steps, self.values = self.steps[::2], self.values[::2]
        self.steps.append(step)
        self.values.append(value)
        self._count = 1


class TrainingTable:
    """Numbers by column (a module) over the updates.

    Attributes:
        columns: Paths of modules.
        steps: The update of each row.
        rows: float32 [column]; -1 for a norm of nothing, NaN for an undefined statistic.
    """

    def __init__(self, columns: Sequence[str]) -> None:
        self.columns = tuple(columns)
        self.steps: list[int] = []
        self.rows: list[np.ndarray] = []

    def add(self, step: int, row: np.ndarray) -> None:
        """Add a row; it replaces one of the same update."""
        if self.steps and self.steps[-1] == step:
            self.rows[-1] = np.asarray(row, np.float32)
            return
        if len(self.steps) >= MOST_ROWS:
            self.steps, self.rows = self.steps[::2], self.rows[::2]
        self.steps.append(step)
        self.rows.append(np.asarray(row, np.float32))

    def array(self) -> np.ndarray:
        """float32 [row, column]"""
        return np.stack(self.rows) if self.rows else np.zeros((0, len(self.columns)), np.float32)


class ExampleRecording(NamedTuple):
    """A recording of the model on the example, with the epoch or update after which it was made."""

    label: str
    step: int
    trace: Trace


class Training:
    """The numbers and recordings of a training.

    Attributes:
        title: Name of the trained model.
        curves: Numbers over the updates by name: "loss", "lr", "gradient norm", ...
        tables: Numbers by module over the updates, by statistic (`NORMS`, `ACTIVATIONS`), then by optimizer ("" if there is one).
        examples: Recordings of the fixed example, in order; `every` is the unit of their labels ("epoch" or "update").
        says: Events as text: (update, sentence).
        facts: Facts that hold during the whole training, as text.
        types: The class of each module, by its path.
        counts: Counters: "updates", "batches", "skipped", "clipped".
        closed: Whether the training has ended.
        version: Increases with every addition.
    """

    def __init__(self, title: str = "Training", every: str = "epoch"):
        self.title, self.every = title, every
        self.curves: dict[str, TrainingCurve] = {}
        self.tables: dict[tuple[str, str], TrainingTable] = {}
        self.examples: list[ExampleRecording] = []
        self.says: list[tuple[int, str]] = []
        self.facts: list[str] = []
        self.types: dict[str, str] = {}
        self.counts: dict[str, int] = {}
        self.closed, self.version = False, 0
        self.lock = threading.RLock()
        self._subscribers: list[Callable[[Any], None]] = []
        self._on_close: list[Callable[[Any], None]] = []

    def subscribe(self, fn: Callable[[Any], None]) -> Callable[[Any], None]:
        """Call `fn(None)` after each addition, in the thread of the training; return `fn`."""
        self._subscribers.append(fn)
        return fn

    def on_close(self, fn: Callable[[Any], None]) -> None:
        """Call `fn(self)` when the training ends, or at once if it has ended."""
        if self.closed:
            fn(self)
        else:
            self._on_close.append(fn)

    def curve(self, name: str) -> TrainingCurve:
        """The curve of this name, created if necessary."""
        found = self.curves.get(name)
        if found is None:
            found = self.curves[name] = TrainingCurve()
        return found

    def table(self, stat: str, optimizer: str, columns: Sequence[str]) -> TrainingTable:
        """The table of a statistic, created if necessary."""
        found = self.tables.get((stat, optimizer))
        if found is None:
            found = self.tables[stat, optimizer] = TrainingTable(columns)
        return found

    def tell(self) -> None:
        """Notify subscribers of an addition."""
        self.version += 1
        for fn in list(self._subscribers):
            try:
                fn(None)
            except Exception as error:  # a view must never break the training that it looks at
                self._subscribers.remove(fn)
                warn_user(f"A view of a training raised {type(error).__name__}: {error}")

    def end(self) -> None:
        """End the training and notify subscribers."""
        if not self.closed:
            self.closed = True
            for fn in self._on_close:
                fn(self)
            self._on_close.clear()
            self._subscribers.clear()

    def summary(self) -> str:
        """Sentences about the training: gradients that vanish or explode, dead units, updates that are too large or too small."""

        with self.lock:
            return summary(self)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the training to a file, even while it runs; `rf.load_trace(path).training` reads it.

        Raises:
            TypeError: For a value in a recording of the example that is not a Tensor, Dim, NumPy array or plain data.
            OSError: If it cannot be written.
        """
        from rfnb.trace.file import save_training

        with self.lock:
            save_training(self, path)

    def __repr__(self) -> str:
        done = self.counts.get("updates", 0)
        state = "closed" if self.closed else "running"
        last = "".join(f", {name} {curve.values[-1]:.4g}" for name, curve in self.curves.items() if name == "loss")
        return f"<{type(self).__name__}: {self.title}, {done} updates{last}, {len(self.examples)} examples, {state}>"


LOW_RATIO, HIGH_RATIO, FAR, RECENT = 1e-4, 1e-2, 1e3, 20
_MOST = 6


def summary(training: Any) -> str:
    """One sentence per finding, below a line of counts."""
    counts = training.counts
    lines = [
        f"{training.title}: {_count(counts.get('updates', 0), 'update')}, {_count(counts.get('batches', 0), 'batch')}"
    ]
    loss = training.curves.get("loss")
    if loss is not None and loss.values:
        lines.append(f"loss: first {loss.values[0]:.4g}, last {loss.values[-1]:.4g}, lowest {_lowest(loss.values)}")
    lines += training.facts
    if counts.get("skipped"):
        lines.append(f"skipped by the GradScaler: {_count(counts['skipped'], 'update')}")
    if counts.get("clipped"):
        lines.append(f"gradients clipped in {_count(counts['clipped'], 'update')}")
    for name in dict.fromkeys(optimizer for _, optimizer in training.tables):
        of = f" ({name})" if name else ""
        lines += [line + of for line in [*_gradients(training, name), *_ratios(training, name)]]
    lines += _activations(training)
    lines += [f"update {step}: {sentence}" for step, sentence in training.says]
    return "\n".join(lines)


def _gradients(training: Any, name: str) -> list[str]:
    table = training.tables.get(("gradient norm", name))
    if table is None or not table.rows:
        return []
    recent = table.array()[-RECENT:]
    has = (recent >= 0).any(0) | np.isnan(recent).any(0)
    out = []
    none = [path for path, there in zip(table.columns, has) if not there]
    if none:
        out.append(f"no gradient so far: {_names(none)}")
    middle = np.array([_median(column) for column in recent.T])
    real = middle[np.isfinite(middle) & (middle > 0)]
    zero = [path for path, value in zip(table.columns, middle) if value == 0]
    if zero:
        out.append(f"gradient is exactly zero: {_names(zero)}")
    if len(real) > 1:
        usual = float(np.median(real))
        low = [(path, value) for path, value in zip(table.columns, middle) if 0 < value < usual / FAR]
        high = [(path, value) for path, value in zip(table.columns, middle) if value > usual * FAR]
        if low:
            out.append(f"gradients vanish, below 1/{FAR:.0f} of the median {usual:.2g}: {_valued(low)}")
        if high:
            out.append(f"gradients explode, above {FAR:.0f} times the median {usual:.2g}: {_valued(high)}")
    bad = [path for path, column in zip(table.columns, recent.T) if not np.isfinite(column).all()]
    if bad:
        out.append(f"gradients are NaN or infinite: {_names(bad)}")
    return out


def _ratios(training: Any, name: str) -> list[str]:
    table = training.tables.get(("update ratio", name))
    if table is None or not table.rows:
        return []
    middle = [(path, _median(column)) for path, column in zip(table.columns, table.array()[-RECENT:].T)]
    out = []
    for words, found in (
        (f"updates below {LOW_RATIO:g} of the weights (learning rate too low?)", [x for x in middle if 0 <= x[1] < LOW_RATIO]),
        (f"updates above {HIGH_RATIO:g} of the weights (learning rate too high?)", [x for x in middle if x[1] > HIGH_RATIO]),
    ):  # fmt: skip
        if found:
            out.append(f"{words}: {_valued(found)}")
    return out


def _activations(training: Any) -> list[str]:
    out = []
    for stat, least, words in (
        ("dead units", 0.0, "units that are zero for a whole batch"),
        ("saturated", 0.5, "more than half of the outputs are saturated"),
        ("zeros", 0.95, "more than 95 % of the outputs are zero"),
    ):
        table = training.tables.get((stat, ""))
        if table is None or not table.rows:
            continue
        recent = table.array()[-RECENT:]
        # A unit that is dead for good is so in each row; the smallest share is that.
        with np.errstate(invalid="ignore"):
            share = np.where(
                np.isfinite(recent).any(0), np.nanmin(np.where(np.isfinite(recent), recent, np.inf), 0), np.nan
            )
        found = [(path, value) for path, value in zip(table.columns, share) if value > least]
        if found:
            out.append(f"{words}: " + _valued(found, "{:.0%}"))
    return out


def _median(column: np.ndarray) -> float:
    known = column[np.isfinite(column) & (column >= 0)]
    return float(np.median(known)) if len(known) else float("nan")


def _lowest(values: list[float]) -> str:
    finite = [value for value in values if np.isfinite(value)]
    return f"{min(finite):.4g}" if finite else "none"


def _valued(found: list[tuple[str, float]], form: str = "{:.2g}") -> str:
    return _names([f"{path or 'the model'} {form.format(value)}" for path, value in found])


def _names(names: list[str]) -> str:
    shown = ", ".join(name or "the model" for name in names[:_MOST])
    return shown + (f" and {len(names) - _MOST} more" if len(names) > _MOST else "")


def _count(number: int, word: str) -> str:
    plural = {"batch": "batches"}.get(word, f"{word}s")
    return f"{number} {word if number == 1 else plural}"
