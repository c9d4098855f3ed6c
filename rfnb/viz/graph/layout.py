"""Boxes in layers from top to bottom, and the lines between them: where each is.

Lines that skip layers go through points of their own there, so that no line runs behind a box. The order within a layer is that of the
mean of the neighbours (Sugiyama et al. 1981).
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

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


_INCH = 72.0  # units of a drawing in what dot calls an inch
_RIM = 14.0
_SECONDS = 10

Boxes = Sequence[tuple[str, float, float]]  # id, width, height
Joins = Sequence[tuple[str, str]]  # id of the higher, id of the lower one


def placed_by_dot(graphs: Sequence[tuple[Boxes, Joins]]) -> list[dict[str, Any]] | None:
    """The places of several graphs: `width`, `height`, `places` (id to middle), `paths` (of each join, Bezier curves), `form`.

    None if dot is not installed, or fails: then they are placed in layers.
    """
    program = shutil.which("dot")
    if program is None:
        return None
    plain = _run(program, "\n".join(_source(boxes, joins) for boxes, joins in graphs))
    parts = plain.split("stop\n")[:-1] if plain else []
    if len(parts) != len(graphs):
        return None
    try:
        return [_places(part, boxes, joins) for part, (boxes, joins) in zip(parts, graphs)]
    except (KeyError, ValueError, IndexError):  # of a version that writes something else
        return None


def _run(program: str, source: str) -> str:
    """The answer of dot, or nothing."""
    try:
        done = subprocess.run(
            [program, "-Tplain"], input=source, capture_output=True, text=True, timeout=_SECONDS, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout


def _source(boxes: Boxes, joins: Joins) -> str:
    """A graph in the language of dot. Boxes have numbers for names: no text of users gets there."""
    number = {id_: index for index, (id_, _, _) in enumerate(boxes)}
    lines = [
        f'b{number[id_]} [width="{width / _INCH:.4f}", height="{height / _INCH:.4f}"];' for id_, width, height in boxes
    ]
    lines += [f"b{number[high]} -> b{number[low]};" for high, low in joins]
    style = 'graph [ranksep="0.45", nodesep="0.3"]; node [shape=box, fixedsize=true, label=""]; edge [arrowhead=none];'
    return "digraph {" + style + "\n".join(lines) + "}"


def _places(plain: str, boxes: Boxes, joins: Joins) -> dict[str, Any]:
    names = [id_ for id_, _, _ in boxes]
    places: dict[str, tuple[float, float]] = {}
    found: dict[tuple[str, str], list[list[float]]] = {}
    width = height = 0.0

    def at(x: str, y: str) -> list[float]:
        return [float(x) * _INCH + _RIM, (height - float(y)) * _INCH + _RIM]

    for words in (line.split() for line in plain.replace("\\\n", "").splitlines()):
        if words[0] == "graph":
            width, height = float(words[2]), float(words[3])
        elif words[0] == "node":
            x, y = at(words[2], words[3])
            places[names[int(words[1][1:])]] = x, y
        elif words[0] == "edge":
            count = int(words[3])
            numbers = words[4 : 4 + 2 * count]
            path = [at(x, y) for x, y in zip(numbers[::2], numbers[1::2])]
            path[-1][1] -= 6.0  # room for the tip
            found[names[int(words[1][1:])], names[int(words[2][1:])]] = path
    size = {"width": width * _INCH + 2 * _RIM, "height": height * _INCH + 2 * _RIM}
    return {
        **size,
        "places": {id_: places[id_] for id_ in names},
        "paths": [found[join] for join in joins],
        "form": "bezier",
    }
