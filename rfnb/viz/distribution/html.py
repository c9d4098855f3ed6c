"""The `distribution` view as HTML without script or style: its title, its picture, and what is to be said of it."""

from __future__ import annotations

from html import escape
from typing import Any

from rfnb.viz.distribution.words import problem, warnings
from rfnb.viz.drawing.img import with_title
from rfnb.viz.kinds import drawing_of


def html(spec: Any) -> str:
    """The outputs as HTML."""
    head = spec.head
    fault = problem(spec)
    if fault:
        return f"<p>{escape(fault)}</p>"
    title = str(head.get("title") or "Output")
    if not head["seqs"]:
        return f"<p>{escape(title)}: no steps{' yet' if head.get('live') else ''}</p>"
    return with_title(title, drawing_of(spec), warnings(spec))
