"""The `plan` view as a drawing: the boxes of `layout`. What an op is shows by its place and shape: boxes are ops, round ones values that
the loop gets, bold ones what it gives."""

from __future__ import annotations

from typing import Any

from rfnb.viz.drawing import labels
from rfnb.viz.drawing.sentence import sentence
from rfnb.viz.drawing.shapes import Area, Drawing, Lines, Point, Rect, Text, curve
from rfnb.viz.plan.layout import PAD, Box, Layout, layout
from rfnb.viz.plan.text import problem

MOST_OPS = 150  # more are a table only
_FILL = {"op": "paper", "value": "value", "result": "result"}
_HEIGHT = {"op": 40.0, "value": 28.0, "result": 28.0}


def drawing(spec: Any, width: float) -> Drawing:
    """The plan as a drawing as wide as it needs; a plan has no smaller form."""
    head = spec.head
    fault = problem(head)
    if fault:
        return sentence(fault, width)
    ops = sum(len(place["ops"]) for place in head["places"])
    if ops > MOST_OPS:
        return sentence(f"{head['title']}: {ops} ops are too many for a picture; view.text() lists them.", width)
    made = of_layout(layout(head))
    counts = ", ".join(f"{len(place['ops'])} {place['name']}" for place in head["places"])
    made.alt = f"Plan of {labels.short(head['title'], 200)}: ops {counts} the loop. The table below has all of them."
    return made


def of_layout(drawn: Layout) -> Drawing:
    """The boxes and lines where the layout has put them."""
    made = Drawing(drawn.width, drawn.height)
    made.add(*(Rect(0, top, drawn.width, bottom - top, "band", None, 0, 6) for _, top, bottom in drawn.bands))
    paths, tips = zip(*(_line(line, drawn) for line in drawn.lines)) if drawn.lines else ((), ())
    made.add(Lines("muted", 1.3, paths), Area("muted", tips))
    for label, top, _ in drawn.bands:
        text = labels.fitted(label, drawn.width - 2 * PAD, 12)
        made.add(Text(PAD, top + 14, text, 12, "muted", halo=True))
    for box in drawn.boxes:
        if box.shape != "point":
            _box(made, box, drawn.y[box.layer])
    return made


def _line(line: list[Box], drawn: Layout) -> tuple[list[Point], list[Point]]:
    """A line from box to box, upright where it begins and ends, and the arrow at its end."""
    ys = [drawn.y[box.layer] for box in line]
    ys[0] += _HEIGHT[line[0].shape] / 2
    ys[-1] -= _HEIGHT[line[-1].shape] / 2 + 5  # room for the arrow
    path: list[Point] = [(line[0].x, ys[0])]
    for index in range(1, len(line)):
        # `curve` is level at its ends: with x and y in each other's place it is upright there.
        turned = curve((ys[index - 1], line[index - 1].x), (ys[index], line[index].x))
        path += [(x, y) for y, x in turned[1:]]
    x, y = line[-1].x, ys[-1]
    return path, [(x - 4, y - 2), (x, y + 5), (x + 4, y - 2)]


def _box(made: Drawing, box: Box, y: float) -> None:
    height = _HEIGHT[box.shape]
    radius = 4 if box.shape == "op" else height / 2
    line = 2.0 if box.shape == "result" else 1.0
    made.add(Rect(box.x - box.width / 2, y - height / 2, box.width, height, _FILL[box.shape], "ink", line, radius))
    room = box.width - 6
    first = labels.fitted(box.lines[0], room, 12, bold=box.shape != "value")
    if len(box.lines) == 1:
        made.add(Text(box.x, y, first, 12, "ink", "middle", bold=box.shape != "value"))
        return
    made.add(Text(box.x, y - 7, first, 12, "ink", "middle", bold=True))
    made.add(Text(box.x, y + 8, labels.fitted(box.lines[1], room, 10), 10, "muted", "middle", mono=True))
