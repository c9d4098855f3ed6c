"""An interrupt (Ctrl+C) at any instruction: runs a function, and raises a KeyboardInterrupt in it before the n-th instruction of rfnb."""

import os
import sys

import rfnb

_PACKAGE = os.path.dirname(rfnb.__file__) + os.sep


class Interrupts:
    """Interrupts before one of the instructions of frames of rfnb.

    Args:
        at: Number of the instruction, from 0; None: none.
        also: Further files that are interrupted.

    Attributes:
        files: Of each instruction until then.
        place: Where it was interrupted.
    """

    def __init__(self, at=None, also=()):
        self.at, self.files, self.place = at, [], None
        self._files = (_PACKAGE, *also)

    def run(self, call):
        """call(), until it is interrupted."""
        before = sys.gettrace()
        sys.settrace(self._enter)
        try:
            call()
        except KeyboardInterrupt:
            pass
        finally:
            sys.settrace(before)

    def _enter(self, frame, event, arg):
        if not frame.f_code.co_filename.startswith(self._files):
            return None
        frame.f_trace_lines, frame.f_trace_opcodes = False, True
        return self._step

    def _step(self, frame, event, arg):
        if event == "opcode":
            self.files.append(frame.f_code.co_filename)
            if len(self.files) - 1 == self.at:
                self.place = f"{frame.f_code.co_qualname}, line {frame.f_lineno}, instruction {frame.f_lasti}"
                raise KeyboardInterrupt
        return self._step


def instructions(call, also=()):
    """The file of each instruction of rfnb that it runs."""
    counting = Interrupts(also=also)
    counting.run(call)
    return counting.files
