"""Logical ops in which either side may be a plain bool."""

from __future__ import annotations

from typing import Never

from rfnb.core.op import op
from rfnb.core.tensor import Tensor
from rfnb.ops import math


@op
def opt_logical_and(a: Tensor | bool, b: Tensor | bool, *extra: Never, **unknown: Never) -> Tensor | bool:
    """a and b; a Python bool decides without computation: True returns the other side, False returns False.

    bool, over the union of the dims.
    """
    if isinstance(a, bool):
        return b if a else False
    if isinstance(b, bool):
        return a if b else False
    return math.logical_and(a, b)


@op
def opt_logical_or(a: Tensor | bool, b: Tensor | bool, *extra: Never, **unknown: Never) -> Tensor | bool:
    """a or b; a Python bool decides without computation: False returns the other side, True returns True.

    bool, over the union of the dims.
    """
    if isinstance(a, bool):
        return True if a else b
    if isinstance(b, bool):
        return True if b else a
    return math.logical_or(a, b)
