"""The `plan` view as HTML that needs nothing: one picture with a description, and the ops as a table.

The picture is an SVG in an image, on a light paper of its own, so that it can be read in any theme. What an op is shows by its place
and shape: boxes are ops, round ones values that the loop gets, bold ones what it gives.
"""

from __future__ import annotations

import base64
from html import escape
from typing import Any

from rfnb.viz.plan.layout import PAD, Box, Layout, layout
from rfnb.viz.plan.text import problem, rows_of

_INK, _FAINT, _PAPER, _BAND, _LINE = "#1f2328", "#57606a", "#ffffff", "#f3f5f8", "#6b7684"
_FILL = {"op": "#ffffff", "value": "#e6effa", "result": "#fdf0d5"}
_SANS, _MONO = "system-ui, sans-serif", "ui-monospace, Menlo, Consolas, monospace"
_HEIGHT = {"op": 40, "value": 28, "result": 28}
_MOST = 150  # ops: more are a table only


def html(spec: Any) -> str:
    """The plan as HTML without script or style."""
    head = spec.head
    fault = problem(head)
    if fault:
        return f"<p>{escape(fault)}</p>"
    parts = [f"<p><b>{escape(head['title'])}</b> over {escape(head['axis'])}</p>"]
    ops = sum(len(place["ops"]) for place in head["places"])
    if 0 < ops <= _MOST:
        picture = svg(head)
        data = base64.b64encode(picture.encode()).decode()
        width = round(layout(head).width)
        alt = escape(description(head), quote=True)
        parts.append(f'<img alt="{alt}" width="{width}" src="data:image/svg+xml;base64,{data}">')
    rows = rows_of(head)
    for place in head["places"]:
        parts.append(
            f"<p>{escape(place['name'])}: {escape(place['meaning'])}{'' if place['ops'] else ' (nothing)'}</p>"
        )
        if place["ops"]:
            lines = ("".join(f"<td>{escape(cell)}</td>" for cell in row) for row in rows[place["name"]])
            parts.append("<table>" + "".join(f"<tr>{line}</tr>" for line in lines) + "</table>")
    return "\n".join(parts)


def description(head: dict[str, Any]) -> str:
    """The picture in words."""
    counts = ", ".join(f"{len(place['ops'])} {place['name']}" for place in head["places"])
    return f"Plan of {head['title']}: ops {counts} the loop. The table below has all of them."


def svg(head: dict[str, Any]) -> str:
    """The picture of a plan (checked by `problem` before)."""
    drawn = layout(head)
    width, height = round(drawn.width), round(drawn.height)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}">',
        f'<rect width="{width}" height="{height}" fill="{_PAPER}"/>',
    ]
    for _, top, bottom in drawn.bands:
        parts.append(f'<rect x="0" y="{top:.0f}" width="{width}" height="{bottom - top:.0f}" rx="6" fill="{_BAND}"/>')
    parts += [_line(line, drawn) for line in drawn.lines]
    # With a rim, since a line may pass behind it.
    parts.append(f'<g stroke="{_BAND}" stroke-width="5" paint-order="stroke">')
    parts += [_text(PAD, top + 17, label, size=12, color=_FAINT, anchor="start") for label, top, _ in drawn.bands]
    parts.append("</g>")
    parts += [_drawn(box, drawn) for box in drawn.boxes if box.shape != "point"]
    return "".join([*parts, "</svg>"])


def _line(line: list[Box], drawn: Layout) -> str:
    y = [drawn.y[box.layer] for box in line]
    y[0] += _HEIGHT[line[0].shape] / 2
    y[-1] -= _HEIGHT[line[-1].shape] / 2 + 5  # room for the arrow
    path = [f"M{line[0].x:.1f} {y[0]:.1f}"]
    for index in range(1, len(line)):
        a, b, x_a, x_b = y[index - 1], y[index], line[index - 1].x, line[index].x
        middle = (a + b) / 2
        path.append(f"C{x_a:.1f} {middle:.1f} {x_b:.1f} {middle:.1f} {x_b:.1f} {b:.1f}")
    tip = f"M{line[-1].x - 4:.1f} {y[-1] - 2:.1f}l4 7l4 -7z"
    return (
        f'<path d="{"".join(path)}" fill="none" stroke="{_LINE}" stroke-width="1.3"/><path d="{tip}" fill="{_LINE}"/>'
    )


def _drawn(box: Box, drawn: Layout) -> str:
    height, y = _HEIGHT[box.shape], drawn.y[box.layer]
    radius = 4 if box.shape == "op" else height / 2
    stroke = 2 if box.shape == "result" else 1
    out = (
        f'<rect x="{box.x - box.width / 2:.1f}" y="{y - height / 2:.1f}" width="{box.width:.1f}" height="{height}" rx="{radius:g}"'
        f' fill="{_FILL[box.shape]}" stroke="{_INK}" stroke-width="{stroke}"/>'
    )
    if len(box.lines) == 1:
        return out + _text(box.x, y + 4, box.lines[0], size=12, bold=box.shape != "value")
    return (
        out
        + _text(box.x, y - 3, box.lines[0], size=12, bold=True)
        + _text(box.x, y + 12, box.lines[1], size=10, color=_FAINT, mono=True)
    )


def _text(
    x: float,
    y: float,
    value: str,
    *,
    size: int,
    color: str = _INK,
    anchor: str = "middle",
    bold: bool = False,
    mono: bool = False,
) -> str:
    weight = ' font-weight="600"' if bold else ""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" font-family="{_MONO if mono else _SANS}" fill="{color}"'
        f' text-anchor="{anchor}"{weight}>{escape(value)}</text>'
    )
