"""The `flow` view as a page: its picture, and the stations as a table."""

from __future__ import annotations

from typing import Any

from rfnb.viz.drawing.img import img
from rfnb.viz.drawing.theme import HUES
from rfnb.viz.flow.text import legend, rows_of
from rfnb.viz.kinds import drawing_of
from rfnb.viz.markup import code, fold, sentences, table, title

MOST_ROWS = 200


def problem(spec: Any) -> str:
    """The fault; empty if it can be drawn."""
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
        return f"{cannot} {error!r} is not as it should be."
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
