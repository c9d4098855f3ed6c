"""The `curves` view as a picture: a panel per series under one axis of steps."""

from __future__ import annotations

from html import escape
from typing import Any

import numpy as np

from rfnb.viz import picture
from rfnb.viz.curves.text import Curve, curves_of, number, problem, values_text

_INK = picture.SEQUENTIAL[6]
_WARN = "#b3261e"
_STEPS = [1, 2, 5, 10]


def html(spec: Any) -> str:
    """The curves as HTML without script, style or inline SVG."""
    fault = problem(spec)
    if fault:
        return f"<p>{escape(fault)}</p>"
    head = spec.head
    title = escape(str(head.get("title") or "Curves"))
    curves = curves_of(spec)
    if not any(len(curve.x) for curve in curves):
        return f"<p>{title}: no points{' yet' if head.get('live') else ''}</p>"
    return f"<p><b>{title}</b></p>\n{picture.img(_figure(curves, str(head['x'])), description(spec))}"


def description(spec: Any) -> str:
    """The picture in words: the first, last and best value of each series."""
    x_name, curves = str(spec.head["x"]), curves_of(spec)
    words = [f"{curve.name}: {values_text(curve, x_name)}." for curve in curves]
    return f"{spec.head.get('title') or 'Curves'} over {x_name}. " + " ".join(words)


def _figure(curves: list[Curve], x_name: str) -> Any:
    tall = {1: 2.2, 2: 1.5, 3: 1.25}.get(len(curves), 1.05)
    figure = picture.new_figure(6.8, len(curves) * (tall + 0.2) + 0.35)
    grid = np.atleast_1d(figure.subplots(len(curves), 1, sharex=True))
    for axes, curve in zip(grid, curves):
        _panel(axes, curve, x_name)
    grid[-1].set_xlabel(picture.plain(x_name), fontsize=8.5, color=picture.MUTED, loc="right")
    return figure


def _panel(axes: Any, curve: Curve, x_name: str) -> None:
    from matplotlib.ticker import MaxNLocator

    quiet = {"fontsize": 8, "color": picture.MUTED}
    axes.set_title(picture.plain(curve.name), fontsize=9, loc="left", color=picture.INK, fontweight="bold")
    axes.set_title(picture.plain(values_text(curve, x_name)), loc="right", **quiet)
    picture.frameless(axes)
    axes.tick_params(labelsize=8, labelcolor=picture.MUTED)
    axes.grid(color=picture.LINE, linewidth=0.6)
    axes.set_axisbelow(True)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    whole = bool((curve.x == np.round(curve.x)).all())
    axes.xaxis.set_major_locator(MaxNLocator(8, integer=whole, steps=_STEPS))
    if not len(curve.known):
        axes.text(0.5, 0.5, "no values", ha="center", va="center", transform=axes.transAxes, **quiet)
        axes.set_yticks([])
        return
    if curve.log:
        axes.set_yscale("log")
    else:
        axes.yaxis.set_major_locator(MaxNLocator(4, steps=_STEPS))
        axes.yaxis.set_major_formatter(lambda value, _: number(round(value, 12)))
    y = np.where(np.isfinite(curve.y), curve.y, np.nan)
    axes.plot(
        curve.x,
        y,
        color=_INK,
        linewidth=1.4,
        marker="o" if len(y) <= 40 else "",
        markersize=2.6,
        solid_joinstyle="round",
    )
    alone = _alone(y)
    axes.plot(curve.x[alone], y[alone], "o", color=_INK, markersize=2.6)
    low, high = float(np.nanmin(y)), float(np.nanmax(y))
    if not curve.log and 0 <= low < 0.35 * high:
        axes.set_ylim(bottom=0)
    for index in np.flatnonzero(np.isinf(curve.y)):
        top = curve.y[index] > 0
        axes.plot(
            curve.x[index],
            0.97 if top else 0.03,
            "^" if top else "v",
            color=_WARN,
            markersize=5,
            transform=axes.get_xaxis_transform(),
        )
    if curve.best is not None and len(y) > 1:
        style = {"markerfacecolor": "white", "markeredgecolor": _INK, "markeredgewidth": 1.4, "clip_on": False}
        axes.plot(curve.x[curve.best], y[curve.best], "o", markersize=5.5, **style)
        axes.annotate(
            number(y[curve.best]),
            (curve.x[curve.best], y[curve.best]),
            (0, 6),
            textcoords="offset points",
            ha="center",
            **quiet,
        )


def _alone(y: np.ndarray) -> np.ndarray:
    """The points that have no neighbours, so that no line shows them."""
    known = np.isfinite(y)
    return known & ~np.r_[False, known[:-1]] & ~np.r_[known[1:], False]
