"""HTML of a page without script and style, built from text that is escaped here."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from rfnb.viz.drawing import fonts
from rfnb.viz.drawing.img import img
from rfnb.viz.drawing.shapes import Drawing, Text

_BOXES = "Boxes stand for letters that no font here has; the interactive view shows them."


class Bold(str):
    """Bold text."""


def inline(text: str) -> str:
    """A text inside a paragraph or cell, with line breaks."""
    made = escape(text).replace("\n", "<br>")
    return f"<b>{made}</b>" if isinstance(text, Bold) else made


def sentences(texts: Iterable[str]) -> list[str]:
    """One paragraph per text."""
    return [f"<p>{inline(text)}</p>" for text in texts]


def title(text: str) -> str:
    """The title of a page or a part."""
    return f"<p>{inline(Bold(text))}</p>"


def code(text: str) -> list[str]:
    """Preformatted lines, if there are any."""
    return [f"<pre>{escape(text)}</pre>"] if text else []


def items(texts: Iterable[str]) -> str:
    """A list."""
    return "<ul>" + "".join(f"<li>{inline(text)}</li>" for text in texts) + "</ul>"


def fold(summary: str, parts: Iterable[str]) -> str:
    """Parts that are folded under a summary."""
    return "\n".join([f"<details><summary>{escape(summary)}</summary>", *parts, "</details>"])


def table(rows: Iterable[Sequence[str]], heads: Sequence[str] = (), *, named: bool = False) -> str:
    """A table.

    Args:
        named: Whether the first cell of a row is its header.
    """
    lines = [
        "".join(f"<th scope='row'>{inline(cell)}</th>" if named and not at else f"<td>{inline(cell)}</td>" for at, cell in enumerate(row))
        for row in rows
    ]  # fmt: skip
    lines = [f"<tr>{line}</tr>" for line in lines]
    if not heads:
        return f"<table>{''.join(lines)}</table>"
    top = "".join(f"<th>{inline(head)}</th>" for head in heads)
    return "\n".join([f"<table><thead><tr>{top}</tr></thead><tbody>", *lines, "</tbody></table>"])


def picture(drawing: Drawing) -> list[str]:
    """A drawing, and its notes below."""
    lacks = any(isinstance(shape, Text) and fonts.lacks(shape.text) for shape in drawing.shapes)
    return [img(drawing), *sentences(drawing.notes), *sentences([_BOXES] if lacks else [])]


def findings(warnings: Iterable[str], remarks: Iterable[str] = ()) -> list[str]:
    """The problems, then the notes."""
    return [*(f"<p><b>!</b> {escape(warning)}</p>" for warning in warnings), *sentences(remarks)]
