"""Whole numbers given by users: places, steps, counts."""

from __future__ import annotations

import operator
from typing import Any

from rfnb.core.tensor import Tensor


def whole(number: Any) -> int | None:
    """A whole number as an int; None for anything else, including True and 1.0."""
    if isinstance(number, (bool, Tensor)):
        return None
    try:
        return operator.index(number)
    except TypeError:
        return None


def is_place(number: Any, count: int) -> bool:
    """True if it is an index below `count`."""
    index = whole(number)
    return index is not None and 0 <= index < count
