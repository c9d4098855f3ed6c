"""The layout of the stations and lines of a `flow`: by Graphviz `dot`, or in layers of our own."""

from __future__ import annotations

import shutil
from typing import Any

from rfnb.core.errors import file_not_found_error
from rfnb.core.strict_json import JsonObject
from rfnb.viz.drawing import fonts
from rfnb.viz.drawing.labels import short
from rfnb.viz.drawing.theme import HUES
from rfnb.viz.parts.graph import GAP, PAD, STRAND, Box, edge_of, in_layers, node_of, path_of, placed_by_dot

_LAYER = 30.0  # distance between the boxes of two layers
_MOST_LETTERS = 34
_WIDEST = 1400.0  # maximal width of a layer with more than one box
_MOST_DIMS = 12  # lines side by side


def layouts(
    levels: list[JsonObject], entries: list[JsonObject], marks: dict[int, str], *, dot: bool | None = None
) -> list[JsonObject]:
    """The graph of each level, as `viz/parts/graph.py` draws it."""
    boxes = [[_box(station) for station in level["stations"]] for level in levels]
    _widen(levels, boxes)
    placed = None
    if dot and shutil.which("dot") is None:
        raise file_not_found_error(
            "flow: dot of Graphviz is not installed.",
            {"dot": "True"},
            "Without it, boxes are placed in layers, with more crossing lines.",
            "rf.viz.flow(trace)    # or: apt-get install graphviz",
        )
    if dot is not False:
        placed = placed_by_dot(
            [
                (
                    [(box.id, box.width, box.height) for box in level],
                    [(edge["from"], edge["to"]) for edge in data["edges"]],
                )
                for level, data in zip(boxes, levels)
            ]
        )
    graphs = []
    for number, (level, data) in enumerate(zip(boxes, levels)):
        own = placed[number] if placed else _placed(level, data["edges"])
        graphs.append(_graph(own, level, data, entries, marks))
    return graphs


def _box(station: JsonObject) -> Any:
    label = short(station["label"], _MOST_LETTERS)
    label += f" × {station['count']}" if station["count"] > 1 else ""
    lines = [label]
    if station["shape"] == "op":
        second = f"raised {station['raised']}" if station["raised"] else station["change"] or station["module"]
        lines += [short(second, 2 * _MOST_LETTERS)] if second else []
    widest = max(fonts.width(lines[0], 12, bold=True), *(fonts.width(text, 10) * 1.12 for text in lines[1:]), 24)
    shape = "fold" if station["opens"] is not None else station["shape"]
    box = Box(station["id"], shape, lines, round(widest + 22, 1))
    box.height = 40.0 if len(lines) > 1 else 28.0
    return box


def _widen(levels: list[JsonObject], boxes: list[list[Box]]) -> None:
    """Make each box wide enough for the parallel lines that enter and leave it."""
    for level, data in zip(boxes, levels):
        for box in level:
            for side in ("from", "to"):
                bundles = [min(len(edge["dims"]), _MOST_DIMS) for edge in data["edges"] if edge[side] == box.id]
                box.width = max(box.width, sum(bundles) * STRAND + 12.0 * len(bundles))


def _placed(boxes: list[Box], edges: list[JsonObject]) -> JsonObject:
    """Our own layered layout: each box is below all that it reads, with as many boxes per layer as fit."""
    by_id = {box.id: box for box in boxes}
    joins = [(by_id[edge["from"]], by_id[edge["to"]]) for edge in edges]
    readers: dict[str, list[Box]] = {}
    for high, low in joins:
        readers.setdefault(high.id, []).append(low)
    used: dict[int, float] = {}
    for box in boxes:  # boxes that are read come first
        while used.get(box.layer, 0.0) + box.width > _WIDEST and used.get(box.layer):
            box.layer += 1
        used[box.layer] = used.get(box.layer, 0.0) + box.width + GAP
        for low in readers.get(box.id, []):
            low.layer = max(low.layer, box.layer + 1)
    for box in boxes:  # an input from outside is placed directly above its first reader
        if box.shape == "value" and readers.get(box.id):
            box.layer = min(low.layer for low in readers[box.id]) - 1
    lines, rows, width = in_layers(boxes, joins, 2 * PAD)
    y, tops = float(PAD), []
    for row in rows:
        height = max((box.height for box in row), default=0.0)
        tops.append(y + height / 2)
        y += height + _LAYER
    paths = [path_of(line, tops) for line in lines]
    _spread_ends(paths, edges, by_id)
    return {
        "width": width,
        "height": max(y - _LAYER + PAD, 2 * PAD),
        "places": {box.id: (box.x, tops[box.layer]) for box in boxes},
        "paths": paths,
        "form": "steps",
    }


def _spread_ends(paths: list[list[list[float]]], edges: list[JsonObject], boxes: dict[str, Box]) -> None:
    """Spread the ends of parallel lines at a box, in the order of their other ends."""
    for side, end, next_ in (("from", 0, 1), ("to", -1, -2)):
        for box in boxes.values():
            mine = [index for index, edge in enumerate(edges) if edge[side] == box.id]
            mine.sort(key=lambda index: paths[index][next_][0])
            widths = [min(len(edges[index]["dims"]), _MOST_DIMS) * STRAND for index in mine]
            gap = min(24.0, (box.width - 8 - sum(widths)) / max(1, len(mine) - 1)) if len(mine) > 1 else 0.0
            x = box.x - (sum(widths) + gap * (len(mine) - 1)) / 2
            for index, width in zip(mine, widths):
                paths[index][end][0] = x + width / 2
                x += width + gap


def _graph(
    placed: JsonObject,
    boxes: list[Box],
    level: JsonObject,
    entries: list[JsonObject],
    marks: dict[int, str],
) -> JsonObject:
    nodes = []
    for box, station in zip(boxes, level["stations"]):
        x, y = placed["places"][box.id]
        node = node_of(box, x, y, station["words"])
        node |= {"opens": station["opens"]} if station["opens"] is not None else {}
        nodes.append(node | ({"wrong": True} if station["raised"] else {}))
    edges = []
    for edge, path in zip(level["edges"], placed["paths"]):
        dims, more = edge["dims"][:_MOST_DIMS], len(edge["dims"]) - _MOST_DIMS
        glyphs = [marks[dim] for dim in dims]
        glyphs[-1:] = [f"+{more + 1:,}"] if more > 0 else glyphs[-1:]
        edges.append(
            edge_of(
                edge["from"],
                edge["to"],
                path,
                placed["form"],
                hues=[dim % len(HUES) for dim in dims],
                glyphs=glyphs,
                ragged=[bool(entries[dim]["lengths"]) for dim in dims],
            )  # fmt: skip
        )
    right = max((_right_of(edge) for edge in edges), default=0.0)
    size = {"width": round(max(placed["width"], right), 1), "height": round(placed["height"], 1)}
    return {**size, "bands": [], "nodes": nodes, "edges": edges}


def _right_of(edge: JsonObject) -> float:
    """The right end of a line, including its marks."""
    marks = sum(7.0 * len(mark) + 3 for mark in edge["glyphs"])
    return float(max(x for x, _ in edge["path"]) + len(edge["hues"]) / 2 * STRAND + 3 + marks)
