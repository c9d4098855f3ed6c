"""Threads of a test that has to end: one that hangs fails, with what every thread is doing."""

from __future__ import annotations

import faulthandler
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from waiting import LONG

import rfnb as rf


def stacks() -> str:
    """The stacks of all threads."""
    with tempfile.TemporaryFile("w+") as file:
        faulthandler.dump_traceback(file=file, all_threads=True)
        file.seek(0)
        return file.read()


def in_threads(*calls: Callable[[], None]) -> None:
    """Make all calls at once, each in a thread of its own; as often as it can, Python goes from one to another.

    Raises:
        BaseException: What one of them has raised.
        AssertionError: If one of them hangs.
    """
    failed: list[BaseException] = []
    begin = threading.Barrier(len(calls))

    def work(call: Callable[[], None]) -> None:
        try:
            begin.wait(LONG)
            call()
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(call,), daemon=True) for call in calls]
    with switching_often():
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(LONG)
            assert not thread.is_alive(), f"it hangs\n{stacks()}"
    if failed:
        raise failed[0]


@contextmanager
def switching_often() -> Iterator[None]:
    """Python goes from thread to thread after almost no time."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        yield
    finally:
        sys.setswitchinterval(interval)


def stands(run: rf.Run) -> None:
    """Wait until a run stands or is over."""
    assert run.wait(LONG), f"{run} hangs\n{stacks()}"


def result_of(run: rf.Run) -> object:
    """Let a run go on, whatever it was told, until it is over; its result."""
    while run.state in ("paused", "running"):
        stands(run)
        try:
            run.resume()
        except RuntimeError:
            break  # it is over
    assert run._gate.until_over(LONG), f"{run} hangs\n{stacks()}"
    return run.result


def is_gone(run: rf.Run) -> bool:
    """Whether the thread of a run has ended, once it is over."""
    worker = run._gate.worker
    worker.join(LONG)
    return not worker.is_alive() and worker not in threading.enumerate()
