"""The `flow` view as a drawing: the whole above, then what is in its stations, as far as there is room."""

from __future__ import annotations

from typing import Any

from rfnb.viz.drawing import fonts, labels
from rfnb.viz.drawing.sentence import sentence
from rfnb.viz.drawing.shapes import Drawing, Lines, Text
from rfnb.viz.graph.drawing import RAGGED, of_graph

_GAP, _LINE = 18.0, 18.0
_MOST_HEIGHT = 1600.0


def drawing(spec: Any, width: float) -> Drawing:
    """The flow as a drawing, wider than `width` where a picture of its stations is."""
    head = spec.head
    levels = [level for level in head["levels"] if level["graph"]["nodes"]]
    if not levels:
        return sentence(f"{head['title']}: no calls were recorded.", width)
    room = max(width, levels[0]["graph"]["width"])
    made = Drawing(room, 0.0)
    shown = {glyph for level in levels[:1] for edge in level["graph"]["edges"] for glyph in edge["glyphs"]}
    used, y = _legend(made, [item for item in head["legend"] if item["glyph"] in shown], room)
    left, row, drawn = 0.0, 0.0, 0
    for level in levels:
        part = of_graph(level["graph"])
        title = "" if level["up"] is None else f"in {level['label']}"
        wide = max(part.width, fonts.width(title, 12, bold=True))
        if drawn and (left + wide > room or drawn == 1):
            y, left, row = y + row + _GAP, 0.0, 0.0
        if drawn and (y + part.height > _MOST_HEIGHT or wide > room):
            break
        top = y
        if title:
            made.add(Text(left, y + 8, labels.fitted(title, wide, 12), 12, "muted", bold=True))
            top += _LINE
        made.put(part, left, top)
        used = max(used, left + wide)
        row, left, drawn = max(row, top + part.height - y), left + wide + 2 * _GAP, drawn + 1
    made.width, made.height = used, y + row
    stations = sum(station["shape"] == "op" for station in levels[0]["stations"])
    made.alt = f"{labels.short(head['title'], 200)}: {stations} stations, {len(head['dims'])} dims. The table below has all of them."
    if drawn < len(levels):
        made.notes.append(f"What is in {len(levels) - drawn} stations is not in the picture.")
    return made


def _legend(made: Drawing, legend: list[dict[str, Any]], room: float) -> tuple[float, float]:
    """The dims with their marks, colours and lines, as many in a row as fit; the width of it, and where the picture begins below."""
    x, y, widest = 0.0, 8.0, 0.0
    for item in legend:
        text = labels.fitted(item["text"], room - 40)
        mark = 22 + fonts.width(item["glyph"], 11, bold=True)
        wide = mark + fonts.width(text, 11)
        if x and x + wide > room:
            x, y = 0.0, y + _LINE
        hue = f"hue{item['hue']}"
        made.add(Lines(hue, 2.2, [[(x, y), (x + 14, y)]], RAGGED if item["ragged"] else None))
        made.add(Text(x + 18, y, item["glyph"], 11, hue, bold=True), Text(x + mark, y, text))
        x += wide + 14
        widest = max(widest, x - 14)
    return widest, y + _LINE
