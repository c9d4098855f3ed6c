"""The `control` view as a page: what is said of the run, without buttons that do nothing."""

from __future__ import annotations

from typing import Any

from rfnb.viz.control.text import lines_of
from rfnb.viz.markup import Bold, inline, items


def page(spec: Any) -> list[str]:
    """A run in a few lines."""
    (first, *others), title = lines_of(spec.head), str(spec.head["title"])
    top = f"<p>{inline(Bold(title))}{inline(first.removeprefix(title))}</p>"
    return [top, items(others)] if others else [top]
