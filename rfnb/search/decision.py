"""Decision: what one choice of a search has decided.

The decisions of all steps (`loop.selections`) are the record of a search: states follow it, and the way back, scores, parents and
blocked n-grams are read off it. Where somebody looks, `report.py` adds what has ended, the candidates and what became of them: the
fields of the `beams` event, of which `BeamHistory`, the early stop and the results of `rf.beam_search` are made.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from rfnb.core.beam_dim import BeamDim
from rfnb.core.dim import Dim
from rfnb.core.tensor import Tensor
from rfnb.rec.selection import Selection

Written = tuple[np.ndarray, tuple[Dim, ...]]


class Decision(Selection):
    """The hypotheses that go on, through which labels, with which scores.

    Attributes:
        tokens: The labels, {batch dims, out_dim}.
        scores: Natural log, summed over steps, {batch dims, out_dim}.
        step: Index of the step.
        written: Of each source the labels so far, {dims, step}, and the dims, if a choice blocks n-grams; or a function that gives
            them. In place of a source `NODES`: the nodes of a rule about labels, see `constraints.py`; or these
            alone, in the order of the tokens.
    """

    def __init__(
        self,
        in_dim: Dim | None,
        out_dim: BeamDim,
        carried: BeamDim,
        parents: Tensor,
        tokens: Tensor,
        scores: Tensor,
        before: Selection | None,
        step: int,
    ):
        super().__init__(in_dim, out_dim, carried, parents, before=before)
        self.tokens, self.scores, self.step = tokens, scores, step
        self.written: dict[int, Written | list[int] | Callable[[], Written]] = {}
        self._carried_scores: Tensor | None = None

    def carried_scores(self) -> Tensor:
        """The scores under the beam between steps."""
        if self._carried_scores is None:
            self._carried_scores = self.scores._like(self.scores._raw, self.carried_dims(self.scores.dims))
        return self._carried_scores
