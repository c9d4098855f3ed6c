"""The `group` view as a page."""

from __future__ import annotations

from typing import Any

from rfnb.viz.drawing import labels
from rfnb.viz.drawing.img import smaller
from rfnb.viz.drawing.shapes import Drawing, Lines, Text
from rfnb.viz.group.spec import nothing, parts_of, pictured
from rfnb.viz.kinds import drawing_of, html_of, text_of
from rfnb.viz.markup import title

_MOST = 80_000  # bytes of all pictures: the values of the page need room too


def missing(spec: Any) -> str:
    """The text for an empty view; "" for any other."""
    return "" if spec.head["parts"] else nothing(spec)


def page(spec: Any) -> list[str]:
    """The parts one below the other."""
    name, parts = str(spec.head.get("title") or ""), parts_of(spec)
    texts = [html_of(pictured(part)) for part in parts]
    if sum(map(len, texts)) > _MOST:
        with smaller(_MOST // 8):
            texts = [html_of(pictured(part, few=True)) for part in parts]
    return ["\n<hr>\n".join([*([title(name)] if name else []), *texts])]


def text(spec: Any) -> str:
    """The parts one below the other."""
    texts = [text_of(part) for part in parts_of(spec)]
    title = [spec.head["title"]] if spec.head.get("title") else []
    return "\n\n".join([*title, *texts])


def drawing(spec: Any, width: float) -> Drawing:
    """All parts as one drawing."""
    title = str(spec.head.get("title") or "")
    made = Drawing(0, 0)
    if title:
        text = labels.fitted(title, width, 14, bold=True)
        made.add(Text(0, 10, text, 14, bold=True))
        made.width, made.height = min(width, 10 * len(text)), 28
    for number, part in enumerate(map(pictured, parts_of(spec))):
        if number:
            made.add(Lines("line", 1.0, [[(0, made.height + 8), (width, made.height + 8)]]))
            made.height += 18
        text = labels.fitted(str(part.head.get("title") or part.kind), width, 12, bold=True)
        made.add(Text(0, made.height + 8, text, 12, bold=True))
        made.height += 22
        one = drawing_of(part, width)
        made.put(one, 0, made.height)
        made.width, made.height = max(made.width, one.width), made.height + one.height
        made.alt += one.alt + " "
        made.notes += [f"{text}: {note}" for note in one.notes]
    return made
