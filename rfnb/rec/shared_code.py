"""Makes a program of the ops that were watched in a step. If an earlier step had the same pattern its code is reused: nothing is
lowered or compiled again, and the arrays seen now are bound to its names.

The pattern consists of all calls of a step with the arrays replaced by numbers, one number per distinct array. Lowering depends on the
pattern alone, so two steps of one pattern share their code (`rfnb/rec/program.py`), whatever loops and batches they belong to. Each step
is watched itself: nothing is assumed from another one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import (
    BuiltinFunctionType,
    FunctionType,
    GetSetDescriptorType,
    MethodDescriptorType,
    MethodWrapperType,
    ModuleType,
    WrapperDescriptorType,
)
from typing import Any, NamedTuple

import numpy as np

from rfnb.backends.raw_calls import ASK, CALL, CHANGE, MADE, RawCall
from rfnb.core.plan_parts import Shape
from rfnb.rec.lowering import WORDS, Lowering
from rfnb.rec.program import Program, ProgramCode
from rfnb.rec.raw_trace import TracedOps

LIMIT = 1 << 19  # parts of all keys that are kept: some 4 MB


class _Shared(NamedTuple):
    """The part of a program that all steps of a pattern share.

    Attributes:
        code: None if some ops are outside the program.
        bound: name -> number of an array in the pattern, or a value.
        refused: The numbers of ops outside the program.
    """

    code: ProgramCode | None
    bound: Sequence[tuple[str, int | None, Any]]
    refused: list[int]


_shared: dict[Any, _Shared] = {}
_lock = threading.Lock()
_again = [False]  # for tests: lower also what is shared, and compare


def program_of(
    seen: TracedOps,
    inputs: Mapping[int, str],
    results: Sequence[Any],
    note: Callable[[int], str],
    names: Sequence[str],
    *,
    backend: Any,
    over: Sequence[str] | None = None,
    end: Sequence[RawCall] = (),
) -> Program | list[int]:
    """The program; or the numbers of the ops that cannot be part of one.

    Args:
        inputs: id of an array that the step was given -> its name.
        results: The arrays that it returns.
        names: Names of the program's inputs, in order.
        over: See `ProgramCode`.
        end: Calls after all ops.

    Raises:
        NotLowered: If there is no program, but there may be one in a later step.
    """
    pattern = Pattern(inputs, backend.RawTensorType)
    key = None
    if not seen.offers:  # else listeners of this run are in it
        key = pattern.key([*seen.calls(), (end, results)], (*inputs.values(), None, *names, None, *(over or ())))
    shared = None if key is None else _shared.get(key)
    if shared is None or _again[0]:
        made = _lowered(seen, inputs, results, names, over, end, backend)
        if isinstance(made, list):
            new = _Shared(None, [], made)
        else:
            if key is None:
                return Program(*made, note, backend)
            numbers, array = pattern.number_of, backend.RawTensorType
            bound = [
                (x, numbers(value), None) if isinstance(value, array) else (x, None, value)
                for x, value in made[1].items()
            ]
            new = _Shared(made[0], bound, [])
        if shared is not None:
            _check_same(shared, new)
        elif key is not None:
            _keep(key, new)
        shared = new
    if shared.code is None:
        return shared.refused
    arrays = pattern.arrays
    now = {name: value if number is None else arrays[number] for name, number, value in shared.bound}
    return Program(shared.code, now, note, backend)


def _lowered(
    seen: TracedOps,
    inputs: Mapping[int, str],
    results: Sequence[Any],
    names: Sequence[str],
    over: Sequence[str] | None,
    end: Sequence[RawCall],
    backend: Any,
) -> tuple[ProgramCode, dict[str, Any]] | list[int]:
    lowering = Lowering(inputs, backend.RawTensorType, fold=not seen.changes)
    refused = seen.lower(lowering)
    if refused:
        return refused
    lowering.add(end, len(seen.calls()))
    texts = [lowering.text(raw) for raw in results]
    code = ProgramCode(lowering.lines, lowering.bound, names, texts, over)
    if over is not None:
        code.make_ahead(lowering.bound, backend)
    return code, lowering.bound


def _keep(key: Any, new: _Shared) -> None:
    with _lock:
        _shared[key] = new
        while sum(map(len, _shared)) > LIMIT and len(_shared) > 1:
            del _shared[next(iter(_shared))]


def _check_same(one: _Shared, other: _Shared) -> None:
    assert one.refused == other.refused and (one.code is None) == (other.code is None)
    assert [(name, number) for name, number, _ in one.bound] == [(name, number) for name, number, _ in other.bound]
    assert [repr(value) for _, _, value in one.bound] == [repr(value) for _, _, value in other.bound]
    if one.code is not None and other.code is not None:
        assert _parts(one.code) == _parts(other.code)


def _parts(code: ProgramCode | None) -> Any:
    return code and vars(code) | {"_make": None, "ahead": _parts(code.ahead)}


class _Mark:
    """Tags the item that follows it in a pattern."""

    def __init__(self, name: str):
        self._name = name

    def __repr__(self) -> str:
        return self._name


_ARRAY, _MANY, _NAMED, _SLICE, _OUT, _WRITES = map(_Mark, ("array", "many", "named", "slice", "out", "writes"))
_PLAIN = frozenset([int, bool, str, type(None), type(Ellipsis)])


_by_themselves: set[Any] = set()  # functions of the library that are known to hold nothing


class _NoPattern(Exception):
    """A call contains something that cannot be compared."""


class Pattern:
    """Collects the pattern of a step.

    Attributes:
        arrays: The arrays seen so far, by number, inputs first.

    Args:
        inputs: ids of the arrays that the step was given.
        array: The type of arrays.
    """

    def __init__(self, inputs: Iterable[int], array: type):
        self._numbers = {key: number for number, key in enumerate(inputs)}
        self.arrays: list[Any] = [None] * len(self._numbers)
        self._array = array
        self._parts: list[Any] = [array, len(self._numbers)]

    def number_of(self, raw: Any) -> int:
        """The number of an array."""
        return self._numbers[id(raw)]

    def key(self, ops: Iterable[tuple[Iterable[RawCall], Sequence[Any]]], *further: Any) -> Any:
        """The calls of all ops and their results as one key, with `further` in it; None if they cannot be compared."""
        try:
            for calls, writes in ops:
                self._op(calls, writes)
        except _NoPattern:
            return None
        return (*further, *self._parts)

    def _op(self, calls: Iterable[RawCall], writes: Sequence[Any]) -> None:
        parts = self._parts
        for call in calls:
            kind = call.kind
            if kind in (CALL, CHANGE):
                fn, kwargs = call.fn, call.kwargs
                if fn not in _by_themselves:
                    if not _is_by_itself(fn):
                        raise _NoPattern
                    _by_themselves.add(fn)
                parts += kind, fn
                self._add_all(call.args)
                if kwargs:
                    parts.append(_NAMED)
                    self._add_all([*kwargs, *kwargs.values()])
                parts.append(_OUT)
                self._add(call.out)
            elif kind == MADE:
                parts.append(kind)
                self._add(call.out)
            elif kind != ASK:
                parts.append(kind)
        parts.append(_WRITES)  # the end of an op, also of one without calls
        self._add_all(writes)

    def _add_all(self, items: Sequence[Any]) -> None:
        parts, array, numbers = self._parts, self._array, self._numbers
        parts += _MANY, len(items)
        for x in items:
            kind = x.__class__
            if kind is array:
                number = numbers.get(id(x))
                parts += _ARRAY, self._new(x) if number is None else number
            elif kind in _PLAIN:
                parts += kind, x
            else:
                self._add(x)

    def _new(self, x: Any) -> int:
        number = self._numbers[id(x)] = len(self.arrays)
        self.arrays.append(x)
        return number

    def _add(self, x: Any) -> None:
        kind, parts = x.__class__, self._parts
        if kind is self._array or isinstance(x, self._array):
            number = self._numbers.get(id(x))
            parts += _ARRAY, self._new(x) if number is None else number
        elif kind in _PLAIN:
            parts += kind, x
        elif isinstance(x, (tuple, list)):
            parts.append(tuple if kind is Shape else kind)  # a plan knows one by its dims, for another it is made anew
            self._add_all(x)
        elif kind is slice:
            parts.append(_SLICE)
            self._add_all((x.start, x.stop, x.step))
        elif isinstance(x, (int, float, complex, np.generic)) or kind.__name__ in WORDS:
            parts += kind, repr(x)  # 0.0 and -0.0 are equal, and NaN is not
        else:
            raise _NoPattern


def _is_by_itself(fn: Any) -> bool:
    """True for a function known to hold no references: a pattern is cached, and must keep no array of a batch alive."""
    if isinstance(fn, FunctionType):
        return fn.__closure__ is None
    if isinstance(fn, (BuiltinFunctionType, MethodWrapperType)):
        return isinstance(fn.__self__, (type(None), ModuleType, type, GetSetDescriptorType))
    return isinstance(fn, (MethodDescriptorType, WrapperDescriptorType))
