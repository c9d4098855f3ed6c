"""The reach of the names of a loop's body: attributes, items, closures, globals of functions, arrays, generators of random numbers.

Each place is a Slot, which knows what was there and says what has changed. Only what user code owns is looked into, and not deep:
this happens each time that a loop is recorded.
"""

from __future__ import annotations

import itertools
import operator
import pickle
import random
import sys
import types
from collections import deque
from collections.abc import Callable, Hashable, Iterator, Mapping
from functools import lru_cache
from typing import Any, cast

import numpy as np

from rfnb.backends import registry
from rfnb.core.place import in_package
from rfnb.core.tensor import Tensor
from rfnb.rec.draws import is_shared
from rfnb.rec.nested import values_in

_DEPTH = 3  # self.layers[0].h
_MOST_SLOTS = 2000
_MOST_ITEMS = 100
_MOST_BYTES = 1 << 20  # of an array that is copied to be compared
_MOST_OF_TENSORS = (
    1 << 24
)  # bytes of all tensors of torch's inference mode, in which a whole model may have been loaded
_MISSING = object()
_IN_PLACE = list, deque, set, np.ndarray, np.random.Generator, np.random.RandomState, random.Random


class Slot:
    """A place, and what was in it.

    Args:
        root: The name in the body that leads there.
        path: What to call it.
        key: Attribute or item that it is, if it is one.
        now: Gives what is there.
        whole: Any change counts; else that of a number, or of a Tensor that the body has used.
    """

    def __init__(self, root: str, path: str, key: Any, now: Callable[[], Any], *, whole: bool = False):
        self.root, self.path, self.key, self._now, self._whole = root, path, key, now, whole
        self.before = now()

    def read(self) -> Any:
        """The value that is there now."""
        return self._now()

    def change(self, was_used: Callable[[Any], bool]) -> tuple[Any, Any] | None:
        """(before, now), if the steps of a loop would differ by it."""
        before, now = self.before, self._now()
        if self._whole:
            return None if _same(before, now) else (before, now)
        if now is before or now is _MISSING:
            return None
        if any(isinstance(leaf, Tensor) for leaf in values_in(before)):
            return (before, now) if was_used(before) else None
        if not isinstance(before, (int, float)) or isinstance(before, bool):
            return None
        return None if isinstance(now, (int, float)) and now == before else (before, now)


class Contents:
    """The contents of something that changes in place, to be compared: `shown` is for messages."""

    def __init__(self, shown: str, key: Any):
        self.shown, self.key = shown, key


def reached(variables: Mapping[str, Any]) -> list[Slot]:
    """The slots that the values of these names lead to."""
    found: list[Slot] = []
    seen: set[int] = set()
    left = [_MOST_OF_TENSORS]
    for name, value in variables.items():
        for slot in _slots(name, name, None, value, _DEPTH, seen, left):
            found.append(slot)
            if len(found) == _MOST_SLOTS:
                return found
    return found


def _same(before: Any, now: Any) -> bool:
    return now is not _MISSING and before.key == now.key


def _slots(root: str, path: str, key: Any, value: Any, depth: int, seen: set[int], left: list[int]) -> Iterator[Slot]:
    if id(value) in seen or isinstance(value, (int, float, str, bytes, type, types.ModuleType, type(None))):
        return
    seen.add(id(value))
    contents = contents_of(value, left)
    if depth and not isinstance(value, Tensor):
        for part, entry, now in _entries(path, value):
            slot = Slot(root, part, entry, now)
            yield slot
            if not _is_closed(cast(Hashable, type(slot.before))):
                yield from _slots(root, part, entry, slot.before, depth - 1, seen, left)
    if contents is not None:
        yield Slot(root, path, key, contents, whole=True)


def _entries(path: str, value: Any) -> Iterator[tuple[str, Any, Callable[[], Any]]]:
    """(path, key, what is there) of the places in a value."""
    if isinstance(value, types.MethodType):
        yield f"{path}.__self__", None, lambda: value.__self__
    elif isinstance(value, types.FunctionType):
        if not in_package(value.__code__) and _is_of_user(value.__module__ or ""):
            for name, cell in zip(value.__code__.co_freevars, value.__closure__ or ()):
                yield name, None, _reader(lambda cell: cell.cell_contents, cell)
            for name in value.__code__.co_names:
                if name in value.__globals__:
                    yield name, None, _reader(operator.itemgetter(name), value.__globals__)
    elif isinstance(value, dict):
        for name in list(value)[:_MOST_ITEMS]:
            yield f"{path}[{name!r}]", name, _reader(operator.itemgetter(name), value)
    elif isinstance(value, (list, tuple, deque)):
        for index in range(min(len(value), _MOST_ITEMS)):
            yield f"{path}[{index}]", index, _reader(operator.itemgetter(index), value)
    elif _has_own_attributes(cast(Hashable, type(value))):
        for name in list(vars(value)):
            yield f"{path}.{name}", name, _reader(operator.itemgetter(name), vars(value))


