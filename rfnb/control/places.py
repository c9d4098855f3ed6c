"""StepPlaces: the steps of a run in which its events were recorded, as commands name them."""

from __future__ import annotations

import threading
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from rfnb.control.of_run import OfRun
from rfnb.trace.match import is_end_of


class StepPlace(NamedTuple):
    """A step of a run, as `Run.from_step` takes it.

    Attributes:
        path: Of the loop.
        nth: The number of the run of the loop, among those of all loops that the path may mean.
        tick: How many steps of any loop were begun before.
    """

    path: str
    nth: int
    step: int
    tick: int


class StepPlaces(OfRun):
    """The places of all steps of a run.

    Args:
        steps: (path, step) of each tick. More may come meanwhile, from another thread.
    """

    def __init__(self, steps: Sequence[tuple[str, int]]):
        self._steps = steps
        self._entries = array("q")  # rising
        self._counts: dict[str, int] = {}  # of runs, by path and by each end of one
        self._last: dict[str, tuple[int, int]] = {}  # of each path the step, and the number of its run
        self._nths = array("q")
        self._lock = threading.Lock()

    def note(self, entry: int) -> None:
        """The next step comes.

        Args:
            entry: The number that its events have, see `Event`; 0: nobody listens.
        """
        self._entries.append(entry or (self._entries[-1] if self._entries else 0))

    def of_entry(self, entry: int) -> StepPlace | None:
        """The step in which an event was recorded; None: it is of none that is held."""
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
    """For each tick the number of the run of its loop, among those that a path, or its end, may mean (None: any); None: of no such loop."""
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
