"""A graph with the places of its nodes and lines, as a drawing. `widgets/src/graph/` draws the same in the page.

    {width, height, bands: [{label, y, height}], nodes: [{id, shape, lines, words, x, y, width, height}],
     edges: [{from, to, path: [[x, y]], form, label, hues?, glyphs?, ragged?}]}

`x` and `y` are the middle of a node. `shape` is "op", "value", "result" or "fold" (with more in it); a node that is `wrong` is marked.
`form` says how a line runs from point to point: "steps" (upright at each), "lines" (straight, dashed: backward) or "bezier". Lines with
`hues` are strands, one per dim, each with its glyph; a `ragged` one is dashed.
"""

from __future__ import annotations

from typing import Any

from rfnb.viz.drawing import fonts, labels
from rfnb.viz.drawing.shapes import Area, Drawing, Lines, Point, Rect, Text, curve

_FILL = {"op": "paper", "value": "value", "result": "result", "fold": "paper"}
STRAND = 5.0  # between the lines of two dims
RAGGED = (7.0, 2.5)


def of_graph(graph: dict[str, Any]) -> Drawing:
    """The graph as a drawing as wide as it needs."""
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


def _edge(made: Drawing, edge: dict[str, Any]) -> None:
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


def _points(edge: dict[str, Any]) -> list[Point]:
    knots = [(float(x), float(y)) for x, y in edge["path"]]
    if edge["form"] == "lines":
        return knots
    path = knots[:1]
    if edge["form"] == "bezier":
        for at in range(0, len(knots) - 3, 3):
            path += [_bezier(knots[at : at + 4], step / 10) for step in range(1, 11)]
        return path
    for (x0, y0), (x1, y1) in zip(knots, knots[1:]):
        # `curve` is level at its ends: with x and y in each other's place it is upright there.
        path += [(x, y) for y, x in curve((y0, x0), (y1, x1))[1:]]
    return path


def _bezier(knots: list[Point], t: float) -> Point:
    s = 1 - t
    weights = (s * s * s, 3 * s * s * t, 3 * s * t * t, t * t * t)
    return (
        sum(weight * x for weight, (x, _) in zip(weights, knots)),
        sum(weight * y for weight, (_, y) in zip(weights, knots)),
    )


def _node(made: Drawing, node: dict[str, Any]) -> None:
    x, y, width, height, shape = (node[name] for name in ("x", "y", "width", "height", "shape"))
    radius = 4 if shape in ("op", "fold") else height / 2
    line = 2.0 if shape == "result" else 1.0
    if shape == "fold":  # more of the same behind it
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
