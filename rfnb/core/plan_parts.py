"""Rebuilds plans for other dims: a plan is taken apart once, and built again with the dims of each new batch.

A plan is a tuple of numbers, dims, shapes and functions; functions have the same in their closures. So ops need not say how to rebuild a
plan: dims are replaced wherever they occur, a `Shape` becomes that of the new dims, a `Memo` starts empty, and a function with any of
these in its closure is created again with the same code. Anything else that depends on lengths is computed when the function runs. A plan
that contains anything else (an array, a dict) cannot be taken apart, and is made again for each batch.
"""

from __future__ import annotations

import dis
import functools
import math
import types
import weakref
from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from itertools import zip_longest
from operator import attrgetter
from typing import Any

import numpy as np

from rfnb.core.dim import Dim, Dims
from rfnb.core.dim_math import parts_of, rebuilt
from rfnb.core.memo import Memo
from rfnb.core.size_queries import watching
from rfnb.core.structure import IN_FORM, PLACES, Index, skeleton

Build = Callable[[Dims], Any]
_PLAIN = (
    type(None), bool, int, float, complex, str, bytes, type, np.dtype, np.generic, np.ufunc, Enum, range,
    attrgetter, types.BuiltinFunctionType, types.MethodDescriptorType, types.WrapperDescriptorType, type(Ellipsis),
)  # fmt: skip


class CannotRebuild(Exception):
    """A plan contains something whose counterpart for other dims is unknown."""


class PlanPart:
    """A function of a plan as an object, which is rebuilt in a fraction of the time of a closure.

    Attributes:
        args: The constructor arguments of its class; any other attribute belongs to one batch.
    """

    __slots__ = ()
    args: tuple[Any, ...]


class Shape(tuple[int, ...]):
    """The shape of a raw array in terms of its dims: for each of `groups`, a dim or dims flattened to one axis, the length.

    In a plan for other dims it has their sizes. While a plan is made, reading single numbers of it counts as reading extents.
    """

    groups: tuple[Dim | Dims, ...]

    def __new__(cls, *groups: Dim | Dims) -> Shape:
        shape = tuple.__new__(cls, [_length(group) for group in groups])
        shape.groups = groups
        return shape

    def _look(self) -> None:
        for group in self.groups:
            for dim in group if isinstance(group, tuple) else (group,):
                _ = dim.extent

    def __iter__(self) -> Iterator[int]:
        if watching:
            self._look()
        return tuple.__iter__(self)

    def __getitem__(self, place: Any) -> Any:
        if watching:
            self._look()
        return tuple.__getitem__(self, place)

    def __contains__(self, number: Any) -> bool:
        return number in list(self)

    def __add__(self, other: Any) -> Any:
        return (*self, *other)

    def __radd__(self, other: Any) -> Any:
        return (*other, *self)

    def __eq__(self, other: Any) -> bool:
        return (*self,) == other

    def __ne__(self, other: Any) -> bool:
        return (*self,) != other

    __hash__ = tuple.__hash__


def _length(group: Dim | Dims) -> int:
    if group.__class__ is tuple:
        return math.prod([dim._known_extent() for dim in group])
    return group._known_extent()  # type: ignore[union-attr]


class Template:
    """The part of a plan that is shared with plans for other dims of the same key structure.

    Attributes:
        build: Maps the dims of a key, in the order of its structure, to their plan.
        key_of: Maps these dims to their key; None until needed.
    """

    __slots__ = ("build", "key_of", "questions")

    def __init__(self, plan: Any, index: Index, asked: dict[tuple[Callable[..., Any], Dims], Any]):
        """Raise CannotRebuild if that is impossible."""
        build = builder(plan, index)
        self.build: Build = build or (lambda dims: plan)
        known = [(question, builder(about, index), answer) for (question, about), answer in asked.items()
                 if question not in IN_FORM or about[0] not in index]  # fmt: skip
        self.questions = [(question, about, answer) for question, about, answer in known if about is not None]
        self.key_of: Build | None = None

    def serves(self, dims: Dims) -> bool:
        """True if planning would decide the same for these dims."""
        for question, about, answer in self.questions:
            if question(*about(dims)) != answer:
                return False
        return True


def builder(value: Any, index: Index) -> Build | None:
    """A function that maps dims in place of those of `index`, in order, to the counterpart of `value`; None if it is the same for all.

    Raises:
        CannotRebuild: If it depends on dims in an unknown way.
    """
    names: dict[str, Any] = {
        "Cell": types.CellType,
        "Function": types.FunctionType,
        "Memo": Memo,
        "Partial": functools.partial,
    }
    text = _Writer(index, names).write(value)
    if text is None:
        return None
    build: Build = eval(_compiled(f"lambda dims: {text}"), names)
    return build


