"""The `attention` view as HTML without script or style: its title, its picture, and what is to be said of it."""

from __future__ import annotations

from html import escape
from typing import Any

from rfnb.viz.attention.check import remarks, warnings
from rfnb.viz.attention.text import problem
from rfnb.viz.drawing.img import with_title
from rfnb.viz.kinds import drawing_of


def html(spec: Any) -> str:
    """The weights as HTML."""
    head = spec.head
    fault = problem(spec)
    if fault:
        return f"<p>{escape(fault)}</p>"
    title = str(head.get("title", "Attention"))
    if not any(entry["seqs"] for entry in head["maps"]):
        return f"<p>{escape(title)}: no weights{' yet' if head.get('live') else ''}</p>"
    return with_title(title, drawing_of(spec), warnings(spec), remarks(spec))
