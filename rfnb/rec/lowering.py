"""From the calls of an array library that a step made to the lines of a program that makes them again.

An array is a name there: what the step was given, or what a call of the step gave. Any other array was there before the step (a weight,
an encoder, the mask of a plan) and is a constant. What cannot be told apart from that is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from rfnb.backends.raw_calls import ASK, CALL, CHANGE, MADE, RawCall


class NotLowered(Exception):
    """The refusal of what cannot be repeated by calls of the array library alone.

    Args:
        later: Whether it may be possible in a later step, when what is made once is there.
    """

    def __init__(self, reason: str, *, later: bool = False):
        super().__init__(reason)
        self.later = later


class Ref(NamedTuple):
    """An array of the step, by its name."""

    name: str


class Constant(NamedTuple):
    """Anything that was there before the step."""

    value: Any


class Line(NamedTuple):
    """One call.

    Attributes:
        targets: Names of what it gives; one that is no sequence has one target.
        single: Whether it gives one array, and not a sequence of them.
        uses: Names in the arguments.
        effect: Whether it is called even if nobody needs what it gives.
        place: Number of the op that it belongs to.
    """

    targets: tuple[str, ...]
    single: bool
    fn: Any
    args: Any
    kwargs: dict[str, Any]
    uses: frozenset[str]
    effect: bool
    place: int


class Lowering:
    """Collects the lines of a step.

    Args:
        inputs: id of an array that the step was given -> its name.
    """

    def __init__(self, inputs: dict[int, str], array: type):
        self.lines: list[Line] = []
        self._inputs, self._names, self._array = inputs, dict(inputs), array
        self.arrays: dict[str, Any] = {}  # what calls gave, by name
        self._made: set[int] = set()  # ids of what was made of values of the host
        self._number = 0
        self._uses: set[str] = set()
        self._kept: list[Any] = []  # so that their ids stay theirs

    def add(self, calls: Iterable[RawCall], place: int) -> None:
        """The calls of the op number `place`.

        Raises:
            NotLowered: If one of them cannot be made again.
        """
        calls = list(calls)
        self._kept.append(calls)
        for call in calls:
            kind = call.kind
            if kind == ASK:
                continue
            if kind == MADE:
                self._names.pop(id(call.out), None)
                if id(call.out) in self._inputs:
                    self._names[id(call.out)] = self._inputs[id(call.out)]
                else:
                    self._made.add(id(call.out))
                continue
            if kind not in (CALL, CHANGE):
                raise NotLowered(kind)
            self._call(call, kind == CHANGE, place)

    def _call(self, call: RawCall, changes: bool, place: int) -> None:
        self._uses = set()
        args, kwargs = tuple(map(self.value, call.args)), {key: self.value(item) for key, item in call.kwargs.items()}
        uses = frozenset(self._uses)
        single = not isinstance(call.out, (tuple, list))
        outs = [call.out] if single else list(call.out)
        targets = tuple("_" if out is None else self._new(out) for out in outs)
        self.lines.append(Line(targets, single, call.fn, args, kwargs, uses, changes, place))

    def effect(self, fn: Any, args: Sequence[Any], place: int) -> None:
        """A call of a function that is none of the library, for its effect."""
        uses = frozenset(arg.name for arg in args if isinstance(arg, Ref))
        self.lines.append(Line((), True, fn, tuple(args), {}, uses, True, place))

    def _new(self, raw: Any) -> str:
        self._number += 1
        name = self._names[id(raw)] = f"r{self._number}"
        self.arrays[name] = raw
        self._made.discard(id(raw))
        return name

    def value(self, x: Any) -> Any:
        """An argument: with names in the place of arrays.

        Raises:
            NotLowered: For an array that was made of values of the host, and for what is no plain value.
        """
        if isinstance(x, self._array):
            if id(x) in self._made:
                raise NotLowered("uses what was made of values of the host", later=True)
            name = self._names.get(id(x))
            if name is None:
                self._kept.append(x)
                return Constant(x)
            self._uses.add(name)
            return Ref(name)
        if isinstance(x, slice):
            return slice(self.value(x.start), self.value(x.stop), self.value(x.step))
        if isinstance(x, dict):
            return {key: self.value(item) for key, item in x.items()}
        if isinstance(x, (tuple, list)) and type(x) in (tuple, list):
            return type(x)(self.value(item) for item in x)
        if x is None or x is Ellipsis or isinstance(x, (bool, int, float, complex, str, np.generic)) or _is_plain(x):
            return Constant(x)
        raise NotLowered(f"passes a {type(x).__name__}")


def _is_plain(x: Any) -> bool:
    """Whether it is a word of the library: a dtype, a device, a shape."""
    return type(x).__module__ == "torch" and type(x).__name__ in ("dtype", "device", "layout", "memory_format", "Size")


def needed(lines: Sequence[Line], results: Iterable[str]) -> list[Line]:
    """The lines without which the results would not be there, in order."""
    wanted, out = set(results), []
    for line in reversed(lines):
        if line.effect or not wanted.isdisjoint(line.targets):
            wanted |= line.uses
            out.append(line)
    return out[::-1]


def constant_names(lines: Sequence[Line]) -> set[str]:
    """The names that lines give which depend on nothing that the step was given, and that nothing writes into: the same in all steps."""
    written: set[str] = set()
    for line in reversed(lines):
        if (line.effect and line.targets) or (written & set(line.targets) and _name(line.fn) not in _NEW_MEMORY):
            if _has_constant(line.args[:1] if line.effect else (line.args, line.kwargs)):
                return set()  # it writes into what was there before the step
            written |= line.uses | set(line.targets)
    found: set[str] = set()
    for line in lines:
        if not line.effect and line.uses <= found and not written & set(line.targets):
            found |= set(line.targets)
    return found - {"_"}


# What is never a view of an argument.
_NEW_MEMORY = set(
    "bmm matmul addmm mm linear softmax log_softmax add sub mul div truediv cat stack full zeros ones empty arange full_like zeros_like"
    " empty_like where exp log tanh sigmoid relu sum mean amax clone embedding index_select gather".split()
)


def _name(fn: Any) -> str:
    return getattr(fn, "__name__", "").strip("_")


def _has_constant(value: Any) -> bool:
    if isinstance(value, Constant):
        return hasattr(value.value, "shape")
    if isinstance(value, dict):
        return any(map(_has_constant, value.values()))
    return isinstance(value, (tuple, list)) and not isinstance(value, Ref) and any(map(_has_constant, value))
