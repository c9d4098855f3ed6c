"""The selections of a loop's choices, step by step; shared by the loop, its states, the search and backtracking.

A hold on the run may decide a choice from outside: labels that hypotheses must take, or may not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from rfnb.core.dim import Dim
from rfnb.core.op import op
from rfnb.core.pickling import NotPicklable
from rfnb.core.tensor import Tensor
from rfnb.core.tree import map_nested
from rfnb.rec.backtrack import Paths, backtrack
from rfnb.rec.selection import Selection
from rfnb.rec.wanted import Wanted


class Selections(NotPicklable):
    """The selections of one loop.

    Attributes:
        now: The selection after the choices of this step so far; None before the first one, and outside of steps.
        last: The selection after the most recent choice.
        steps: The selection of each finished step; None in one without choice.
        wanted: Values that the host will read.
    """

    def __init__(self) -> None:
        self.now: Selection | None = None
        self.last: Selection | None = None
        self.steps: list[Selection | None] = []
        self.wanted = Wanted()
        self._paths: Paths | None = None  # back through a finished search

    def select(self, selection: Selection) -> None:
        """Make a selection: from here on in this step, values are those of the selected hypotheses, and states follow their parents."""
        self.now = self.last = selection

    def go_back(self, last: Selection | None) -> None:
        """Restart the step; `last` is the previous selection."""
        self.now, self.last = None, last

    def note_step(self, count: int = 1) -> None:
        """End the body of a step, or of `count` steps that ran at once."""
        self.steps += [self.now] * count

    def end_step(self) -> None:
        """Close the step, once all values have followed or the loop was left."""
        if self.now is not None:
            self.now.close()
            self.now = None

    def paths(self, values: Sequence[Tensor]) -> Paths | None:
        """Paths through the steps of this loop, if these values allow the usual method; else use `back`."""
        if self._paths is None:
            self._paths = Paths(self.steps)
        return self._paths if self._paths.fit(values) else None

    def back(self, values: Sequence[Tensor]) -> tuple[list[Tensor], np.ndarray, tuple[Dim, ...]]:
        """See `backtrack`, for the steps of this loop; `last` must not be None."""
        return backtrack(values, self.steps)


@op(decides=True)
def bring(selections: Selections, value: Any) -> Any:
    """Move a nested value of this step to the hypotheses chosen so far. An op of its own, since each step chooses others."""
    now = selections.now
    return value if now is None else map_nested(now.bring, value)


class Decided(NamedTuple):
    """A label that a hypothesis must take, or must not.

    Attributes:
        kind: "force" keeps it, whatever its rank; "ban" drops it.
        label: Index or text.
        hypothesis: Place in the beam before the choice, or the labels so far, as one string or a sequence; None in a ban means any
            hypothesis.
        seq: The sequence.
        only: Drop all other hypotheses of the sequence.
        then: Labels that the hypothesis takes in the following steps, one in each.
    """

    kind: str
    label: Any
    hypothesis: Any
    seq: int
    only: bool = False
    then: tuple[Any, ...] = ()
