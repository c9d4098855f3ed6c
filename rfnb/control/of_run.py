"""The base of what belongs to a run, and the runs of this process that have begun.

A run is a thread of this process, and neither pickled nor copied. Runs are stopped before Python ends, and in a process that is forked
they are over.
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


class OfRun(NotPicklable):
    """The base of what belongs to a run."""

    _not_pickled = (
        "A run",
        "It is a thread of this process. What is kept of it is its trace, and those of its branches:",
        'run.save("run.rfnb")',
    )


class OfPosition(NotPicklable):
    """The base of what is looked at and changed where a run stands."""

    _not_pickled = (
        "What is looked at where a run stands",
        "It is changed there and nowhere else. Its values are a Tensor, or an array:",
        'run.at.states["h"].tensor',
    )


_begun: weakref.WeakSet[Run] = weakref.WeakSet()


def note_begun(run: Run) -> None:
    """A run begins."""
    _begun.add(run)


def _on() -> list[Run]:
    """The runs that are not over."""
    return [run for run in _begun if run._gate.mode != "over"]


@atexit.register
def stop_all() -> None:
    """Stop every run, as is done before Python ends: a thread of torch that is cut off takes the process down with a message."""
    runs = _on()
    for run in runs:
        run._gate.stop()
    for run in runs:
        if not run._gate.until_over(2.0):
            run._breakpoints.asking.interrupt()
            run._gate.until_over(1.0)


def _in_fork() -> None:
    """This process is a copy of one that has runs: they go on there, their threads are not here."""
    let_go()
    for run in _on():
        run._gate.forked()
        run._turns.forked()
        run._error = runtime_error(
            f"{run.name}: it runs in another process.",
            [("here", os.getpid()), ("there", os.getppid())],
            "This one was forked from it, and has no threads of it.",
        )


if hasattr(os, "register_at_fork"):  # not on Windows, where nothing forks
    os.register_at_fork(after_in_child=_in_fork)
