"""The `plan` view as a drawing: the graph of `layout`. What an op is shows by its place and shape: boxes are ops, round ones values that
the loop gets, bold ones what it gives."""

from __future__ import annotations

from typing import Any

from rfnb.viz.drawing import labels
from rfnb.viz.drawing.sentence import sentence
from rfnb.viz.drawing.shapes import Drawing
from rfnb.viz.graph.drawing import of_graph
from rfnb.viz.plan.layout import MOST_OPS, layout
from rfnb.viz.plan.text import before_of


def drawing(spec: Any, width: float) -> Drawing:
    """The plan as a drawing as wide as it needs; a plan has no smaller form."""
    head = spec.head
    ops = sum(len(place["ops"]) for place in head["places"])
    if ops > MOST_OPS:
        return sentence(f"{head['title']}: {ops} ops are too many for a picture; view.text() lists them.", width)
    made = of_graph(layout(head))
    counts = ", ".join(f"{len(place['ops'])} {place['name']}" for place in head["places"])
    back = "".join(f" {head['values'][edge['value']]} is {before_of(head, edge)}." for edge in head.get("back") or [])
    made.alt = (
        f"Plan of {labels.short(head['title'], 200)}: ops {counts} the loop.{back} The table below has all of them."
    )
    return made