def _reader(read: Callable[[Any], Any], owner: Any) -> Callable[[], Any]:
    def now() -> Any:
        try:
            return read(owner)
        except (KeyError, IndexError, ValueError):  # it is not there any more; an empty cell
            return _MISSING

    return now


def contents_of(value: Any, left: list[int]) -> Callable[[], Contents] | None:
    """A function that gives the contents of what changes in place; None: it does not. `left`: how many bytes of tensors may be copied."""
    if not _may_change_in_place(cast(Hashable, type(value))):
        return None
    if isinstance(value, (list, deque)):
        return lambda: Contents(f"{type(value).__name__} of {len(value)}", tuple(map(id, value)))
    if isinstance(value, set):
        return lambda: Contents(f"set of {len(value)}", frozenset(map(id, value)))
    if isinstance(value, np.ndarray):
        return _bytes_of(value, f"array {value.shape}")
    if isinstance(value, np.random.Generator):
        return lambda: Contents("a generator of random numbers", pickle.dumps(value.bit_generator.state))
    if is_shared(value):
        return None  # other threads draw from it too, see `rfnb/rec/draws.py`
    if isinstance(value, np.random.RandomState):
        return lambda: Contents("a generator of random numbers", pickle.dumps(value.get_state()))
    if isinstance(value, random.Random):
        return lambda: Contents("a generator of random numbers", value.getstate())
    if isinstance(value, itertools.count):
        return lambda: Contents(repr(value), repr(value))
    raw = (
        value._raw
        if type(value).__dict__.get("_raw") is None and isinstance(value, Tensor) and "_raw" in value.__dict__
        else value
    )
    if type(raw).__module__.split(".")[0] == "torch":
        if hasattr(raw, "is_inference") and raw.is_inference():  # it has no version
            read = _bytes_of(raw, "a tensor")
            left[0] -= 0 if read is None else raw.nbytes
            return read if left[0] >= 0 else None
        if hasattr(raw, "_version"):
            return lambda: Contents(f"a tensor of version {raw._version}", raw._version)
        if hasattr(raw, "get_state"):
            return lambda: Contents("a generator of random numbers", raw.get_state().tolist())
    if isinstance(value, Iterator) and operator.length_hint(value, -1) >= 0:
        return lambda: Contents(f"{operator.length_hint(value)} items left", operator.length_hint(value))
    return None


def _bytes_of(array: Any, shown: str) -> Callable[[], Contents] | None:
    """The values of an array that is not too large to be copied."""
    to_host = registry.BY_TYPE[type(array)].raw_to_numpy
    return (lambda: Contents(shown, to_host(array).tobytes())) if array.nbytes <= _MOST_BYTES else None


@lru_cache(maxsize=1024)
def _may_change_in_place(kind: type) -> bool:
    """Whether objects of a class may be among those that `contents_of` knows."""
    return issubclass(kind, (*_IN_PLACE, Tensor, Iterator)) or kind.__module__.split(".")[0] == "torch"


@lru_cache(maxsize=1024)
def _is_closed(kind: type) -> bool:
    """Whether nothing in objects of a class is looked at: layers of rfnb, dims, plain values."""
    looked_into = (dict, list, tuple, deque, types.FunctionType, types.MethodType)
    return not (
        _may_change_in_place(cast(Hashable, kind))
        or issubclass(kind, looked_into)
        or _has_own_attributes(cast(Hashable, kind))
    )


@lru_cache(maxsize=1024)
def _has_own_attributes(kind: type) -> bool:
    """Whether objects of a class may hold what user code puts there."""
    return kind is types.SimpleNamespace or (
        _is_of_user(kind.__module__) and hasattr(kind, "__dict__") and not issubclass(kind, type)
    )


@lru_cache(maxsize=1024)
def _is_of_user(module: str) -> bool:
    root = module.partition(".")[0]
    if root == "__main__":
        return True
    if root in sys.stdlib_module_names or root == "rfnb":
        return False
    file = getattr(sys.modules.get(module), "__file__", None) or ""
    return "site-packages" not in file and "dist-packages" not in file
