"""Lowers the array library calls of a step to the lines of a program that repeats them.

An array has a name there if it was an input of the step, or if a call of the step returned it. Any other array existed before the step
(a weight, an encoder, the mask of a plan) and is a constant, like everything computed from constants alone. Values that cannot be told
apart from constants are refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from rfnb.backends.raw_calls import ASK, CALL, CHANGE, MADE, RawCall
from rfnb.core.plan_parts import Shape

# Numbers up to this one are written out: axes, mostly; sizes are constants, so that batches share their code.
_SMALL = 4
WORDS = "dtype", "device", "layout", "memory_format", "Size"  # of the library
TAKEN = "step", "steps", "keep", "make", "slice", "active"


class NotLowered(Exception):
    """The calls of the array library alone cannot repeat an op.

    Args:
        later: Whether a later step may succeed, once one-time values exist.
    """

    def __init__(self, reason: str, *, later: bool = False):
        super().__init__(reason)
        self.later = later


class LoweredCall(NamedTuple):
    """One call.

    Attributes:
        targets: Names of its results.
        text: The call; `uses` are the names of the step in it.
        single: Whether it returns one array rather than a sequence.
        effect: Whether it is kept even if its results are unused.
        place: Number of the op that it belongs to.
        fn, args: The function and its arguments as written; () if one has a name.
    """

    targets: tuple[str, ...]
    text: str
    uses: frozenset[str]
    single: bool
    effect: bool
    place: int
    fn: Any = None
    args: tuple[str, ...] = ()


class Lowering:
    """Collects the lines of a step.

    Attributes:
        bound: What the names of the lines stand for that are none of the step: functions, constants.

    Args:
        inputs: id of an array that the step was given -> its name.
        array: The type of arrays.
        fold: Whether what is computed of constants is a constant. Not where arrays are written to: they may be these.
    """

    def __init__(self, inputs: Mapping[int, str], array: type, *, fold: bool):
        self.lines: list[LoweredCall] = []
        self.bound: dict[str, Any] = {}
        self._inputs, self._names, self._array, self._fold = inputs, dict(inputs), array, fold
        self._made: set[int] = set()  # ids of what was made of values of the host
        self._taken = {*TAKEN, *inputs.values()}
        self._of_key: dict[Any, str] = {}
        self._count = 0
        self._uses: set[str] = set()
        self._kept: list[Any] = []  # so that their ids stay theirs

    def add(self, calls: Iterable[RawCall], place: int) -> None:
        """Add the calls of op number `place`.

        Raises:
            NotLowered: If one of them cannot be made again.
        """
        for call in calls:
            kind = call.kind
            self._kept.append(call)
            if kind in (CALL, CHANGE):
                self._call(call, kind == CHANGE, place)
            elif kind == MADE:
                self._names.pop(id(call.out), None)
                if id(call.out) in self._inputs:
                    self._names[id(call.out)] = self._inputs[id(call.out)]
                else:
                    self._made.add(id(call.out))
            elif kind != ASK:
                raise NotLowered(kind)

    def _call(self, call: RawCall, changes: bool, place: int) -> None:
        uses = self._uses = set()
        args = [*map(self.text, call.args), *(f"{key}={self.text(item)}" for key, item in call.kwargs.items())]
        plain = () if call.kwargs else tuple(args)
        single = not isinstance(call.out, (tuple, list))
        outs = [call.out] if single else call.out
        if self._fold and not uses:
            for out in outs:  # from here on a constant
                self._names.pop(id(out), None)
                self._made.discard(id(out))
            return
        targets = tuple("_" if out is None else self._new(out) for out in outs)
        text = f"{self.function(call.fn)}({', '.join(args)})"
        self.lines.append(LoweredCall(targets, text, frozenset(uses), single, changes, place, call.fn, plain))

    def effect(self, fn: Any, args: Sequence[Any], place: int) -> None:
        """Add a call of a function outside the library, for its side effect."""
        self._uses = set()
        text = f"{self.function(fn)}({', '.join(map(self.text, args))})"
        self.lines.append(LoweredCall((), text, frozenset(self._uses), True, True, place))

    def is_of_step(self, raw: Any) -> bool:
        """True if an array is not a constant.

        Raises:
            NotLowered: If it was made of values of the host.
        """
        if id(raw) in self._made:
            raise NotLowered("uses what was made of values of the host", later=True)
        return id(raw) in self._names

    def text(self, x: Any) -> str:
        """The code of an argument.

        Raises:
            NotLowered: For an array that was made of values of the host, and for what is no plain value.
        """
        if isinstance(x, self._array):
            if self.is_of_step(x):
                name = self._names[id(x)]
                self._uses.add(name)
                return name
            return self._bind("c0", x, id(x))
        if x is None or isinstance(x, (bool, str)):
            return repr(x)
        if isinstance(x, (int, float, complex, np.generic)):
            return repr(x) if type(x) is int and abs(x) <= _SMALL else self._bind("k0", x, (type(x), repr(x)))
        if type(x) in (tuple, list, Shape):
            items = ", ".join(map(self.text, x))
            return f"[{items}]" if isinstance(x, list) else f"({items}{',' if len(x) == 1 else ''})"
        if isinstance(x, slice):
            return f"slice({self.text(x.start)}, {self.text(x.stop)}, {self.text(x.step)})"
        if x is Ellipsis:
            return "..."
        if type(x).__module__ == "torch" and type(x).__name__ in WORDS:
            return self._bind("t0", x, (type(x), repr(x)))
        raise NotLowered(f"passes a {type(x).__name__}")

    def function(self, fn: Any) -> str:
        """The name of a function."""
        found = self._of_key.get(id(fn))
        if found is not None:
            return found
        name = getattr(fn, "__name__", "call")
        name = getattr(fn.__self__, "__name__", name) if name == "__get__" else name
        return self._bind(re.sub(r"\W", "", name.strip("_")) or "call", fn, id(fn))

    def _new(self, raw: Any) -> str:
        self._count += 1
        name = self._names[id(raw)] = f"r{self._count}"
        self._made.discard(id(raw))
        return name

    def _bind(self, name: str, value: Any, key: Any) -> str:
        found = self._of_key.get(key)
        if found is not None:
            return found
        first, number = name, 0
        while name in self._taken:
            number += 1
            name = f"{first}_{number}" if callable(value) else f"{first[0]}{number}"
        self._taken.add(name)
        self._of_key[key] = name
        self.bound[name] = value
        self._kept.append(value)
        return name


def needed(lines: Sequence[LoweredCall], wanted: Iterable[str]) -> tuple[list[LoweredCall], set[str]]:
    """The lines that the wanted names depend on, in order, and all names that they read."""
    used, out = set(wanted), []
    for line in reversed(lines):
        if line.effect or not used.isdisjoint(line.targets):
            used |= line.uses
            out.append(line)
    return out[::-1], used
