"""Gate: where a run waits between two of its steps.

One thread runs (the worker) and passes the gate before each step; other threads send it requests. The worker carries them out itself
while it stands at the gate: no other thread touches its values, modes and generators.
"""

from __future__ import annotations

import contextlib
import functools
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Generic, TypeVar

from rfnb.control.live_runs import RunMember
from rfnb.control.turns import Turns
from rfnb.core.errors import runtime_error
from rfnb.core.place import warn_user

P = TypeVar("P")


class Stopped(BaseException):
    """Ends a run that is to stop. Not an Exception, so that the running code does not catch it as one of its own."""


class Gate(RunMember, Generic[P]):
    """Lets a worker pass, or makes it wait.

    Args:
        leave: Called by the worker before it stands; returns a callback that the worker calls before it does anything else.
        turns: The turns shared by runs that step one at a time; the worker also leaves when others want their turn.

    Attributes:
        at: The place where the worker stands; None while it runs.
        here: The same, but also set while it carries out a request and moves on at once; for the worker only.
        reason: Why it stands there, as text.
        mode: "running", "paused" (it stands, or will at its next step), "stopping", "over".
        worker: The thread that passes.
    """

    def __init__(
        self, leave: Callable[[], Callable[[], None]] = lambda: lambda: None, turns: Turns | None = None
    ) -> None:
        self.at: P | None = None
        self.here: P | None = None
        self.reason = ""
        self.mode = "running"
        self.worker: threading.Thread | None = None
        self._leave, self._turns = leave, turns or Turns()
        self._seconds = 0.0
        self._budget: int | None = None  # steps until it pauses by itself
        self._steps = 0  # that it was told to make since it stood
        self._changed = threading.Condition()
        self._asked: deque[tuple[Callable[[], Any], Future[Any]]] = deque()
        self._told: list[Callable[[], None]] = []

    @property
    def is_open(self) -> bool:
        """True if the worker passes without checks; requests in the meantime take effect at its next step."""
        return (
            self.mode == "running" and self._budget is None and not (self._seconds or self._asked or self._turns.queue)
        )

    @property
    def is_worker(self) -> bool:
        """True if the calling thread is the worker."""
        return threading.current_thread() is self.worker

    @property
    def seconds(self) -> float:
        """The minimum duration of each step, for viewers."""
        return self._seconds

    @seconds.setter
    def seconds(self, seconds: float) -> None:
        with self._changed:
            self._seconds = seconds
            self._changed.notify_all()

    # -- for the worker ----------------------------------------------------------------------------------------------------

    def pass_(self, at: P, reason: Callable[[P], str | None], *, is_step: bool = True) -> None:
        """Pass the gate before a step; return when the step may run.

        Args:
            at: Where the worker is.
            reason: Returns a reason to pause here, or None. Called once, even where the worker would stand anyway.

            is_step: Whether a step follows and is counted.

        Raises:
            Stopped: If the run is to stop.
        """
        came = time.monotonic()
        if self.mode == "stopping":
            raise Stopped
        why = reason(at)  # without the lock: it may take long, and others may say something meanwhile
        with self._changed:
            if self.mode in ("running", "paused"):
                if why is not None:
                    self._pause(why)
                elif self._budget == 0 and is_step:
                    self._pause("1 step was made" if self._steps == 1 else f"{self._steps} steps were made")
        again: Callable[[], None] | None = self._leave() if self._turns.queue else None
        stood, self.here = False, at
        try:
            while True:
                todo = None
                with self._changed:
                    stands = self.mode == "paused"
                    if stands and self.at is None:
                        if again is not None:  # also where it was let go and paused again before it noticed
                            self.at, stood = at, True
                            self._changed.notify_all()
                    elif self._asked:
                        todo = self._asked.popleft()
                    elif stands:
                        self._changed.wait()
                        continue
                    elif self._goes_on(None if stood or not is_step else came, is_step):
                        break
                    else:
                        continue
                if todo is None and again is None:
                    again = self._leave()
                    continue
                if todo is not None:
                    again = self._do(*todo, again)
                self.tell()
        finally:
            with self._changed:
                self.at = self.here = None
                self._changed.notify_all()
            if stood:
                self.tell()
        if again is not None:
            again()
            if self.mode == "stopping":  # it has waited for its turn, and did not get it
                raise Stopped

    def _do(
        self, fn: Callable[[], Any], future: Future[Any], again: Callable[[], None] | None
    ) -> Callable[[], None] | None:
        """Execute a queued request on the worker; return the callback that restores the worker's state."""
        if not future.set_running_or_notify_cancel():
            return again
        if again is not None:
            again()
        try:
            tell = functools.partial(future.set_result, fn())
        except BaseException as error:
            tell = functools.partial(future.set_exception, error)
        if again is not None:
            again = self._leave()
        tell()  # from now on others go on
        return again

    def _goes_on(self, came: float | None, is_step: bool) -> bool:
        """True if the step runs now, and is counted; otherwise waits a while.

        Args:
            came: When the worker arrived, if steps have a minimum duration.
            is_step: Whether the step is counted.

        Raises:
            Stopped: If the run is to stop.
        """
        if self.mode == "stopping":
            raise Stopped
        if came is not None and (left := came + self._seconds - time.monotonic()) > 0:
            self._changed.wait(min(left, 3600.0))  # a lock takes no number of seconds that is too large
            return False
        if self._budget is not None and is_step:
            self._budget -= 1
        return True

    def end(self) -> None:
        """Mark the worker as done."""
        with self._changed:
            self.mode, self.at = "over", None
            asked, self._asked = self._asked, deque()
            self._changed.notify_all()
        for _, future in asked:
            if future.set_running_or_notify_cancel():
                future.set_exception(_over())
        self.tell()

    def forked(self) -> None:
        """Adapt to a forked process, in which the worker thread does not exist."""
        self._changed, self._asked, self._told = threading.Condition(), deque(), []
        self.mode, self.at = "over", None

    def _pause(self, why: str) -> None:
        self.mode, self.reason, self._budget = "paused", why, None

    def tell(self) -> None:
        """Notify listeners of a change."""
        for fn in list(self._told):
            try:
                fn()
            except Exception as error:  # who looks on must never end a run
                warn_user(f"rfnb: a run could not report its state: {type(error).__name__}: {error}")

    # -- for others --------------------------------------------------------------------------------------------------------

    def on_change(self, fn: Callable[[], None]) -> Callable[[], None]:
        """Call `fn`, in any thread, after each change or request; return a function that ends this. `fn` must not wait."""
        self._told.append(fn)

        def forget() -> None:
            with contextlib.suppress(ValueError):  # it was forgotten already
                self._told.remove(fn)

        return forget

    def pause(self, why: str) -> None:
        """Make the worker wait before its next step."""
        with self._changed:
            if self.mode == "running":
                self._pause(why)
                self._changed.notify_all()
        self.tell()

    def go(self, steps: int | None = None) -> None:
        """Let the worker run this many further steps, added to those outstanding; None: until something stops it."""
        with self._changed:
            if self.mode not in ("paused", "running"):
                return
            if steps is None:
                self._budget, self._steps = None, 0
            else:
                self._steps = steps + (0 if self._budget is None else self._steps)
                self._budget = steps + (self._budget or 0)
            self.mode, self.reason, self.at = "running", "", None
            self._changed.notify_all()

    def stop(self) -> None:
        """End the worker at its next step."""
        with self._changed:
            if self.mode != "over":
                self.mode, self.at = "stopping", None
                self._changed.notify_all()
        self.tell()

    def until_standing(self, timeout: float | None = None) -> bool:
        """Wait until the worker stands at the gate or is done; False on timeout."""
        with self._turns.aside(), self._changed:
            return self._changed.wait_for(lambda: self.mode == "over" or self.at is not None, timeout)

    def until_over(self, timeout: float | None = None) -> bool:
        """Wait until the worker is done; False on timeout."""
        with self._turns.aside(), self._changed:
            return self._changed.wait_for(lambda: self.mode == "over", timeout)

    def ask(self, fn: Callable[[], Any]) -> Future[Any]:
        """Let the worker call a function where it stands.

        Raises:
            RuntimeError: If it does not stand and was not told to.
        """
        future: Future[Any] = Future()
        if self.is_worker:
            future.set_result(fn())
            return future
        with self._changed:
            if self.mode == "over":
                raise _over()
            if self.mode != "paused":
                raise runtime_error(
                    "run: values can be read and changed only while the run is paused.",
                    {"state": self.mode},
                    "Another thread executes the steps. Pause the run first:",
                    "run.pause()",
                )
            self._asked.append((fn, future))
            self._changed.notify_all()
        return future


def _over() -> RuntimeError:
    return runtime_error(
        "run: the run has ended.",
        [],
        "Its result is run.result. Another run can continue from one of its steps:",
        "branch = run.from_step(3)",
    )
