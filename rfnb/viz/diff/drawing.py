"""The `diff` view as a drawing: steps by paths, coloured by the size of the difference, its growth, and both values of the
first difference.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rfnb.viz.diff.content import share
from rfnb.viz.drawing import fonts, labels
from rfnb.viz.drawing.labels import sentence
from rfnb.viz.drawing.shapes import Drawing, Lines, Marks, Rect, Text, paths_of
from rfnb.viz.parts.matrix import MatrixBox, Scale, draw_matrix, number
from rfnb.viz.pool import bounds

_MOST_ROWS, _ROW, _CELL, _MOST_LABEL = 40, 16.0, 30.0, 180.0
_GROWTH, _STRIP, _MAP = 70.0, 26.0, 150.0
_FIRST = 46.0  # for the note beside the row of the first difference
_DECADES = (-3.0, 5.0)  # of the growth curve


def drawing(spec: Any, width: float) -> Drawing:
    """A diff as a drawing with this width."""
    head = spec.head
    if not head["rows"] or not head["cols"]:
        return sentence(head["said"], width)
    made = Drawing(width, 0, alt=head["said"])
    shown = rows_of(head)
    _timeline(made, spec, shown)
    mark = head.get("mark")
    if mark is not None:
        if np.count_nonzero(~np.isnan(spec.blocks["log"][0][mark[0]])) > 1:
            _growth(made, spec, mark[0])
        pair = next((one for one in head["pairs"] if [one["row"], one["col"]] == mark and one.get("block")), None)
        if pair is not None:
            _pair(made, spec, pair)
    made.shows(len(shown), len(head["rows"]), "paths, those that differ before others")
    return made


def rows_of(head: Any) -> list[int]:
    """The paths to draw: all, or those that differ if there are many."""
    rows = list(range(len(head["rows"])))
    if len(rows) > _MOST_ROWS:
        rows = sorted(sorted(rows, key=lambda index: head["rows"][index]["first"] is None)[:_MOST_ROWS])
    return rows


def _timeline(made: Drawing, spec: Any, shown: list[int]) -> None:
    head, cols = spec.head, len(spec.head["cols"])
    names = [labels.fitted(labels.short(head["rows"][index]["label"], 60), _MOST_LABEL, 11) for index in shown]
    left = min(made.width / 2, max(fonts.width(name, 11, bold=True) for name in names) + 10)
    pitch = min(_CELL, (made.width - left - _FIRST) / cols)
    axis = labels.columns(head["cols"], pitch)
    words = "difference in tolerances"
    made.add(Text(0, 8, words, 10, "muted"))
    at = fonts.width(words, 10) + 12
    _scale(made, at)
    made.height = 22 + axis.room + 3
    labels.draw_columns(made, axis, left, made.height - 2, pitch)
    top = made.height
    log = spec.blocks["log"][0][shown]
    for index, name in enumerate(names):
        wrong = head["rows"][shown[index]]["first"] is not None
        made.add(Text(0, top + (index + 0.5) * _ROW, name, 11, "ink" if wrong else "muted", bold=wrong))
    place = MatrixBox(left, top, pitch, _ROW)
    draw_matrix(made, share(log), place, Scale(0.0, 1.0))
    if pitch >= 5:
        beyond = np.argwhere(log > 0)[:2000]
        points = [(left + (col + 0.5) * pitch, top + (row + 0.5) * _ROW) for row, col in beyond]
        if points:
            made.add(Marks("paper", points, 1.6))
    made.height = top + len(shown) * _ROW + 4
    mark = head.get("mark")
    if mark is not None and mark[0] in shown:
        x, y = left + mark[1] * pitch, top + shown.index(mark[0]) * _ROW
        made.add(Rect(x - 1.5, y - 1.5, max(4.0, pitch) + 3, _ROW + 3, stroke="warn", line=2))
        made.add(Text(left + cols * pitch + 5, y + _ROW / 2, "◂ first", 10, "warn", bold=True))


def _scale(made: Drawing, at: float) -> None:
    """The colour ramp with its numbers: equal, the tolerance, 100,000 times the tolerance."""
    end = at
    ticks = [("≤ 1/1000", 0.1), ("1", float(share(0.0))), ("≥ 10⁵", 1.0)]
    for word, where in ticks:
        made.add(Rect(end, 3, 12, 10, fill=f"cell:sequential:{where:.4f}", stroke="line", line=0.5))
        made.add(Text(end + 16, 8, word, 10, "muted"))
        end += 16 + fonts.width(word, 10) + 12
    made.add(Text(end, 8, "• more than the tolerance", 10, "muted"))


def _growth(made: Drawing, spec: Any, row: int) -> None:
    """The difference of one path over the steps, with a line at the tolerance."""
    head, log = spec.head, spec.blocks["log"][0][row]
    made.height += 12
    label = f"{labels.short(head['rows'][row]['label'], 60)}: difference over the steps"
    made.add(labels.within(0, made.height + 6, label, made.width, 11, bold=True))
    top, left = made.height + 20, 70.0
    low, high = _DECADES
    y_of = lambda value: top + _GROWTH * (high - min(max(value, low), high)) / (high - low)  # noqa: E731
    right = made.width - 8
    step = (right - left) / max(1, len(log) - 1)
    for value, word in ((high, "≥ 10⁵"), (0.0, "tolerance"), (low, "≤ 1/1000")):
        made.add(
            Lines(
                "warn" if value == 0 else "line",
                0.8,
                [[(left, y_of(value)), (right, y_of(value))]],
                dash=(4, 3) if value == 0 else None,
            )
        )
        made.add(Text(left - 6, y_of(value), word, 10, "muted", "right"))
    heights = np.array([np.nan if np.isnan(value) else y_of(float(value)) for value in log])
    paths = paths_of(left + np.arange(len(log)) * step, heights)
    points = [point for path in paths for point in path]
    made.add(Lines("accent", 1.5, [path for path in paths if len(path) > 1]))
    made.add(Marks("accent", [path[0] for path in paths if len(path) == 1], 2.2))
    if len(points) <= 60:
        made.add(Marks("accent", points, 2.2))
    for index, anchor in ((0, "left"), (len(log) - 1, "right")):
        made.add(
            labels.within(
                left + index * step, top + _GROWTH + 10, labels.short(head["cols"][index]), 90, 10, "muted", anchor
            )
        )
    made.height = top + _GROWTH + 20


def _pair(made: Drawing, spec: Any, pair: Any) -> None:
    """Both values and their difference: maps side by side, a vector as strips one below the other."""
    a, b = spec.blocks[pair["block"]]
    with np.errstate(all="ignore"):
        apart = np.where(a == b, 0, a - b)
    names = spec.head["names"]
    low, high = bounds(a, b)
    most = max(abs(low), abs(high)) or 1.0
    far = max(map(abs, bounds(apart))) or 1.0
    panels = [(names[0], a, most), (names[1], b, most), (f"{names[0]} − {names[1]}", apart, far)]
    made.height += 10
    where = " ".join(filter(None, [pair["name"], pair["at"]]))
    dims = " by ".join(f"{name}={size}" for name, size in zip(pair["dims"], pair["size"]) if name)
    pooled = "; of each block of cells that which differs most" if max(pair["pool"]) > 1 else ""
    title = f"{where}, {dims}{pooled}" if where else f"{dims}{pooled}"
    made.add(labels.within(0, made.height + 6, title, made.width, 11, bold=True))
    made.height += 18
    rows, cols = a.shape
    beside = rows > 1 and cols <= 6 * rows
    wide = (made.width - 24) / 3 if beside else made.width - 4
    pitch = min(18.0, wide / cols)
    tall = min(_MAP, rows * pitch) if beside else max(_STRIP, min(10.0, pitch) * rows)
    for index, (name, values, limit) in enumerate(panels):
        x, y = (index * (wide + 12), made.height) if beside else (0.0, made.height + index * (tall + 22))
        made.add(labels.within(x, y + 6, f"{name}   −{number(limit)} to {number(limit)}", wide, 10, "muted"))
        place = MatrixBox(x, y + 16, pitch, tall / rows)
        draw_matrix(made, values, place, Scale(-limit, limit, "diverging"))
    made.height += 16 + tall + 4 if beside else 3 * (tall + 22)
