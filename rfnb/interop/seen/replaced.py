"""Functions that stand in the place of others while a recording is open, and what was there before them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any, NamedTuple

from rfnb.interop.seen.in_place import InPlace

Place = tuple[
    Any, str, Callable[[Any], Any]
]  # a class, file or object; a name in it; makes the new function of the old one
_nothing: Any = object()


class _Put(NamedTuple):
    owner: Any
    name: str
    original: Any
    was: Any  # _nothing: the original is inherited
    new: Any
    users: list[int]  # one entry for each recording


class Replaced:
    """The functions that recordings of one kind replace. Several at once share them, and the last one puts the originals back, unless
    somebody has put another one there meanwhile.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._put: dict[tuple[int, str], _Put] = {}  # by owner and name

    def original(self, owner: Any, name: str) -> Any:
        """Give what is there, or was before it was replaced."""
        put = self._put.get((id(owner), name))
        return getattr(owner, name) if put is None else put.original

    @contextmanager
    def during(self, places: Callable[[], Iterable[Place]]) -> Iterator[None]:
        """Replace what these places hold, for a with-block.

        Args:
            places: Asked for when nobody else replaces anything.
        """
        with self._lock:
            found = list(places())
            for place in found:
                self._replace(*place)
        try:
            yield
        finally:
            with self._lock:
                for owner, name, _ in reversed(found):
                    self._put_back(owner, name)

    def _replace(self, owner: Any, name: str, make: Callable[[Any], Any]) -> None:
        key = id(owner), name
        if key not in self._put:
            original, was = getattr(owner, name), vars(owner).get(name, _nothing)
            new = make(original)
            if isinstance(owner, type | ModuleType):
                setattr(owner, name, new)
            else:
                if not isinstance(new, InPlace):
                    new = InPlace(owner, name, None if was is _nothing else was, new)
                vars(owner)[name] = new
            self._put[key] = _Put(owner, name, original, was, new, [])
        self._put[key].users.append(1)

    def _put_back(self, owner: Any, name: str) -> None:
        put = self._put[id(owner), name]
        put.users.pop()
        if put.users:
            return
        del self._put[id(owner), name]
        if vars(owner).get(name) is not put.new:
            return
        if put.was is _nothing:
            delattr(owner, name)
        elif isinstance(owner, type | ModuleType):
            setattr(owner, name, put.was)
        else:
            vars(owner)[name] = put.was
