"""The position of what is read bit by bit: iterators, generators of Python, files. Nothing is read to find it out."""

from __future__ import annotations

import gc
import io
import itertools
import operator
import types
import warnings
from typing import Any

from rfnb.core.tensor import Tensor

_FILES = io.StringIO, io.BytesIO, io.TextIOWrapper, io.BufferedReader, io.FileIO
_PLAIN = int, float, complex, str, bytes, bool, type(None), type
_OF_C = types.GetSetDescriptorType, types.MemberDescriptorType
_DEPTH = 8


def has_position(kind: type) -> bool:
    """Whether objects of a class have a position that `position_of` knows: not those whose `__next__` is code of the user's."""
    if issubclass(kind, _FILES):
        return True
    # Not by `Iterator`, which asks for the hash of a class.
    advance = next((vars(base)["__next__"] for base in kind.__mro__ if "__next__" in vars(base)), None)
    return advance is not None and not isinstance(advance, types.FunctionType)


def position_of(value: Any) -> tuple[str, Any] | None:
    """The name of the position, and a key that is equal for equal positions; None: it has none, as files that are written."""
    if isinstance(value, _FILES):
        return _in_file(value)
    left = operator.length_hint(value, -1) if not isinstance(value, types.GeneratorType) else -1
    kind = "a generator" if isinstance(value, types.GeneratorType) else f"a {type(value).__name__}"
    shown = repr(value) if isinstance(value, itertools.count) else f"{left} items left" if left >= 0 else kind
    return shown, _key(value, _DEPTH)


def _in_file(file: Any) -> tuple[str, Any] | None:
    try:
        if isinstance(file, (io.StringIO, io.BytesIO)):
            return f"position {file.tell()} of {type(file).__name__}", (file.tell(), hash(file.getvalue()))
        if file.writable() or not file.readable():
            return None
        below = file.buffer if isinstance(file, io.TextIOWrapper) else file
        return f"position {below.tell()} of a file", (below.tell(), _text_position(file))
    except (OSError, ValueError):  # closed; a pipe has no position
        return None


def _text_position(file: Any) -> Any:
    try:
        return file.tell()
    except OSError:  # in the midst of `for line in file`
        return None


def _key(value: Any, depth: int) -> Any:
    """Plain values as they are, iterators by what they consist of, all else by its id."""
    if isinstance(value, _PLAIN):
        return value
    if isinstance(value, Tensor) or not depth:
        return id(value)
    if isinstance(value, types.GeneratorType):
        frame = value.gi_frame
        if frame is None:
            return "ended"
        held = dict(frame.f_locals)
        inside = [_key(value.gi_yieldfrom, depth - 1), *(_key(item, depth - 1) for item in held.values())]
        return frame.f_lasti, tuple(held), tuple(inside)
    if isinstance(value, (tuple, list, range)):  # which `__reduce__` makes anew
        return repr(value) if isinstance(value, range) else tuple(_key(item, 1) for item in value)
    if not has_position(type(value)):
        return id(value)
    left = operator.length_hint(value, -1)
    return type(value), left, _plain_members(value), tuple(_key(part, depth - 1) for part in _parts(value))


def _plain_members(iterator: Any) -> list[Any]:
    """The numbers that an iterator of C says of itself, as `line_num` of a reader of lines; no code of Python's runs for that."""
    members = [each for base in type(iterator).__mro__ for each in vars(base).values() if type(each) in _OF_C]
    found = []
    for member in members:
        try:
            found.append(member.__get__(iterator))
        except Exception:  # of one that has ended
            continue
    return [each for each in found if isinstance(each, _PLAIN)]


def _parts(iterator: Any) -> list[Any]:
    """The parts of an iterator of C: how it would be made again, or what it refers to."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Python 3.14 has taken the first way from those of itertools
            made = iterator.__reduce__()
        return [part for item in made for part in (item if isinstance(item, tuple) else (item,))]
    except Exception:
        return gc.get_referents(iterator)
