"""Breakpoints: what makes a run pause by itself."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

from rfnb.control.position import Position
from rfnb.core.errors import type_error
from rfnb.core.pickling import NotPicklable


class Breakpoint(NotPicklable):
    """A condition that is asked before each step.

    Args:
        condition: Gives True, or in words why to pause.
        text: What it is, for who reads why the run has paused.
        number: Of the breakpoints of the run, from 1; never another one's.
    """

    def __init__(
        self, condition: Callable[[Position], Any], text: str, remove: Callable[[Breakpoint], None], number: int
    ):
        self.condition, self.text, self._remove, self.number = condition, text, remove, number
        self.hits = 0

    def __repr__(self) -> str:
        return f"<breakpoint {self.text}, {self.hits} times so far>"

    def remove(self) -> None:
        """Let it stop nothing any more."""
        self._remove(self)


class Breakpoints(NotPicklable):
    """All breakpoints of a run."""

    def __init__(self) -> None:
        self._all: tuple[Breakpoint, ...] = ()
        self._lock = threading.Lock()
        self._count = 0

    def __iter__(self) -> Iterator[Breakpoint]:
        return iter(self._all)

    def __bool__(self) -> bool:
        return bool(self._all)

    def add(self, condition: Any, text: str | None = None) -> Breakpoint:
        """A further one.

        Args:
            condition: Function of the `Position`; an int, a step of any loop; "nan", a state has an entry that is not finite.

        Raises:
            TypeError: For anything else.
        """
        fn, name = _condition(condition)
        with self._lock:
            self._count += 1
            point = Breakpoint(fn, text or name, self._drop, self._count)
            self._all = (*self._all, point)
        return point

    def _drop(self, point: Breakpoint) -> None:
        with self._lock:
            self._all = tuple(other for other in self._all if other is not point)

    def reason(self, at: Position) -> str | None:
        """The reason to pause here, in words; None: there is none."""
        for point in self._all:
            try:
                said = point.condition(at)
                hit = bool(said)
            except Exception as error:
                point.hits += 1
                return f"breakpoint {point.text} failed: {type(error).__name__}: {error}"
            if hit:
                point.hits += 1
                return f"breakpoint {said if isinstance(said, str) else point.text}"
        return None


def _condition(given: Any) -> tuple[Callable[[Position], Any], str]:
    if isinstance(given, int) and not isinstance(given, bool):
        return lambda at: at.step == given, f"step {given}"
    if given == "nan":
        return _not_finite, "nan"
    if callable(given):
        return given, getattr(given, "__name__", "condition").replace("<lambda>", "condition")
    raise type_error(
        "break_when: no condition.",
        [("given", f"{type(given).__name__} {given!r}")],
        'A function of the position, the number of a step, or "nan".',
        'run.break_when(lambda at: at.states["h"].abs_max() > 5)',
    )


def _not_finite(at: Position) -> str | None:
    for name, value in at.states.items():
        if not value.is_finite():
            return f"nan: state {name} is not finite before step {at.step}"
    return None
