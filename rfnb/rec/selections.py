"""The selections of the choices of a loop, step by step: the loop, its states, a search and the way back all look here.

Who holds a run decides a choice from outside: labels that hypotheses have to take, or may not.
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
        now: After the choices of this step so far; None before the first one, and outside of steps.
        last: After the last choice of all.
        steps: Of each step that is over; None in one without choice.
        wanted: What the host will look at.
    """

    def __init__(self) -> None:
        self.now: Selection | None = None
        self.last: Selection | None = None
        self.steps: list[Selection | None] = []
        self.wanted = Wanted()
        self._paths: Paths | None = None  # back through a finished search

    def select(self, selection: Selection) -> None:
        """From here on in this step, values are those of the selected hypotheses; states follow their parents."""
        self.now = self.last = selection

    def go_back(self, last: Selection | None) -> None:
        """The step begins again; `last` is what was chosen before it."""
        self.now, self.last = None, last

    def note_step(self, count: int = 1) -> None:
        """The body of the step is over; of `count` steps that were made at once."""
        self.steps += [self.now] * count

    def end_step(self) -> None:
        """Everything of the step has followed, or the loop was left."""
        if self.now is not None:
            self.now.close()
            self.now = None

    def paths(self, values: Sequence[Tensor]) -> Paths | None:
        """The ways back through the steps of this loop, if they are the usual ones for these values; else there is `back`."""
        if self._paths is None:
            self._paths = Paths(self.steps)
        return self._paths if self._paths.fit(values) else None

    def back(self, values: Sequence[Tensor]) -> tuple[list[Tensor], np.ndarray, tuple[Dim, ...]]:
        """See `backtrack`, for the steps of this loop; `last` is not None."""
        return backtrack(values, self.steps)


@op(decides=True)
def bring(selections: Selections, value: Any) -> Any:
    """A nested value of this step for the hypotheses that were chosen so far: an op of its own, since each step chooses others."""
    now = selections.now
    return value if now is None else map_nested(now.bring, value)


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
