"""The `diff` view as HTML without script or style: what is said, its picture, and what else is to be said."""

from __future__ import annotations

from html import escape
from typing import Any

from rfnb.viz.diff.check import problem
from rfnb.viz.drawing.img import img
from rfnb.viz.kinds import drawing_of


def html(spec: Any) -> str:
    """A diff as HTML."""
    fault = problem(spec)
    if fault:
        return f"<p>{escape(fault)}</p>"
    head = spec.head
    drawing = drawing_of(spec)
    paragraphs = [head["said"], *head["hints"]]
    lines = [
        f"<p><b>{escape(str(head.get('title') or 'Diff'))}</b></p>",
        *(f"<p>{escape(text)}</p>" for text in paragraphs),
    ]
    if head["rows"] and head["cols"]:
        lines.append(img(drawing))
    lines += [f"<p>{escape(note)}</p>" for note in drawing.notes]
    if head["searches"]:
        lines.append(f"<pre>{escape(chr(10).join(head['searches']))}</pre>")
    lines += [f"<p>{escape(note)}</p>" for note in head["notes"]]
    if head["next"]:
        lines.append(f"<pre>{escape(chr(10).join(head['next']))}</pre>")
    return "\n".join(lines)
