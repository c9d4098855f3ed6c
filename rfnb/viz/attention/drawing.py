"""The `attention` view as a drawing: one map with its labels, several side by side, or many as thumbnails, layers down and heads across."""

from __future__ import annotations

from typing import Any

import numpy as np

from rfnb.viz.attention.alt import description
from rfnb.viz.attention.long import glance, is_long, note
from rfnb.viz.attention.panels import (
    HEAD,
    MapPanel,
    draw_header,
    draw_panel,
    first_seq_note,
    label_of,
    panels_of,
    scale_of,
    slider_note,
)
from rfnb.viz.attention.rail_drawing import draw_rail, rail_height, rail_notes
from rfnb.viz.attention.thumbnails import thumbnails
from rfnb.viz.drawing import fonts, labels
from rfnb.viz.drawing.matrix import MatrixBox, Scale, number
from rfnb.viz.drawing.shapes import Drawing, Text
from rfnb.viz.drawing.theme import on_cell
from rfnb.viz.rounding import share

_CELL, _TALL, _LEAST = 34.0, 560.0, 14.0  # largest cell, highest map, lowest row of a long map
_MOST_SEQS, _LABELLED = 12, 6
_NUMBER, _NUMBERS = 9.0, 200  # size of the values in cells, and the most of them


def drawing(spec: Any, width: float) -> Drawing:
    """The weights as a drawing of this width."""
    if is_long(spec):
        made = drawing(glance(spec), width)
        made.notes.append(note(spec))
        made.alt = f"{made.alt} {note(spec)}."
        return made
    panels = panels_of(spec)
    many = len(spec.head["maps"]) > 1
    made = (thumbnails if many and len(panels) > _LABELLED else _labelled)(spec, panels, width)
    made.alt = description(spec, panels)
    made.notes += slider_note(spec, panels) + rail_notes(spec.head)
    return made


def _labelled(spec: Any, panels: list[MapPanel], width: float) -> Drawing:
    shown = panels[:_MOST_SEQS]
    scale = scale_of(spec, shown)
    across = _across(shown, width)
    room = (width - (across - 1) * 16) / across
    tall = _TALL if len(shown) == 1 else max(120.0, min(_TALL, room * 0.9))
    numbers = sum(panel.values.size for panel in shown) <= _NUMBERS
    made = Drawing(width, HEAD)
    top, right = HEAD, 0.0
    for start in range(0, len(shown), across):
        row = [
            _with_labels(spec, panel, scale, room, tall, title=len(panels) > 1, numbers=numbers)
            for panel in shown[start : start + across]
        ]
        for column, one in enumerate(row):
            made.put(one, column * (room + 16), top)
            right = max(right, column * (room + 16) + one.width)
        top += max(one.height for one in row) + 10
    made.height = top
    made.width = min(width, max(right, draw_header(made, spec, shown, scale)))
    made.shows(len(shown), len(panels), "panels")
    made.notes += first_seq_note(spec.head, shown)
    return made


def _across(panels: list[MapPanel], width: float) -> int:
    """The number of panels that stand side by side."""
    if len(panels) == 1:
        return 1
    most = max(1, int(width // 160))
    widest = max(panel.shape[1] for panel in panels)
    fit = max(1, int(width // (min(widest * 20.0, 260) + 70)))
    return min(len(panels), most, max(fit, 2 if width > 400 else 1))


def _with_labels(
    spec: Any, panel: MapPanel, scale: Scale, width: float, tall: float, *, title: bool, numbers: bool
) -> Drawing:
    (rows, cols), (row_len, col_len) = panel.shape, panel.real()
    top = 16.0 if title else 0.0
    if not rows or not cols:
        return _empty(spec, panel, width, title=title)
    row_labels, col_labels = panel.seq["rows"][:row_len], panel.seq["cols"][:col_len]
    left = labels.rows(row_labels, min(_CELL, tall / rows)).room + 7
    cell, high = _cells(cols, rows, max(20.0, width - left - 6), tall)
    across = labels.columns(col_labels, cell)
    if across.beside:
        cell, high = _cells(cols, rows, max(20.0, width - left - across.beside), tall)
        across = labels.columns(col_labels, cell)
    down = labels.rows(row_labels, high)
    left = down.room + 7
    above = rail_height(spec.head)
    y = top + across.room + 3 + above
    made = Drawing(left + cols * cell + max(across.beside, 4), y + rows * high + 4)
    if title:
        made.add(labels.within(left, 7, label_of(spec, panel), width - left, bold=True))
    place = MatrixBox(left, y, cell, high)
    draw_panel(made, spec, panel, place, scale)
    draw_rail(made, spec, panel, MatrixBox(left, y - above, cell, high))
    if cell >= 29 and high >= 17 and numbers:
        _numbers(made, panel, place, scale)
    labels.draw_rows(made, down, left - 6, y, high)
    labels.draw_columns(made, across, left, y - above - 2, cell)
    return made


def _cells(cols: int, rows: int, width: float, tall: float) -> tuple[float, float]:
    """Width and height of a cell: square, but for very long maps of few rows or columns."""
    cell, high = min(_CELL, width / cols), min(_CELL, tall / rows)
    small, large = min(cell, high), max(cell, high)
    if large > 4 * small:
        large = min(large, max(4 * small, _LEAST))
        return (small, large) if cell <= high else (large, small)
    return small, small


def _empty(spec: Any, panel: MapPanel, width: float, *, title: bool) -> Drawing:
    made = Drawing(min(width, 160.0), 34.0 if title else 20.0)
    if title:
        made.add(labels.within(0, 7, label_of(spec, panel), width, bold=True))
    made.add(Text(0, 26.0 if title else 10.0, "empty", color="muted"))
    return made


def _numbers(made: Drawing, panel: MapPanel, place: MatrixBox, scale: Scale) -> None:
    """The values in their cells: each is one weight."""
    rows, cols = panel.real()
    part = panel.values[:rows, :cols]
    shares = scale.shares(part)
    for row, col in np.argwhere(np.isfinite(part)):
        value = float(part[row, col])
        text = share(value) if abs(value) < 9.995 else number(value)
        x, y = place.x + (col + 0.5) * place.pitch_x, place.y + (row + 0.5) * place.pitch_y
        if fonts.width(text, _NUMBER) <= place.pitch_x - 2:
            made.add(Text(x, y, text, _NUMBER, on_cell(scale.ramp, float(shares[row, col])), "middle"))
