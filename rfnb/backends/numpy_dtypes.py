"""The dtypes of results: those of torch.

bool < int < float, a Python number never widens an array, and a function with fractional values gives float32 for integers.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np


def same_dtype(*values: Any) -> list[np.ndarray]:
    """The values as arrays of the dtype in which they meet."""
    dtype = _common_dtype(*values)
    return [np.asarray(value).astype(dtype) for value in values]


def as_float(value: Any) -> np.ndarray:
    """An array of floats (or complex numbers); float32, if it has none."""
    array = np.asarray(value)
    return array if array.dtype.kind in "fc" else array.astype(np.float32)


def in_float32(fn: Callable[..., np.ndarray]) -> Callable[..., np.ndarray]:
    """fn (array, ...) with float16 computed in float32, as torch's kernels do that add many numbers up."""

    @wraps(fn)
    def wide(raw: np.ndarray, *more: Any, **options: Any) -> np.ndarray:
        if raw.dtype != np.float16:
            return fn(raw, *more, **options)
        with np.errstate(over="ignore"):
            return np.asarray(fn(raw.astype(np.float32), *more, **options)).astype(np.float16)

    return wide


def of_floats(fn: Callable[..., Any]) -> Callable[..., Any]:
    """fn (array, ...) which refuses other numbers than floats, as torch's kernels do."""

    @wraps(fn)
    def checked(raw: np.ndarray, *more: Any, **options: Any) -> Any:
        if raw.dtype.kind != "f":
            raise TypeError(f"{fn.__name__} of {raw.dtype}")
        return fn(raw, *more, **options)

    return checked


def _common_dtype(*values: Any) -> np.dtype:
    """The dtype in which arrays and Python numbers meet.

    The highest category decides; within it arrays with axes count before scalar arrays, and those before Python numbers.
    """
    top = max(map(_category, values))
    values = tuple(value for value in values if _category(value) == top)
    arrays = [value for value in values if isinstance(value, (np.ndarray, np.generic))]
    with_axes = [array for array in arrays if array.ndim]
    if arrays:
        return np.result_type(*(array.dtype for array in with_axes or arrays))
    return np.dtype((np.bool_, np.int64, np.float32, np.complex64)[top])


def _category(value: Any) -> int:
    """0 bool, 1 integer, 2 float, 3 complex."""
    return {"b": 0, "i": 1, "u": 1, "f": 2, "c": 3}[np.asarray(value).dtype.kind]
