"""InPlace: a function in the place of a method of one instance; a copy of the instance, and a file, have the method."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any


class InPlace:
    """Calls a function instead of `owner.name`.

    Args:
        own: What the instance has there itself; None: it has the method of its class.
    """

    def __init__(self, owner: Any, name: str, own: Any, function: Callable[..., Any]):
        functools.update_wrapper(self, getattr(owner, name))  # who asks for its signature gets that
        self._owner, self._name, self._own, self._function = owner, name, own, function

    def __reduce__(self) -> Any:
        return (getattr, (self._owner, self._name)) if self._own is None else (_itself, (self._own,))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._function(*args, **kwargs)


def _itself(own: Any) -> Any:
    return own
