"""Boxes in layers from top to bottom, and the lines between them: where each is.

Lines that skip layers go through points of their own there, so that no line runs behind a box. The order within a layer is that of the
mean of the neighbours (Sugiyama et al. 1981).
"""

from __future__ import annotations

from dataclasses import dataclass, field

# Between boxes, around a band (pixels).
GAP, PAD = 18, 14
_SWEEPS = 12


@dataclass(eq=False)
class Box:
    """An op, a value, a result, or a point of a line (without text)."""

    id: str
    shape: str  # "op", "value", "result" or "point"
    lines: list[str]
    width: float
    layer: int = 0
    height: float = 0.0
    x: float = 0.0  # of its middle
    above: list[Box] = field(default_factory=list)
    below: list[Box] = field(default_factory=list)


def with_points(boxes: list[Box], edges: list[tuple[Box, Box]]) -> tuple[list[list[Box]], list[Box]]:
    """The lines with a point in each layer that they skip, one line per box and reader; all boxes and points."""
    lines, everything = [], list(boxes)
    for high, low in edges:
        line = [high]
        for layer in range(high.layer + 1, low.layer):
            point = next((b for b in line[-1].below if b.shape == "point" and b.id == high.id), None)
            if point is None:  # the lines from one box share their way
                point = Box(high.id, "point", [], 6, layer)
                everything.append(point)
                _join(line[-1], point)
            line.append(point)
        _join(line[-1], low)
        lines.append([*line, low])
    return lines, everything


def _join(high: Box, low: Box) -> None:
    if low not in high.below:
        high.below.append(low)
        low.above.append(high)


def order(layers: list[list[Box]]) -> None:
    """Sort the boxes of each layer so that few lines cross."""
    for sweep in range(_SWEEPS):
        down = sweep % 2 == 0
        for row in layers if down else layers[::-1]:
            neighbours = {id(box): box.above if down else box.below for box in row}
            place = {id(box): index for other in layers for index, box in enumerate(other)}
            now = {id(box): index for index, box in enumerate(row)}

            def mean(box: Box) -> float:
                near = neighbours[id(box)]  # noqa: B023  used at once
                own = now[id(box)]  # noqa: B023
                return sum(place[id(other)] for other in near) / len(near) if near else own  # noqa: B023

            row.sort(key=mean)


def positions(layers: list[list[Box]], min_width: float) -> float:
    """Give every box its middle: near its neighbours, in order, with gaps; the width of all."""
    for row in layers:
        _spread(row, [0.0] * len(row))
    for sweep in range(_SWEEPS * 2):
        for row in layers if sweep % 2 == 0 else layers[::-1]:
            wanted = []
            for box in row:
                near = [*box.above, *box.below]
                wanted.append(sum(other.x for other in near) / len(near) if near else box.x)
            _spread(row, wanted)
    everything = [box for row in layers for box in row]
    left = min((box.x - box.width / 2 for box in everything), default=0.0)
    right = max((box.x + box.width / 2 for box in everything), default=0.0)
    width = max(right - left + 2 * PAD, min_width)
    shift = (width - (right - left)) / 2 - left
    for box in everything:
        box.x += shift
    return width


def _spread(row: list[Box], wanted: list[float]) -> None:
    """The middles nearest to the wanted ones at which the boxes of a row do not touch: the mean of pushing to either side."""
    right, left = list(wanted), list(wanted)
    for index in range(1, len(row)):
        right[index] = max(right[index], right[index - 1] + _apart(row[index - 1], row[index]))
    for index in range(len(row) - 2, -1, -1):
        left[index] = min(left[index], left[index + 1] - _apart(row[index], row[index + 1]))
    for box, a, b in zip(row, right, left, strict=True):
        box.x = (a + b) / 2


def _apart(a: Box, b: Box) -> float:
    return (a.width + b.width) / 2 + GAP
