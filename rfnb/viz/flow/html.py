"""The `flow` view as HTML without script or style: its picture, and the stations as a table."""

from __future__ import annotations

from html import escape
from typing import Any

from rfnb.viz.drawing.img import img
from rfnb.viz.flow.check import problem
from rfnb.viz.flow.text import legend, rows_of
from rfnb.viz.kinds import drawing_of

MOST_ROWS = 200


def html(spec: Any) -> str:
    """The flow as HTML without script or style."""
    head = spec.head
    fault = problem(head)
    if fault:
        return f"<p>{escape(fault)}</p>"
    parts = [f"<p><b>{escape(str(head['title']))}</b></p>"]
    rows = rows_of(head)
    if not rows:
        return "\n".join([*parts, "<p>No calls were recorded.</p>"])
    parts.append(img(drawing_of(spec)))
    body = "".join(
        f"<tr><th scope='row'>{chr(0x2003) * ((len(row[0]) - len(row[0].lstrip())) // 2)}{escape(row[0].lstrip())}</th>"
        + "".join(f"<td>{escape(cell)}</td>" for cell in row[1:])
        + "</tr>"
        for row in rows[:MOST_ROWS]
    )
    more = f"<p>... {len(rows) - MOST_ROWS:,} more rows</p>" if len(rows) > MOST_ROWS else ""
    table = (
        "<table><thead><tr><th>station</th><th>dims</th><th>what it does</th><th>reads</th></tr></thead>"
        f"<tbody>{body}</tbody></table>"
    )
    dims = escape("\n".join(legend(head)))
    parts.append(f"<details><summary>The stations as a table</summary><pre>{dims}</pre>{table}{more}</details>")
    return "\n".join(parts)
