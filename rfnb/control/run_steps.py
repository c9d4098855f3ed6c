"""The steps of a run: those begun, the progress of each loop, and the step in which each event was recorded."""

from __future__ import annotations

import threading
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, overload

from rfnb.control.live_runs import RunMember
from rfnb.trace.match import is_end_of


class StepLog(Sequence[tuple[str, int]]):
    """(path of the loop, step) of all steps of a run so far, in order, 12 bytes each. It grows while the run continues."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._paths: list[str] = []
        self._path_of, self._index_of = array("i"), array("q")

    def append(self, path: str, index: int) -> None:
        """Begin step `index` of a loop."""
        number = self._numbers.get(path)
        if number is None:
            number = self._numbers[path] = len(self._paths)
            self._paths.append(path)
        self._path_of.append(number)
        self._index_of.append(index)  # last, so that whoever finds it finds its path

    def __len__(self) -> int:
        return len(self._index_of)

    @overload
    def __getitem__(self, tick: int) -> tuple[str, int]: ...
    @overload
    def __getitem__(self, tick: slice) -> tuple[tuple[str, int], ...]: ...
    def __getitem__(self, tick: int | slice) -> Any:
        if isinstance(tick, slice):
            return tuple(self[one] for one in range(*tick.indices(len(self))))
        index = self._index_of[tick]
        return self._paths[self._path_of[tick if tick >= 0 else tick + len(self)]], index

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and len(self) == len(other) and all(a == b for a, b in zip(self, other))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        shown = ", ".join(f"{path} {index}" for path, index in self[-6:])
        return f"<{len(self)} steps{': ' if shown else ''}{'... ' if len(self) > 6 else ''}{shown}>"


class Progress(NamedTuple):
    """The progress of a loop.

    Attributes:
        last: The largest step begun, from 0.
        runs: How many times the loop has begun.
    """

    last: int
    runs: int


class LoopCounter:
    """Counts the loops in a growing list of steps.

    Args:
        steps: (path, step), in order.
    """

    def __init__(self, steps: Sequence[tuple[str, int]]):
        self._steps, self._seen = steps, 0
        self._loops: dict[str, Progress] = {}
        self._lock = threading.Lock()

    def loops(self) -> dict[str, Progress]:
        """The loops by path, ordered by their first step."""
        with self._lock:
            for path, step in self._steps[self._seen :]:
                last, runs = self._loops.get(path, (0, 0))
                self._loops[path] = Progress(max(last, step), runs + (step == 0 or not runs))
                self._seen += 1
            return dict(self._loops)


class StepPlace(NamedTuple):
    """A step of a run, as `Run.from_step` takes it.

    Attributes:
        path: Path of the loop.
        nth: Which run of the loop, counted over all loops that the path may mean.
        tick: The number of steps of any loop begun before.
    """

    path: str
    nth: int
    step: int
    tick: int


class StepPlaces(RunMember):
    """The places of all steps of a run.

    Args:
        steps: (path, step) of each tick. Another thread may append.
    """

    def __init__(self, steps: Sequence[tuple[str, int]]):
        self._steps = steps
        self._entries = array("q")  # rising
        self._counts: dict[str, int] = {}  # of runs, by path and by each end of one
        self._last: dict[str, tuple[int, int]] = {}  # of each path the step, and the number of its run
        self._nths = array("q")
        self._lock = threading.Lock()

    def note(self, entry: int) -> None:
        """Note the next step.

        Args:
            entry: The entry number of its events, see `Event`; 0 without listeners.
        """
        self._entries.append(entry or (self._entries[-1] if self._entries else 0))

    def of_entry(self, entry: int) -> StepPlace | None:
        """The step in which an event was recorded; None if it belongs to no held step."""
        tick = bisect_left(self._entries, entry)
        there = entry and tick < len(self._steps) and self._entries[tick] == entry
        return self[tick] if there else None

    def __getitem__(self, tick: int) -> StepPlace:
        path, step = self._steps[tick]
        return StepPlace(path, self._nth(tick), step, tick)

    def _nth(self, tick: int) -> int:
        with self._lock:
            while len(self._nths) <= tick:
                path, step = self._steps[len(self._nths)]
                before, nth = self._last.get(path, (step, 0))
                if step <= before:  # another run
                    nth, end = self._counts.get(path, 0), path
                    while end:  # a path may be given by its end
                        self._counts[end] = self._counts.get(end, 0) + 1
                        end = end.partition(".")[2]
                self._last[path] = step, nth
                self._nths.append(nth)
            return self._nths[tick]


def numbers(steps: Iterable[tuple[str, int]], path: str | None) -> list[int | None]:
    """For each tick, which run of the loop at `path` it belongs to (None as path: any loop), or None."""
    last: dict[str, tuple[int, int]] = {}
    found: list[int | None] = []
    count = 0
    for loop, step in steps:
        if path is not None and not is_end_of(path, loop):
            found.append(None)
            continue
        before, number = last.get(loop, (step, 0))
        if step <= before:
            number, count = count, count + 1
        last[loop] = step, number
        found.append(number)
    return found
