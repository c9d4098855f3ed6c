"""The `plan` view as HTML without script or style: its picture, and the ops as a table."""

from __future__ import annotations

from html import escape
from typing import Any

from rfnb.viz.drawing.img import img
from rfnb.viz.kinds import drawing_of
from rfnb.viz.plan.layout import MOST_OPS
from rfnb.viz.plan.text import problem, rows_of


def html(spec: Any) -> str:
    """The plan as HTML without script or style."""
    head = spec.head
    fault = problem(head)
    if fault:
        return f"<p>{escape(fault)}</p>"
    parts = [f"<p><b>{escape(head['title'])}</b> over {escape(head['axis'])}</p>"]
    ops = sum(len(place["ops"]) for place in head["places"])
    if 0 < ops <= MOST_OPS:
        parts.append(img(drawing_of(spec)))
    tables = _tables(head)
    if 0 < ops <= MOST_OPS:  # the picture has them already; the lines of code are here
        tables = ["<details><summary>The ops as a table, with their lines of code</summary>", *tables, "</details>"]
    return "\n".join([*parts, *tables])


def _tables(head: dict[str, Any]) -> list[str]:
    parts, rows = [], rows_of(head)
    for place in head["places"]:
        parts.append(
            f"<p>{escape(place['name'])}: {escape(place['meaning'])}{'' if place['ops'] else ' (nothing)'}</p>"
        )
        if place["ops"]:
            lines = ("".join(f"<td>{escape(cell)}</td>" for cell in row) for row in rows[place["name"]])
            parts.append("<table>" + "".join(f"<tr>{line}</tr>" for line in lines) + "</table>")
    return parts
