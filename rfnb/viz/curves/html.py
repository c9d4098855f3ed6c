"""The `curves` view as HTML without script or style: its title and its picture."""

from __future__ import annotations

from html import escape
from typing import Any

from rfnb.viz.curves.text import problem
from rfnb.viz.drawing.img import with_title
from rfnb.viz.kinds import drawing_of


def html(spec: Any) -> str:
    """The curves as HTML."""
    fault = problem(spec)
    if fault:
        return f"<p>{escape(fault)}</p>"
    head = spec.head
    title = str(head.get("title") or "Curves")
    if not any(len(spec.blocks[entry["x"]]) for entry in head["series"]):
        return f"<p>{escape(title)}: no points{' yet' if head.get('live') else ''}</p>"
    return with_title(title, drawing_of(spec))
