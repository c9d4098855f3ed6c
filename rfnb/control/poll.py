"""Handles messages from notebook pages while a cell waits, in kernels that otherwise handle them only between cells (ipykernel 6, as in
Colab).

Widget messages are delivered in the waiting thread; all others keep their place until the cell is done. ipykernel 7 handles messages
concurrently: there this does nothing.
"""

from __future__ import annotations

import math
import sys
import time
from typing import Any

from rfnb.control.gate import Gate

_BETWEEN = 0.05  # seconds between two looks
_OF_WIDGETS = ("comm_open", "comm_msg", "comm_close")


def until_over(gate: Gate[Any], timeout: float | None) -> bool:
    """Wait until a run is over while handling page messages; False on timeout. Ctrl+C pauses the run."""
    kernel = _kernel()
    end = math.inf if timeout is None else time.monotonic() + timeout
    try:
        if kernel is None:
            return gate.until_over(timeout)
        while not gate.until_over(max(0.0, min(_BETWEEN, end - time.monotonic()))):
            if time.monotonic() >= end:
                return False
            _hand_over(kernel)
        return True
    except KeyboardInterrupt:
        gate.pause("Ctrl+C")
        raise


def _kernel() -> Any:
    """The kernel that must be polled for messages, or None."""
    module = sys.modules.get("ipykernel")
    if module is None or not str(module.__version__).startswith("6."):
        return None
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    kernel = getattr(shell, "kernel", None)
    return kernel if all(hasattr(kernel, name) for name in ("msg_queue", "shell_stream", "shell_handlers")) else None


def _hand_over(kernel: Any) -> None:
    kernel.shell_stream.flush()  # into its queue
    queue, session, later = kernel.msg_queue, kernel.session, []
    while queue.qsize():
        later.append(queue.get_nowait())
    try:
        while later:
            _, _, args = later[0]
            kind = _kind(session, args[0]) if len(args) == 1 and isinstance(args[0], list) else None
            if kind not in _OF_WIDGETS:
                queue.put_nowait(later.pop(0))
                continue
            idents, parts = session.feed_identities(later.pop(0)[2][0], copy=False)
            message = session.deserialize(parts, content=True, copy=False)  # once: a second time counts as a copy
            kernel.shell_handlers[kind](kernel.shell_stream, idents, message)
    finally:
        for item in later:  # after an interrupt
            queue.put_nowait(item)


def _kind(session: Any, frames: list[Any]) -> str | None:
    """The type of a message, whose content is not read."""
    _, parts = session.feed_identities(frames, copy=False)
    try:
        return str(session.unpack(parts[1].bytes)["msg_type"])
    except (KeyError, IndexError, ValueError, AttributeError):
        return None
