"""A program over raw arrays: straight-line Python code, made of the lines that a step was lowered to.

    def step(state_h, x):
        # linear  decoder.py:21
        r1 = addmm(c0, x, c1)
        # tanh  decoder.py:21
        r2 = tanh(r1)
        return r2

Weights, functions and numbers are bound as names, so bodies that do the same share their compiled code, whatever arrays they work on.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from rfnb.core.pickling import NotPicklable
from rfnb.rec.lowering import Constant, Line, Lowering, Ref, constant_names, needed

_SMALL = 4  # numbers up to this one are written out: axes, mostly; sizes are bound, so that batches share their code


class Program(NotPicklable):
    """Lines as a function.

    Attributes:
        listing: The program to read.

    Args:
        lowering: The lines.
        inputs: Names that the function takes, in order.
        results: What it gives: a name, or a constant, each.
        note: Of the number of an op: what to write above its lines.
        over: Names that each step has another value of. With these, the function makes many steps, `run(steps, keep, *inputs)`:
            their values come from `steps`; the first results are the inputs of the next step, the others go to the functions in
            `keep`.
    """

    def __init__(
        self,
        lowering: Lowering,
        inputs: Sequence[str],
        results: Sequence[Any],
        note: Callable[[int], str],
        *,
        over: Sequence[str] | None = None,
    ):
        folded = constant_names(lowering.lines)
        self._constants = {name: lowering.arrays[name] for name in folded}
        self._bound: dict[str, Any] = {}
        self._ids: dict[Any, str] = {}  # what is bound already
        self._names = {name: name for name in (*inputs, *(over or ()))}
        self._count = 0
        self._taken = {"step", "steps", "keep", "make", "slice", *self._names}
        wanted = {result.name for result in results if isinstance(result, Ref)}
        lines = needed([line for line in lowering.lines if line.effect or not folded & set(line.targets)], wanted)
        self._used = wanted.union(*(line.uses for line in lines))
        code: list[tuple[int | None, str]] = [(line.place, self._line(line)) for line in lines]
        given = [self._text(result) for result in results]
        if over is None:
            head, tail = [f"def step({', '.join(inputs)}):"], [_tuple(given, "return ")]
        else:
            count = len(inputs)
            keep = [f"keep{number}" for number in range(len(given) - count)]
            head = [
                f"def step({', '.join(['steps', 'keep', *inputs])}):",
                _tuple(keep, "", " = keep"),
                _tuple(over, "for ", " in steps:"),
            ]
            code = [(place, f"    {text}") for place, text in code]
            code += [(None, f"    {name}({value})") for name, value in zip(keep, given[count:], strict=True)]
            code.append((None, _tuple(inputs, "    ", f" = {_tuple(given[:count])}")))
            tail = [_tuple(inputs, "return ")]
        self.listing = Listing(head, code, tail, note, self._bound)
        lines_of_code = [
            *(f"    {line}" for line in head[1:]),
            *(f"    {text}" for _, text in code),
            *(f"    {line}" for line in tail),
        ]
        source = [
            f"def make({', '.join(self._bound)}):",
            f"    {head[0]}",
            *(f"    {line}" for line in lines_of_code),
            "    return step",
        ]
        self.run: Callable[..., tuple[Any, ...]] = _compiled("\n".join(source))(*self._bound.values())

    def _line(self, line: Line) -> str:
        args = [*map(self._text, line.args), *(f"{key}={self._text(arg)}" for key, arg in line.kwargs.items())]
        call = f"{self._function(line.fn)}({', '.join(args)})"
        targets = [self._target(name) for name in line.targets]
        if all(target == "_" for target in targets):
            return call
        return f"{', '.join(targets)}{'' if line.single or len(targets) > 1 else ','} = {call}"

    def _target(self, name: str) -> str:
        if name not in self._used:
            return "_"
        self._count += 1
        out = self._names[name] = f"r{self._count}"
        return out

    def _text(self, value: Any) -> str:
        if isinstance(value, Ref):
            if value.name in self._constants:
                return self._bind("c", self._constants[value.name], id(self._constants[value.name]))
            return self._names[value.name]
        if isinstance(value, Constant):
            return self._constant(value.value)
        if isinstance(value, dict):
            return "{" + ", ".join(f"{key!r}: {self._text(item)}" for key, item in value.items()) + "}"
        if isinstance(value, slice):
            return f"slice({self._text(value.start)}, {self._text(value.stop)}, {self._text(value.step)})"
        items = ", ".join(self._text(item) for item in value)
        return f"[{items}]" if isinstance(value, list) else f"({items}{',' if len(value) == 1 else ''})"

    def _constant(self, value: Any) -> str:
        if value is Ellipsis:
            return "..."
        if value is None or isinstance(value, (bool, str)):
            return repr(value)
        if type(value) is int and abs(value) <= _SMALL:
            return repr(value)
        if isinstance(value, (int, float, complex)):
            return self._bind("k", value, (type(value), repr(value)))
        return self._bind("c" if hasattr(value, "shape") else "t", value, id(value))

    def _function(self, fn: Any) -> str:
        name = getattr(fn, "__name__", "call")
        name = getattr(fn.__self__, "__name__", name) if name == "__get__" else name
        return self._bind(re.sub(r"\W", "", name.strip("_")) or "call", fn, id(fn))

    def _bind(self, prefix: str, value: Any, key: Any) -> str:
        name = self._ids.get(key)
        if name is None:
            number = 0
            name = prefix if callable(value) else f"{prefix}0"
            while name in self._taken:
                number += 1
                name = f"{prefix}_{number}" if callable(value) else f"{prefix}{number}"
            self._taken.add(name)
            self._ids[key] = name
            self._bound[name] = value
        return name


def _tuple(items: Sequence[str], before: str = "", after: str = "") -> str:
    return f"{before}({', '.join(items)}{',' if len(items) == 1 else ''}){after}"


class Listing:
    """A program to read: its lines below the ops that they are of, and what its constants are. It keeps no array alive."""

    def __init__(
        self,
        head: Sequence[str],
        code: Sequence[tuple[int | None, str]],
        tail: Sequence[str],
        note: Callable[[int], str],
        bound: Mapping[str, Any],
    ):
        self._head, self._code, self._tail, self._note = head, code, tail, note
        self._bound = [
            (name, (value.dtype, value.shape) if hasattr(value, "shape") else value)
            for name, value in bound.items()
            if not callable(value)
        ]

    def __str__(self) -> str:
        out, last = [self._head[0], *(f"    {line}" for line in self._head[1:])], None
        for place, line in self._code:
            if place is not None and place != last:
                out.append(f"{' ' * (len(line) - len(line.lstrip()))}    # {self._note(place)}")
            out.append(f"    {line}")
            last = place
        constants = [f"{name} = {_described(value)}" for name, value in self._bound]
        return "\n".join([*out, *(f"    {line}" for line in self._tail), *constants])


def _described(value: Any) -> str:
    if not isinstance(value, tuple):
        return repr(value)
    dtype, shape = value
    return f"{str(dtype).removeprefix('torch.')} {list(shape)}"


@lru_cache(maxsize=256)
def _compiled(source: str) -> Any:
    """The function `make` of a source."""
    scope: dict[str, Any] = {"__builtins__": {"slice": slice}}
    exec(compile(source, "<a step of a recorded loop>", "exec"), scope)
    return scope["make"]
