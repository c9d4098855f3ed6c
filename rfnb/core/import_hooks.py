"""Runs a function when a module is loaded, without loading it."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

_waiting: dict[str, list[Callable[[ModuleType], None]]] = {}
_after: list[Callable[[], None]] = []
_PACKAGE = f"{__name__.partition('.')[0]}."


class _Loading(threading.local):
    """`depth`: the number of modules of this package that this thread is currently loading."""

    depth = 0


_loading = _Loading()


def when_loaded(name: str, do: Callable[[ModuleType], None]) -> None:
    """Call a function with a module of this package as soon as it is loaded, before its importer continues.

    Args:
        name: Its full name.
        do: It may not import this module.
    """
    module = sys.modules.get(name)
    if module is not None:
        do(module)
    else:
        _waiting.setdefault(name, []).append(do)


def after_loading(do: Callable[[], None]) -> None:
    """Call a function whenever a module of this package and its imports have been loaded."""
    _after.append(do)


class _Watching:
    """A module finder, first in line, that delegates the search for this package's modules."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: Any = None) -> ModuleSpec | None:
        """None for all other modules."""
        if not name.startswith(_PACKAGE):
            return None
        spec = PathFinder.find_spec(name, path, target)
        loader: Any = None if spec is None else spec.loader
        if loader is not None:
            plain = loader.exec_module

            def exec_module(module: ModuleType) -> None:
                _loading.depth += 1
                try:
                    plain(module)
                    for do in _waiting.pop(name, ()):
                        do(module)
                finally:
                    _loading.depth -= 1
                    for done in () if _loading.depth else _after:
                        done()

            loader.exec_module = exec_module
        return spec


sys.meta_path.insert(0, _Watching)
