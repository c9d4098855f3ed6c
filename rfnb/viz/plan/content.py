"""The `plan` view: validation of its spec, and its page: the picture, and the ops as a table."""

from __future__ import annotations

from html import escape
from typing import Any

from rfnb.viz.drawing import labels
from rfnb.viz.drawing.img import img
from rfnb.viz.drawing.labels import sentence
from rfnb.viz.drawing.shapes import Drawing
from rfnb.viz.kinds import drawing_of
from rfnb.viz.markup import fold, sentences, table
from rfnb.viz.parts.graph import of_graph
from rfnb.viz.plan.layout import MOST_OPS, before_of, layout, names_of, number
from rfnb.viz.terminal import aligned


def problem(spec: Any) -> str:
    """The problem with the spec, as a sentence; "" if there is none."""
    head = spec.head
    try:
        ids = set(head["values"]) | {op["id"] for place in head["places"] for op in place["ops"]}
        reads = [id_ for place in head["places"] for op in place["ops"] for id_ in op["reads"]]
        reads += [id_ for result in head["results"] for id_ in result["reads"]]
        reads += [edge["value"] for edge in head.get("back") or []]
        lost = [id_ for id_ in reads if id_ not in ids]
    except (KeyError, TypeError, AttributeError) as error:
        return f"This plan cannot be shown: {error!r} is invalid."
    return f"This plan cannot be shown: nothing makes {lost[0]}." if lost else ""


def page(spec: Any) -> list[str]:
    """The plan as HTML."""
    head, rows = spec.head, rows_of(spec.head)
    top = f"<p><b>{escape(head['title'])}</b> over {escape(head['axis'])}</p>"
    tables = []
    for place in head["places"]:
        tables += sentences([f"{place['name']}: {place['meaning']}{'' if place['ops'] else ' (nothing)'}"])
        tables += [table(rows[place["name"]])] if place["ops"] else []
    if not 0 < sum(map(len, rows.values())) <= MOST_OPS:
        return [top, *tables]
    # The picture shows the ops already; the table adds the lines of code.
    return [top, img(drawing_of(spec)), fold("The ops as a table, with their lines of code", tables)]


def text(spec: Any) -> str:
    """The ops by place: number, name, dims, inputs, line of code."""
    head = spec.head
    lines = [f"{head['title']} over {head['axis']}"]
    rows = rows_of(head)
    flat = [row for part in rows.values() for row in part]
    written = iter(aligned(flat, 40))
    for place in head["places"]:
        lines.append(f"{place['name']}: {place['meaning']}" + ("" if place["ops"] else "  (nothing)"))
        lines += [f"  {next(written)}" for _ in place["ops"]]
    lines += [f"{head['values'][edge['value']]} = {before_of(head, edge)}" for edge in head.get("back") or []]
    for result in head["results"]:
        lines.append(f"{result['label']} = {', '.join(names_of(head, result['reads'])) or 'constant'}")
    return "\n".join(lines)


def rows_of(head: dict[str, Any]) -> dict[str, list[list[str]]]:
    """place -> for each op its number, name, dims, inputs, line of code."""
    return {
        place["name"]: [
            [
                number(op["id"]),
                op["name"],
                op["dims"],
                f"from {', '.join(names_of(head, op['reads']))}" if op["reads"] else "",
                op["code"],
            ]
            for op in place["ops"]
        ]
        for place in head["places"]
    }


def drawing(spec: Any, width: float) -> Drawing:
    """The plan as a drawing with the width that it needs; it cannot be reduced."""
    head = spec.head
    ops = sum(len(place["ops"]) for place in head["places"])
    if ops > MOST_OPS:
        return sentence(f"{head['title']}: {ops} ops are too many for a picture; view.text() lists them.", width)
    made = of_graph(layout(head))
    counts = ", ".join(f"{len(place['ops'])} {place['name']}" for place in head["places"])
    back = "".join(f" {head['values'][edge['value']]} is {before_of(head, edge)}." for edge in head.get("back") or [])
    made.alt = (
        f"Plan of {labels.short(head['title'], 200)}: ops {counts} the loop.{back} The table below has all of them."
    )
    return made
