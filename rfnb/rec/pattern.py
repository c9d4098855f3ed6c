"""The pattern of the calls that a step made: all of them but the arrays themselves, which are numbers here, the same number where it is
the same array.

What a step is lowered to depends on its pattern alone, so two steps of one pattern, in whatever loops and batches, share their code
(`rfnb/rec/program.py`). Each step is watched itself: nothing of another one is taken for granted.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from types import (
    BuiltinFunctionType,
    FunctionType,
    GetSetDescriptorType,
    MethodDescriptorType,
    MethodWrapperType,
    ModuleType,
    WrapperDescriptorType,
)
from typing import Any

import numpy as np

from rfnb.backends.raw_calls import ASK, CALL, CHANGE, MADE, RawCall
from rfnb.rec.lowering import WORDS


class _Mark:
    """Says what follows it in a pattern."""

    def __init__(self, name: str):
        self._name = name

    def __repr__(self) -> str:
        return self._name


_ARRAY, _MANY, _NAMED, _SLICE, _OUT, _WRITES = map(_Mark, ("array", "many", "named", "slice", "out", "writes"))
_PLAIN = frozenset([int, bool, str, type(None), type(Ellipsis)])


_by_themselves: set[Any] = set()  # functions of the library that are known to hold nothing


class _NoPattern(Exception):
    """There is something in a call that cannot be compared with others."""


class Pattern:
    """Collects the pattern of a step.

    Attributes:
        arrays: Those that it has met, by number. First the inputs.

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
        """The number of an array that it has met."""
        return self._numbers[id(raw)]

    def key(self, ops: Iterable[tuple[Iterable[RawCall], Sequence[Any]]], *further: Any) -> Any:
        """The calls of all ops and the arrays that they give as one key, with `further` in it; None: they are like no others."""
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
            parts.append(kind)
            self._add_all(x)
        elif kind is slice:
            parts.append(_SLICE)
            self._add_all((x.start, x.stop, x.step))
        elif isinstance(x, (int, float, complex, np.generic)) or kind.__name__ in WORDS:
            parts += kind, repr(x)  # 0.0 and -0.0 are equal, and NaN is not
        else:
            raise _NoPattern


def _is_by_itself(fn: Any) -> bool:
    """Whether a function is known to hold nothing: a pattern is kept, and may keep no array of a batch."""
    if isinstance(fn, FunctionType):
        return fn.__closure__ is None
    if isinstance(fn, (BuiltinFunctionType, MethodWrapperType)):
        return isinstance(fn.__self__, (type(None), ModuleType, type, GetSetDescriptorType))
    return isinstance(fn, (MethodDescriptorType, WrapperDescriptorType))
