"""The graph of a plan: layers from top to bottom, in the order in which the ops run.

Within a place of the loop, an op is one layer below the lowest of its inputs.
"""

from __future__ import annotations

from rfnb.core.strict_json import JsonObject
from rfnb.viz.parts.graph import ARROW, PAD, Box, edge_of, in_layers, node_of, path_of

LAYER, HEAD = 62, 26  # between layers, above the first layer of a band (pixels)
MOST_OPS = 150  # larger plans are only shown as a table
BEFORE = "state of the step before"
_HEIGHT = {"op": 40.0, "value": 28.0, "result": 28.0, "point": 0.0}


def layout(head: JsonObject) -> JsonObject:
    """The graph of a plan (validated by `problem` before), as drawn by `viz/parts/graph.py`."""
    boxes: dict[str, Box] = {}
    edges: list[tuple[Box, Box]] = []
    bands: list[JsonObject] = []
    y: list[float] = []
    layer, top = 0, 0.0
    for place in head["places"]:
        first, last = _place(head, place, boxes, edges, layer)
        count = last - first
        bottom = top + HEAD + max(count, 0) * LAYER + PAD * (1 if count else 0)
        y += [top + HEAD + LAYER * (index + 0.5) for index in range(count)]
        label = f"{place['name']}: {place['meaning']}" + ("" if place["ops"] else " (nothing)")
        bands.append({"label": label, "y": top, "height": bottom - top})
        layer, top = last, bottom + 8
    longest = max((len(band["label"]) for band in bands), default=0)
    lines, _, needed = in_layers(list(boxes.values()), edges, longest * 7 + 2 * PAD)
    back, width = _back(head, boxes, y, needed)
    nodes = [_node(head, box, y[box.layer]) for box in boxes.values()]
    return {
        "width": round(width, 1),
        "height": round(top - 8, 1),
        "bands": bands,
        "nodes": nodes,
        "edges": [edge_of(line[0].id, line[-1].id, path_of(line, y), "steps") for line in lines] + back,
    }


def _node(head: JsonObject, box: Box, y: float) -> JsonObject:
    """A box of the graph, with its description."""
    words = " ".join(line for line in box.lines if line)
    for op in (op for place in head["places"] for op in place["ops"] if op["id"] == box.id):
        names = ", ".join(names_of(head, op["reads"]))
        words = ", ".join(filter(None, [words, f"from {names}" if names else "", op["code"]]))
    for edge in head.get("back") or []:
        if edge["value"] == box.id:
            words += f", {before_of(head, edge)}"
    return node_of(box, box.x, y, words)


def _back(head: JsonObject, boxes: dict[str, Box], y: list[float], width: float) -> tuple[list[JsonObject], float]:
    """The lines from the next state up to the state, each in its own lane to the right; and the total width."""
    made = []
    for number, edge in enumerate(head.get("back") or []):
        low, high = boxes.get(f"result {edge['result']}"), boxes.get(edge["value"])
        if low is None or high is None:
            continue
        lane = width + 8 + 20 * number
        bottom = y[low.layer] + _HEIGHT["result"] / 2 + 6 + 2 * (number % 3)
        top = y[high.layer] - _HEIGHT["value"] / 2 - ARROW - 6 - 2 * (number % 3)
        start, end = y[low.layer] + _HEIGHT["result"] / 2, y[high.layer] - _HEIGHT["value"] / 2 - ARROW
        path = [[low.x, start], [low.x, bottom], [lane, bottom], [lane, top], [high.x, top], [high.x, end]]
        made.append(edge_of(low.id, high.id, path, "lines", label=BEFORE))
    return made, width + (12 + 20 * len(made) if made else 0)


def _place(
    head: JsonObject, place: JsonObject, boxes: dict[str, Box], edges: list[tuple[Box, Box]], layer: int
) -> tuple[int, int]:
    """Add the boxes of one place from this layer on; returns its first layer and the one after its last."""
    own = {op["id"] for op in place["ops"]}
    outside = [id_ for op in place["ops"] for id_ in op["reads"] if id_ not in own and id_ not in boxes]
    results = [result for result in head["results"] if result["reads"] and _home(head, result) == place["name"]]
    outside += [id_ for result in results for id_ in result["reads"] if id_ not in own and id_ not in boxes]
    for id_ in dict.fromkeys(outside):
        boxes[id_] = _box(id_, "value", [head["values"].get(id_, id_)], layer)
    start = layer + (1 if outside else 0)
    for op in place["ops"]:
        above = [boxes[id_] for id_ in op["reads"]]
        depth = max([start, *(box.layer + 1 for box in above)])
        lines = [f"{number(op['id'])} {op['name']}", op["dims"]]
        boxes[op["id"]] = _box(op["id"], "op", [line for line in lines if line], depth)
        edges += [(box, boxes[op["id"]]) for box in above]
    for result in results:
        above = [boxes[id_] for id_ in result["reads"]]
        box = _box(f"result {result['label']}", "result", [result["label"]], max(b.layer for b in above) + 1)
        box.layer = max(box.layer, layer)
        boxes[box.id] = box
        edges += [(other, box) for other in above]
    _lower(boxes, edges, layer)
    own_boxes = [box.layer for box in boxes.values() if box.layer >= layer]
    return layer, max(own_boxes, default=layer - 1) + 1


def _lower(boxes: dict[str, Box], edges: list[tuple[Box, Box]], layer: int) -> None:
    """Place a value directly above the first op that reads it."""
    for box in boxes.values():
        readers = [low.layer for high, low in edges if high is box]
        if box.shape == "value" and box.layer >= layer and readers:
            box.layer = min(readers) - 1


def _home(head: JsonObject, result: JsonObject) -> str:
    """The last place that contributes to a result; a result that is read unchanged belongs inside the loop."""
    found = "inside"
    for place in head["places"]:
        if {op["id"] for op in place["ops"]} & set(result["reads"]):
            found = place["name"] if place["name"] != "before" else "inside"
    return found


def _box(id_: str, shape: str, lines: list[str], layer: int) -> Box:
    widest = max(len(line) * (7.2 if index == 0 else 6.2) for index, line in enumerate(lines))
    return Box(id_, shape, lines, widest + 22, layer, _HEIGHT[shape])


def names_of(head: JsonObject, ids: list[str]) -> list[str]:
    """The names of the inputs, as the body calls them, or the numbers of the ops that make them."""
    return [head["values"].get(id_) or number(id_) for id_ in ids]


def before_of(head: JsonObject, edge: dict[str, str]) -> str:
    """The part of the previous step's result that a state is: "next cell.h of the step before" for "state.cell.h"."""
    part = str(head["values"][edge["value"]]).removeprefix(f"state.{edge['result'].removeprefix('next ')}")
    return f"{edge['result']}{part} of the step before"


def number(id_: str) -> str:
    """ "#3" for "op3"."""
    return f"#{id_.removeprefix('op')}"
