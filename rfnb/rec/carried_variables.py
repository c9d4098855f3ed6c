"""Python variables that carry a value from step to step where a loop state was intended:

    h = rf.zeros([batch, hidden])
    for _ in loop:
        h = rf.tanh(h + loop.unstack(x))        # loop.state.h is meant

`for` runs every step, but a sequence that has ended keeps changing such a value, and a search does not bring it to its hypotheses:
it warns, of tensors only, since numbers are often Python's own business. `with` runs the body once, so every step would get the value
from before the loop: it refuses whatever the body can be seen to change, names and what they reach (`rfnb/rec/reachable_objects.py`).
"""

from __future__ import annotations

import contextlib
import inspect
import os
import sys
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import FrameType
from typing import Any, NamedTuple

from rfnb.core.dim import Dim
from rfnb.core.errors import message
from rfnb.core.memo import make_room
from rfnb.core.place import in_package, warn_at
from rfnb.core.tensor import Tensor
from rfnb.core.tensor_text import shape_of
from rfnb.core.tree import values_in
from rfnb.rec.body_function import BodyFunction
from rfnb.rec.body_names import BodyNames, names_in, names_of_for
from rfnb.rec.dry_run import UnknownBehaviour
from rfnb.rec.modes import modes_now
from rfnb.rec.reachable_objects import (
    DEEP,
    MISSING,
    PLAIN,
    SHORT,
    WIDE,
    Contents,
    Slot,
    is_plain,
    names_of,
    reached,
    same_plain,
)
from rfnb.rec.recording import Recording
from rfnb.rec.second_step import difference
from rfnb.rec.step_tensor import RecordingError, StepTensor, recording_error


class CarriedByFor:
    """The names that the body of a `for` reads before it assigns them, with their values at the first step; `check` compares."""

    def __init__(self, loop_name: str, frame: FrameType | None):
        self._loop_name = loop_name
        self._frame: FrameType | None = None
        self._names = None if frame is None or in_package(frame.f_code) else names_of_for(frame)
        if frame is not None and self._names is not None and self._names.carried:
            self._frame, self._before = frame, _variables(frame, self._names.carried)

    def check(self, axis: Dim) -> None:
        """Warn, after the first step, about tensors that it replaced."""
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
                {"before": _text(old), "after step 0": _text(new)},
                "It keeps changing after a sequence has ended, and does not follow the hypotheses of a search; `with loop:` refuses it.\n"
                "A value that a step passes to the next one is a state of the loop:",
                _fix(name, old),
            )
            warn_at(text, frame, line)


class _Change(NamedTuple):
    """A value that the body changed: where, the values before and after, and the line of the assignment if known."""

    path: str
    before: Any
    now: Any
    line: int | None


class _Body:
    """Knowledge about a body that has run.

    Attributes:
        ways: For each way through it (the ops that it called) what it changes without making a difference.
        kept: The code that identifies it, kept alive so that its id stays unique.
    """

    def __init__(self, kept: Any):
        self.ways: dict[Any, set[str]] = {}
        self.kept = kept

    def note(self, way: Any, changes: Iterable[_Change]) -> None:
        """Record that the changes on this path make no difference."""
        make_room(self.ways, _MOST_WAYS)
        self.ways.setdefault(way, set()).update(change.path for change in changes)


_MOST_BODIES, _MOST_WAYS, _MOST_BY_NUMBERS = 512, 32, 8
_FLAGS = frozenset(map(id, (bool, type(None))))
# By where it begins, the ids of the code around it, and of that of the functions that it has names for.
_bodies: dict[Any, _Body] = {}


def _body_of(code: Any, begin: int, variables: Mapping[str, Any]) -> _Body:
    kept = [code, *(found for found in map(_code_of, variables.values()) if found is not None)]
    key = (begin, *map(id, kept))
    found = _bodies.get(key)
    if found is None:
        make_room(_bodies, _MOST_BODIES)
        found = _bodies[key] = _Body(kept)
    return found


