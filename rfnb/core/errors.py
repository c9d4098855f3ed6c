"""The error types of the frontend, and the four-part message of every user error.

A message says what failed, shows all operands aligned, states the rule, and gives the next line to type.
"""

from __future__ import annotations

import difflib
import functools
import sys
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Generic, TypeVar

E = TypeVar("E", bound=Exception)
Operands = Mapping[str, object] | Iterable[tuple[str, object]]


class NoPlanError(KeyError):
    """Raised by a plan cache where an op must plan; never part of an error that a user sees."""


class DimError(ValueError):
    """The dims of the operands do not match."""

    def __init__(self, *args: object):
        super().__init__(*args)
        handled = sys.exc_info()[1]
        if isinstance(handled, NoPlanError) and handled.__context__ is None:
            self.__suppress_context__ = True  # else every message stands under a KeyError with the key of a plan


class ShapeError(ValueError):
    """A raw array does not match its dims."""


class MissingKeyError(KeyError):
    """An unknown name. Prints its lines, where a KeyError shows the repr of its argument."""

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


@functools.singledispatch
def operand_text(value: object) -> str:
    """The text of an operand in a message; where Dim and Tensor are defined, theirs is registered."""
    return str(value)


def _rows(operands: Operands) -> list[tuple[str, str]]:
    pairs = operands.items() if isinstance(operands, Mapping) else operands
    return [(label, operand_text(value)) for label, value in pairs]


def message(what: str, operands: Operands, rule: str, fix: str | None = None) -> str:
    """Compose an error message.

    Args:
        what: What failed.
        operands: What it was called with, by label: `{"x": x, "axis": axis}`. They are aligned; a Tensor is shown by its dims, a Dim by
            its name and size, other values by `str`.
        rule: What the operation requires.
        fix: The line(s) to type.
    """
    rows = _rows(operands)
    width = max((len(label) for label, _ in rows), default=0)
    lines = [what]
    lines += [f"  {label:<{width}}  {value}" for label, value in rows]
    lines.append(rule)
    if fix:
        lines += [f"    {line}" for line in fix.splitlines()]
    return "\n".join(lines)


class ErrorOf(Generic[E]):
    """A factory of errors of one type with such a message: `raise dim_error(what, operands, rule, fix)`."""

    def __init__(self, kind: type[E]):
        self.kind = kind

    def __call__(self, what: str, operands: Operands, rule: str, fix: str | None = None) -> E:
        rows = _rows(operands)
        error = self.kind(message(what, rows, rule, fix))
        error.__dict__["parts"] = what, rows, rule, fix
        return error


def parts_of(error: BaseException) -> tuple[str, list[tuple[str, str]], str, str | None] | None:
    """The parts of such an error: what failed, the operands as text, the rule, the lines to type."""
    parts: tuple[str, list[tuple[str, str]], str, str | None] | None = error.__dict__.get("parts")
    return parts


attribute_error = ErrorOf(AttributeError)
dim_error = ErrorOf(DimError)
file_not_found_error = ErrorOf(FileNotFoundError)
index_error = ErrorOf(IndexError)
missing_key_error = ErrorOf(MissingKeyError)
not_implemented_error = ErrorOf(NotImplementedError)
os_error = ErrorOf(OSError)
runtime_error = ErrorOf(RuntimeError)
shape_error = ErrorOf(ShapeError)
type_error = ErrorOf(TypeError)
value_error = ErrorOf(ValueError)


def nearest(given: object, known: Iterable[object]) -> str:
    """The known name most similar to an unknown one, or the first one."""
    names = [str(name) for name in known]
    return (difflib.get_close_matches(str(given), names, n=1) or names or [""])[0]


def not_one_of(
    what: str, argument: str, given: object, known: Iterable[str], rule: str = "It is one of these."
) -> ValueError:
    """The error for a word that is not among an argument's valid values."""
    words = list(known)
    return value_error(what, [("known", ", ".join(words))], rule, f'{argument}="{nearest(given, words)}"')


class NearNames:
    """Base class whose objects suggest an existing attribute for an unknown one.

    For classes that users handle, but not for Tensor and Dim: `__getattr__` makes Python look up all attributes of a class more slowly,
    6 ns each, which makes small ops a fifth slower.
    """

    __slots__ = ()

    if not TYPE_CHECKING:  # which would take any attribute for one that is there

        def __getattr__(self, name: str) -> Any:
            for cls in type(self).__mro__:
                if name in vars(cls):  # its own AttributeError
                    return vars(cls)[name].__get__(self, type(self))
            if name.startswith("_"):  # Python and notebooks ask for many of these
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)
            raise no_attribute(self, name)


def no_attribute(value: Any, name: str) -> AttributeError:
    """The error for an attribute that an object does not have."""
    kind = type(value).__name__
    there = [each for each in dir(value) if not each.startswith("_")]
    own = [each for each in vars(value) if not each.startswith("_")] if hasattr(value, "__dict__") else []
    near = difflib.get_close_matches(name, there, n=3)
    written = kind[0].lower() + kind[1:]
    rows = [("near", ", ".join(near))] if near else [("has", ", ".join(own or there))]
    rule = "What it has is called otherwise:" if near else "What it has is listed here:"
    error = attribute_error(
        f'{kind}: there is no attribute "{name}".', rows, rule, f"{written}.{near[0]}" if near else f"dir({written})"
    )
    error.name, error.obj = name, value
    return error
