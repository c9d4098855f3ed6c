"""A drawing that holds only a sentence: what there is in place of a picture."""

from __future__ import annotations

from rfnb.viz.drawing import labels
from rfnb.viz.drawing.shapes import Drawing, Text


def sentence(text: str, width: float) -> Drawing:
    """The sentence on one line."""
    made = Drawing(width, 26, text)
    made.add(Text(4, 13, labels.fitted(text, width - 8)))
    return made
