"""Turns: among a run and its branches one at a time runs its steps, each with its own random numbers.

The generators of rfnb and its backend, of NumPy and of Python are shared by all threads. So a run saves its generator states whenever it
waits or hands over its turn: draws in the meantime, by another run or a cell, do not affect it.
"""

from __future__ import annotations

import pickle
import random
import threading
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from rfnb.control.live_runs import RunMember
from rfnb.core.block import block
from rfnb.ops.random_state import get_random_state, put_back

_SECONDS = 0.05  # after which who waits looks again whether it is to stop


class Turns(RunMember):
    """The turns of the runs of a tree.

    Attributes:
        queue: The waiting runs, in order.
        owner: The run whose turn it is, or None.
    """

    def __init__(self) -> None:
        self.queue: deque[Turn] = deque()
        self.owner: Turn | None = None
        self.changed = threading.Condition()

    def forked(self) -> None:
        """Adapt to a forked process, in which the owner's thread does not exist."""
        self.queue, self.owner, self.changed = deque(), None, threading.Condition()

    @block
    def aside(self) -> Iterator[None]:
        """Hand over the turn while this thread, if it is a run's, waits for others in a with-block."""
        turn = self.owner
        again = turn.leave() if turn is not None and turn.is_of_this_thread else None
        try:
            yield
        finally:
            if again is not None:
                again()


class Turn(RunMember):
    """The turn of one run, and its random numbers.

    Args:
        turns: The turns of its tree.
        is_over: Tells whether it has stopped waiting for its turn.
    """

    def __init__(self, turns: Turns, is_over: Callable[[], bool]):
        self._turns, self._is_over = turns, is_over
        self._thread: threading.Thread | None = None
        self._others: Generators | None = None

    @property
    def is_of_this_thread(self) -> bool:
        """True if the run belongs to this thread."""
        return self._thread is threading.current_thread()

    def begin(self, numbers: Generators | None) -> Generators | None:
        """Wait for the first turn with these random numbers, and restore those of others afterwards; None: take the next numbers.
        Returns the numbers it begins with; None if the run is over.
        """
        self._thread = threading.current_thread()
        if not self._taken():
            return None
        now = generators_now()
        if numbers is None:
            return now
        self._others = now
        set_generators(numbers)
        return numbers

    def leave(self) -> Callable[[], None]:
        """Hand over the turn; return a function that waits for it again and restores the run's numbers."""
        if self._turns.owner is not self:
            return lambda: None
        mine = generators_now()
        if self._others is not None:
            set_generators(self._others)
        self._given()

        def again() -> None:
            if self._taken():
                if self._others is not None:
                    self._others = generators_now()
                set_generators(mine)

        return again

    def end(self) -> None:
        """End the run's turns."""
        if self._turns.owner is self:
            if self._others is not None:  # they go on with the numbers they would have had
                set_generators(self._others)
            self._given()

    def _taken(self) -> bool:
        turns = self._turns
        with turns.changed:
            if turns.owner is None and not turns.queue:
                turns.owner = self
                return True
            turns.queue.append(self)
            while turns.owner is not self and not self._is_over():
                turns.changed.wait(_SECONDS)
            if turns.owner is not self:
                turns.queue.remove(self)
            return turns.owner is self

    def _given(self) -> None:
        turns = self._turns
        with turns.changed:
            turns.owner = turns.queue.popleft() if turns.queue else None
            turns.changed.notify_all()


# Not the functions of the modules, which tell whoever records a loop that somebody draws.
_numpy: Any = np.random.mtrand._rand
_python: Any = random._inst


class Generators(NamedTuple):
    """The states of all generators."""

    own: dict[str, bytes]
    numpy: bytes
    python: Any


def generators_now() -> Generators:
    """The current states of the generators."""
    return Generators(get_random_state(), pickle.dumps(_numpy.get_state(legacy=False)), _python.getstate())


def set_generators(to: Generators) -> None:
    """Restore the states of the generators."""
    now = generators_now()
    if now.own != to.own:
        put_back(to.own)
    if now.numpy != to.numpy:
        _numpy.set_state(pickle.loads(to.numpy))
    if now.python != to.python:
        _python.setstate(to.python)
