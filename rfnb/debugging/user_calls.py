"""The call of this package by user code that is running: a number, the same for all that happens inside of the call.

Only for debugging switches: each question walks up the stack.
"""

from __future__ import annotations

import inspect
import itertools
import threading
from types import FrameType

from rfnb.core.place import user_frame


class _Calls(threading.local):
    """The calls of this thread that may not have ended, the one asked for last at the end."""

    def __init__(self) -> None:
        self.running: list[tuple[FrameType | None, int]] = []


_calls = _Calls()
_numbers = itertools.count(1)


def call_number(depth: int) -> tuple[int, FrameType, FrameType | None]:
    """The number of the call, the frame of the user code, and the frame of what it called.

    Args:
        depth: How many frames up to begin.
    """
    user, called = user_frame(depth + 1)
    for frame, number in reversed(_calls.running):
        if frame is called:
            return number, user, called
    _drop_ended()
    number = next(_numbers)
    _calls.running.append((called, number))
    return number, user, called


def forget_calls() -> None:
    """Keep no frame alive. Calls that have ended let go what they had."""
    _drop_ended()
    _calls.running.clear()


def _drop_ended() -> None:
    running = _calls.running
    # A frame that has ended can be cleared, so that only what was given out stays alive; the others refuse.
    for index in range(len(running) - 1, -1, -1):
        frame = running[index][0]
        if frame is not None and not frame.f_code.co_flags & inspect.CO_GENERATOR:  # a generator would be closed
            try:
                frame.clear()
            except RuntimeError:
                continue
            del running[index]
