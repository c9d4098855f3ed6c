"""Decisions from outside for the next choice of a search."""

from __future__ import annotations

from typing import Any, NamedTuple


class Decided(NamedTuple):
    """A label that a hypothesis takes, or does not.

    Attributes:
        kind: "force": it is kept, whatever its rank; "ban": it is not kept.
        label: Index, or text.
        hypothesis: Place in the beam before the choice, or its labels so far, as text or one by one; None, of a ban: any.
        seq: The sequence.
        only: Nothing else of the sequence goes on.
        then: Labels that the hypothesis takes in the steps after, one in each.
    """

    kind: str
    label: Any
    hypothesis: Any
    seq: int
    only: bool = False
    then: tuple[Any, ...] = ()
