"""The signature of a function whose code or defaults change later, when it becomes a door or an intercepted op.

It is computed on demand: for a thousand functions, `import rfnb` would spend a fifth of its time on signatures.
"""

from __future__ import annotations

import inspect
from collections.abc import Collection
from importlib import import_module
from types import FunctionType
from typing import Any


class KeptSignature(inspect.Signature):
    """The signature of a function, computed when it is read.

    Args:
        fn: The original function.
        without: Parameters to hide.
        options_of: The functions, as "module:function", that get its `**options`: their keyword-only parameters are shown before it.
    """

    __slots__ = ("_fn", "_without", "_options_of")

    def __init__(self, fn: FunctionType, without: Collection[str], options_of: Collection[str]):
        self._fn, self._without, self._options_of = fn, without, options_of

    def __getattr__(self, name: str) -> Any:  # called for the slots of `Signature` while they are empty
        if name not in inspect.Signature.__slots__:
            raise AttributeError(name)
        made = inspect.signature(self._fn)
        self._return_annotation = made.return_annotation
        every = {**made.parameters, **self._options(), **made.parameters}  # its own win, and stay where they are
        shown = sorted((each for each in every.values() if each.name not in self._without), key=lambda each: each.kind)
        self._parameters = {each.name: each for each in shown}
        return getattr(self, name)

    def _options(self) -> dict[str, inspect.Parameter]:
        """The options that are given on."""
        found: dict[str, inspect.Parameter] = {}
        for place in self._options_of:
            module, _, function = place.partition(":")
            for each in inspect.signature(getattr(import_module(module), function)).parameters.values():
                if each.kind is each.KEYWORD_ONLY:
                    found.setdefault(each.name, each)
        return found

    def replace(self, **parts: Any) -> Any:
        """A signature with other parts."""
        made = inspect.Signature(list(self.parameters.values()), return_annotation=self.return_annotation)
        return made.replace(**parts)

    __replace__ = replace

    def __reduce__(self) -> Any:
        return self.replace().__reduce__()


def keep_signature(fn: Any, without: Collection[str] = (), options_of: Collection[str] = ()) -> None:
    """Fix `inspect.signature(fn)` to its current value, except for hidden parameters, and for options of functions that receive them,
    which completion and help then list. The first call for a function counts.
    """
    if "__signature__" not in fn.__dict__:
        kept = FunctionType(fn.__code__, fn.__globals__, fn.__name__, fn.__defaults__, fn.__closure__)
        kept.__kwdefaults__, kept.__annotations__ = fn.__kwdefaults__, fn.__annotations__
        if hasattr(fn, "__wrapped__"):
            kept.__dict__["__wrapped__"] = fn.__wrapped__
        fn.__signature__ = KeptSignature(kept, without, options_of)
