"""A laid-out graph as a drawing. `widgets/src/graph/` draws the same in the page.

    {width, height, bands: [{label, y, height}], nodes: [{id, shape, lines, words, x, y, width, height}],
     edges: [{from, to, path: [[x, y]], form, label, hues?, glyphs?, ragged?}]}

`x` and `y` are the centre of a node. `shape` is "op", "value", "result" or "fold" (with nodes inside); a `wrong` node
is marked. `form` is the shape of a line between points: "steps" (vertical at each point), "lines" (straight; dashed if
backward) or "bezier". A line with `hues` consists of strands, one per dim, each with its glyph; a `ragged` strand is
dashed.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from rfnb.core.strict_json import JsonObject
from rfnb.viz.drawing import fonts, labels
from rfnb.viz.drawing.shapes import Area, Drawing, Lines, Point, Rect, Text, bezier, curve

_FILL = {"op": "paper", "value": "value", "result": "result", "fold": "paper"}
STRAND = 5.0  # distance between the lines of two dims
RAGGED = (7.0, 2.5)
ARROW = 6.0  # room for an arrow tip
# Margins between boxes and around a band (pixels).
GAP, PAD = 18, 14
_SWEEPS = 12
_INCH = 72.0  # units of a drawing per inch of dot
_RIM = 14.0
_SECONDS = 10

Boxes = Sequence[tuple[str, float, float]]  # id, width, height
Joins = Sequence[tuple[str, str]]  # id of the upper, id of the lower box


def of_graph(graph: JsonObject) -> Drawing:
    """The graph as a drawing with the width that it needs."""
    made = Drawing(graph["width"], graph["height"])
    made.add(*(Rect(0, band["y"], graph["width"], band["height"], "band", None, 0, 6) for band in graph["bands"]))
    for edge in graph["edges"]:
        _edge(made, edge)
    for band in graph["bands"]:
        text = labels.fitted(band["label"], graph["width"] - 28, 12)
        made.add(Text(14, band["y"] + 14, text, 12, "muted", halo=True))
    for node in graph["nodes"]:
        _node(made, node)
    return made


def _edge(made: Drawing, edge: JsonObject) -> None:
    path = _points(edge)
    back = edge["form"] == "lines"
    hues = edge.get("hues") or []
    x, y = path[-1]
    tip = [(x - 4, y - 2), (x, y + 5), (x + 4, y - 2)]
    if not hues:
        made.add(Lines("accent" if back else "muted", 1.6 if back else 1.3, [path], (5.0, 3.0) if back else None))
    for number, hue in enumerate(hues):
        off = (number - (len(hues) - 1) / 2) * STRAND
        dash = RAGGED if edge["ragged"][number] else None
        made.add(Lines(f"hue{hue}", 2.2, [[(px + off, py) for px, py in path]], dash))
    made.add(Area("accent" if back else "muted", [tip]))
    (x0, y0), (x1, y1) = path[(len(path) - 1) // 2], path[len(path) // 2]
    at = (x0 + x1) / 2 + len(hues) / 2 * STRAND + 3
    for hue, glyph in zip(hues, edge.get("glyphs") or []):
        made.add(Text(at, (y0 + y1) / 2, glyph, 9.5, f"hue{hue}", halo=True))
        at += fonts.width(glyph, 9.5) + 3
    if edge["label"] and back:
        lane = max(px for px, _ in path)
        top, bottom = min(py for _, py in path), max(py for _, py in path)
        text = labels.fitted(edge["label"], bottom - top - 8, 10.5)
        made.add(Text(lane, (top + bottom) / 2, text, 10.5, "accent", "middle", turn=90, halo=True))


def _points(edge: JsonObject) -> list[Point]:
    knots = [(float(x), float(y)) for x, y in edge["path"]]
    if edge["form"] == "lines":
        return knots
    path = knots[:1]
    if edge["form"] == "bezier":
        for at in range(0, len(knots) - 3, 3):
            xs, ys = zip(*knots[at : at + 4])
            path += [(bezier(step / 10, *xs), bezier(step / 10, *ys)) for step in range(1, 11)]
        return path
    for (x0, y0), (x1, y1) in zip(knots, knots[1:]):
        # `curve` is horizontal at its ends: with x and y swapped it is vertical there.
        path += [(x, y) for y, x in curve((y0, x0), (y1, x1))[1:]]
    return path


def _node(made: Drawing, node: JsonObject) -> None:
    x, y, width, height, shape = (node[name] for name in ("x", "y", "width", "height", "shape"))
    radius = 4 if shape in ("op", "fold") else height / 2
    line = 2.0 if shape == "result" else 1.0
    if shape == "fold":  # a second box behind it
        made.add(Rect(x - width / 2 + 4, y - height / 2 + 4, width, height, "paper", "muted", 1.0, radius))
    wrong = node.get("wrong", False)
    edge, line = ("warn", 2.0) if wrong else ("ink", line)
    made.add(Rect(x - width / 2, y - height / 2, width, height, _FILL[shape], edge, line, radius))
    lines, room = node["lines"], width - 6
    first = labels.fitted(lines[0], room, 12, bold=shape != "value")
    if len(lines) == 1:
        made.add(Text(x, y, first, 12, "ink", "middle", bold=shape != "value"))
        return
    top = y - 7.5 * (len(lines) - 1)
    made.add(Text(x, top, first, 12, "ink", "middle", bold=True))
    for number, text in enumerate(lines[1:], 1):
        made.add(labels.within(x, top + 15 * number, text, room, 10, "warn" if wrong else "muted", "middle", mono=True))


@dataclass(eq=False)
class Box:
    """An op, a value, a result, or a point of a line (without text)."""

    id: str
    shape: str  # "op", "value", "result" or "point"
    lines: list[str]
    width: float
    layer: int = 0
    height: float = 0.0
    x: float = 0.0  # x of its centre
    above: list[Box] = field(default_factory=list)
    below: list[Box] = field(default_factory=list)


def in_layers(
    boxes: list[Box], joins: list[tuple[Box, Box]], min_width: float
) -> tuple[list[list[Box]], list[list[Box]], float]:
    """Place every box in its layer, with few crossing lines.

    Returns:
        The lines of the joins, each through its points; the boxes and points of each layer; the width.
    """
    lines, everything = _with_points(boxes, joins)
    rows: list[list[Box]] = [[] for _ in range(1 + max((box.layer for box in boxes), default=-1))]
    for box in everything:
        rows[box.layer].append(box)
    _order(rows)
    return lines, rows, _positions(rows, min_width)


def path_of(line: list[Box], middles: list[float]) -> list[list[float]]:
    """The path of a line from box to box, with room for the arrow tip.

    Args:
        middles: The heights of the layers.
    """
    ys = [middles[box.layer] for box in line]
    ys[0] += line[0].height / 2
    ys[-1] -= line[-1].height / 2 + ARROW
    return [[box.x, y] for box, y in zip(line, ys)]


def edge_of(start: str, end: str, path: list[list[float]], form: str, *, label: str = "", **more: Any) -> JsonObject:
    """A line of a graph, between two nodes."""
    rounded = [[round(x, 1), round(y, 1)] for x, y in path]
    return {"from": start, "to": end, "path": rounded, "form": form, "label": label, **more}


def node_of(box: Box, x: float, y: float, words: str) -> JsonObject:
    """A box as a node of a graph, with its description."""
    place = {"x": round(x, 1), "y": round(y, 1), "width": round(box.width, 1), "height": box.height}
    return {"id": box.id, "shape": box.shape, "lines": box.lines, "words": words, **place}


def _with_points(boxes: list[Box], edges: list[tuple[Box, Box]]) -> tuple[list[list[Box]], list[Box]]:
    """The lines with a point in each layer that they skip, one line per box and reader; and all boxes and points."""
    lines, everything = [], list(boxes)
    for high, low in edges:
        line = [high]
        for layer in range(high.layer + 1, low.layer):
            point = next((b for b in line[-1].below if b.shape == "point" and b.id == high.id), None)
            if point is None:  # the lines from one box share their path
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


def _order(layers: list[list[Box]]) -> None:
    """Sort the boxes of each layer to reduce crossings."""
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


def _positions(layers: list[list[Box]], min_width: float) -> float:
    """Set the x of every box: near its neighbours, in order, with gaps; returns the total width."""
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
    """The centres nearest to the wanted ones at which the boxes of a row do not overlap: the mean of pushing left and pushing right."""
    right, left = list(wanted), list(wanted)
    for index in range(1, len(row)):
        right[index] = max(right[index], right[index - 1] + _apart(row[index - 1], row[index]))
    for index in range(len(row) - 2, -1, -1):
        left[index] = min(left[index], left[index + 1] - _apart(row[index], row[index + 1]))
    for box, a, b in zip(row, right, left, strict=True):
        box.x = (a + b) / 2


def _apart(a: Box, b: Box) -> float:
    return (a.width + b.width) / 2 + GAP


def placed_by_dot(graphs: Sequence[tuple[Boxes, Joins]]) -> list[JsonObject] | None:
    """The layouts of several graphs: `width`, `height`, `places` (id to centre), `paths` (of each join, Bezier curves), `form`.

    None if dot is not installed, or fails; the caller then uses layers.
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
    except (KeyError, ValueError, IndexError):  # a version of dot with another output format
        return None


