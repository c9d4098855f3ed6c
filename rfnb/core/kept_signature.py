"""The signature of a function whose code or defaults change later, when it becomes a door or an op that others hear.

It is made when somebody asks for it: of thousand functions, `import rfnb` would spend a fifth of its time with theirs.
"""

from __future__ import annotations

import inspect
from collections.abc import Collection
from types import FunctionType
from typing import Any


class KeptSignature(inspect.Signature):
    """The signature of a function, made of it when it is looked at.

    Args:
        fn: The function as it was.
        without: Parameters that are not shown.
    """

    __slots__ = ("_fn", "_without")

    def __init__(self, fn: FunctionType, without: Collection[str]):
        self._fn, self._without = fn, without

    def __getattr__(self, name: str) -> Any:  # called for the slots of `Signature` while they are empty
        if name not in inspect.Signature.__slots__:
            raise AttributeError(name)
        made = inspect.signature(self._fn)
        self._return_annotation = made.return_annotation
        self._parameters = {key: each for key, each in made.parameters.items() if key not in self._without}
        return getattr(self, name)

    def replace(self, **parts: Any) -> Any:
        """Another signature, with other parts."""
        made = inspect.Signature(list(self.parameters.values()), return_annotation=self.return_annotation)
        return made.replace(**parts)

    __replace__ = replace

    def __reduce__(self) -> Any:
        return self.replace().__reduce__()


def keep_signature(fn: FunctionType, without: Collection[str] = ()) -> None:
    """Let `inspect.signature(fn)` stay what it is now, but for parameters that are not shown. The first call for a function counts."""
    if "__signature__" not in fn.__dict__:
        kept = FunctionType(fn.__code__, fn.__globals__, fn.__name__, fn.__defaults__, fn.__closure__)
        kept.__kwdefaults__, kept.__annotations__ = fn.__kwdefaults__, fn.__annotations__
        if hasattr(fn, "__wrapped__"):
            kept.__wrapped__ = fn.__wrapped__  # type: ignore[attr-defined]
        fn.__signature__ = KeptSignature(kept, without)  # type: ignore[attr-defined]
