"""The `states` view as HTML without script or style: its title, its picture, and what is to be said of it."""

from __future__ import annotations

from html import escape
from typing import Any

from rfnb.viz.drawing.img import with_title
from rfnb.viz.kinds import drawing_of
from rfnb.viz.states.check import warnings
from rfnb.viz.states.text import problem


def html(spec: Any) -> str:
    """The states as HTML."""
    head = spec.head
    fault = problem(spec)
    if fault:
        return f"<p>{escape(fault)}</p>"
    title = str(head.get("title", "States"))
    if not head["tracks"] or not head["seqs"]:
        return f"<p>{escape(title)}: no states{' yet' if head.get('live') else ''}</p>"
    return with_title(title, drawing_of(spec), warnings(spec))
