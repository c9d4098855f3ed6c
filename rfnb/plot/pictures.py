"""Beam searches and dims as drawings on axes."""

from __future__ import annotations

from typing import Any

from rfnb.plot.axes import axes_or_current, size_in_points
from rfnb.viz.drawing.figure import draw_on
from rfnb.viz.drawing.theme import theme as theme_of
from rfnb.viz.kinds import drawing_of

_POINTS = 8 / 11  # in a unit of a drawing: text of 8 points


def put(spec: Any, ax: Any, theme: str) -> Any:
    """Draw a spec as large as the axes let it be, its shape kept."""
    paper, ax = theme_of(theme), axes_or_current(ax)
    width, height = size_in_points(ax)
    drawing = drawing_of(spec, width / _POINTS)
    scale = min(_POINTS, width / drawing.width, height / drawing.height)
    # Paper around what is smaller than the axes, so that a unit is as wide as it is high.
    drawing.width, drawing.height = width / scale, height / scale
    draw_on(ax, drawing, paper, scale)
    return ax
