"""The `flow` view as a page: its picture, and the stations as a table."""

from __future__ import annotations

from typing import Any

from rfnb.core.strict_json import JsonObject
from rfnb.viz.dims.table import lengths_text, sizes_of
from rfnb.viz.drawing import fonts, labels
from rfnb.viz.drawing.img import img
from rfnb.viz.drawing.labels import sentence
from rfnb.viz.drawing.shapes import Drawing, Lines, Text
from rfnb.viz.drawing.theme import HUES
from rfnb.viz.kinds import drawing_of
from rfnb.viz.markup import code, fold, sentences, table, title
from rfnb.viz.parts.graph import RAGGED, of_graph
from rfnb.viz.terminal import aligned, clip

MOST_ROWS = 200


_MOST_PIXELS = 100_000  # pixels per side, as in the page


def problem(spec: Any) -> str:
    """The problem with the spec; "" if it can be drawn."""
    head, cannot = spec.head, "This flow cannot be drawn:"
    try:
        ids = {entry["id"] for entry in head["dims"]}
        for number, level in enumerate(head["levels"]):
            stations = {station["id"] for station in level["stations"]}
            for station in level["stations"]:
                dims = [dim for side in ("takes", "gives", "makes", "ends") for dim in station[side]]
                lost = [dim for dim in dims if dim not in ids]
                if lost:
                    return f"{cannot} {station['label']} names dim {lost[0]}, which is not in the list of dims."
                door = station["opens"]
                if door is not None and not (isinstance(door, int) and number < door < len(head["levels"])):
                    return f"{cannot} {station['label']} opens to a level that is not there."
                gone = [other for other in station["reads"] if other not in stations]
                if gone:
                    return f"{cannot} {station['label']} reads {gone[0]}, which is not there."
            if not all(0 <= level["graph"][side] < _MOST_PIXELS for side in ("width", "height")):
                return f"{cannot} its picture has no size."
            nodes = {node["id"] for node in level["graph"]["nodes"]}
            ends = {edge[side] for edge in level["graph"]["edges"] for side in ("from", "to")}
            if ends - nodes:
                return f"{cannot} a line goes to {min(ends - nodes)}, which is not there."
        edges = [edge for level in head["levels"] for edge in level["graph"]["edges"]]
        hues = [item["hue"] for item in head["legend"]] + [hue for edge in edges for hue in edge.get("hues") or ()]
        strange = [hue for hue in hues if type(hue) is not int or not 0 <= hue < len(HUES)]
        if strange:
            return f"{cannot} there is no colour {strange[0]!r}."
    except (KeyError, TypeError, AttributeError) as error:
        return f"{cannot} {error!r} is invalid."
    return ""


def page(spec: Any) -> list[str]:
    """The flow as HTML."""
    head, rows = spec.head, rows_of(spec.head)
    if not rows:
        return [title(str(head["title"])), *sentences(["No calls were recorded."])]
    more = sentences([f"... {len(rows) - MOST_ROWS:,} more rows"] if len(rows) > MOST_ROWS else [])
    shown = [
        [chr(0x2003) * ((len(name) - len(name.lstrip())) // 2) + name.lstrip(), *cells]
        for name, *cells in rows[:MOST_ROWS]
    ]
    made = table(shown, ["station", "dims", "what it does", "reads"], named=True)
    tables = fold("The stations as a table", [*code("\n".join(legend(head))), made, *more])
    return [title(str(head["title"])), img(drawing_of(spec)), tables]


MOST_LINES = 120
MOST_DIMS = 60
_MOST_MARKS = 8
_LABEL, _NAME, _MOST_INDENT, _MOST_COLUMN = 24, 32, 5, 30


def text(spec: Any) -> str:
    """The flow as text for a terminal."""
    head = spec.head
    lines = [str(head["title"]), *legend(head)]
    rows = rows_of(head)
    if not rows:
        lines.append("No calls were recorded.")
    else:
        shown = rows[:MOST_LINES]
        lines += ["", *aligned([[row[0], row[1], ", ".join(filter(None, row[2:]))] for row in shown], _MOST_COLUMN)]
        lines += [f"... {len(rows) - MOST_LINES:,} more lines"] if len(rows) > MOST_LINES else []
    return "\n".join(line.rstrip() for line in lines)


def legend(head: JsonObject) -> list[str]:
    """A line for each dim: its mark, name, size and lengths."""
    sizes, rows = sizes_of(head["dims"]), []
    for entry in head["dims"]:
        lengths = entry.get("lengths")
        about = ", ".join(
            filter(
                None, [entry.get("kind"), entry.get("origin"), f"lengths {lengths_text(lengths)}" if lengths else ""]
            )
        )
        rows.append([f"  {entry['mark']}", clip(sizes[entry["id"]], _NAME).rstrip(), about])
    more = [["", f"... {len(rows) - MOST_DIMS:,} more dims", ""]] if len(rows) > MOST_DIMS else []
    return aligned(rows[:MOST_DIMS] + more)


def rows_of(head: JsonObject, level: int = 0, indent: int = 0) -> list[list[str]]:
    """A row for each station: its label, the marks of its input and output dims, the change between them, and its sources."""
    marks = {entry["id"]: entry["mark"] for entry in head["dims"]}
    rows: list[list[str]] = []
    if not head["levels"]:
        return rows
    stations = head["levels"][level]["stations"]
    labels = {station["id"]: str(station["label"]) for station in stations}
    before = ""
    for station in stations:
        label = clip(str(station["label"]), _LABEL).rstrip() + (
            f" × {station['count']}" if station["count"] > 1 else ""
        )
        label = "  " * min(indent, _MOST_INDENT) + label
        takes, gives = (_marks([marks[dim] for dim in station[side]]) for side in ("takes", "gives"))
        if station["shape"] != "op":
            way = gives
        elif station["raised"]:
            way = f"{takes} → !"
        else:
            way = f"{takes} → {gives}" if station["makes"] or station["ends"] else gives
        names = list(dict.fromkeys(clip(labels[id_], 16).rstrip() for id_ in station["reads"]))
        reads = "" if names == [before] or not names else f"from {', '.join(names)}"
        said = f"raised {station['raised']}" if station["raised"] else station["change"]
        rows.append([label, way, said, reads])
        before = clip(str(station["label"]), 16).rstrip()
        if station["opens"] is not None:
            rows += rows_of(head, station["opens"], indent + 1)
    return rows


def _marks(marks: list[str]) -> str:
    more = [f"+{len(marks) - _MOST_MARKS:,}"] if len(marks) > _MOST_MARKS else []
    return f"[{' '.join(marks[:_MOST_MARKS] + more)}]"


_GAP, _LINE = 18.0, 18.0
_MOST_HEIGHT = 1600.0


def drawing(spec: Any, width: float) -> Drawing:
    """The flow as a drawing, wider than `width` if a picture of its stations is."""
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


def _legend(made: Drawing, legend: list[JsonObject], room: float) -> tuple[float, float]:
    """Draw the dims with their marks, colours and lines, as many per row as fit; returns the width, and the top of the picture."""
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
