"""Curves as lines on axes, with a legend where they are of runs."""

from __future__ import annotations

from typing import Any

import numpy as np

from rfnb.plot.axes import axes_or_current
from rfnb.plot.choice import check, choice
from rfnb.viz.curves.drawing import look
from rfnb.viz.curves.text import DrawnCurve, curves_of, since_nan
from rfnb.viz.drawing import labels
from rfnb.viz.drawing.figure import MARKERS
from rfnb.viz.drawing.theme import Theme
from rfnb.viz.drawing.theme import theme as theme_of
from rfnb.viz.kinds import problem_of, spec_of

_FEW = 40  # points that each have a mark


def curves(series: Any, *, ax: Any, label: int | str | None, theme: str, **options: Any) -> Any:
    """The lines of one label: see `rfnb.plot.curves`."""
    spec = spec_of("curves", series, **options)
    check(problem_of(spec), spec.head.get("series"), "curves", "series")
    every = curves_of(spec)
    names = list(dict.fromkeys(curve.label for curve in every))
    chosen = names[choice("curves", "label", names, label)]
    drawn = [curve for curve in every if curve.label == chosen]
    ax, paper = axes_or_current(ax), theme_of(theme)
    if all(curve.log for curve in drawn if len(curve.known)):
        ax.set_yscale("log")
    for curve in drawn:
        _line(ax, curve, paper)
    unit = f" ({drawn[0].unit})" if drawn[0].unit else ""
    ax.set_xlabel(labels.short(str(spec.head["x"]), 40), parse_math=False)
    ax.set_ylabel(labels.short(f"{chosen}{unit}", 60), parse_math=False)
    if drawn[0].run is not None:
        for text in ax.legend(fontsize=8, frameon=False).get_texts():
            text.set_parse_math(False)
    return ax


def _line(ax: Any, curve: DrawnCurve, paper: Theme) -> None:
    color, dash, mark = look(None if curve.run is None else curve.style)
    tint = paper.hex(color)
    few = len(curve.x) <= _FEW
    style: dict[str, Any] = {"color": tint, "linewidth": 1.3, "linestyle": (0, dash) if dash else "-"}
    if few or curve.run is not None:
        style |= {"marker": MARKERS[mark], "markersize": 4, "markevery": 1 if few else 1 / 6}
    y = np.where(np.isfinite(curve.y), curve.y, np.nan)
    name = "_" if curve.run is None else labels.short(curve.run, 40)  # what begins so is not in a legend
    ax.plot(curve.x, y, label=name, **style)
    if curve.best is not None and len(curve.y) > 1:
        at = [curve.x[curve.best]], [y[curve.best]]
        ax.plot(*at, "o", markersize=6, markerfacecolor="none", markeredgecolor=tint, label="_")
    for sign, shape, height in ((np.inf, "up", 0.97), (-np.inf, "down", 0.03)):
        infinite = curve.x[curve.y == sign]
        where = {"transform": ax.get_xaxis_transform(), "color": paper.hex("warn"), "label": "_"}
        if len(infinite):
            ax.plot(infinite, np.full(len(infinite), height), MARKERS[shape], markersize=4, **where)
    bad = since_nan(curve)
    if bad is not None:
        ax.axvspan(curve.x[bad], curve.x[-1], color=paper.hex("warn"), alpha=0.12, linewidth=0)
