"""The `curves` view as a drawing: panels over a common axis of steps, three per row if there are many.

Series in one panel are distinguished by dashes, marks and a legend, not by colour alone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rfnb.viz.curves.content import DrawnCurve, curves_of, number, odd, since_nan, values_text
from rfnb.viz.curves.spec import is_broken
from rfnb.viz.drawing import fonts, labels
from rfnb.viz.drawing.shapes import Area, Cells, Drawing, Lines, Marks, Point, Text, paths_of
from rfnb.viz.drawing.ticks import Ticks, x_ticks, y_ticks
from rfnb.viz.kinds import title_of

_MOST_PANELS, _MOST_SHARED = 12, 8
_MOST_ROWS, _ABREAST, _BESIDE = 6, 560.0, 18.0  # more panels than this are laid out three per row, if there is room
_ROW, _MOST_STRIP = 11.0, 40  # of a strip
_TITLE, _LEGEND, _AXIS, _RIGHT = 24.0, 16.0, 20.0, 14.0
# Of different lengths, so that dash and mark together distinguish 20 lines.
_DASHES: list[tuple[float, float] | None] = [None, (6.0, 3.0), (2.0, 2.0), (11.0, 3.0)]
_MEAN = "The line of very many points is their mean, with the range behind it"
_MARKS = ["dot", "square", "up", "cross", "down"]


def drawing(spec: Any, width: float, coarse: bool = False) -> Drawing:
    """The curves as a drawing with this width.

    Args:
        coarse: Whether to draw dense lines as range and mean, which take fewer bytes than noise.
    """
    x_name = str(spec.head["x"])
    curves = curves_of(spec)
    panels = panels_of(curves)
    shown = panels[:_MOST_PANELS]
    many = len(shown) > _MOST_ROWS and all(len(panel.among) == 1 for panel in shown)
    cols = 3 if many and width > _ABREAST else 1
    rows = [shown[start : start + cols] for start in range(0, len(shown), cols)]
    tall = {1: 170.0, 2: 124.0, 3: 96.0}.get(len(rows), 80.0)
    scales = {id(panel): _scale(panel, tall) for panel in shown}
    texts = [text for scale in scales.values() if scale for _, text in scale.at]
    texts += [labels.short(curve.own, 24) for panel in shown if panel.strip for curve in panel.curves]
    left = max([24.0, *(fonts.width(text, 10) for text in texts)]) + 9
    each = (width - (cols - 1) * _BESIDE) / cols
    made = Drawing(width, 0)
    x = _x_scale(shown, int((each - left) // (80 if cols == 1 else 50)))
    for row in rows:
        parts = []
        for panel in row:
            part = Drawing(each, 0)
            _legend(part, panel, _TITLE, each, x_name)
            high = _ROW * len(panel.curves) if panel.strip else tall
            box = _PlotBox(left, part.height + _TITLE, each - left - _RIGHT, high, x, coarse)
            _draw(part, panel, scales[id(panel)], box)
            _title(part, panel, _TITLE - 13, x_name)
            part.height += _TITLE + high + 8
            if row is rows[-1]:
                _axis(part, x, left, x_name)
            parts.append(part)
            made.notes += [note for note in part.notes if note not in made.notes]
        bottom = made.height + max(part.height for part in parts)
        for at, part in enumerate(parts):
            made.put(part, at * (each + _BESIDE), bottom - part.height)
        made.height = bottom
    made.alt = description(title_of(spec), shown, x_name)
    made.shows(sum(len(panel.curves) for panel in shown), len(curves), "series are drawn as lines")
    return made


def _x_scale(panels: list[Plot], count: int) -> Ticks:
    """The x axis of all panels: from the first to the last point."""
    curves = [curve for panel in panels for curve in panel.curves if len(curve.x)]
    ends = [float(end) for curve in curves for end in (curve.x[0], curve.x[-1])]
    return x_ticks(min(ends), max(ends), count, whole=all((curve.x == np.round(curve.x)).all() for curve in curves))


@dataclass
class Plot:
    """The series in one plot; usually one.

    Attributes:
        curves: The series drawn as lines.
        among: All series, whose range is drawn.
    """

    name: str
    curves: list[DrawnCurve]
    among: list[DrawnCurve]

    @property
    def strip(self) -> bool:
        """Whether its series are rows of cells."""
        return self.among[0].strip

    @property
    def alone(self) -> bool:
        """Whether it has one series without a run."""
        return len(self.among) == 1 and self.among[0].run is None

    def styled(self) -> list[tuple[DrawnCurve, int | None]]:
        """Each line with the index of its style; None for a single line."""
        if self.alone:
            return [(self.curves[0], None)]
        return [(curve, index if curve.run is None else curve.style) for index, curve in enumerate(self.curves)]


def panels_of(curves: list[DrawnCurve]) -> list[Plot]:
    """A panel for each group of series: those that share one, the runs of one label, and each other series."""
    groups: dict[Any, list[DrawnCurve]] = {}
    for index, curve in enumerate(curves):
        key = (curve.panel,) if curve.panel is not None else index if curve.run is None else curve.label
        groups.setdefault(key, []).append(curve)
    out = []
    for group in groups.values():
        first = group[0]
        most = _MOST_STRIP if first.strip else _MOST_SHARED
        spread = [group[int(index)] for index in np.linspace(0, len(group) - 1, min(most, len(group)))]
        lines = [*dict.fromkeys([*(curve for curve in group if is_broken(curve.y)), *spread])][:most]
        name = first.label if len(group) == 1 or first.panel is None else first.panel
        out.append(Plot(name, sorted(lines, key=group.index), group))
    return out


@dataclass(frozen=True)
class _PlotBox:
    """The box of a plot, and its x axis."""

    left: float
    top: float
    width: float
    tall: float
    x: Ticks
    coarse: bool

    @property
    def pixels(self) -> float:
        """The number of horizontal units per value of a range or mean."""
        return 8.0 if self.coarse else 1.0

    def is_dense(self, points: int) -> bool:
        """True if a line cannot show this many points."""
        return points * self.pixels > (2 if self.coarse else 4) * self.width

    def px(self, xs: np.ndarray) -> np.ndarray:
        return self.left + self.x.shares(xs) * self.width

    def py(self, ys: np.ndarray, scale: Ticks) -> np.ndarray:
        return self.top + (1 - scale.shares(ys)) * self.tall


def _scale(panel: Plot, tall: float) -> Ticks | None:
    ends = [
        (float(curve.y[curve.known].min()), float(curve.y[curve.known].max()))
        for curve in panel.among
        if len(curve.known)
    ]
    if not ends:
        return None
    low, high = min(end[0] for end in ends), max(end[1] for end in ends)
    return y_ticks(low, high, log=all(curve.log for curve in panel.among) and low > 0, count=4 if tall > 110 else 3)


def _strip(made: Drawing, panel: Plot, scale: Ticks, place: _PlotBox) -> None:
    """A row of cells per series: shaded by the distance from the minimum, or from 0 if some values are negative."""
    count = int(place.width // 2)
    cells = np.full((len(panel.curves), count), np.nan)
    for row, curve in zip(cells, panel.curves):
        low, high = (np.clip(place.x.shares(end) * count, 0, count) for end in curve.spans())
        for at in np.argsort(
            np.abs(curve.y), kind="stable"
        ):  # the value farthest from 0 is drawn last in a shared cell
            row[int(low[at]) : max(int(low[at]) + 1, round(float(high[at])))] = curve.y[at]
    signed = bool((cells < 0).any())
    most = float(np.nanmax(np.abs(cells), initial=0)) or 1.0
    shares = cells / most / 2 + 0.5 if signed else scale.shares(cells)
    there = np.isfinite(shares)
    shades = np.where(there, 1 + np.round(254 * np.clip(np.where(there, shares, 0), 0, 1)), 0).astype(np.uint8)
    made.add(Cells(place.left, place.top, place.width, place.tall, shades, "diverging" if signed else "sequential"))
    for index, curve in enumerate(panel.curves):
        y, name = place.top + (index + 0.5) * _ROW, labels.short(curve.own, 24)
        made.add(Text(place.left - 7, y, name, 10, "warn" if is_broken(curve.y) else "muted", "right"))
        bad = place.px(curve.x[~np.isfinite(curve.y)])[:400]
        made.add(
            *([Marks("warn", [(float(x), y) for x in np.unique(np.round(bad))], 2.5, "cross")] if len(bad) else [])
        )


def _draw(made: Drawing, panel: Plot, scale: Ticks | None, place: _PlotBox) -> None:
    if panel.strip and scale is not None:
        _strip(made, panel, scale, place)
        return
    right, bottom = place.left + place.width, place.top + place.tall
    xs = [float(x) for x in place.px(np.array([value for value, _ in place.x.at]))]
    made.add(Lines("line", 0.6, [[(x, place.top), (x, bottom)] for x in xs]))
    if scale is None:
        points = sum(len(curve.y) for curve in panel.curves)
        words = f"no finite value in {points} points" if points else "no points"
        made.add(Text((place.left + right) / 2, (place.top + bottom) / 2, words, color="muted", anchor="middle"))
    else:
        ticks = [(float(place.py(np.array(value), scale)), text) for value, text in scale.at]
        made.add(Lines("line", 0.8, [[(place.left, y), (right, y)] for y, text in ticks if text]))
        made.add(*(Text(place.left - 7, y, text, 10, "muted", "right") for y, text in ticks if text))
    made.add(Lines("faint", 1.0, [[(place.left, bottom), (right, bottom)]]))
    if scale is None:
        return
    crowded = len(panel.among) > len(panel.curves)
    if crowded:
        _range(made, panel.among, place, scale, max(2.0, place.pixels))
        place = replace(place, coarse=True)  # overlapping lines of noise would hide each other
    for curve, style in panel.styled():
        _curve(made, curve, place, scale, style, crowded=crowded)


def look(style: int | None) -> tuple[str, tuple[float, float] | None, str]:
    """The colour, dash and mark of a style."""
    if style is None:
        return "accent", None, "dot"
    return f"hue{style % 8}", _DASHES[style % len(_DASHES)], _MARKS[style % len(_MARKS)]


def _legend(made: Drawing, panel: Plot, top: float, width: float, x_name: str) -> None:
    """Draw the legend above a panel: names, line styles and last values of the lines; increases its height."""
    if panel.alone or panel.strip:
        return
    at = 0.0
    for curve, style in panel.styled():
        color, dash, mark = look(style)
        name = labels.short(curve.label if curve.run is None else curve.run, 40)
        said = odd(curve, labels.short(x_name))
        last = said[0] if said else number(curve.y[-1]) if len(curve.y) else "no points"
        wide = 26 + fonts.width(name, 10) + 5 + fonts.width(last, 10, bold=True) + 14
        if at and at + wide > width - _RIGHT:
            at, top = 0.0, top + _LEGEND
        y = top + 1
        made.add(Lines(color, 1.4, [[(at, y), (at + 21, y)]], dash), Marks(color, [(at + 10.5, y)], 3.0, mark))
        made.add(
            Text(at + 26, y, name, 10), Text(at + wide - 14, y, last, 10, "warn" if said else "ink", "right", bold=True)
        )
        at += wide
    made.height = top - _TITLE + _LEGEND


def _title(made: Drawing, panel: Plot, y: float, x_name: str) -> None:
    values = _values(panel.curves[0], x_name) if panel.alone else []
    right = made.width - _RIGHT
    for text, color, bold in reversed(values):
        size = fonts.width(text, 10.5, bold=bold)
        if right - size < made.width * 0.3:
            break
        made.add(Text(right, y, text, 10.5, color, "right", bold))
        right -= size + 12
    unit = panel.curves[0].unit if panel.alone else ""
    name = labels.fitted(panel.curves[0].label if panel.alone else panel.name, right - 8, 12, bold=True)
    made.add(Text(0, y, name, 12, bold=True))
    at = fonts.width(name, 12, bold=True) + 8
    if panel.strip:
        ends = [float(end) for c in panel.among if len(c.known) for end in (c.y[c.known].min(), c.y[c.known].max())]
        unit = f"{number(min(ends))} to {number(max(ends))}, {len(panel.among)} rows" if ends else "no finite value"
    elif not panel.alone:
        lines = f", {len(panel.curves)} as lines, and the range of all" if len(panel.among) > len(panel.curves) else ""
        what = "series" if panel.among[0].run is None else "runs" if len(panel.among) > 1 else "run"
        unit = f"{panel.curves[0].unit}{', ' * bool(panel.curves[0].unit)}{len(panel.among)} {what}{lines}"
    if unit and at < right - 40:
        made.add(labels.within(at, y, unit, right - at - 8, 10.5, "muted"))


def _values(curve: DrawnCurve, x_name: str) -> list[tuple[str, str, bool]]:
    """The texts to the right of the title: text, colour, whether bold."""
    if not len(curve.y):
        return []
    out = [(text, "warn", False) for text in odd(curve, labels.short(x_name))]
    if curve.best is not None and len(curve.y) > 1:
        out.append((f"best {number(curve.y[curve.best])} at {number(curve.x[curve.best])}", "muted", False))
    last = curve.y[-1]
    return [
        *out,
        ("last", "muted", False),
        ("NaN" if np.isnan(last) else number(last), "ink" if np.isfinite(last) else "warn", True),
    ]


def _curve(
    made: Drawing, curve: DrawnCurve, place: _PlotBox, scale: Ticks, style: int | None, *, crowded: bool
) -> None:
    color, dash, mark = look(style)
    x, y = curve.line()
    if place.is_dense(len(curve.known)):  # the range, and the mean through it
        if not crowded:
            _range(made, [curve], place, scale, place.pixels, "shade" if style is None else color)
        x, y = _means(curve, place, max(3.0, place.pixels))
        if _MEAN not in made.notes:
            made.notes.append(_MEAN)
    paths = paths_of(place.px(x), place.py(y, scale))
    made.add(Lines(color, 1.4, [path for path in paths if len(path) > 1], dash))
    few, xs, ys = len(curve.y) <= 40, place.px(curve.x), place.py(curve.y, scale)
    dots: list[Point] = [path[0] for path in paths if len(path) == 1] + (
        [p for path in paths for p in path] if few else []
    )
    if style is not None and not few:
        flat = [point for path in paths for point in path]
        dots += [flat[(2 * index + 1) * len(flat) // 12] for index in range(6) if flat]
    if dots:
        made.add(Marks(color, dots, 2.0 if style is None else 3.0, mark))
    for sign, shape, at in ((np.inf, "up", place.top + 5), (-np.inf, "down", place.top + place.tall - 5)):
        where = np.unique(np.round(xs[curve.y == sign]))[:400]
        if len(where):
            made.add(Marks("warn", [(float(x), at) for x in where], 4.0, shape))
    bad = since_nan(curve)
    if bad is not None and style is not None:  # the others continue
        made.add(Marks("warn", [(float(xs[at]), float(ys[at])) for at in curve.known[-1:]], 4.0, "cross"))
    elif bad is not None:
        start = float(xs[bad])
        made.add(Area("warn", [_box(start, place.top, max(place.left + place.width - start, 2.0), place.tall)], 0.12))
    if curve.best is not None and len(curve.y) > 1:
        made.add(Marks(color, [(float(xs[curve.best]), float(ys[curve.best]))], 3.8, "ring"))


def _box(x: float, y: float, width: float, height: float) -> list[Point]:
    return [(x, y), (x + width, y), (x + width, y + height), (x, y + height)]


def _range(
    made: Drawing, curves: list[DrawnCurve], place: _PlotBox, scale: Ticks, pixels: float, color: str = "shade"
) -> None:
    """A polygon from the lowest to the highest value in each column of the given width."""
    count = max(1, int(place.width // pixels))
    low, high, blank = np.full(count, np.inf), np.full(count, -np.inf), np.zeros(count, bool)
    for curve in (curve for curve in curves if len(curve.known)):
        column = _columns(curve, place, pixels)
        starts = np.flatnonzero(np.r_[True, column[1:] != column[:-1]])
        y = curve.y[curve.known]
        at = column[starts]
        low[at] = np.minimum(low[at], np.minimum.reduceat(y, starts))
        high[at] = np.maximum(high[at], np.maximum.reduceat(y, starts))
        blank[_columns(curve, place, pixels, np.flatnonzero(~np.isfinite(curve.y)))] = True
    # Linear between two points, except at NaN.
    is_known = low <= high
    known = np.flatnonzero(is_known)
    points = np.flatnonzero(is_known | blank)
    after = np.searchsorted(points, np.arange(count))
    ends = is_known[points[np.clip(after, 0, len(points) - 1)]], is_known[points[np.clip(after - 1, 0, None)]]
    there = is_known | (ends[0] & ends[1] & ~blank & (after > 0) & (after < len(points)))
    low, high = (np.interp(np.arange(count), known, side[known]) for side in (low, high))
    edges = np.flatnonzero(np.diff(np.r_[False, there, False].astype(np.int8)))
    xs = place.left + (np.arange(count) + 0.5) / count * place.width
    top = place.py(np.where(there, high, np.nan), scale)
    bottom = np.maximum(place.py(np.where(there, low, np.nan), scale), top + 1)
    paths = [
        [*zip(xs[a:b].tolist(), top[a:b].tolist()), *zip(xs[a:b][::-1].tolist(), bottom[a:b][::-1].tolist())]
        for a, b in zip(edges[::2], edges[1::2])
        if b - a > 1
    ]
    if paths:
        made.add(Area(color, paths, 1.0 if color == "shade" else 0.25))


def _columns(curve: DrawnCurve, place: _PlotBox, pixels: float, of: np.ndarray | None = None) -> np.ndarray:
    """The column of each point, by default of each valid one, for columns of the given width."""
    count = max(1, int(place.width // pixels))
    x = curve.x[curve.known if of is None else of]
    return np.clip((place.x.shares(x) * count).astype(np.int64), 0, count - 1)


def _means(curve: DrawnCurve, place: _PlotBox, pixels: float) -> tuple[np.ndarray, np.ndarray]:
    """The mean x and y of the points in each column; NaN if there are none."""
    column, count = _columns(curve, place, pixels), max(1, int(place.width // pixels))
    known = np.maximum(np.bincount(column, minlength=count), 1)
    x, y = (np.bincount(column, values[curve.known], count) / known for values in (curve.x, curve.y))
    there = np.bincount(column, minlength=count) > 0
    return np.where(there, x, np.nan), np.where(there, y, np.nan)


def _axis(made: Drawing, x: Ticks, left: float, name: str) -> None:
    width, y = made.width - left - _RIGHT, made.height + 4
    name = labels.fitted(name, made.width * 0.3, 10)
    end = made.width - _RIGHT - fonts.width(name, 10) - 10
    for value, text in x.at:
        at = left + float(x.shares(np.array(value))) * width
        if at + fonts.width(text, 10) / 2 < end:
            made.add(Text(at, y, text, 10, "muted", "middle"))
    made.add(Text(made.width - _RIGHT, y, name, 10, "muted", "right"))
    made.height += _AXIS


def description(title: str, panels: list[Plot], x_name: str) -> str:
    """A description of the picture: the first, last and best value of each series drawn as a line."""
    curves = [curve for panel in panels for curve in panel.curves]
    words = [f"{labels.short(curve.name, 60)}: {values_text(curve, labels.short(x_name))}." for curve in curves]
    return f"{labels.short(title, 120)} over {labels.short(x_name)}. " + " ".join(words)
