"""Pace: how often something may be looked at, so that it costs no more than a share of the training."""

from __future__ import annotations

import statistics
import time
from collections import deque

MOST = 100  # updates between two looks, at most: one that takes as long as a step is 1 % then
FREE = 0.1  # seconds that may be spent at the beginning, where most happens: of a small model hundreds of looks


class Pace:
    """Says which updates are looked at.

    Args:
        share: Of the time of a step that it may cost.
        fixed: Every so many updates, whatever it costs; 0: never. None: by what it costs.
    """

    def __init__(self, share: float, fixed: int | None = None):
        self.share, self.fixed = share, fixed
        self._next = 0
        self._costs: deque[float] = deque(maxlen=5)
        self._spent = self._total = 0.0

    def due(self, step: int) -> bool:
        """Whether the update with this number (from 0) is looked at."""
        if self.fixed is not None:
            return self.fixed > 0 and step % self.fixed == 0
        return step >= self._next

    def pay(self, seconds: float) -> None:
        """Note what was spent on this update."""
        self._spent += seconds

    def done(self, step: int, step_seconds: float) -> None:
        """The update was looked at: when the next one is."""
        self._costs.append(self._spent)  # some of them while another thread had the processor
        self._total += self._spent
        self._spent = 0.0
        between = 1 if step_seconds <= 0 else int(statistics.median(self._costs) / (self.share * step_seconds)) + 1
        # Every update at first, then ever fewer, so that the later ones have some too; and never none in a fifth of what was so far.
        most = step // MOST if self._total < FREE else min(step // 5, MOST)
        self._next = step + max(1, min(between, most))


class StepTimes:
    """The time that a step takes without what the watch does: the median of some."""

    def __init__(self) -> None:
        self._last: float | None = None
        self._own = 0.0
        self._times: deque[float] = deque(maxlen=15)

    def own(self, seconds: float) -> None:
        """Time of the watch itself in this step."""
        self._own += seconds

    def step(self) -> None:
        """An update is done."""
        now = time.perf_counter()
        if self._last is not None:
            self._times.append(max(now - self._last - self._own, 1e-6))
        self._last, self._own = now, 0.0

    @property
    def seconds(self) -> float:
        """seconds; 0 before there are any."""
        return statistics.median(self._times) if self._times else 0.0
