"""A drawing that holds only a sentence: what there is in place of a picture."""

from __future__ import annotations

from rfnb.viz.drawing import labels
from rfnb.viz.drawing.shapes import Drawing


def sentence(text: str, width: float) -> Drawing:
    """The sentence on one line."""
    made = Drawing(width, 26, text)
    made.add(labels.within(4, 13, text, width - 8))
    return made
