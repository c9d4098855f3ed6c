"""The `group` view as a page."""

from __future__ import annotations

from typing import Any

from rfnb.viz.drawing.img import smaller
from rfnb.viz.group.spec import nothing, parts_of, pictured
from rfnb.viz.kinds import html_of
from rfnb.viz.markup import title

_MOST = 80_000  # bytes of all pictures: a page has to have room for the values


def missing(spec: Any) -> str:
    """The words for a view with nothing in it; "" for any other."""
    return "" if spec.head["parts"] else nothing(spec)


def page(spec: Any) -> list[str]:
    """The parts below each other."""
    name, parts = str(spec.head.get("title") or ""), parts_of(spec)
    texts = [html_of(pictured(part)) for part in parts]
    if sum(map(len, texts)) > _MOST:
        with smaller(_MOST // 8):
            texts = [html_of(pictured(part, few=True)) for part in parts]
    return ["\n<hr>\n".join([*([title(name)] if name else []), *texts])]
