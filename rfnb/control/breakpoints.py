"""Breakpoints: what makes a run pause by itself.

A condition of a user's own is asked by the thread of the run, and may not end. Another thread can end it then, as Ctrl+C would: by an
exception that Python raises in the thread of the run between two of its instructions. It has to come while the condition is asked and
at no other time, so both sides say what they do before they do it. What does not come back to Python (a call that waits for ever) cannot
be ended.
"""

from __future__ import annotations

import ctypes
import itertools
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from rfnb.control.conditions import Asked, Missing
from rfnb.control.expression import Expression
from rfnb.control.made import Made
from rfnb.control.numbers import Numbers
from rfnb.control.of_run import OfRun
from rfnb.control.position import Position
from rfnb.core.errors import message, type_error, value_error
from rfnb.rec.hold import held_by
from rfnb.trace.match import is_end_of

_UNHEARD = {"beams": "nothing has chosen", "attention": "nothing has attended"}


class Breakpoint(OfRun):
    """A condition that is asked before each step.

    Args:
        ask: Gives True, or in words why to pause, or `Numbers` of which one is True.
        text: What it is.
        is_named: Whether a person has called it so, and reads that with the reason.
        once: Whether it is removed when it has held.
        at_end: Whether it is asked too where a loop has made its last step.

    Attributes:
        number: Of its run's breakpoints, from 1.
        enabled: Whether it is asked. May be set.
        hits: How often it has made the run pause.
        kinds: The kinds of events that it needs.
        is_step: Whether it is for a step that is given by its number.
    """

    def __init__(
        self,
        ask: Callable[[Asked], Any],
        text: str,
        number: int,
        remove: Callable[[Breakpoint], None],
        *,
        is_named: bool = False,
        once: bool = False,
        at_end: bool = False,
        kinds: frozenset[str] = frozenset(),
        is_step: bool = False,
    ):
        self.is_step = is_step
        self.text, self.number, self.once, self.at_end, self.kinds = text, number, once, at_end, kinds
        self._ask, self._remove, self._is_named = ask, remove, is_named
        self.enabled, self.hits = True, 0
        self._has_missed = self._has_heard = False

    def __repr__(self) -> str:
        marks = f"{', once' if self.once else ''}{'' if self.enabled else ', not asked'}"
        return f"<breakpoint {self.number}: {self.text}{marks}, {self.hits} times so far>"

    def unknown_at(self, at: Position) -> list[str]:
        """The states that it asks for and that are not there at a place."""
        there = (*at.values, *at.states)
        names = self._ask.names if isinstance(self._ask, Expression) else ()
        return [name for name in sorted(names) if not any(is_end_of(name, each) for each in there)]

    def never_came(self) -> str:
        """The reason why it could not hold, in words; "": it could."""
        if self.is_step:
            return " never came"
        if self._has_heard or not self.kinds or not self.kinds <= _UNHEARD.keys():
            return ""
        return f": {' and '.join(words for kind, words in _UNHEARD.items() if kind in self.kinds)} since it was set"

    def remove(self) -> None:
        """Let it stop nothing any more."""
        self._remove(self)

    def reason(self, asked: Asked, asking: Asking) -> str | None:
        """The reason to pause here, in words; None: there is none."""
        self._has_heard |= any(made.kind in self.kinds for made in asked.made)
        try:
            said = asking.ask(self, lambda: _said(self._ask(asked)))
            if not said:
                return None
            why = self.text if said is True else f"{self.text}: {said}" if self._is_named else said
        except Missing as missing:
            if self._has_missed or asked.at.is_end:  # one loop without it is news, every step of it is not
                return None
            self._has_missed = True
            self.hits += 1
            return f"{self.text} was not asked: {missing}. It will be where there is one"
        except Interrupted:
            why = f"{self.text} was interrupted: it did not end"
        except Exception as error:
            why = f"{self.text} failed: {type(error).__name__}: {error}"
        self.hits += 1
        if self.once:
            self.remove()
        return why


class Breakpoints(OfRun):
    """All breakpoints of a run.

    Args:
        changed: Called when there is one more or less.
    """

    def __init__(self, changed: Callable[[], None] = lambda: None) -> None:
        self._changed = changed
        self.all: tuple[Breakpoint, ...] = ()
        self.asking = Asking()
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()

    def __iter__(self) -> Iterator[Breakpoint]:
        return iter(self.all)

    def __bool__(self) -> bool:
        return bool(self.all)

    @property
    def kinds(self) -> frozenset[str]:
        """The kinds of events that they need."""
        return frozenset().union(*(point.kinds for point in self.all if point.enabled))

    def add(
        self, condition: Any, text: str | None = None, *, path: str | None = None, once: bool = False
    ) -> Breakpoint:
        """A further one; arguments as in `Run.break_when`.

        Raises:
            TypeError, ValueError: For what is no condition.
        """
        if path is not None and (isinstance(condition, bool) or not isinstance(condition, int)):
            raise type_error(
                "break_when: a path with a condition that is no number of a step.",
                [("condition", repr(condition)), ("path", path)],
                "In a text, the loop is part of the condition:",
                "run.break_when('h.max() > 5 and loop == \"decoder\"')",
            )
        ask, name, kinds = _condition(condition, path)
        if path is not None and not isinstance(path, str):
            raise type_error(
                "break_when: a path that is no text.",
                [("path", repr(path))],
                "It is that of the loop whose step is meant, or its end:",
                f'run.break_when({condition}, path="decoder")',
            )
        with self._lock:
            point = Breakpoint(
                ask, text or name, next(self._numbers), self._drop,
                is_named=text is not None, once=once, at_end=isinstance(condition, str), kinds=kinds,
                is_step=isinstance(condition, int),
            )  # fmt: skip
            self.all = (*self.all, point)
        self._changed()
        return point

    def _drop(self, point: Breakpoint) -> None:
        with self._lock:
            self.all = tuple(other for other in self.all if other is not point)
        self._changed()

    def never_came(self) -> list[str]:
        """The breakpoints at steps that have not come, and about what nothing was heard of, each in a sentence."""
        said = ((point, point.never_came()) for point in self.all if point.enabled and not point.hits)
        return [f"Breakpoint {point.number}: {point.text}{why}." for point, why in said if why]

    def reason(self, at: Position, made: Sequence[Made]) -> str | None:
        """The reasons to pause here, in words; None: there is none."""
        asked = Asked(at, made)
        found = []
        for point in self.all:
            if point.enabled and (point.at_end or not at.is_end):
                why = point.reason(asked, self.asking)
                if why is not None:
                    found.append(f"breakpoint {why}")
        return "; ".join(found) or None