def _run(program: str, source: str) -> str:
    """The output of dot, or None."""
    try:
        done = subprocess.run(
            [program, "-Tplain"], input=source, capture_output=True, encoding="utf-8", timeout=_SECONDS, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout


def _source(boxes: Boxes, joins: Joins) -> str:
    """A graph in the DOT language. Boxes have numbers as names, so that no user text is passed."""
    number = {id_: index for index, (id_, _, _) in enumerate(boxes)}
    lines = [
        f'b{number[id_]} [width="{width / _INCH:.4f}", height="{height / _INCH:.4f}"];' for id_, width, height in boxes
    ]
    lines += [f"b{number[high]} -> b{number[low]};" for high, low in joins]
    style = 'graph [ranksep="0.45", nodesep="0.3"]; node [shape=box, fixedsize=true, label=""]; edge [arrowhead=none];'
    return "digraph {" + style + "\n".join(lines) + "}"


def _places(plain: str, boxes: Boxes, joins: Joins) -> JsonObject:
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
            path[-1][1] -= ARROW
            found[names[int(words[1][1:])], names[int(words[2][1:])]] = path
    size = {"width": width * _INCH + 2 * _RIM, "height": height * _INCH + 2 * _RIM}
    return {
        **size,
        "places": {id_: places[id_] for id_ in names},
        "paths": [found[join] for join in joins],
        "form": "bezier",
    }