class CarriedByWith:
    """Everything that the body of a `with` reaches from outside, as it was before the body ran; `check` compares.

    Where a change may or may not make a difference (a flag, a cache, a list of results), the next two steps decide
    (`rfnb/rec/second_step.py`), or a rule if those cannot be run. The first run of a body is examined without a limit of depth.
    """

    def __init__(self, loop: Any, frame: FrameType | None):
        self._loop = loop
        while frame is not None and frame.f_code.co_filename == contextlib.__file__:
            frame = frame.f_back
        self._frame = None if frame is None or in_package(frame.f_code) else frame
        if self._frame is None:
            return
        code = self._frame.f_code
        self._begin = self._frame.f_lasti
        names = names_in(code, self._begin + 1, len(code.co_code)).read
        self._before = _variables(self._frame, names)
        self._body = _body_of(code, self._begin, self._before)
        self._look = SHORT if self._body.ways else DEEP
        self._slots = reached(self._before, self._look, names_of(code))
        self._near = self._slots if self._look is SHORT else reached(self._before, SHORT)

    def check(self, recording: Recording) -> None:
        """Raise a RecordingError if the body has changed what the next step would read."""
        frame, self._frame = self._frame, None
        if frame is None:
            return
        if modes_now() != recording.recorder.modes:
            raise self._refused_for("step 1: it ends under other modes (gradients, precision) than it began")
        before, slots, near = self._before, self._slots, self._near
        self._before, self._slots, self._near = {}, [], []
        used = recording.recorder.used

        def was_used(value: Any) -> bool:
            return not _is_source(value, recording.axis) and any(id(leaf) in used for leaf in values_in(value))

        names = names_in(frame.f_code, self._begin + 1, frame.f_lasti)
        changes = [*_of_names(before, _variables(frame, names.carried), names), *_of_slots(slots, names)]
        for change, slot in changes:
            if _is_certain(change, slot, was_used):
                raise self._refused(change, frame)
        asked = [change for change, _ in changes if not _is_source(change.before, recording.axis)]
        way: Any = recording.way()
        if asked:
            way = way, self._switches(before, near, {change.path for change in asked})
        known = self._body.ways.get(way)
        if any(change.path not in (known or ()) for change in asked) or (known is None and self._look is SHORT):
            self._ask_next_steps(asked, frame, recording)
        self._body.note(way, asked)

    def _switches(self, before: Mapping[str, Any], near: list[Slot], changed: set[str]) -> tuple[Any, ...]:
        """The flags by which a body may treat what it changes differently; in its first paths, numbers and strings too."""
        kinds = PLAIN if len(self._body.ways) < _MOST_BY_NUMBERS else _FLAGS
        names = [value for name, value in before.items() if id(type(value)) in kinds and name not in changed]
        inside = [slot.before for slot in near if id(type(slot.before)) in kinds and slot.path not in changed]
        return *names, *inside

    def _ask_next_steps(self, changes: list[_Change], frame: FrameType, recording: Recording) -> None:
        """Run the next steps to see whether they differ from the first."""
        body = BodyFunction(frame, self._begin, self._loop)
        try:
            if body.call is None:
                raise UnknownBehaviour("the source of the body is missing")
            code = frame.f_code
            variables = _variables(frame, {*names_of(code), *frame.f_locals})
            after, of_libraries = (reached(variables, look, names_of(code)) for look in (DEEP, WIDE))
            try:
                with body.variables_kept():
                    found = difference(body.call, self._loop, recording)
            finally:
                for slot in reversed(of_libraries):
                    slot.put_back()
                left = [slot.path for slot in reversed(after) if not slot.put_back()]
            if found is None and left:
                raise UnknownBehaviour(f"{left[0]} cannot be restored")
        except UnknownBehaviour:
            handles = {id(output.handle) for output in self._loop._outputs.all}
            change = next((each for each in changes if _may_differ(each, handles)), None)
            if change is not None:
                raise self._refused(change, frame) from None
        else:
            if found is not None:
                raise self._refused(changes[0], frame, found, changes[1:]) if changes else self._refused_for(found)

    def _refused_for(self, found: str) -> RecordingError:
        step, _, what = found.partition(": ")
        return recording_error(
            f'Loop "{self._loop.name}", recorded step: the body acts differently in its next steps.',
            {step: what},
            "The body of `with loop:` runs once, so every step would be like the first. Let Python run every step:",
            "for _ in loop:",
        )

    def _refused(
        self, change: _Change, frame: FrameType, found: str | None = None, others: Sequence[_Change] = ()
    ) -> RecordingError:
        where = f", assigned in {os.path.basename(frame.f_code.co_filename)}:{change.line}," if change.line else ""
        in_place = isinstance(change.before, Contents)
        rule = "The body of `with loop:` runs once, so every step would get the value from before the loop.\n"
        if in_place:
            rule += "Collect values with loop.stack(...), and draw random numbers with rf.random_...; or let Python run every step:"
        else:
            rule += "A value that a step passes to the next one is a state of the loop:"
        rows = [("before", _text(change.before)), ("after", _text(change.now))]
        if found is not None:
            rows.append((found.partition(": ")[0], found.partition(": ")[2]))
        if others:
            rows.append(("changed too", ", ".join(dict.fromkeys(each.path for each in others))))
        return recording_error(
            f'Loop "{self._loop.name}", recorded step: {change.path}{where} is {"changed in place" if in_place else "carried by Python"}.',
            rows,
            rule,
            "for _ in loop:" if in_place else _fix(change.path, change.before),
        )


