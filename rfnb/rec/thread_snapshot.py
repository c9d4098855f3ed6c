"""Snapshot of thread-local state at loop entry, restored after an interrupt.

Ctrl+C raises an exception between any two instructions, even inside or just before the `__exit__` that would restore a setting. So the
loop restores what an interrupt left behind by value, from outside all blocks.
"""

from __future__ import annotations

import threading
from contextvars import Context, copy_context

from rfnb.backends import registry
from rfnb.core.finite_padding import only_steps, steps_now
from rfnb.core.pickling import NotPicklable


class ThreadSnapshot(NotPicklable):
    """Snapshot of the state of this thread and context.

    Attributes:
        interrupted: Whether an interrupt has come since, or may have.
    """

    def __init__(self, *, interrupted: bool = False):
        self.interrupted = interrupted
        self._thread = threading.get_ident()
        self._context, self._steps, self._modes_again = copy_context(), steps_now(), registry.selected().current_modes()

    def note(self, error: BaseException) -> None:
        """Record the exception that left the loop."""
        self.interrupted = self.interrupted or not isinstance(error, (Exception, GeneratorExit))

    def restore(self) -> None:
        """Restore the snapshot after an interrupt; do nothing in another thread, where the garbage collector may close a loop."""
        if not self.interrupted or self._thread != threading.get_ident():
            return
        self._modes_again()
        only_steps(self._steps)
        nothing_set = Context()
        for variable in copy_context():
            if variable.name.startswith("rfnb_"):
                variable.set(self._context[variable] if variable in self._context else nothing_set.run(variable.get))
