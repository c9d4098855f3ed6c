"""Beams of a search are never multiplied with each other: values before and after a choice are brought together by its parents.

A beam dim of a search carries it (`dim.search`). An op that would get several beams asks `aligned` first; that happens only where an
op makes a new plan, and plans for such operands are not made, so the usual call does not pay for it.
"""

from __future__ import annotations

from typing import Any

from rfnb.core.dim import Dim
from rfnb.core.errors import DimError, message
from rfnb.core.tensor import Tensor
from rfnb.core.tensor_text import shape_of


def beams_of(value: Any) -> list[Dim]:
    """The dims of a value that are beams of a search."""
    return [dim for dim in value.dims if "search" in dim.__dict__] if isinstance(value, Tensor) else []


def aligned(what: str, values: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """The operands of an op under one beam; None if they are so already.

    Raises:
        DimError: For beams of different searches, of which no operand has all.
    """
    each = [beams_of(value) for value in values]
    beams = list(dict.fromkeys(dim for dims in each for dim in dims))
    if len(beams) < 2:
        return None
    searches = {id(dim.__dict__["search"]) for dim in beams}
    if any(len(dims) == len(beams) for dims in each) and len(searches) == len(beams):
        return None  # a search inside of another one
    if len(searches) > 1:
        raise DimError(
            message(
                f"{what}: the operands are from different searches.",
                [(chr(ord("a") + place), shape_of(value)) for place, value in enumerate(values) if isinstance(value, Tensor)],
                "Hypothesis 0 of one search has nothing to do with hypothesis 0 of another. Take the best of each first:",
                "rf.decide(x)",
            )
        )  # fmt: skip
    out = tuple(beams[0].__dict__["search"].align(list(values)))
    left = {dim for value in out for dim in beams_of(value)}
    if len(left) > 1:
        raise DimError(
            message(
                f"{what}: the operands are of different steps of a search.",
                [(chr(ord("a") + place), shape_of(value)) for place, value in enumerate(values) if isinstance(value, Tensor)],
                "A value of an earlier step does not follow its hypothesis by itself. Carry it in the state of the loop:",
                "loop.state.x = x",
            )
        )  # fmt: skip
    return out
