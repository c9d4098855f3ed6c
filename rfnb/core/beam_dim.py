"""BeamDim: the hypotheses of a search.

Any dim of kind "beam" is over hypotheses; a BeamDim is one that a choice has made, so that a value that has it finds its search.
"""

from __future__ import annotations

from typing import Any

from rfnb.core.dim import Dim


class BeamDim(Dim):
    """The hypotheses of a search, after one of the choices of a step or between the steps.

    What pickle makes of it is a Dim like any other: the search stays behind, with all of its steps, and `decide` says so.

    Attributes:
        search: What made it.
        choice: Which of the choices of a step.
    """

    def __init__(self, size: int, *, name: str, search: Any, choice: Any):
        super().__init__(size, name=name, kind="beam")
        self.search, self.choice = search, choice

    def __reduce_ex__(self, protocol: Any) -> Any:
        make, _, state = super().__reduce_ex__(protocol)
        own = {name: value for name, value in state.items() if name not in ("search", "choice")}
        return make, (Dim,), {**own, "left_search": True}


def is_beam(dim: Dim) -> bool:
    """Whether a dim is over hypotheses, of a search or of a loop of one's own."""
    return dim.kind == "beam"
