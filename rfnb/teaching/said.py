"""The cards with which a lesson says something: a hint, a solution, an answer that is revealed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from rfnb.teaching.card import MIME, card


@dataclass(frozen=True)
class Said:
    """A card: text in a terminal, HTML in a notebook, data for a grader."""

    headline: str
    body: str
    data: dict[str, Any] = field(default_factory=dict)
    tone: str = "plain"

    def __repr__(self) -> str:
        return f"{self.headline}\n{self.body}".rstrip("\n")

    def _repr_mimebundle_(self, include: Iterable[str] | None = None, exclude: Iterable[str] | None = None) -> Any:
        return {"text/plain": repr(self), "text/html": card(self.headline, self.body, self.tone), MIME: self.data}
