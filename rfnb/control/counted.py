"""Counted: how far the loops of a run have come, by path, without counting all steps each time."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import NamedTuple


class Progress(NamedTuple):
    """The steps of a loop so far.

    Attributes:
        last: The largest step that has begun, from 0.
        runs: How many times the loop has begun.
    """

    last: int
    runs: int


class Counted:
    """The loops among steps that become more.

    Args:
        steps: (path, step), in order.
    """

    def __init__(self, steps: Sequence[tuple[str, int]]):
        self._steps, self._seen = steps, 0
        self._loops: dict[str, Progress] = {}
        self._lock = threading.Lock()

    def loops(self) -> dict[str, Progress]:
        """The loops by path, in the order of their first step."""
        with self._lock:
            for path, step in self._steps[self._seen :]:
                last, runs = self._loops.get(path, (0, 0))
                self._loops[path] = Progress(max(last, step), runs + (step == 0 or not runs))
                self._seen += 1
            return dict(self._loops)
