"""Attention and states as images on axes, with ticks, labels, and hatches for cells without values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rfnb.core.errors import value_error
from rfnb.core.place import warn_user
from rfnb.viz.attention.masks import hidden_of
from rfnb.viz.attention.panels import MapPanel, scale_of
from rfnb.viz.attention.words import effect_labels
from rfnb.viz.curves.content import DrawnCurve, curves_of, since_nan
from rfnb.viz.curves.drawing import look
from rfnb.viz.drawing import fonts, labels
from rfnb.viz.drawing.figure import MARKERS, color_map, draw_on, hatch
from rfnb.viz.drawing.shapes import Text
from rfnb.viz.drawing.theme import Theme, on_cell
from rfnb.viz.drawing.theme import theme as theme_of
from rfnb.viz.kinds import drawing_of, maker_of, problem_of, spec_of
from rfnb.viz.parts.matrix import Scale, farthest, number
from rfnb.viz.pool import largest_in
from rfnb.viz.spec import Spec
from rfnb.viz.states.drawing import scale_of as states_scale


def attention(
    weights: Any,
    *,
    ax: Any,
    map: int | str | None,
    sequence: int | str | None,
    theme: str,
    colorbar: bool,
    **options: Any,
) -> Any:
    """An image of attention weights: see `rfnb.plot.attention`."""
    measured = maker_of(weights)  # a result that has labels, e.g. of a sweep
    spec = spec_of("attention", weights, **options) if measured is None else measured(weights, **options)
    check(problem_of(spec), spec.head.get("maps"), "attention", "weights")
    names = [str(entry["label"]) for entry in spec.head["maps"]]
    entry = spec.head["maps"][choice("attention", "map", names, map)]
    seqs = [spec.head["seqs"][index] for index in entry["seqs"]]
    index = choice("attention", "sequence", [str(seq["label"]) for seq in seqs], sequence)
    panel = MapPanel(entry, index, seqs[index], spec.blocks[entry["block"]][index])
    (rows, cols), (row_len, col_len) = panel.shape, panel.real()
    ax, paper = axes_or_current(ax), theme_of(theme)
    scale, values = scale_of(spec, [panel]), np.array(panel.values, np.float64)
    values[row_len:], values[:, col_len:] = np.nan, np.nan
    hidden = hidden_of(spec, entry, index)
    if hidden is not None:
        values[:row_len, :col_len][hidden] = np.nan
        if hidden.any():
            hatch(ax, (-0.5, -0.5, col_len, row_len), paper, "mask", 0.5)
    image = ax.imshow(
        _fitting(values, ax, farthest if scale.ramp == "diverging" else largest_in),
        extent=(-0.5, cols - 0.5, rows - 0.5, -0.5),
        cmap=color_map(paper, scale.ramp),
        norm=_norm(scale),
        aspect=_aspect(rows, cols),
        interpolation="nearest",
    )
    if cols > col_len:
        hatch(ax, (col_len - 0.5, -0.5, cols - col_len, rows), paper, "padding")
    if rows > row_len:
        hatch(ax, (-0.5, row_len - 0.5, col_len, rows - row_len), paper, "padding")
    for row, texts in enumerate(effect_labels(entry, index) or ()):
        for col, text in enumerate(texts):
            shade = float(np.nan_to_num(scale.shares(values[row : row + 1, col : col + 1])[0, 0], nan=0.5))
            color = paper.hex(on_cell(scale.ramp, shade))
            ax.text(col, row, text, ha="center", va="center", fontsize=6, color=color, parse_math=False)
    _ticks(ax, panel.seq["cols"][:col_len], cols, "x")
    _ticks(ax, panel.seq["rows"][:row_len], rows, "y")
    ax.set_xlabel(labels.short(entry["col_dim"]["name"], 40), parse_math=False)
    ax.set_ylabel(labels.short(entry["row_dim"]["name"], 40), parse_math=False)
    if colorbar:
        _bar(image, scale)
    return image


def states(
    tracks: Any,
    *,
    ax: Any,
    track: int | str | None,
    sequence: int | str | None,
    theme: str,
    colorbar: bool,
    **options: Any,
) -> Any:
    """An image of a state: see `rfnb.plot.states`."""
    spec = spec_of("states", tracks, **options)
    check(problem_of(spec), spec.head.get("tracks"), "states", "states")
    names = [str(entry["label"]) for entry in spec.head["tracks"]]
    entry = spec.head["tracks"][choice("states", "track", names, track)]
    seqs = spec.head["seqs"]
    index = choice("states", "sequence", [str(seq["label"]) for seq in seqs], sequence)
    scale = states_scale(spec, entry)
    middle = (scale.low + scale.high) / 2  # 0, or 0.5 for a gate: the value farthest from it represents a cell
    values = np.array(spec.blocks[entry["block"]][index], np.float64)
    (steps, units), length = values.shape, min(seqs[index]["len"], len(values))
    values[length:] = np.nan
    ax, paper = axes_or_current(ax), theme_of(theme)
    image = ax.imshow(
        _fitting(values.T - middle, ax, farthest) + middle,
        extent=(-0.5, steps - 0.5, units - 0.5, -0.5),
        cmap=color_map(paper, scale.ramp),
        vmin=scale.low,
        vmax=scale.high,
        aspect="auto",
        interpolation="nearest",
    )
    if steps > length:
        hatch(ax, (length - 0.5, -0.5, steps - length, units), paper, "padding")
    _ticks(ax, seqs[index]["steps"][:length], steps, "x")
    name = spec.head["step_dim"]["name"] if spec.head.get("step_dim") else "step"
    ax.set_xlabel(labels.short(name, 40), parse_math=False)
    ax.set_ylabel(labels.short(f"{entry['label']}: {entry['unit_dim']['name']}", 40), parse_math=False)
    if colorbar:
        _bar(image, scale)
    return image


_TICK = 7  # points


def _bar(image: Any, scale: Scale) -> None:
    """A colour bar to the right of the axes, which shrink if no layout makes room."""
    ax = image.axes
    ends = [scale.value(share) for share in (0, 0.5, 1)]
    texts = [number(end) for end in ends]
    place, wide = ax.get_subplotspec(), size_in_points(ax)[0]
    if ax.figure.get_layout_engine() is None and place is not None and not ax.child_axes:
        need = 0.05 * wide + 6 + max(fonts.width(text, _TICK) for text in texts)
        share = max(0.5, 1 - need / wide)
        ax.set_subplotspec(place.subgridspec(1, 2, wspace=0, width_ratios=[share, 1 - share])[0])
    bar = ax.figure.colorbar(image, cax=ax.inset_axes((1.02, 0, 0.03, 1)))
    bar.set_ticks(ends, labels=texts, fontsize=_TICK)
    bar.ax.tick_params(length=2)
    bar.outline.set_linewidth(0.5)


def _fitting(values: np.ndarray, ax: Any, pool: Any) -> np.ndarray:
    """The values if the axes have a pixel for each, else pooled: matplotlib would skip rows and columns, and peaks with them.

    Warns:
        UserWarning: The number of values per cell.
    """
    box = ax.get_window_extent()
    high, wide = int(box.height), int(box.width)
    if not values.size or (values.shape[0] <= high and values.shape[1] <= wide):
        return values
    made = np.asarray(
        pool(values, max(1, int(0.7 * high)), max(1, int(0.7 * wide)))
    )  # a layout may make the axes smaller
    down, across = (-(-size // few) for size, few in zip(values.shape, made.shape))
    which = "largest" if pool is largest_in else "farthest from 0"
    warn_user(f"plot: the axes have fewer pixels than values; a cell is the {which} of up to {down} × {across}.")
    return made


def _norm(scale: Any) -> Any:
    from matplotlib.colors import Normalize, PowerNorm

    return PowerNorm(0.5, vmin=0, vmax=scale.high) if scale.root else Normalize(scale.low, scale.high)


def _aspect(rows: int, cols: int) -> str:
    return "equal" if max(rows, cols) <= 4 * min(rows, cols) else "auto"


def _ticks(ax: Any, texts: Sequence[str], count: int, which: str) -> None:
    """Set ticks with as many labels as fit."""
    room = size_in_points(ax)[0 if which == "x" else 1]
    size = 8.0
    make = labels.columns if which == "x" else labels.rows
    axis = make(texts, room / max(count, 1), size)
    at, shown = [index for index, _ in axis.at], [text for _, text in axis.at]
    side = ax.xaxis if which == "x" else ax.yaxis
    side.set_ticks(at, shown, fontsize=size, rotation=axis.turn)
    side.set_tick_params(length=2)
    for label in side.get_ticklabels():
        label.set_parse_math(False)
        if axis.turn == 45:
            label.set(ha="right", rotation_mode="anchor")


_FEW = 40  # up to this many points, each gets a marker


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
    name = "_" if curve.run is None else labels.short(curve.run, 40)  # a legend skips names with this prefix
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


_POINTS, _MOST_POINTS = 8 / 11, 11 / 11  # 8-point text needs 11 points of room, per unit of a drawing
_WIDTHS = (
    1.15,
    1.0,
    0.85,
    0.7,
    0.55,
)  # layouts to try: a wide one may leave most of the height empty, or show words instead of dots
_LEAST = 6 / 9  # points per unit: the smallest text, of size 9, then has 6 points


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
    """Draw a spec centred on axes, in the layout that shows most in legible type and fills the axes best; the aspect ratio is kept."""
    paper, ax = theme_of(theme), axes_or_current(ax)
    width, height = size_in_points(ax)
    tried = []
    for share in _WIDTHS:
        drawing = drawing_of(spec, share * width / _POINTS)
        scale = min(_MOST_POINTS, width / drawing.width, height / drawing.height)
        words = sum(len(shape.text) for shape in drawing.shapes if isinstance(shape, Text))
        read = (min(scale, _LEAST), words if scale >= _LEAST else 0, min(scale, _POINTS))
        tried.append((*read, scale * scale * drawing.width * drawing.height, scale, drawing))
    *_, scale, drawing = max(tried, key=lambda one: one[:4])
    # Margins around a drawing smaller than the axes, so that units are square.
    left, top = (width / scale - drawing.width) / 2, (height / scale - drawing.height) / 2
    draw_on(ax, drawing, paper, scale)
    ax.set_xlim(-left, drawing.width + left)
    ax.set_ylim(drawing.height + top, -top)
    return ax


def axes_or_current(ax: Any) -> Any:
    """The given axes; else the current ones of pyplot, which is imported only here."""
    if ax is not None:
        return ax
    from matplotlib import pyplot

    return pyplot.gca()


def size_in_points(ax: Any) -> tuple[float, float]:
    """Current width and height, in 1/72 inch."""
    box = ax.get_window_extent()
    return box.width * 72 / ax.figure.dpi, box.height * 72 / ax.figure.dpi


def check(fault: str | None, entries: Sequence[Any] | None, where: str, what: str) -> None:
    """Refuse a spec that cannot be drawn, or that is empty."""
    if fault or not entries:
        raise value_error(
            f"plot.{where}: there is nothing to draw.",
            {"given": fault or f"no {what}"},
            "A plot shows one array.",
            f"rf.viz.{where}(...)",
        )


def choice(where: str, option: str, names: list[str], chosen: int | str | None) -> int:
    """The number of the chosen entry."""
    if chosen is None and len(names) == 1:
        return 0
    if isinstance(chosen, str) and chosen in names:
        return names.index(chosen)
    if isinstance(chosen, int) and not isinstance(chosen, bool) and -len(names) <= chosen < len(names):
        return chosen % len(names)
    few = ", ".join(names[:6]) + (f", ... ({len(names)} in all)" if len(names) > 6 else "")
    said = f"there are {len(names)} of them" if chosen is None else f"there is no {chosen!r}"
    raise value_error(
        f"plot.{where}: which {option}? {said[0].upper()}{said[1:]}.",
        [(f"{option}s", few or "none"), ("chosen", "none" if chosen is None else repr(chosen))],
        f"Axes show one {option}: its number or its label.",
        f"rf.plot.{where}(..., {option}={names[0]!r}, ax=ax)" if names else None,
    )
