"""Beams of a search are never multiplied with each other: values before and after a choice are combined through its parents.

A beam dim refers to its search (`BeamDim.search`). An op that would get several beams calls `aligned` first; this happens only where an
op makes a new plan, and no plans are kept for such operands, so the usual call does not pay for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextvars import ContextVar
from typing import Any

from rfnb.core.beam_dim import BeamDim
from rfnb.core.block import Setting, block
from rfnb.core.dim import Dim
from rfnb.core.dim_identity import brought_together
from rfnb.core.errors import dim_error
from rfnb.core.tensor import Tensor
from rfnb.core.tensor_text import shape_of

_apart: ContextVar[int] = ContextVar("rfnb_steps_apart", default=0)  # how many `rf.debug(beams=True)` are on


@block
def steps_apart() -> Iterator[None]:
    """Give every step of a search its own beam dims, so that a value of an older step is detected. Slow: plans are made again."""
    with Setting(_apart, lambda: _apart.set(_apart.get() + 1)):
        yield


def are_steps_apart() -> bool:
    """True if every step of a search has its own beam dims."""
    return _apart.get() > 0


def only_beams(dims: Iterable[Dim]) -> bool:
    """True if all dims are beams of a search: a value without them was computed before the first choice, and is shared by all
    hypotheses.
    """
    return all(isinstance(dim, BeamDim) for dim in dims)


def with_beams(values: Sequence[Tensor], but: Sequence[Dim] = ()) -> list[Tensor] | None:
    """Each value with the beams of the others, if it differs from them in beams only; None if it differs in more, or not at all.

    Args:
        but: Dims that do not count.
    """
    every = dict.fromkeys(dim for value in values for dim in value.dims if dim not in but)
    missing = [[dim for dim in every if dim not in value.dims] for value in values]
    if not any(missing) or not all(map(only_beams, missing)):
        return None
    return [
        value.copy_compatible_to_dims((*lacking, *value.dims), unbroadcast=True) if lacking else value
        for value, lacking in zip(values, missing)
    ]


def in_order(dim_order: Sequence[Dim], values: Sequence[Any]) -> list[Dim]:
    """An order of dims that names the beam of one of the operands, adapted to the one that `aligned` gave them."""
    beams = [dim for value in values for dim in beams_of(value)]
    return [beams[0] if only_beams([dim]) and dim not in beams else dim for dim in dim_order]


def beams_of(value: Any) -> list[BeamDim]:
    """The dims of a value that are beams of a search."""
    return [dim for dim in value.dims if isinstance(dim, BeamDim)] if isinstance(value, Tensor) else []


def aligned(what: str, values: tuple[Any, ...], but: Sequence[Dim] = ()) -> tuple[Any, ...] | None:
    """The operands of an op under one beam, with dims declared equal replaced by one; None if they already are.

    Args:
        but: Dims that the op removes: code that indexes or sums over hypotheses must name them.

    Raises:
        DimError: For beams of different searches, if no operand has all of them.
    """
    declared = brought_together(what, values)
    if declared is not None:
        return declared
    found = 0
    for value in values:
        for dim in value.dims if isinstance(value, Tensor) else ():
            found += isinstance(dim, BeamDim)
    if found < 2:  # the usual call pays for no more
        return None
    each = [beams_of(value) for value in values]
    if but:
        each = [[dim for dim in dims if dim not in but] for dims in each]
    beams = list(dict.fromkeys(dim for dims in each for dim in dims))
    if len(beams) < 2:
        return None
    searches = {id(dim.search): dim.search for dim in beams}
    own = {key: [dim for dim in beams if dim.search is search] for key, search in searches.items()}
    # One that searches on with the hypotheses of another: some operand has the beams of both.
    inside = any({id(dim.search) for dim in dims} == set(searches) for dims in each)
    if inside and len(searches) == len(beams):
        return None
    if len(searches) > 1 and not inside:
        raise dim_error(
            f"{what}: the operands are from different searches.",
            _shown(values),
            "Hypothesis 0 of one search has nothing to do with hypothesis 0 of another. Take the best of each first:",
            "rf.decide(x)",
        )
    out = values
    for key, search in searches.items():
        if len(own[key]) > 1:
            out = tuple(search.align(list(out)))
    left = {dim for value in out for dim in beams_of(value) if dim not in but}
    if len(left) > len(searches):
        raise dim_error(
            f"{what}: the operands are of different steps of a search.",
            _shown(values),
            "A value of an earlier step does not follow its hypothesis by itself. Carry it in the state of the loop:",
            "loop.state.x = x",
        )
    return out


def _shown(values: tuple[Any, ...]) -> list[tuple[str, str]]:
    """The operands, for messages."""
    return [(chr(ord("a") + place), shape_of(value)) for place, value in enumerate(values) if isinstance(value, Tensor)]
