"""Runs code only to observe it: it prints nothing, and is stopped before it writes elsewhere."""

from __future__ import annotations

import contextlib
import io
import logging
import sys
import threading
import warnings
from collections.abc import Callable
from typing import Any

from rfnb.core.block import Undone

_WRITES = {"write", "writelines", "truncate", "send", "sendall", "sendto", "connect"}
_OUTSIDE = {"_socket", "_ssl", "_sqlite3", "sqlite3", "_posixsubprocess", "_winapi"}
_OF_SYSTEM = {
    "system", "remove", "unlink", "rename", "replace", "mkdir", "rmdir", "write", "open", "kill", "fork", "posix_spawn", "truncate",
}  # fmt: skip


class UnknownBehaviour(BaseException):
    """The step's behaviour cannot be determined."""


class _Muted(io.TextIOBase):
    """A stream that drops the output of its thread and forwards that of others."""

    def __init__(self, stream: Any):
        self.stream, self._thread = stream, threading.get_ident()

    def write(self, text: str) -> int:
        return len(text) if threading.get_ident() == self._thread else self.stream.write(text)

    def flush(self) -> None:
        pass


class DryRun(Undone):
    """A with-block in which nothing is printed or logged, and writing elsewhere raises UnknownBehaviour.

    Attributes:
        stops: Further functions to call then.

    Raises:
        UnknownBehaviour: If a profiler is active, whose place this needs.
    """

    def __init__(self) -> None:
        self.stops: list[Callable[[], Any]] = []
        self._muted: list[tuple[str, _Muted]] = []
        self._logged: int | None = None
        self._warnings: Any = None

    def begin(self) -> None:
        """Mute the output of this thread."""
        if sys.getprofile() is not None:
            raise UnknownBehaviour("a profiler is at work")
        self._logged = logging.root.manager.disable
        self._muted = [(name, _Muted(getattr(sys, name))) for name in ("stdout", "stderr")]
        for name, muted in self._muted:
            setattr(sys, name, muted)
        logging.disable(sys.maxsize)
        self._warnings = warnings.catch_warnings()
        self._warnings.__enter__()
        warnings.simplefilter("ignore")
        sys.setprofile(_stop_writing)

    def undo(self) -> None:
        """Restore the former values; a second call does nothing."""
        if self._logged is None:
            return
        if sys.getprofile() is _stop_writing:
            sys.setprofile(None)
        for stop in self.stops:
            stop()
        self.stops.clear()
        for name, muted in self._muted:
            if getattr(sys, name) is muted:
                setattr(sys, name, muted.stream)
        logging.disable(self._logged)
        if self._warnings is not None:
            with contextlib.suppress(
                RuntimeError, AttributeError
            ):  # was not entered to its end, and has changed nothing then
                self._warnings.__exit__(None, None, None)
        self._logged = None  # last, so that it is not before all is done


def _stop_writing(frame: Any, event: str, called: Any) -> None:
    if event != "c_call":
        return
    name, owner = called.__name__, getattr(called, "__self__", None)
    module = called.__module__ or type(owner).__module__
    if name in _WRITES and type(owner).__module__ in ("_io", "socket", "_socket"):
        if not isinstance(owner, (io.StringIO, io.BytesIO)):
            raise UnknownBehaviour("it writes to a file")
    elif (
        module in _OUTSIDE
        or (module, name) == ("_queue", "put")  # on the way to another thread
        or (module in ("posix", "nt") and name in _OF_SYSTEM)
        or (name == "open" and module in ("io", "_io"))
    ):
        raise UnknownBehaviour(f"it calls {module}.{name}")
