"""Whole numbers that users give: places, steps, counts."""

from __future__ import annotations

import operator
from typing import Any

from rfnb.core.tensor import Tensor


def whole(number: Any) -> int | None:
    """A whole number as int; None if it is none, as True and 1.0 are not."""
    if isinstance(number, (bool, Tensor)):
        return None
    try:
        return operator.index(number)
    except TypeError:
        return None


def is_place(number: Any, count: int) -> bool:
    """Whether it is one of so many, counted from 0."""
    index = whole(number)
    return index is not None and 0 <= index < count
