"""The `control` view as a drawing: the lines of its text."""

from __future__ import annotations

from typing import Any

from rfnb.viz.control.text import lines_of
from rfnb.viz.drawing import labels
from rfnb.viz.drawing.shapes import Drawing

_LINE, _LONGEST = 18.0, 200


def drawing(spec: Any, width: float) -> Drawing:
    """A run in a few lines."""
    lines = [line for text in lines_of(spec.head) for line in text.split("\n")]
    made = Drawing(width, _LINE * len(lines) + 8, " ".join(labels.short(line, _LONGEST) for line in lines))
    for number, line in enumerate(lines):
        made.add(labels.within(4, 13 + _LINE * number, line, width - 8))
    return made
