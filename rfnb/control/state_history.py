"""StateHistory: the states before the steps of a run, as many as a number of bytes allows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from rfnb.control.conditions import any_different, is_there
from rfnb.control.of_run import OfRun
from rfnb.core.tensor import Tensor
from rfnb.core.tree import leaves
from rfnb.trace.event import EVENT_COST, bytes_of, keep, same_numbers

LIMIT = 64 << 20
"""bytes: of the states that a run keeps"""

States = dict[str, Any]
"""Tensors, and plain numbers and texts, by dotted path"""

_SHOWN = Tensor, int, float, str


class StateHistory(OfRun):
    """States by tick. When there are too many, every second one goes, and from then on only so many are taken.

    Args:
        limit: bytes; default: `LIMIT`.
        trunk: Of a branch: what the run that it is made of keeps, and the first tick that is its own.
    """

    def __init__(self, limit: int | None = None, trunk: tuple[StateHistory, int] | None = None):
        self._limit, self._bytes, self._stride = LIMIT if limit is None else limit, 0, 1
        self._trunk = None if trunk is None else trunk[0]
        self._begin = self._next = 0 if trunk is None else trunk[1]  # nothing before it is kept here
        self._states: dict[int, tuple[States, int]] = {}
        self._again: dict[int, States] = {}

    def add(self, tick: int, roots: Callable[[], Mapping[str, Any]]) -> None:
        """The states before a step; kept without copy, since what an op gives is not changed in place."""
        if tick < self._next:
            return
        states = taken(roots())
        size = bytes_of(states) + EVENT_COST
        self._states[tick] = states, size
        self._bytes += size
        while self._bytes > self._limit and len(self._states) > 1:
            self._stride *= 2
            for other in [other for other in self._states if other % self._stride]:
                self._bytes -= self._states.pop(other)[1]
        self._next = tick - tick % self._stride + self._stride

    def leave_trunk(self, tick: int) -> None:
        """From this tick on nothing is as in the trunk."""
        if tick < self._begin:
            self._begin = self._next = tick

    @property
    def begin(self) -> int:
        """The first tick that is not one of the trunk; 0 without one."""
        return self._begin

    @property
    def num_bytes(self) -> int:
        """bytes: of all states that are kept here, with what each takes besides its values."""
        return self._bytes

    def ticks(self) -> list[int]:
        """The ticks that are kept, in order."""
        found: set[int] = set()
        for history, end in self._along():
            found.update(tick for tick in history._states if end is None or tick < end)
        return sorted(found)

    def _along(self) -> Iterator[tuple[StateHistory, int | None]]:
        """This one, and what it is a branch of, and so on, each with the tick from which it does not count: there may be very many."""
        history: StateHistory | None = self
        end: int | None = None
        while history is not None:
            yield history, end
            end = history._begin if end is None else min(end, history._begin)
            history = history._trunk

    def at(self, tick: int) -> States | None:
        """The states before a step, by dotted path; None: they were not kept."""
        for history, end in self._along():
            if end is not None and tick >= end:
                break
            if tick in history._states:
                return history._states[tick][0]
            if history._trunk is None or tick >= history._begin:
                return history._again.get(tick)
        return None

    # -- made again --------------------------------------------------------------------------------------------------------

    def around(self, tick: int, steps: int) -> range:
        """The ticks that are worth to be kept where those around one are made again, of so many that were begun."""
        size = self._bytes // max(len(self._states), 1)
        count = max(1, min(self._stride, self._limit // 4 // max(size, EVENT_COST)))
        start = tick - tick % count
        return range(start, min(start + count, steps))

    def put(self, states: dict[int, States]) -> None:
        """States that were made again; those that were put here before go."""
        self._again = states

    def difference(self, tick: int, roots: Callable[[], Mapping[str, Any]]) -> str | None:
        """The first state that is another one than that which was kept here; None: there is none, or nothing was kept."""
        before = self.at(tick)
        if before is None:
            return None
        now = parts_of(roots())
        if before.keys() != now.keys():
            return ", ".join(sorted(before.keys() ^ now.keys()))
        there = [path for path, value in now.items() if _are_there(before[path], value)]
        asked = any_different([(before[path], now[path]) for path in there])
        differs = {path for path, flag in zip(there, asked) if flag}
        return next(
            (path for path in now if path in differs or not (path in there or _same(before[path], now[path]))), None
        )


class KeptSpan(StateHistory):
    """The states of some ticks.

    Args:
        span: These.
    """

    def __init__(self, span: range):
        super().__init__()
        self.states: dict[int, States] = {}
        self._span = span

    def add(self, tick: int, roots: Callable[[], Mapping[str, Any]]) -> None:
        if tick in self._span:
            self.states[tick] = taken(roots())


def taken(roots: Mapping[str, Any]) -> States:
    """All that is kept of states."""
    return {path: keep(leaf) for path, leaf in parts_of(roots).items()}


def parts_of(roots: Mapping[str, Any]) -> States:
    """The Tensors in states, and plain numbers and texts, by dotted path."""
    parts: States = {}
    for name, root in roots.items():
        if root.__class__ is Tensor:  # the usual case
            parts[name] = root
        else:
            parts.update((path, leaf) for path, leaf in leaves(root, name) if isinstance(leaf, _SHOWN))
    return parts


def _are_there(before: Any, now: Any) -> bool:
    """Whether both are tensors on one device, alike in all but their numbers."""
    if not isinstance(before, Tensor) or not isinstance(now, Tensor) or not is_there(now):
        return False
    alike = before.device == now.device and before.dtype == now.dtype
    return alike and [dim.extent for dim in before.dims] == [dim.extent for dim in now.dims]


def _same(before: Any, now: Any) -> bool:
    if not isinstance(before, Tensor) or not isinstance(now, Tensor):
        return type(before) is type(now) and (before == now or before != before and now != now)
    return same_numbers(before, now)
