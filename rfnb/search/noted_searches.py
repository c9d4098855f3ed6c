"""The searches over alignments that a call makes, noted for who asks about them: what was searched is not in their candidates."""

from __future__ import annotations

from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any, NamedTuple

from rfnb.core.block import Setting, block
from rfnb.core.dim import Dim
from rfnb.core.tensor import Tensor


class AlignedSearch(NamedTuple):
    """A search over alignments.

    Attributes:
        output: What was searched: an object that `rf.why_not` is answered by, or the logits of a CTC model.
        classes, blank: Of logits: the labels with the blank, and its index.
        beam_size, options: With which it was searched.
    """

    output: Any
    classes: Dim | None
    blank: int
    beam_size: int
    options: dict[str, Any]

    @property
    def is_raw(self) -> bool:
        """Whether it is known by its logits alone."""
        return isinstance(self.output, Tensor)


_noted: ContextVar[list[AlignedSearch] | None] = ContextVar("rfnb_searches", default=None)


def note_search(search: AlignedSearch) -> None:
    """A search was made. What knows more of it than who has noted it before takes its place."""
    noted = _noted.get()
    if noted is not None:
        if noted and noted[-1].is_raw and not search.is_raw:
            noted.pop()
        noted.append(search)


@block
def noted_searches() -> Iterator[list[AlignedSearch]]:
    """The searches of a with-block."""
    noted: list[AlignedSearch] = []
    with Setting(_noted, lambda: _noted.set(noted)):
        yield noted
