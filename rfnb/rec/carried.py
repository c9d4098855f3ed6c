"""Values that Python carries from step to step where a state of the loop was meant:

    h = rf.zeros([batch, hidden])
    for _ in loop:
        h = rf.tanh(h + loop.unstack(x))        # loop.state.h is meant

`for` runs every step, but a sequence that has ended goes on changing such a value, and a search does not bring it to its hypotheses:
it warns, of tensors only, since numbers are often Python's own business. `with` runs the body once, so every step would get the value
from before the loop: it refuses whatever the body can be seen to change, names and what they reach (`rfnb/rec/outside.py`).
"""

from __future__ import annotations

import contextlib
import inspect
import os
import sys
from collections.abc import Iterable
from types import FrameType
from typing import Any

from rfnb.core.dim import Dim
from rfnb.core.errors import message
from rfnb.core.place import in_package, warn_at
from rfnb.core.tensor import Tensor
from rfnb.core.tensor_text import shape_of
from rfnb.rec.body_names import names_in, names_of_for
from rfnb.rec.nested import values_in
from rfnb.rec.outside import Contents, reached
from rfnb.rec.step_tensor import RecordingError, recording_error


class CarriedByFor:
    """The names that the body of a `for` reads before it assigns them, as the first step finds them; `check` compares."""

    def __init__(self, loop_name: str, frame: FrameType | None):
        self._loop_name = loop_name
        self._frame: FrameType | None = None
        self._names = None if frame is None or in_package(frame.f_code) else names_of_for(frame)
        if frame is not None and self._names is not None and self._names.carried:
            self._frame, self._before = frame, _variables(frame, self._names.carried)

    def check(self, axis: Dim) -> None:
        """Warn after the first step of tensors that it has replaced by others."""
        frame, self._frame = self._frame, None
        if frame is None or self._names is None or names_of_for(frame) is not self._names:
            return
        now, before = _variables(frame, self._before), self._before
        self._before = {}
        for name, old in before.items():
            new = now.get(name)
            if new is old or not _has_tensor(new) or not _may_be_first(old, axis):
                continue
            file, line = frame.f_code.co_filename, self._names.carried[name]
            text = message(
                f'Loop "{self._loop_name}": {name}, assigned in {os.path.basename(file)}:{line}, is carried by Python.',
                [("before", _text(old)), ("after step 0", _text(new))],
                "It goes on changing where a sequence has ended, and does not follow the hypotheses of a search; `with loop:` refuses it.\n"
                "What a step gets from the step before is a state of the loop:",
                _fix(name, old),
            )
            warn_at(text, frame, line)


class CarriedByWith:
    """All that the body of a `with` reaches from outside, as it is before it runs; `check` compares."""

    def __init__(self, loop_name: str, frame: FrameType | None, axis: Dim):
        self._loop_name, self._axis = loop_name, axis
        while frame is not None and frame.f_code.co_filename == contextlib.__file__:
            frame = frame.f_back
        self._frame = None if frame is None or in_package(frame.f_code) else frame
        if self._frame is None:
            return
        self._begin = self._frame.f_lasti + 1
        names = names_in(self._frame.f_code, self._begin, len(self._frame.f_code.co_code)).read
        self._before = _variables(self._frame, names)
        self._slots = reached(self._before)

    def check(self, used: set[int]) -> None:
        """Raise a RecordingError if the body has changed what the next step would read.

        Args:
            used: ids of the Tensors from outside that the body has computed with.
        """
        frame, self._frame = self._frame, None
        if frame is None:
            return
        before, slots = self._before, self._slots
        self._before, self._slots = {}, []
        names = names_in(frame.f_code, self._begin, frame.f_lasti)
        now = _variables(frame, names.carried)

        def was_used(value: Any) -> bool:
            return not _is_source(value, self._axis) and any(id(leaf) in used for leaf in values_in(value))

        for name, line in names.carried.items():
            if name in before and _makes_a_difference(before[name], now.get(name), was_used(before[name])):
                raise self._refused(name, (before[name], now.get(name)), frame, line)
        for slot in slots:
            change = slot.change(was_used) if slot.root in names.read else None
            if change is not None:
                raise self._refused(slot.path, change, frame, names.stored.get((slot.root, slot.key)))

    def _refused(self, path: str, change: tuple[Any, Any], frame: FrameType, line: int | None) -> RecordingError:
        where = f", assigned in {os.path.basename(frame.f_code.co_filename)}:{line}," if line else ""
        in_place = isinstance(change[0], Contents)
        rule = "The body of `with loop:` runs once, so every step would get what was there before the loop.\n"
        if in_place:
            rule += "What steps collect is loop.stack(...), and random numbers are those of rf.random_...; or let Python run every step:"
        else:
            rule += "What a step gets from the step before is a state of the loop:"
        return recording_error(
            f'Loop "{self._loop_name}", recorded step: {path}{where} is {"changed in place" if in_place else "carried by Python"}.',
            [*zip(("before", "after"), map(_text, change))],
            rule,
            "for _ in loop:" if in_place else _fix(path, change[0]),
        )


def _makes_a_difference(before: Any, after: Any, used: bool) -> bool:
    """Whether it matters that a name which a body reads is then assigned anew."""
    if after is before:
        return False
    if _has_tensor(before):  # it may not have computed with it, on the way that it took
        return used
    if _has_tensor(after):
        return True
    try:
        return bool(before != after)
    except ValueError:  # arrays
        return True


def _variables(frame: FrameType, names: Iterable[str]) -> dict[str, Any]:
    """The values of those names that are bound."""
    own, around = frame.f_locals, frame.f_globals
    found = {name: own[name] if name in own else around[name] for name in names if name in own or name in around}
    if type(own) is dict and frame.f_code.co_flags & inspect.CO_OPTIMIZED:
        own.clear()  # a copy, which the frame would keep, and with it tensors that nobody needs
    return found


def _is_source(value: Any, axis: Dim) -> bool:
    """Whether no step can have left it: `x = loop.unstack(x)` works in `with` and fails in the second step of `for`."""
    return isinstance(value, Tensor) and axis in value.dims


def _may_be_first(value: Any, axis: Dim) -> bool:
    """Whether it may be what the first step starts with."""
    if _has_tensor(value):
        return not _is_source(value, axis)
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _has_tensor(value: Any) -> bool:
    return any(isinstance(leaf, Tensor) for leaf in values_in(value))


def _text(value: Any) -> str:
    """A value in a message; never the values of an array."""
    if isinstance(value, Contents):
        return value.shown
    if isinstance(value, Tensor):
        return f"{shape_of(value)} {value.dtype}"
    tensors = [leaf for leaf in values_in(value) if isinstance(leaf, Tensor)]
    if tensors:
        return f"{type(value).__name__} of {', '.join(map(_text, tensors))}"
    return repr(value) if isinstance(value, (bool, int, float, str, type(None))) else f"a {type(value).__name__}"


def _fix(path: str, before: Any) -> str:
    name = path.partition("[")[0].rpartition(".")[2]
    number = isinstance(before, (bool, int, float))
    first = f"rf.constant({before!r}, dims=[])" if number else "..." if before is None else path
    return (
        f"loop.state.{name} = {first}      # before the loop\n"
        f"loop.state.{name} = ...      # in its body, from loop.state.{name} in place of {path}"
    )


def caller(depth: int) -> FrameType | None:
    """The frame so many frames up; None if nobody is there."""
    frame: FrameType | None = sys._getframe(1)
    for _ in range(depth):
        frame = None if frame is None else frame.f_back
    return frame
