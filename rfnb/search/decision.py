"""Decision: the result of one choice of a search.

The decisions of all steps (`loop.selections`) are the record of a search: states follow them, and backtracking, scores, parents and
blocked n-grams are derived from them. For observers, `report.py` adds the ended hypotheses and the candidates with their verdicts: the
fields of the `beams` event, from which `BeamHistory`, the early stop and the results of `rf.beam_search` are made.
"""

from __future__ import annotations

from collections.abc import Callable

from rfnb.core.beam_dim import BeamDim
from rfnb.core.dim import Dim, HostArray
from rfnb.core.tensor import Tensor
from rfnb.rec.selection import Selection


class Decision(Selection):
    """The surviving hypotheses, with their labels and scores.

    Attributes:
        tokens: The labels, {batch dims, out_dim}.
        scores: Natural-log scores, summed over steps, {batch dims, out_dim}.
        step: Index of the step.
        written: For each source the labels so far, {dims, step}, and the dims, if a choice blocks n-grams; or a function that
            returns them. Under `NODES` instead of a source: the nodes of a rule about labels, see `constraints.py`; or these alone, in
            the order of the tokens.
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
        self.written: dict[int, HostArray | list[int] | Callable[[], HostArray]] = {}
        self._carried_scores: Tensor | None = None

    def carried_scores(self) -> Tensor:
        """The scores under the beam between steps."""
        if self._carried_scores is None:
            self._carried_scores = self.scores._like(self.scores._raw, self.carried_dims(self.scores.dims))
        return self._carried_scores
