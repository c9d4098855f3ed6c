"""The error types of the frontend, and the four-part message every user error has.

A message says what failed, shows every operand aligned, states the rule, and gives the next line to type.
"""

from __future__ import annotations

import difflib
import sys
from collections.abc import Iterable
from typing import Generic, TypeVar

E = TypeVar("E", bound=Exception)


class NoPlanError(KeyError):
    """The exception of a cache of plans where an op has to plan; part of no error that a user sees."""


class DimError(ValueError):
    """The dims of the operands do not fit together."""

    def __init__(self, *args: object):
        super().__init__(*args)
        handled = sys.exc_info()[1]
        if isinstance(handled, NoPlanError) and handled.__context__ is None:
            self.__suppress_context__ = True  # else every message stands under a KeyError with the key of a plan


class ShapeError(ValueError):
    """A raw array does not fit the dims it was given."""


class MissingKeyError(KeyError):
    """A name that is not there. Prints its lines, where a KeyError shows the repr of its argument."""

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


def message(what: str, operands: Iterable[tuple[str, object]], rule: str, fix: str | None = None) -> str:
    """Compose an error message: `what`, the aligned `operands`, the `rule`, and the line(s) to type."""
    rows = [(label, str(value)) for label, value in operands]
    width = max((len(label) for label, _ in rows), default=0)
    lines = [what]
    lines += [f"  {label:<{width}}  {value}" for label, value in rows]
    lines.append(rule)
    if fix:
        lines += [f"    {line}" for line in fix.splitlines()]
    return "\n".join(lines)


class ErrorOf(Generic[E]):
    """A maker of errors of one type with such a message: `raise dim_error(what, operands, rule, fix)`."""

    def __init__(self, kind: type[E]):
        self.kind = kind

    def __call__(self, what: str, operands: Iterable[tuple[str, object]], rule: str, fix: str | None = None) -> E:
        rows = [(label, str(value)) for label, value in operands]
        error = self.kind(message(what, rows, rule, fix))
        error.__dict__["parts"] = what, rows, rule, fix
        return error


def parts_of(error: BaseException) -> tuple[str, list[tuple[str, str]], str, str | None] | None:
    """The parts of an error that was made so: what failed, the operands as text, the rule, the lines to type."""
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
    """The name that is meant by one that is not known: the most similar of those that are, else the first."""
    names = [str(name) for name in known]
    return (difflib.get_close_matches(str(given), names, n=1) or names or [""])[0]


def not_one_of(
    what: str, argument: str, given: object, known: Iterable[str], rule: str = "It is one of these."
) -> ValueError:
    """The error for a word that is none of those an argument may be."""
    words = list(known)
    return value_error(what, [("known", ", ".join(words))], rule, f'{argument}="{nearest(given, words)}"')
