"""The parts of a `branches` spec: the views of a pair."""

from __future__ import annotations

from typing import Any, NamedTuple

from rfnb.viz.group.spec import parts_of
from rfnb.viz.spec import Spec


class Views(NamedTuple):
    """The views of one thing that both runs have.

    Attributes:
        both: Both searches in one, or A - B.
        a, b: Each side; None: `both` has them.
    """

    both: Spec
    a: Spec | None
    b: Spec | None

    @property
    def title(self) -> str:
        """The title of the side, or of both."""
        return str((self.a or self.both).head.get("title") or self.both.kind)


def views_of(spec: Any, pair: Any) -> list[Views]:
    """The views of a pair, in order."""
    parts = parts_of(spec)
    sides = {(part.head.get("side"), part.head.get("key")): part for part in parts if "side" in part.head}
    a, b = pair
    return [
        Views(part, sides.get((a, part.head.get("key"))), sides.get((b, part.head.get("key"))))
        for part in parts
        if part.head.get("pair") == list(pair)
    ]


def chosen(head: Any) -> dict[str, Any] | None:
    """The pair that is looked at first; None: there is none."""
    found = [pair for pair in head["pairs"] if pair["of"] == head.get("pair")]
    return found[0] if found else None
