"""Arrays that nobody can look into: NumPy arrays in a box without any attribute, and a backend that computes with what is inside.

from backends.closed_backend import Box, ClosedBackend

Whatever is done with a raw array without asking its backend fails, also what `getattr(raw, "device", None)` would forgive.
"""

from __future__ import annotations

import functools
import inspect
from types import FunctionType
from typing import Any

import numpy as np

from rfnb import Backend
from rfnb.backends.numpy_backend import NumpyBackend


class Box:
    """An array, for its backend only."""

    __slots__ = ("_of_the_backend",)

    def __init__(self, array: Any):
        object.__setattr__(self, "_of_the_backend", array)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise AssertionError(f"A raw array is asked for {name}.")

    def __setattr__(self, name: str, value: Any) -> None:
        raise AssertionError(f"A raw array is given {name}.")

    def __bool__(self) -> bool:
        raise AssertionError("A raw array is asked whether it is True.")

    __len__ = __index__ = __float__ = __bool__  # type: ignore[assignment]


class ClosedBackend(NumpyBackend):
    name = "boxes"
    RawTensorType = Box


def _opened(value: Any) -> Any:
    if isinstance(value, Box):
        return value._of_the_backend
    return (
        type(value)(map(_opened, value)) if type(value) in (list, tuple) else value
    )  # lengths are NumPy arrays on the host


def _closed(value: Any) -> Any:
    if isinstance(value, (np.ndarray, np.generic)):
        return Box(value)
    if type(value) in (list, tuple):
        return type(value)(map(_closed, value))
    return _through(value) if isinstance(value, (FunctionType, np.ufunc, functools.partial)) else value


def _through(fn: Any) -> Any:
    @functools.wraps(fn)
    def call(*args: Any, **options: Any) -> Any:
        return _closed(fn(*map(_opened, args), **{name: _opened(value) for name, value in options.items()}))

    return call


_AS_THEY_ARE = {  # what comes from NumPy, or is for it
    "from_numpy": lambda array, **options: Box(NumpyBackend.from_numpy(array, **options)),
    "raw_to_numpy": lambda raw: NumpyBackend.raw_to_numpy(_opened(raw)),
}
for _name in dir(Backend):
    _member = inspect.getattr_static(NumpyBackend, _name)
    if not _name.startswith("__") and (_name.endswith(("_raw", "_fn")) or _name in _AS_THEY_ARE):
        setattr(ClosedBackend, _name, staticmethod(_AS_THEY_ARE.get(_name) or _through(getattr(NumpyBackend, _name))))
