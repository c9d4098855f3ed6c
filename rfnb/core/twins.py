"""The axis that is meant by a dim that a square weight has twice.

    rows = rf.dim_match_priority_when_needed(dim, dim)     # the twin, `dim.copy(match_priority=1)`
    weight = rf.Parameter([rows, dim])
    rf.matmul(x, weight, reduce=dim)                       # sums over rows: {..., dim}

Dims match by identity, but a model is written for any two dims, and `dim` says nothing of the two sides where they are one. As
documented, what is looked up by the dim itself is the twin of the highest priority, the input side of a weight.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter

from rfnb.core.dim import Dim

_priority = attrgetter("match_priority")


def looked_up(dims: Sequence[Dim], dim: Dim, others: Sequence[Dim] = ()) -> Dim:
    """The one of `dims` that is meant by `dim`: that dim, or its twin of the highest priority above its own.

    A twin means itself, and so does a dim whose twins are all among `others`, which are named beside it. What is no Dim is left to
    the op to refuse.
    """
    if not isinstance(dim, Dim) or dim.twin_of is not None or dim not in dims:
        return dim
    twins = [twin for twin in dims if twin.twin_of is dim and twin not in others]
    return max((dim, *twins), key=_priority) if twins else dim


def looked_up_in_both(
    dims_a: tuple[Dim, ...], dims_b: tuple[Dim, ...], reduce: Sequence[Dim]
) -> tuple[tuple[Dim, ...], tuple[Dim, ...], tuple[Dim, ...]]:
    """The dims of two operands and those of them that are contracted, under one name in both: that of the twin, where one has it."""
    out = []
    for dim in reduce:
        in_a, in_b = looked_up(dims_a, dim, reduce), looked_up(dims_b, dim, reduce)
        name = max(in_a, in_b, key=_priority)
        if in_a is not name:
            dims_a = tuple([name if other is in_a else other for other in dims_a])
        if in_b is not name:
            dims_b = tuple([name if other is in_b else other for other in dims_b])
        out.append(name)
    return dims_a, dims_b, tuple(out)
