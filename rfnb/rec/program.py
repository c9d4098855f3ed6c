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

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any

from rfnb.core.pickling import NotPicklable
from rfnb.rec.compiled import compiled_step, maker
from rfnb.rec.lowering import Line, Lowering, needed


class Program(NotPicklable):
    """Lines as a function.

    Attributes:
        listing: The program to read.

    Args:
        lowering: The lines.
        inputs: Names that the function takes, in order.
        results: What it gives, as text.
        note: Of the number of an op: what to write above its lines.
        over: Names that each step has another value of. With these, the function makes many steps, `run(steps, keep, *inputs)`:
            their values come from `steps`; the first results are the inputs of the next step, the others go to the functions in
            `keep`.
        backend: The backend of the arrays, which may compile it (`rfnb/rec/compiled.py`).
    """

    def __init__(
        self,
        lowering: Lowering,
        inputs: Sequence[str],
        results: Sequence[str],
        note: Callable[[int], str],
        *,
        over: Sequence[str] | None = None,
        backend: Any = None,
    ):
        lines, used = needed(lowering.lines, results)
        if over is None:
            indent = "    "
            head, tail = [f"def step({', '.join(inputs)}):"], [_tuple(results, "    return ")]
        else:
            indent, count = "        ", len(inputs)
            keep = [f"keep{number}" for number in range(len(results) - count)]
            head = [f"def step({', '.join(['steps', 'keep', *inputs])}):"]
            head += [_tuple(keep, "    ", " = keep"), _tuple(over, "    for ", " in steps:")]
            tail = [f"{indent}{name}({value})" for name, value in zip(keep, results[count:], strict=True)]
            tail += [_tuple(inputs, indent, f" = {_tuple(results[:count])}"), _tuple(inputs, "    return ")]
        code = [(line.place, indent + _text(line, used)) for line in lines]
        self.listing = Listing(head, code, tail, note, lowering.bound)
        self.run: Callable[..., tuple[Any, ...]]
        compiled = compiled_step(
            backend,
            lowering.bound,
            lines,
            [text.strip() for _, text in code],
            [*(over or ()), *inputs],
            _tuple(results),
        )
        if compiled is not None:
            self.run = (lambda *args: compiled()(*args)) if over is None else partial(_many, compiled, len(inputs))
            return
        body = "\n".join([*head, *(text for _, text in code), *tail]).replace("\n", "\n    ")
        source = f"def make({', '.join(lowering.bound)}):\n    {body}\n    return step"
        self.run = _maker(source)(*lowering.bound.values())


def _text(line: Line, used: set[str]) -> str:
    targets = [name if name in used else "_" for name in line.targets]
    if targets.count("_") == len(targets):
        return line.text
    return f"{', '.join(targets)}{'' if line.single or len(targets) > 1 else ','} = {line.text}"


def _tuple(items: Sequence[str], before: str = "", after: str = "") -> str:
    return f"{before}({', '.join(items)}{',' if len(items) == 1 else ''}){after}"


class Listing:
    """A program to read: its lines below the ops that they are of, and what its constants are. It keeps no array alive."""

    def __init__(
        self,
        head: Sequence[str],
        code: Sequence[tuple[int, str]],
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
        out, last = list(self._head), None
        for place, line in self._code:
            if place != last:
                out.append(f"{line[: len(line) - len(line.lstrip())]}# {self._note(place)}")
            out.append(line)
            last = place
        return "\n".join([*out, *self._tail, *(f"{name} = {_described(value)}" for name, value in self._bound)])


def _described(value: Any) -> str:
    if not isinstance(value, tuple):
        return repr(value)
    dtype, shape = value
    return f"{str(dtype).removeprefix('torch.')} {list(shape)}"


def _many(
    step: Callable[[], Callable[..., tuple[Any, ...]]], count: int, steps: Any, keep: Sequence[Any], *carried: Any
) -> tuple[Any, ...]:
    """Many steps by a function for one; `count` values are carried."""
    run = step()
    for row in steps:
        results = run(*row, *carried)
        carried = results[:count]
        for to, value in zip(keep, results[count:], strict=True):
            to(value)
    return carried


_maker = lru_cache(maxsize=256)(maker)
