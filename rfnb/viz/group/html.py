"""The `group` view as HTML."""

from __future__ import annotations

from html import escape
from typing import Any

from rfnb.viz.group.spec import nothing, parts_of
from rfnb.viz.kinds import html_of


def html(spec: Any) -> str:
    """The parts below each other."""
    title = escape(str(spec.head.get("title") or ""))
    texts = [html_of(part) for part in parts_of(spec)]
    if not texts:
        return f"<p>{title or 'Views'}: {nothing(spec)}</p>"
    return "\n<hr>\n".join([*([f"<p><b>{title}</b></p>"] if title else []), *texts])
