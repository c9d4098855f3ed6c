"""Training: what was seen of a training, as plain numbers: curves, norms by module, activations, one example again and again.

`rf.watch` fills one while a model is trained; `rf.load_trace(path).training` is one that `watch.save` has written. Nothing here knows a
library.
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
    """A number over the updates; several of one update are averaged."""

    def __init__(self) -> None:
        self.steps: list[int] = []
        self.values: list[float] = []
        self._count = 0
        self._stride = 1

    def add(self, step: int, value: float) -> None:
        """One more value of an update."""
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
        rows: float32 [column]; -1 where a norm has nothing to be of, NaN where a statistic has none.
    """

    def __init__(self, columns: Sequence[str]) -> None:
        self.columns = tuple(columns)
        self.steps: list[int] = []
        self.rows: list[np.ndarray] = []

    def add(self, step: int, row: np.ndarray) -> None:
        """One more row; in the place of one of the same update."""
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
    """A recording of what the model did with the example: after which epoch or update, and that."""

    label: str
    step: int
    trace: Trace


class Training:
    """The numbers and recordings that were taken of a training.

    Attributes:
        title: What is trained.
        curves: Numbers over the updates by name: "loss", "lr", "gradient norm", ...
        tables: Numbers by module over the updates, by what they are (`NORMS`, `ACTIVATIONS`), then the name of the optimizer ("" of one).
        examples: The fixed example, in order; `every` says what their labels count ("epoch" or "update").
        says: What happened, in words: (update, sentence).
        facts: What is the same during all of the training, in words.
        counts: How often something happened: "updates", "batches", "skipped", "clipped".
        closed: Whether nothing more will come.
        version: Grows with everything that comes.
    """

    def __init__(self, title: str = "Training", every: str = "epoch"):
        self.title, self.every = title, every
        self.curves: dict[str, TrainingCurve] = {}
        self.tables: dict[tuple[str, str], TrainingTable] = {}
        self.examples: list[ExampleRecording] = []
        self.says: list[tuple[int, str]] = []
        self.facts: list[str] = []
        self.counts: dict[str, int] = {}
        self.closed, self.version = False, 0
        self.lock = threading.RLock()
        self._subscribers: list[Callable[[Any], None]] = []
        self._on_close: list[Callable[[Any], None]] = []

    def subscribe(self, fn: Callable[[Any], None]) -> Callable[[Any], None]:
        """Call `fn(None)` when something has come, in the thread of the training; returns `fn`."""
        self._subscribers.append(fn)
        return fn

    def on_close(self, fn: Callable[[Any], None]) -> None:
        """Call `fn(self)` when nothing more will come; at once if that is so already."""
        if self.closed:
            fn(self)
        else:
            self._on_close.append(fn)

    def curve(self, name: str) -> TrainingCurve:
        """The curve of this name; a new one if there is none."""
        found = self.curves.get(name)
        if found is None:
            found = self.curves[name] = TrainingCurve()
        return found

    def table(self, stat: str, optimizer: str, columns: Sequence[str]) -> TrainingTable:
        """The table of a statistic; a new one if there is none."""
        found = self.tables.get((stat, optimizer))
        if found is None:
            found = self.tables[stat, optimizer] = TrainingTable(columns)
        return found

    def tell(self) -> None:
        """Say that something has come."""
        self.version += 1
        for fn in list(self._subscribers):
            try:
                fn(None)
            except Exception as error:  # a view must never break the training that it looks at
                self._subscribers.remove(fn)
                warn_user(f"A view of a training raised {type(error).__name__}: {error}")

    def end(self) -> None:
        """Say that nothing more will come."""
        if not self.closed:
            self.closed = True
            for fn in self._on_close:
                fn(self)
            self._on_close.clear()
            self._subscribers.clear()

    def summary(self) -> str:
        """Sentences about it: gradients that vanish or explode, dead units, updates that are too large or too small."""
        from rfnb.trace.training_words import summary

        with self.lock:
            return summary(self)

    def save(self, path: str | PathLike[str]) -> None:
        """Write it to a file, also while the training runs; `rf.load_trace(path).training` reads it.

        Raises:
            TypeError: A value in a recording of the example that is not a Tensor, Dim, NumPy array or plain data.
            OSError: It cannot be written there.
        """
        from rfnb.trace.file import save_training

        with self.lock:
            save_training(self, path)

    def __repr__(self) -> str:
        done = self.counts.get("updates", 0)
        state = "closed" if self.closed else "running"
        last = "".join(f", {name} {curve.values[-1]:.4g}" for name, curve in self.curves.items() if name == "loss")
        return f"<{type(self).__name__}: {self.title}, {done} updates{last}, {len(self.examples)} examples, {state}>"
