"""The part of a view that axes show, where there are several."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rfnb.core.errors import value_error


def check(fault: str | None, entries: Sequence[Any] | None, where: str, what: str) -> None:
    """Refuse a spec that cannot be drawn, or has nothing in it."""
    if fault or not entries:
        raise value_error(
            f"plot.{where}: there is nothing to draw.",
            [("given", fault or f"no {what}")],
            "A plot shows one array.",
            f"rf.viz.{where}(...)",
        )


def choice(where: str, option: str, names: list[str], chosen: int | str | None) -> int:
    """The number of what was chosen."""
    if chosen is None and len(names) == 1:
        return 0
    if isinstance(chosen, str) and chosen in names:
        return names.index(chosen)
    if isinstance(chosen, int) and not isinstance(chosen, bool) and -len(names) <= chosen < len(names):
        return chosen % len(names)
    few = ", ".join(names[:6]) + (f", ... ({len(names)} in all)" if len(names) > 6 else "")
    said = f"there are {len(names)} of them" if chosen is None else f"there is no {chosen!r}"
    raise value_error(
        f"plot.{where}: which {option}? {said[0].upper()}{said[1:]}.",
        [(f"{option}s", few or "none"), ("chosen", "none" if chosen is None else repr(chosen))],
        f"Axes show one {option}: its number or its label.",
        f"rf.plot.{where}(..., {option}={names[0]!r}, ax=ax)" if names else None,
    )
