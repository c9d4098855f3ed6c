"""StateHistory: the states before a run's steps, as many as a memory limit allows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from rfnb.control.conditions import any_different, is_there
from rfnb.control.live_runs import RunMember
from rfnb.core.tensor import Tensor
from rfnb.core.tree import leaves
from rfnb.trace.event import EVENT_COST, bytes_of, keep, same_numbers

LIMIT = 64 << 20
"""bytes: of the states that a run keeps"""

States = dict[str, Any]
"""Tensors, and plain numbers and texts, by dotted path"""

_SHOWN = Tensor, int, float, str


class StateHistory(RunMember):
    """States by tick. Above the limit every second one is dropped, and later ones are taken less often.

    Args:
        limit: Limit in bytes; default: `LIMIT`.
        trunk: For a branch: the history of its parent run, and the branch's first own tick.
    """

    def __init__(self, limit: int | None = None, trunk: tuple[StateHistory, int] | None = None):
        self._limit, self._bytes, self._stride = LIMIT if limit is None else limit, 0, 1
        self._trunk = None if trunk is None else trunk[0]
        self._begin = self._next = 0 if trunk is None else trunk[1]  # nothing before it is kept here
        self._states: dict[int, tuple[States, int]] = {}
        self._again: dict[int, States] = {}

    def add(self, tick: int, roots: Callable[[], Mapping[str, Any]]) -> None:
        """Keep the states before a step, without copies, since results of ops are never changed in place."""
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
        """Stop using the trunk from this tick on."""
        if tick < self._begin:
            self._begin = self._next = tick

    @property
    def begin(self) -> int:
        """The first tick after the trunk; 0 without one."""
        return self._begin

    @property
    def num_bytes(self) -> int:
        """The size in bytes of all states kept here, including overhead."""
        return self._bytes

    def ticks(self) -> list[int]:
        """The kept ticks, in order."""
        found: set[int] = set()
        for history, end in self._along():
            found.update(tick for tick in history._states if end is None or tick < end)
        return sorted(found)

    def _along(self) -> Iterator[tuple[StateHistory, int | None]]:
        """This history and those of its ancestors, each with the tick from which it no longer counts; there may be very many."""
        history: StateHistory | None = self
        end: int | None = None
        while history is not None:
            yield history, end
            end = history._begin if end is None else min(end, history._begin)
            history = history._trunk

    def at(self, tick: int) -> States | None:
        """The states before a step, by dotted path; None if they were not kept."""
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
        """The ticks worth keeping when those around one are recomputed, out of `steps` begun ticks."""
        size = self._bytes // max(len(self._states), 1)
        count = max(1, min(self._stride, self._limit // 4 // max(size, EVENT_COST)))
        start = tick - tick % count
        return range(start, min(start + count, steps))

    def put(self, states: dict[int, States]) -> None:
        """Store recomputed states in place of earlier recomputed ones."""
        self._again = states

    def difference(self, tick: int, roots: Callable[[], Mapping[str, Any]]) -> str | None:
        """The first state that differs from the kept one; None if there is none, or nothing was kept."""
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
    """The states of a range of ticks.

    Args:
        span: The range.
    """

    def __init__(self, span: range):
        super().__init__()
        self.states: dict[int, States] = {}
        self._span = span

    def add(self, tick: int, roots: Callable[[], Mapping[str, Any]]) -> None:
        if tick in self._span:
            self.states[tick] = taken(roots())


def taken(roots: Mapping[str, Any]) -> States:
    """The part of states that is kept."""
    return {path: keep(leaf) for path, leaf in parts_of(roots).items()}


def parts_of(roots: Mapping[str, Any]) -> States:
    """The Tensors, plain numbers and strings in states, by dotted path."""
    parts: States = {}
    for name, root in roots.items():
        if root.__class__ is Tensor:  # the usual case
            parts[name] = root
        else:
            parts.update((path, leaf) for path, leaf in leaves(root, name) if isinstance(leaf, _SHOWN))
    return parts


def _are_there(before: Any, now: Any) -> bool:
    """True if both are tensors on the same device that differ at most in their numbers."""
    if not isinstance(before, Tensor) or not isinstance(now, Tensor) or not is_there(now):
        return False
    alike = before.device == now.device and before.dtype == now.dtype
    return alike and [dim.extent for dim in before.dims] == [dim.extent for dim in now.dims]


def _same(before: Any, now: Any) -> bool:
    if not isinstance(before, Tensor) or not isinstance(now, Tensor):
        return type(before) is type(now) and (before == now or before != before and now != now)
    return same_numbers(before, now)
