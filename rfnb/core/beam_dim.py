"""BeamDim: the dim over the hypotheses of a search.

Any dim of kind "beam" is over hypotheses; a BeamDim was made by a choice, so that a value with this dim leads to its search.
"""

from __future__ import annotations

import contextlib
import weakref
from collections import deque
from collections.abc import Iterable
from typing import Any

from rfnb.core.dim import Dim

_SEARCHES = 4  # whose beams may be in plans


class BeamDim(Dim):
    """The hypotheses of a search, after one of a step's choices or between steps.

    Pickle turns it into an ordinary Dim: the search stays behind with all of its steps, and `decide` reports that.

    Attributes:
        search: The search that made it.
        choice: Index of the choice within a step.
    """

    def __init__(self, size: int, *, name: str, search: Any, choice: Any):
        super().__init__(size, name=name, kind="beam")
        self.search, self.choice = search, choice
        self._kept_in: list[tuple[dict[Any, Any], Any]] | None = None  # plans, by where they are kept and their keys

    def __reduce_ex__(self, protocol: Any) -> Any:
        make, _, state = super().__reduce_ex__(protocol)
        own = {name: value for name, value in state.items() if name not in ("search", "choice", "_kept_in")}
        return make, (Dim,), {**own, "left_search": True}


def is_beam(dim: Dim) -> bool:
    """True if a dim is over hypotheses, of a search or of a hand-written loop."""
    return dim.kind == "beam"


# A search hangs on its beams, and they are in the keys of plans: kept as long as others, these would keep hundreds of searches.
# Here are weak references to the latest searches, and to their beams with plans.
_latest: deque[tuple[Any, list[weakref.ref[BeamDim]]]] = deque()


def note_kept(cache: dict[Any, Any], key: Any, dims: Iterable[Dim]) -> None:
    """Register a plan kept under a key of these dims. It is dropped with those of its search once other searches follow."""
    for dim in dims:
        if dim.__class__ is BeamDim:
            if dim._kept_in is None:
                dim._kept_in = []
                _list(dim)
            dim._kept_in.append((cache, key))


def _list(dim: BeamDim) -> None:
    for search, beams in list(_latest):
        if search() is dim.search:
            beams.append(weakref.ref(dim))
            return
    _latest.append((weakref.ref(dim.search), [weakref.ref(dim)]))
    while len(_latest) > _SEARCHES:
        with contextlib.suppress(IndexError):  # another thread was first
            _forget(_latest.popleft()[1])


def _forget(beams: list[weakref.ref[BeamDim]]) -> None:
    """Drop the plans of a search; if it continues it makes new ones, and becomes the latest."""
    for ref in beams:
        dim = ref()
        if dim is not None and dim._kept_in is not None:
            kept, dim._kept_in = dim._kept_in, None
            for cache, key in kept:
                cache.pop(key, None)
