"""Base classes for objects bound to a live run, and the registry of live runs of this process.

A run is a thread of this process, so such objects cannot be pickled or copied. Live runs are stopped at interpreter exit, and marked as
finished in forked children.
"""

from __future__ import annotations

import atexit
import os
import weakref
from typing import TYPE_CHECKING

from rfnb.core.errors import runtime_error
from rfnb.core.pickling import NotPicklable
from rfnb.rec.hold import let_go

if TYPE_CHECKING:
    from rfnb.control.run import Run


class RunMember(NotPicklable):
    """Base class for objects bound to a live run."""

    _not_pickled = (
        "A run",
        "A run is a thread of this process. To keep its data, store its trace and those of its branches:",
        'run.save("run.rfnb")',
    )


class PositionMember(NotPicklable):
    """Base class for objects that are read and changed at a run's position."""

    _not_pickled = (
        "A part of a position of a run",
        "Such an object belongs to its position. To keep its values, take the Tensor or an array:",
        'run.at.states["h"].tensor',
    )


_begun: weakref.WeakSet[Run] = weakref.WeakSet()


def note_begun(run: Run) -> None:
    """Register a run that begins."""
    _begun.add(run)


def _on() -> list[Run]:
    """The live runs."""
    return [run for run in _begun if run._gate.mode != "over"]


@atexit.register
def stop_all() -> None:
    """Stop every run, as at interpreter exit: a torch thread that is cut off takes the process down with a message."""
    runs = _on()
    for run in runs:
        run._gate.stop()
    for run in runs:
        if not run._gate.until_over(2.0):
            run._breakpoints.asking.interrupt()
            run._gate.until_over(1.0)


def _in_fork() -> None:
    """Mark the runs as finished in a forked child: they continue in the parent, and their threads do not exist here."""
    let_go()
    for run in _on():
        run._gate.forked()
        run._turns.forked()
        run._error = runtime_error(
            f"{run.name}: it runs in another process.",
            {"here": os.getpid(), "there": os.getppid()},
            "This process was forked from it, and does not have its threads.",
        )


if hasattr(os, "register_at_fork"):  # not on Windows, where nothing forks
    os.register_at_fork(after_in_child=_in_fork)
