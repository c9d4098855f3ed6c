"""An interrupt (Ctrl+C) at any place: runs a function, and raises a KeyboardInterrupt in it before the n-th instruction of rfnb at which
Python lets one come, that is after a call, at the beginning of a function and at a jump backward. Nowhere else: an interrupt between the
instructions that leave `with lock:` would keep the lock for good, and there is none."""

import dis
import functools
import itertools
import os
import sys

import rfnb

_PACKAGE = os.path.dirname(rfnb.__file__) + os.sep


@functools.cache
def _places(code):
    """The offsets of the instructions of a code object before which an interrupt may come."""
    handlers = dis.Bytecode(code).exception_entries
    instructions = list(dis.get_instructions(code))

    def handler(offset):
        return next((each.target for each in handlers if each.start <= offset < each.end), None)

    asks = [
        (a.offset, b.offset) for a, b in itertools.pairwise(instructions) if a.opname.startswith(("CALL", "RESUME"))
    ]
    asks += [(each.offset, each.argval) for each in instructions if each.opname.startswith("JUMP_BACKWARD")]
    return frozenset(
        after for at, after in asks if handler(at) == handler(after)
    )  # the exception is raised by the first of them


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
        # Looked up once in a call: a code object is hashed anew each time.
        return functools.partial(self._step, _places(frame.f_code))

    def _step(self, places, frame, event, arg):
        if event == "opcode" and frame.f_lasti in places:
            self.files.append(frame.f_code.co_filename)
            if len(self.files) - 1 == self.at:
                self.place = f"{frame.f_code.co_qualname}, line {frame.f_lineno}, instruction {frame.f_lasti}"
                raise KeyboardInterrupt


def instructions(call, also=()):
    """The file of each instruction of rfnb that it runs."""
    counting = Interrupts(also=also)
    counting.run(call)
    return counting.files
