"""The `control` view as HTML: what is said of the run, without buttons that do nothing."""

from __future__ import annotations

from html import escape
from typing import Any

from rfnb.viz.control.text import lines_of


def html(spec: Any) -> str:
    """A run in a few lines."""
    first, *others = lines_of(spec.head)
    items = "".join(f"<li>{_lines(line)}</li>" for line in others)
    title = str(spec.head["title"])
    return f"<p><b>{escape(title)}</b>{_lines(first.removeprefix(title))}</p>" + (f"<ul>{items}</ul>" if items else "")


def _lines(text: str) -> str:
    return escape(text).replace("\n", "<br>")
