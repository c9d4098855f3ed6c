"""A card: a headline with the status, and a body. It is readable in light and dark themes, with and without colours."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from html import escape
from typing import Any

from rfnb.viz.visible_text import safe

MIME = "application/vnd.rfnb.lesson+json"  # read by a grader

# Colours of the edge and the first line, legible on white and on JupyterLab's dark grey.
_TONES = {"good": "#2e9e4f", "bad": "#d9483b", "open": "#a8810c", "plain": "#5b8def"}


def card(headline: str, body: str, tone: str) -> str:
    """A card as HTML, without script or style sheet.

    Args:
        headline, body: Texts. In the body, lines that begin with spaces are columns and are kept unchanged.
        tone: "good", "bad", "open" or "plain".
    """
    colour = _TONES[tone]
    return (
        f'<div class="rfnb-lesson-card" role="status" style="border-left:4px solid {colour};padding:.3em .8em;margin:.3em 0">'
        f'<div style="color:{colour};font-weight:600">{escape(safe(headline))}</div>{blocks(body)}</div>'
    )


def blocks(text: str) -> str:
    """The lines of a text as HTML: columns in a monospace font, the others as paragraphs."""
    made, columns = "", list[str]()
    for line in [*safe(text).split("\n"), ""]:
        if line.startswith("  "):
            columns.append(line)
            continue
        if columns:
            made += f'<pre style="margin:.3em 0;font-size:90%">{escape(chr(10).join(columns))}</pre>'
            columns = []
        if line:
            made += f"<div>{escape(line)}</div>"
    return made


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
