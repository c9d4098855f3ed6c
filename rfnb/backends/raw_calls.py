"""Observed calls of an array library: the items of `Backend.trace_calls`."""

from __future__ import annotations

from typing import Any

CALL, CHANGE, ASK, MADE = "call", "change", "ask", "made"


class RawCall:
    """One call of the library, `out = fn(*args, **kwargs)` with the arrays themselves."""

    __slots__ = ("fn", "args", "kwargs", "out")

    def __init__(self, fn: Any, args: Any, kwargs: Any, out: Any):
        self.fn, self.args, self.kwargs, self.out = fn, args, kwargs, out

    @property
    def kind(self) -> str:
        """The kind of the call.

        CALL: it returns arrays that depend on nothing but the arguments. CHANGE: the same, and it changes its first argument. ASK: it
        gives a property that all arrays of this shape and signature (`Backend.signature_raw`) share. MADE: `out` is made of values of
        the host. Else it is the reason why the call cannot be made again for other values.
        """
        raise NotImplementedError
