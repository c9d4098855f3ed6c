"""Beam searches, dims and outputs as drawings on axes."""

from __future__ import annotations

from typing import Any

from rfnb.plot.axes import axes_or_current, size_in_points
from rfnb.plot.choice import check, choice
from rfnb.viz.drawing.figure import draw_on
from rfnb.viz.drawing.theme import theme as theme_of
from rfnb.viz.kinds import drawing_of, problem_of, spec_of
from rfnb.viz.spec import Spec

_POINTS = 8 / 11  # in a unit of a drawing: text of 8 points


def distribution(scores: Any, *, ax: Any, sequence: int | str | None, theme: str, **options: Any) -> Any:
    """The output in each step: see `rfnb.plot.distribution`."""
    spec = spec_of("distribution", scores, **options)
    check(problem_of(spec), spec.head.get("seqs"), "distribution", "steps")
    if sequence is not None:
        at = choice("distribution", "sequence", [str(seq["label"]) for seq in spec.head["seqs"]], sequence)
        blocks = {name: block[at : at + 1] for name, block in spec.blocks.items()}
        spec = Spec(spec.kind, {**spec.head, "seqs": [spec.head["seqs"][at]]}, blocks)
    return put(spec, ax, theme)


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
