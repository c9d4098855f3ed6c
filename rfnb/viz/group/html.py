"""The `group` view as HTML."""

from __future__ import annotations

from html import escape
from typing import Any

from rfnb.viz.drawing.img import smaller
from rfnb.viz.group.spec import nothing, parts_of, pictured
from rfnb.viz.kinds import html_of

_MOST = 80_000  # bytes of all pictures: a page has to have room for the values


def html(spec: Any) -> str:
    """The parts below each other."""
    title = escape(str(spec.head.get("title") or ""))
    parts = parts_of(spec)
    texts = [html_of(pictured(part)) for part in parts]
    if sum(map(len, texts)) > _MOST:
        with smaller(_MOST // 8):
            texts = [html_of(pictured(part, few=True)) for part in parts]
    if not texts:
        return f"<p>{title or 'Views'}: {nothing(spec)}</p>"
    return "\n<hr>\n".join([*([f"<p><b>{title}</b></p>"] if title else []), *texts])
