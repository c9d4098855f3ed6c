"""Records the searches over alignments made by a call, for `rf.why_not`: their events do not contain the search's input."""

from __future__ import annotations

from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any, NamedTuple

from rfnb.core.block import Setting, block
from rfnb.core.dim import Dim


class AlignedSearch(NamedTuple):
    """A search over alignments.

    Attributes:
        output: The input of the search: an object that answers `rf.why_not`, the logits of a CTC model, or the step of a transducer.
        classes, blank: For logits: the labels including the blank, and its index.
        beam_size, options: Beam size and options of the search.
    """

    output: Any
    classes: Dim | None
    blank: int
    beam_size: int
    options: dict[str, Any]

    @property
    def is_raw(self) -> bool:
        """True if only its logits or its step are known."""
        return not hasattr(self.output, "__rfnb_why_not__")


_noted: ContextVar[list[AlignedSearch] | None] = ContextVar("rfnb_searches", default=None)


def note_search(search: AlignedSearch) -> None:
    """Record a search. A more specific record replaces an earlier one of the same search."""
    noted = _noted.get()
    if noted is not None:
        if noted and noted[-1].is_raw and not search.is_raw:
            noted.pop()
        noted.append(search)


@block
def noted_searches() -> Iterator[list[AlignedSearch]]:
    """The searches made in a with-block."""
    noted: list[AlignedSearch] = []
    with Setting(_noted, lambda: _noted.set(noted)):
        yield noted
