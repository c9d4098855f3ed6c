"""Breakpoints: conditions that pause a run.

The run's thread evaluates a user's condition, which may not terminate. Another thread can then interrupt it, as Ctrl+C would: by an
exception that Python raises in the run's thread between two instructions. The exception must arrive while the condition is evaluated and
at no other time, so both sides announce their actions. A call that never returns to Python cannot be interrupted.
"""

from __future__ import annotations

import ctypes
import itertools
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from rfnb.control.conditions import ConditionContext, MissingReference
from rfnb.control.expression import Expression
from rfnb.control.live_runs import RunMember
from rfnb.control.numbers import Numbers
from rfnb.control.position import Position
from rfnb.control.step_events import StepEvent
from rfnb.core.errors import message, type_error, value_error
from rfnb.rec.hold import held_by
from rfnb.trace.match import is_end_of

_UNHEARD = {"beams": "nothing was chosen", "attention": "no attention was computed"}


class Breakpoint(RunMember):
    """A condition evaluated before each step.

    Args:
        ask: Returns True, the reason to pause, or `Numbers` with a True entry.
        text: Its text.
        is_named: Whether the user gave it this name, which is then shown with the reason.
        once: Whether it is removed once it has held.
        at_end: Whether it is also evaluated after the last step of a loop.

    Attributes:
        number: Number among its run's breakpoints, from 1.
        enabled: Whether it is evaluated. May be set.
        hits: How often it paused the run.
        kinds: The kinds of events that it needs.
        is_step: Whether it is for a step given by number.
    """

    def __init__(
        self,
        ask: Callable[[ConditionContext], Any],
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
        marks = f"{', once' if self.once else ''}{'' if self.enabled else ', disabled'}"
        return f"<breakpoint {self.number}: {self.text}{marks}, hits: {self.hits}>"

    def unknown_at(self, at: Position) -> list[str]:
        """The states that it refers to but that do not exist at a place."""
        there = (*at.values, *at.states)
        names = self._ask.names if isinstance(self._ask, Expression) else ()
        return [name for name in sorted(names) if not any(is_end_of(name, each) for each in there)]

    def never_came(self) -> str:
        """The reason why it could not hold, as text; "" if it could."""
        if self.is_step:
            return " was never reached"
        if self._has_heard or not self.kinds or not self.kinds <= _UNHEARD.keys():
            return ""
        return f": {' and '.join(words for kind, words in _UNHEARD.items() if kind in self.kinds)} since it was set"

    def remove(self) -> None:
        """Remove it, so that it no longer pauses the run."""
        self._remove(self)

    def reason(self, asked: ConditionContext, asking: ConditionEvaluator) -> str | None:
        """The reason to pause here, as text; None if there is none."""
        self._has_heard |= any(made.kind in self.kinds for made in asked.made)
        try:
            said = asking.ask(self, lambda: _said(self._ask(asked)))
            if not said:
                return None
            why = self.text if said is True else f"{self.text}: {said}" if self._is_named else said
        except MissingReference as missing:
            if self._has_missed or asked.at.is_end:  # one loop without it is news, every step of it is not
                return None
            self._has_missed = True
            self.hits += 1
            return f"{self.text} was not evaluated: {missing}. It is evaluated once there is one"
        except Interrupted:
            why = f"{self.text} was interrupted: it did not end"
        except Exception as error:
            why = f"{self.text} failed: {type(error).__name__}: {error}"
        self.hits += 1
        if self.once:
            self.remove()
        return why


class Breakpoints(RunMember):
    """All breakpoints of a run.

    Args:
        changed: Called when one is added or removed.
    """

    def __init__(self, changed: Callable[[], None] = lambda: None) -> None:
        self._changed = changed
        self.all: tuple[Breakpoint, ...] = ()
        self.asking = ConditionEvaluator()
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
        """Add a breakpoint; arguments as in `Run.break_when`.

        Raises:
            TypeError, ValueError: If the condition is invalid.
        """
        if path is not None and (isinstance(condition, bool) or not isinstance(condition, int)):
            raise type_error(
                "break_when: path is only allowed with a step number.",
                {"condition": repr(condition), "path": path},
                "In a text, the loop is part of the condition:",
                "run.break_when('h.max() > 5 and loop == \"decoder\"')",
            )
        ask, name, kinds = _condition(condition, path)
        if path is not None and not isinstance(path, str):
            raise type_error(
                "break_when: path is not a string.",
                {"path": repr(path)},
                "path is the path of the loop of the step, or an end of it:",
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
        """A sentence for each breakpoint whose step did not come, or for which no event was received."""
        said = ((point, point.never_came()) for point in self.all if point.enabled and not point.hits)
        return [f"Breakpoint {point.number}: {point.text}{why}." for point, why in said if why]

    def reason(self, at: Position, made: Sequence[StepEvent]) -> str | None:
        """The reasons to pause here, as text; None if there are none."""
        asked = ConditionContext(at, made)
        found = []
        for point in self.all:
            if point.enabled and (point.at_end or not at.is_end):
                why = point.reason(asked, self.asking)
                if why is not None:
                    found.append(f"breakpoint {why}")
        return "; ".join(found) or None


def _said(given: Any) -> Any:
    """The result of a condition as text, or whether it holds."""
    if isinstance(given, Numbers):
        return given.first() or bool(given.any())
    return given if isinstance(given, str) else bool(given)


def _condition(given: Any, path: str | None) -> tuple[Callable[[ConditionContext], Any], str, frozenset[str]]:
    """The function to evaluate, its name, and the kinds of events that it needs."""
    if isinstance(given, int) and not isinstance(given, bool):
        if given < 0:
            raise value_error(
                "break_when: not a step number.",
                {"condition": given},
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

        def call(asked: ConditionContext) -> Any:
            with held_by(None):  # a loop in it is no step of the run
                return given(asked.at)

        return call, getattr(given, "__name__", "condition").replace("<lambda>", "condition"), frozenset()
    raise type_error(
        "break_when: not a condition.",
        {"given": f"{type(given).__name__} {given!r}"},
        "A condition is a function of the position, the number of a step, or text.",
        'run.break_when("h.abs_max() > 5")',
    )


PATIENCE, PATIENCE_AFTER = 3.0, 3.0
"""seconds: how long a condition may run while somebody waits for the run to pause or stop, and how long its interruption may take"""


class Interrupted(BaseException):
    """Interrupts a condition. Not an Exception, so that the condition does not catch it as one of its own."""


class ConditionEvaluator(RunMember):
    """Evaluates one condition after another, and interrupts the current one on request."""

    def __init__(self) -> None:
        self._now: tuple[Any, float, int] | None = None
        self._sending = self._sent = False
        self._one_at_a_time = threading.Lock()

    def ask(self, who: Any, fn: Callable[[], Any]) -> Any:
        """Return the result of `fn`; called by the run's thread.

        Args:
            who: The condition, returned by `now`; its `text` is shown.

        Raises:
            Interrupted: If it was interrupted.
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
        """The condition being evaluated, and for how many seconds; None if there is none."""
        now = self._now
        return None if now is None else (now[0], time.monotonic() - now[1])

    def end_late(self) -> None:
        """Interrupt the current condition if it is still running after a while, without waiting here."""
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
        """Wait until a run has arrived or is working on a step; interrupt a condition that is still being evaluated.

        Args:
            what, name: The action expected of the run, and the run's name.
            arrived: Waits the given number of seconds; returns whether the run has arrived.

        Raises:
            TimeoutError: If the condition cannot be interrupted.
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
                        f"{what}: {name} evaluates a condition that does not end.",
                        {"condition": now[0].text, "running for": f"{now[1]:.0f} seconds"},
                        "The condition waits in a call that cannot be interrupted. The run continues when the call returns.",
                    )
                )
            self.interrupt()

    def interrupt(self) -> None:
        """Interrupt the current condition; no effect if there is none, or Python cannot."""
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
        """Wait for an exception that was sent while the condition ended; at most a tenth of a second, since the condition may have
        swallowed it.
        """
        while self._sending:
            time.sleep(0.001)
        for _ in range(100 if self._sent and not came else 0):
            time.sleep(0.001)