def _said(given: Any) -> Any:
    """In words what a condition has given, or whether it holds."""
    if isinstance(given, Numbers):
        return given.first() or bool(given.any())
    return given if isinstance(given, str) else bool(given)


def _condition(given: Any, path: str | None) -> tuple[Callable[[Asked], Any], str, frozenset[str]]:
    """The function that is asked, its name, and the kinds of events that it needs."""
    if isinstance(given, int) and not isinstance(given, bool):
        if given < 0:
            raise value_error(
                "break_when: no number of a step.",
                [("condition", given)],
                "Steps are counted from 0.",
                "run.break_when(0)",
            )
        name = f"step {given}" if path is None else f'step {given} of "{path}"'
        ask = lambda asked: asked.at.step == given and (path is None or is_end_of(path, asked.at.path))  # noqa: E731
        return ask, name, frozenset()
    if isinstance(given, str):
        expression = Expression(given)
        return expression, expression.text, expression.kinds
    if callable(given):

        def call(asked: Asked) -> Any:
            with held_by(None):  # a loop in it is no step of the run
                return given(asked.at)

        return call, getattr(given, "__name__", "condition").replace("<lambda>", "condition"), frozenset()
    raise type_error(
        "break_when: no condition.",
        [("given", f"{type(given).__name__} {given!r}")],
        "A function of the position, the number of a step, or a condition as text.",
        'run.break_when("h.abs_max() > 5")',
    )


PATIENCE, PATIENCE_AFTER = 3.0, 3.0
"""seconds: how long a condition may be asked while somebody waits for the run to pause or stop, and then may take to be ended"""


class Interrupted(BaseException):
    """Ends a condition. No Exception: the condition does not take it for an error of its own."""


class Asking(OfRun):
    """Asks one condition after the other, and ends the one that is asked."""

    def __init__(self) -> None:
        self._now: tuple[Any, float, int] | None = None
        self._sending = self._sent = False
        self._one_at_a_time = threading.Lock()

    def ask(self, who: Any, fn: Callable[[], Any]) -> Any:
        """Give what `fn` gives; by the thread of the run.

        Args:
            who: Says `now`. Its `text` is what is asked.

        Raises:
            Interrupted: It was ended.
        """
        came = False
        try:
            try:
                self._now = who, time.monotonic(), threading.get_ident()
                return fn()
            except Interrupted:
                came = True
                raise
            finally:
                self._now = None
                self._until_it_came(came)
        finally:
            self._now, self._sent = None, False

    def now(self) -> tuple[Any, float] | None:
        """The one who is being asked, and for how many seconds; None: nobody."""
        now = self._now
        return None if now is None else (now[0], time.monotonic() - now[1])

    def end_late(self) -> None:
        """End what is being asked, if it still is after a while, without waiting for it here."""
        seconds = PATIENCE

        def end() -> None:
            now = self.now()
            if now is not None and now[1] >= seconds:
                self.interrupt()

        if self._now is not None:
            timer = threading.Timer(seconds, end)
            timer.daemon = True
            timer.start()

    def end_while(self, what: str, name: str, arrived: Callable[[float], bool]) -> None:
        """Wait until a run has arrived or is at work in a step; a condition that it is still asking meanwhile is ended.

        Args:
            what, name: What the run is to do, and its name.
            arrived: Waits so many seconds, and gives whether it has.

        Raises:
            TimeoutError: If the condition cannot be ended.
        """
        for again, patience in enumerate((PATIENCE, PATIENCE_AFTER)):
            if arrived(patience):
                return
            now = self.now()
            if now is None or now[1] < PATIENCE:  # a long step, or another condition
                return
            if again:
                raise TimeoutError(
                    message(
                        f"{what}: {name} asks a condition that does not end.",
                        [("condition", now[0].text), ("asked for", f"{now[1]:.0f} seconds")],
                        "It waits in a call from which it does not come back, so nothing can end it. The run arrives when it does.",
                    )
                )
            self.interrupt()

    def interrupt(self) -> None:
        """End the condition that is being asked; nothing if none is, or Python cannot."""
        with self._one_at_a_time:
            self._sending = True
            try:
                now = self._now
                if now is not None and not self._sent and hasattr(ctypes, "pythonapi"):
                    self._sent = True
                    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(now[2]), ctypes.py_object(Interrupted))
            finally:
                self._sending = False

    def _until_it_came(self, came: bool) -> None:
        """Wait for what was sent while the condition ended; for a tenth of a second, since the condition may have swallowed it."""
        while self._sending:
            time.sleep(0.001)
        for _ in range(100 if self._sent and not came else 0):
            time.sleep(0.001)
