"""Asking: a condition of a user's own is asked by the thread of the run, and may not end.

Another thread can end it then, as Ctrl+C would: by an exception that Python raises in the thread of the run between two of its
instructions. It has to come while the condition is asked and at no other time, so both sides say what they do before they do it. What
does not come back to Python (a call that waits for ever) cannot be ended.
"""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Callable
from typing import Any

from rfnb.control.of_run import OfRun
from rfnb.core.errors import message

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