def _of_names(before: Mapping[str, Any], now: Mapping[str, Any], names: BodyNames) -> Iterator[tuple[_Change, None]]:
    """The changes to names that a body reads before it assigns them."""
    for name, line in names.carried.items():
        if not same_plain(before.get(name, MISSING), now.get(name, MISSING)):
            yield _Change(name, before.get(name, MISSING), now.get(name, MISSING), line), None


def _of_slots(slots: list[Slot], names: BodyNames) -> Iterator[tuple[_Change, Slot]]:
    """The changes to slots reachable from names."""
    for slot in slots:
        found = slot.difference() if slot.root in names.read else None
        if found is not None:
            yield _Change(slot.path, *found, names.stored.get((slot.root, slot.key))), slot


def _is_certain(change: _Change, slot: Slot | None, was_used: Callable[[Any], bool]) -> bool:
    """True if the next steps need not be tried: the change is to a Tensor that was computed with, or cannot be undone."""
    if slot is not None and slot.whole:
        return change.before.again is None
    return _has_tensor(change.before) and was_used(change.before)


def _may_differ(change: _Change, handles: set[int]) -> bool:
    """True if a change may make a difference. New entries, as in a cache, do not; nor do the loop's own handles (given by id), which
    have no values yet.
    """
    if isinstance(change.before, Contents):
        before, now = change.before.key, getattr(change.now, "key", None)
        if change.before.shown.startswith("list") and isinstance(now, tuple) and now[: len(before)] == before:
            return not handles.issuperset(now[len(before) :])
        return not change.before.shown.endswith("entries")
    if _has_step_tensor(change.now) or is_plain(change.before) and is_plain(change.now):
        return True
    return change.before is not MISSING and change.before is not None and not _has_tensor(change.before)


def _has_step_tensor(value: Any) -> bool:
    return any(leaf.__class__ is StepTensor for leaf in values_in(value))


def _code_of(value: Any) -> Any:
    """The code object of a function or method."""
    return getattr(getattr(value, "__func__", value), "__code__", None) if type(value) in _FUNCTIONS else None


_FUNCTIONS = types.FunctionType, types.MethodType


def _variables(frame: FrameType, names: Iterable[str]) -> dict[str, Any]:
    """The values of those names that are bound."""
    own, around = frame.f_locals, frame.f_globals
    found = {name: own[name] if name in own else around[name] for name in names if name in own or name in around}
    if type(own) is dict and frame.f_code.co_flags & inspect.CO_OPTIMIZED:
        own.clear()  # a copy, which the frame would keep, and with it tensors that nobody needs
    return found


def _is_source(value: Any, axis: Dim) -> bool:
    """True if no step can have left this value: `x = loop.unstack(x)` works in `with` and fails in the second step of `for`."""
    return isinstance(value, Tensor) and axis in value.dims


def _may_be_first(value: Any, axis: Dim) -> bool:
    """True if this may be the initial value for the first step."""
    if _has_tensor(value):
        return not _is_source(value, axis)
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _has_tensor(value: Any) -> bool:
    return any(isinstance(leaf, Tensor) for leaf in values_in(value))


def _text(value: Any) -> str:
    """A value for a message; arrays are never printed."""
    if isinstance(value, Contents):
        return value.shown
    if value is MISSING:
        return "nothing"
    if isinstance(value, Tensor):
        return f"{shape_of(value)} {value.dtype}"
    tensors = [leaf for leaf in values_in(value) if isinstance(leaf, Tensor)]
    if tensors:
        return f"{type(value).__name__} of {', '.join(map(_text, tensors))}"
    return repr(value) if isinstance(value, (bool, int, float, str, type(None))) else f"a {type(value).__name__}"


def _fix(path: str, before: Any) -> str:
    name = path.partition("[")[0].rpartition(".")[2]
    number = isinstance(before, (bool, int, float))
    first = f"rf.constant({before!r}, dims=[])" if number else path if _has_tensor(before) else "..."
    return (
        f"loop.state.{name} = {first}      # before the loop\n"
        f"loop.state.{name} = ...      # in its body, from loop.state.{name} in place of {path}"
    )


def caller(depth: int) -> FrameType | None:
    """The frame `depth` levels up the stack, or None."""
    frame: FrameType | None = sys._getframe(1)
    for _ in range(depth):
        frame = None if frame is None else frame.f_back
    return frame