@functools.lru_cache(maxsize=1024)
def _compiled(text: str) -> types.CodeType:
    return compile(text, "<plan>", "eval")


class _Writer:
    """Writes a plan as an expression of `dims[0]`, `dims[1]`, ...

    Args:
        names: Collects the constants of the expression.
    """

    def __init__(self, index: Index, names: dict[str, Any]):
        self.index, self.names = index, names

    def write(self, value: Any) -> str | None:
        """The expression; None for a value that is the same for all dims."""
        kind = type(value)
        if isinstance(value, _PLAIN) or kind.__name__ == "dtype":
            return None
        if kind is Shape:
            return self._items([self._length(group) for group in value.groups], ())
        if isinstance(value, tuple):
            text = self._items([self.write(each) for each in value], value)
            return text if text is None or kind is tuple else f"{self.constant(kind._make)}({text})"
        if isinstance(value, Dim):
            return self._dim(value)
        if kind is types.FunctionType:
            return self._function(value)
        if kind is Memo:
            return "Memo()"
        if isinstance(value, PlanPart):
            text = self.write(value.args)
            return None if text is None else f"{self.constant(kind)}{text}"
        if kind is types.MethodType and isinstance(value.__self__, type):
            return None
        if kind is list and value:
            text = self._items([self.write(each) for each in value], value)
            return None if text is None else f"list({text})"
        if kind is functools.partial and not value.keywords:
            text = self.write((value.func, *value.args))
            return None if text is None else f"Partial(*{text})"
        raise CannotRebuild(kind.__name__)

    def constant(self, value: Any) -> str:
        """A name for a value that is the same for all dims."""
        name = f"c{len(self.names)}"
        self.names[name] = value
        return name

    def _items(self, texts: Sequence[str | None], values: Sequence[Any]) -> str | None:
        if texts.count(None) == len(texts):
            return None
        items = [self.constant(value) if text is None else text for text, value in zip_longest(texts, values)]
        return f"({', '.join(items)},)"

    def _dim(self, dim: Dim) -> str:
        place = self.index.get(dim)
        return f"dims[{place}]" if place is not None else f"{self.constant(_derived(dim, self.index))}(dims)"

    def _length(self, group: Dim | Dims) -> str:
        group = group if isinstance(group, tuple) else (group,)
        return " * ".join(f"{self._dim(dim)}.{'_extent' if dim in self.index else 'extent'}" for dim in group) or "1"

    def _function(self, fn: types.FunctionType) -> str | None:
        cells, code = fn.__closure__ or (), fn.__code__
        if fn.__kwdefaults__ or _writes_cells(code) or self.write(fn.__defaults__) is not None:
            raise CannotRebuild("a function with a state of its own")
        try:
            texts = [self.write(cell.cell_contents) for cell in cells]
        except (ValueError, RecursionError):
            raise CannotRebuild("a function that closes over itself") from None
        closure = self._items([text and f"Cell({text})" for text in texts], cells)
        if not cells or closure is None:
            return None
        made_of = (code, fn.__globals__, fn.__name__, fn.__defaults__)
        return f"Function({', '.join(map(self.constant, made_of))}, {closure})"


def _derived(dim: Dim, index: Index) -> Build:
    """The way in which planning derived a dim from others."""
    parts = tuple(dict.fromkeys(parts_of(dim)))
    of_parts = builder(parts, index) if parts and dim.same_as is None else None
    if of_parts is None:
        raise CannotRebuild("a dim of its own")
    priority, made_of = dim.match_priority, of_parts
    if dim.expr is None:
        return lambda dims: made_of(dims)[0].copy(match_priority=priority)
    expr, number_of = skeleton(dim.expr, parts), {place: number for number, place in enumerate(PLACES[: len(parts)])}
    last: list[Any] = [((), lambda: None)]  # most are made of dims of a model, which no batch changes

    def build(dims: Dims) -> Dim:
        put = made_of(dims)
        refs, (known, found) = tuple(map(weakref.ref, put)), last[0]
        made: Dim | None = found()
        if made is None or refs != known:
            made = rebuilt(expr, lambda place: put[number_of[place]])
            last[0] = refs, weakref.ref(made)
        return made

    return build


_WRITES = {dis.opmap["STORE_DEREF"], dis.opmap["DELETE_DEREF"]}


@functools.cache
def _writes_cells(code: types.CodeType) -> bool:
    """True if a function, or one inside it, assigns to a variable of an enclosing function."""
    if code.co_freevars and not _WRITES.isdisjoint(code.co_code[::2]):
        written = {step.argval for step in dis.get_instructions(code) if step.opcode in _WRITES}
        if not written.isdisjoint(code.co_freevars):
            return True
    return any([_writes_cells(const) for const in code.co_consts if const.__class__ is types.CodeType])
