"""Length edits: end a sequence or hypothesis before a step, or resume one that has ended, as far as that is sound."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from rfnb.core.beam_dim import is_beam
from rfnb.core.dim import Dim, Dims
from rfnb.core.errors import index_error, value_error
from rfnb.core.tensor_text import dims_text
from rfnb.core.whole_number import is_place


class CanEnd(Protocol):
    """The ends of a loop, over `dims`: `Ends`, or the steps of a `scan`."""

    dims: Dims

    @property
    def host(self) -> np.ndarray | None:
        """The ended ones, bool over `dims`; None if unknown."""

    def cannot_change(self, stacks: bool | None) -> str | None:
        """The reason why lengths cannot be changed, as text; None if they can."""

    def end_now(self, which: np.ndarray) -> None:
        """End these before this step."""

    def goes_on_from(self, which: np.ndarray) -> bool:
        """True if these ended ones can resume at this step."""

    def go_on(self, which: np.ndarray) -> None:
        """Resume these at this step."""


def change_length(
    kind: str, ends: CanEnd, batch: Sequence[Dim] | None, seq: int, hypothesis: int | None, stacks: bool | None
) -> str:
    """End a sequence or hypothesis ("end") before this step, or resume it ("go_on"); return a description.

    Args:
        batch: The dims over which sequences are numbered; None: those of the ends.
        hypothesis: None: all hypotheses of the sequence.
        stacks: Whether the loop collects a value of each step; None if not known yet.

    Raises:
        IndexError: If there is no such sequence or hypothesis.
        ValueError: If this is not sound in this loop, or is already the case.
    """
    host = ends.host
    why = ends.cannot_change(stacks)
    if why is None and host is None:
        why = "Before the first step, the ends are unknown."
    if why is not None or host is None:
        raise value_error(f"{kind}: not possible here.", {"seq": seq, "hypothesis": hypothesis}, why or "")
    which = _which(kind, ends.dims, batch, seq, hypothesis)
    name = f"sequence {seq}" if hypothesis is None else f"hypothesis {hypothesis} of sequence {seq}"
    if kind == "end":
        if not (which & ~host).any():
            raise value_error(
                f"end: {name} has ended.", {"seq": seq, "hypothesis": hypothesis}, "A sequence ends only once."
            )
        ends.end_now(which)
        return f"ended {name}"
    which &= host
    if not which.any():
        raise value_error(
            f"go_on: {name} has not ended.",
            {"seq": seq, "hypothesis": hypothesis},
            "It continues without a command.",
        )
    if not ends.goes_on_from(which):
        raise value_error(
            f"go_on: {name} has ended earlier.",
            {"seq": seq, "hypothesis": hypothesis},
            "Only one that ended in the previous step can continue: others lack the steps since. A branch can continue from its end:",
            f"run.from_step(..., lambda at: at.go_on({seq}))",
        )
    ends.go_on(which)
    return f"continued {name}"


def _which(kind: str, dims: Dims, batch: Sequence[Dim] | None, seq: int, hypothesis: int | None) -> np.ndarray:
    """The selected ones, bool over `dims`."""
    over = [dim for dim in dims if not is_beam(dim)]
    if batch is not None and set(batch) == set(over):
        over = list(batch)
    beams = [dim for dim in dims if is_beam(dim)]
    sizes = [dim.extent for dim in over]
    numbers = (
        ("seq", seq, math.prod(sizes)),
        ("hypothesis", hypothesis, math.prod(dim.extent for dim in beams)),
    )
    for what, given, count in numbers:
        if given is not None and not is_place(given, count):
            raise index_error(
                f"{kind}: no {what} {given!r}.",
                {"given": repr(given), "over": dims_text(dims)},
                f"They are 0 to {count - 1}.",
            )
    places: dict[Dim, Any] = dict(zip(over, np.unravel_index(seq, sizes) if sizes else ()))
    if hypothesis is not None and beams:
        places.update(zip(beams, np.unravel_index(hypothesis, [dim.extent for dim in beams])))
    which = np.zeros([dim.extent for dim in dims], bool)
    which[tuple(places.get(dim, slice(None)) for dim in dims)] = True
    return which
