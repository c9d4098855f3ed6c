"""Gate: where a run waits between two of its steps.

One thread runs (the worker) and passes the gate before each step; others say what it does there. What they ask for is
done by the worker itself, while it stands at the gate: nobody else touches its values, its modes and its generators.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Generic, TypeVar

from rfnb.core.errors import runtime_error
from rfnb.core.pickling import NotPicklable

P = TypeVar("P")


class Stopped(BaseException):
    """Ends a run that is to stop. No Exception: the code that is run does not take it for an error of its own."""


class Gate(NotPicklable, Generic[P]):
    """Lets a worker pass, or wait.

    Attributes:
        at: The place where the worker stands; None while it runs.
        reason: Why it stands there, in words.
        mode: "running", "paused" (it stands, or will at its next step), "stopping", "over".
        seconds: At least so long each step takes, for who watches.
    """

    def __init__(self) -> None:
        self.at: P | None = None
        self.reason = ""
        self.mode = "running"
        self.seconds = 0.0
        self._budget: int | None = None  # steps until it pauses by itself
        self._why = ""
        self._changed = threading.Condition()
        self._asked: deque[tuple[Callable[[], Any], Future[Any]]] = deque()
        self._told: list[Callable[[], None]] = []
        self.worker: threading.Thread | None = None

    @property
    def is_open(self) -> bool:
        """Whether the worker passes without a look at anything; what is asked for meanwhile counts at its next step."""
        return self.mode == "running" and self._budget is None and not self.seconds

    # -- for the worker ----------------------------------------------------------------------------------------------------

    def pass_(self, at: P, reason: Callable[[P], str | None]) -> None:
        """Pass the gate before a step; returns when the step may be made.

        Args:
            at: Where the worker is.
            reason: Says in words why to pause here, None: go on.

        Raises:
            Stopped: The run is to stop.
        """
        with self._changed:
            if self.mode == "stopping":
                raise Stopped
            if self.mode == "running":
                if self._budget is not None:
                    self._budget -= 1
                    if self._budget < 0:
                        self._pause(self._why)
        if self.mode == "running":
            why = reason(at)
            if why is not None:
                with self._changed:
                    if self.mode == "running":
                        self._pause(why)
        if self.mode == "paused":
            self._stand(at)
        elif self.seconds:
            self._linger()
        if self.mode == "stopping":
            raise Stopped

    def end(self) -> None:
        """The worker is done."""
        with self._changed:
            self.mode, self.at = "over", None
            asked, self._asked = list(self._asked), deque()
            self._changed.notify_all()
        for _, future in asked:
            future.set_exception(_over())
        self._tell()

    def _pause(self, why: str) -> None:
        self.mode, self.reason, self._budget = "paused", why, None

    def _stand(self, at: P) -> None:
        with self._changed:
            self.at = at
            self._changed.notify_all()
        self._tell()
        try:
            while True:
                with self._changed:
                    while self.mode == "paused" and not self._asked:
                        if self.at is None:  # it was let go and paused again before it noticed
                            self.at = at
                            self._changed.notify_all()
                        self._changed.wait()
                    if not self._asked:
                        if self._budget is not None:
                            self._budget -= 1  # it stands before the first of them
                        return
                    fn, future = self._asked.popleft()
                if not future.set_running_or_notify_cancel():
                    continue
                try:
                    future.set_result(fn())
                except BaseException as error:
                    future.set_exception(error)
                self._tell()
        finally:
            with self._changed:
                self.at = None
                self._changed.notify_all()
            self._tell()

    def _linger(self) -> None:
        end = time.monotonic() + self.seconds
        with self._changed:
            while self.mode == "running" and (left := end - time.monotonic()) > 0:
                self._changed.wait(left)

    def _tell(self) -> None:
        for fn in list(self._told):
            fn()

    # -- for others --------------------------------------------------------------------------------------------------------

    def on_change(self, fn: Callable[[], None]) -> Callable[[], None]:
        """Call `fn`, mostly in the worker's thread, when the worker has come to stand, goes on or is done; gives what ends that."""
        self._told.append(fn)
        return lambda: self._told.remove(fn)

    def pause(self, why: str) -> None:
        """The worker waits before its next step."""
        with self._changed:
            if self.mode == "running":
                self._pause(why)
                self._changed.notify_all()

    def go(self, steps: int | None = None, why: str = "", *, more: bool = False) -> None:
        """The worker goes on: for so many steps, None: until something stops it; `more`: besides those that it has yet to make."""
        with self._changed:
            if self.mode in ("paused", "running"):
                left = self._budget if more and steps is not None and self.mode == "running" else None
                self.mode, self.reason, self.at = "running", "", None
                self._budget, self._why = steps if left is None or steps is None else left + steps, why
                self._changed.notify_all()

    def stop(self) -> None:
        """The worker ends at its next step."""
        with self._changed:
            if self.mode != "over":
                self.mode = "stopping"
                self._changed.notify_all()

    def until_standing(self, timeout: float | None = None) -> bool:
        """Wait until the worker stands at the gate or is done; False: `timeout` seconds were not enough."""
        with self._changed:
            return self._changed.wait_for(lambda: self.mode == "over" or self.at is not None, timeout)

    def until_over(self, timeout: float | None = None) -> bool:
        """Wait until the worker is done; False: `timeout` seconds were not enough."""
        with self._changed:
            return self._changed.wait_for(lambda: self.mode == "over", timeout)

    def ask(self, fn: Callable[[], Any]) -> Future[Any]:
        """Let the worker, where it stands, call a function.

        Raises:
            RuntimeError: If it does not stand, and nobody has told it to.
        """
        future: Future[Any] = Future()
        if threading.current_thread() is self.worker:
            future.set_result(fn())
            return future
        with self._changed:
            if self.mode == "over":
                raise _over()
            if self.mode != "paused":
                raise runtime_error(
                    "run: it is running, and only where it stands its values are looked at and changed.",
                    [("state", self.mode)],
                    "Another thread makes its steps. Let it pause first:",
                    "run.pause()",
                )
            self._asked.append((fn, future))
            self._changed.notify_all()
        return future


def _over() -> RuntimeError:
    return runtime_error(
        "run: it is over.",
        [],
        "What it has left is run.result. From one of its steps it goes on again as another run:",
        "branch = run.from_step(3)",
    )
