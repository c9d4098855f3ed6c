"""The `curves` view: validation of its spec, and its page."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from rfnb.core.strict_json import JsonObject
from rfnb.viz.kinds import WIDE, drawing_of, none_yet, title_of
from rfnb.viz.markup import picture, title
from rfnb.viz.page.budget import Room
from rfnb.viz.page.page_spec import finest, lessened
from rfnb.viz.rounding import significant
from rfnb.viz.spec import Spec
from rfnb.viz.terminal import WIDTH, bar, clip, shortened, width_of


def problem(spec: Any) -> str | None:
    """The problem with the spec, as a sentence; None if it can be drawn."""
    series = spec.head.get("series")
    if not isinstance(series, list):
        return "These curves cannot be drawn: the list of series is missing."
    for number_, entry in enumerate(series):
        if not isinstance(entry, dict):
            return f"These curves cannot be drawn: series {number_} is not an entry with a label, x and y."
        label = entry.get("label", number_)
        x, y = (spec.blocks.get(entry.get(name)) for name in ("x", "y"))
        if x is None or y is None:
            return f"These curves cannot be drawn: series {label} has no array of {'x' if x is None else 'y'}."
        if x.ndim != 1 or x.shape != y.shape:
            return f"These curves cannot be drawn: series {label} has {x.size} x and {y.size} y."
    return None


def missing(spec: Any) -> str:
    """The text for an empty view; "" for any other."""
    return "" if any(len(spec.blocks[entry["x"]]) for entry in spec.head["series"]) else none_yet(spec, "points")


def page(spec: Any) -> list[str]:
    """The curves as HTML."""
    made = picture(drawing_of(spec))
    if (
        sum(map(len, made)) > _MOST_PICTURE
    ):  # a range takes less than lines of noise, and the data beside the picture needs the room
        made = picture(drawing_of(spec, WIDE, True))
    return [title(title_of(spec)), *made]


_MOST_PICTURE = 54_000  # characters: 40 kB as base64
_MOST_BARS, _LEAST_BARS, _MOST_LABEL, _MOST_SERIES = 40, 16, 24, 24


@dataclass(frozen=True, eq=False)
class DrawnCurve:
    """One series: x and y as float64, and the index of its best point, or None.

    Attributes:
        style: The index of its run.
        panel: The name of its panel, if it shares one with series of other labels.
        gap: Points farther apart than this are not connected.
        strip: Whether it is drawn as a row of cells instead of a line.
    """

    label: str
    unit: str
    x: np.ndarray
    y: np.ndarray
    best: int | None
    log: bool
    run: str | None = None
    style: int = 0
    panel: str | None = None
    gap: float = np.inf
    strip: bool = False

    @property
    def name(self) -> str:
        """The run, the label and the unit."""
        label = self.label if self.run is None else f"{self.run} {self.label}"
        return f"{label} ({self.unit})" if self.unit else label

    @property
    def known(self) -> np.ndarray:
        """The indices of the points with a finite or infinite value."""
        return np.flatnonzero(np.isfinite(self.y))

    @property
    def own(self) -> str:
        """The name that distinguishes it within its panel."""
        return self.label if self.run is None else self.run

    def spans(self) -> tuple[np.ndarray, np.ndarray]:
        """The x interval that each point represents."""
        half = np.minimum(np.diff(self.x), self.gap) / 2
        ends = half[:1] if len(half) else np.ones(1)
        before, after = np.r_[ends, half], np.r_[half, half[-1:] if len(half) else ends]
        return self.x - before[: len(self.x)], self.x + after[: len(self.x)]

    def line(self) -> tuple[np.ndarray, np.ndarray]:
        """x and y, NaN where the line through them breaks."""
        far = np.flatnonzero(np.diff(self.x) > self.gap) + 1
        return np.insert(self.x, far, self.x[far]), np.insert(
            np.where(np.isfinite(self.y), self.y, np.nan), far, np.nan
        )


def text(spec: Any) -> str:
    """The series one below the other, over a common axis of steps."""
    head = spec.head
    curves = curves_of(spec)
    steps = np.unique(np.concatenate([curve.x for curve in curves]))
    first, last = between(steps[0], steps[-1])
    lines = [f"{title_of(spec)}: {head['x']} {first} to {last}{', running' if spec.live else ''}"]
    shown = curves[:_MOST_SERIES]
    left = min(_MOST_LABEL, max(width_of(curve.name) for curve in shown))
    for span in (False, True):  # the text is shorter if each bar is a point
        words = [values_text(curve, shortened(head["x"], 20), span=span) for curve in shown]
        room = WIDTH - left - 6 - max(width_of(text) for text in words)
        edges = np.linspace(steps[0], steps[-1], min(max(_LEAST_BARS, min(_MOST_BARS, room)), len(steps)) + 1)
        if len(steps) < len(edges):
            break
    shared = max(int(np.bincount(column_of(curve, edges), minlength=1).max()) for curve in shown)
    if shared > 1:
        lines[0] += f"; a bar is the mean of up to {shared} points"
    for curve, values in zip(shown, words):
        others = [other for other in shown if curve.run is not None and other.label == curve.label] or [curve]
        lines.append(f"  {clip(curve.name, left)}  {_bars(curve, edges, others)}  {values}")
    if len(shown) < len(curves):
        lines.append(f"  ... and {len(curves) - len(shown)} more series")
    return "\n".join(lines)


def curves_of(spec: Any) -> list[DrawnCurve]:
    """The series of a valid spec."""
    runs = [str(run) for run in spec.head.get("runs") or []]
    return [_curve(entry, spec.blocks, runs) for entry in spec.head["series"]]


def values_text(curve: DrawnCurve, x_name: str, *, span: bool = False) -> str:
    """The first, last and best value as text.

    Args:
        span: Whether to add the minimum and maximum, if they are not among these.
    """
    if not len(curve.y):
        return "no points"
    if not len(curve.known):
        return ", ".join([f"no finite value in {len(curve.y)} points", *odd(curve, x_name)])
    said = list(_values(curve, x_name))
    if span:
        low, high = (number(float(end)) for end in (curve.y[curve.known].min(), curve.y[curve.known].max()))
        if not {low, high} <= {part.split(" ")[1] for part in said}:
            said.append(f"from {low} to {high}")
    return ", ".join([*said, *odd(curve, x_name)])


def odd(curve: DrawnCurve, x_name: str) -> list[str]:
    """The values that are not finite: "NaN since step 390", "2 infinite, first at step 7"."""
    return odd_in(curve.x, curve.y, x_name)


def odd_in(x: np.ndarray, y: np.ndarray, x_name: str) -> list[str]:
    """The same for arrays of x and y."""
    said = []
    for words, where in (("NaN", np.isnan(y)), ("infinite", np.isinf(y))):
        at = np.flatnonzero(where)
        if len(at):
            place = f"{x_name} {number(float(x[at[0]]))}"
            to_the_end = len(at) > 1 and len(at) == len(y) - at[0]
            said.append(f"{words} since {place}" if to_the_end else f"{len(at)} {words}, first at {place}")
    return said


def since_nan(curve: DrawnCurve) -> int | None:
    """The index from which on all values are NaN, if that is more than the last point."""
    bad = np.flatnonzero(np.isnan(curve.y))
    return int(bad[0]) if len(bad) > 1 and len(bad) == len(curve.y) - bad[0] else None


def between(low: float, high: float) -> tuple[str, str]:
    """Both ends of a range with four significant digits, or with more if they would be equal."""
    for digits in range(4, 17):
        low_, high_ = number(low, digits), number(high, digits)
        if low == high or low_ != high_:
            break
    return low_, high_


def number(value: float, digits: int = 4) -> str:
    """Four significant digits; whole numbers in full."""
    if np.isnan(value):
        return "NaN"
    return (
        str(int(value))
        if np.isfinite(value) and value == round(value) and abs(value) < 1e9
        else significant(value, digits)
    )


def _values(curve: DrawnCurve, x_name: str) -> Iterator[str]:
    yield f"first {number(curve.y[0])}"
    if len(curve.y) > 1:
        yield f"last {number(curve.y[-1])}"
    if curve.best is not None and len(curve.y) > 1:
        yield f"best {number(curve.y[curve.best])} at {x_name} {number(curve.x[curve.best])}"


def _curve(entry: JsonObject, blocks: dict[str, np.ndarray], runs: list[str]) -> DrawnCurve:
    x, y = (blocks[entry[name]].astype(np.float64) for name in ("x", "y"))
    best = None
    finite = np.isfinite(y)
    if entry.get("best") in ("min", "max") and finite.any():
        sign = -1 if entry["best"] == "max" else 1
        best = int(np.argmin(np.where(finite, sign * y, np.inf)))
    log = bool(entry.get("log")) and bool(finite.any()) and bool((y[finite] > 0).all())
    run = None if entry.get("run") is None else str(entry["run"])
    style = runs.index(run) if run in runs else 0
    panel, gap = entry.get("panel"), entry.get("gap")
    return DrawnCurve(
        str(entry.get("label", "")), str(entry.get("unit") or ""), x, y, best, log, run, style,
        None if panel is None else str(panel), np.inf if gap is None else float(gap),
        bool(entry.get("strip")),
    )  # fmt: skip


def column_of(curve: DrawnCurve, edges: np.ndarray) -> np.ndarray:
    """The column of bars for each point."""
    return np.clip(np.searchsorted(edges, curve.x, side="right") - 1, 0, len(edges) - 2)


def _bars(curve: DrawnCurve, edges: np.ndarray, others: list[DrawnCurve]) -> str:
    """One bar per column: the mean of its points, linearly interpolated between points; blank in gaps.

    Args:
        others: All curves on the same scale, including this one.
    """
    known = curve.known
    if not len(known):
        return " " * (len(edges) - 1)
    log = curve.log and all(other.log for other in others)
    y = np.full(len(curve.y), np.nan)
    y[known] = np.log(curve.y[known]) if log else curve.y[known]
    column = column_of(curve, edges)
    ends = [end(other.y[other.known]) for other in others if len(other.known) for end in (np.min, np.max)]
    low, high = (float(np.log(end) if log else end) for end in (min(ends), max(ends)))
    out = ""
    for index, middle in enumerate((edges[:-1] + edges[1:]) / 2):
        here = y[column == index]
        finite = here[np.isfinite(here)]
        value = float(finite.mean()) if len(finite) else np.nan if len(here) else _between(curve, y, middle)
        out += " " if np.isnan(value) else bar((value - low) / (high - low) * 0.999 if high > low else 0.5)
    return out


def _between(curve: DrawnCurve, y: np.ndarray, at: float) -> float:
    x, after = curve.x, int(np.searchsorted(curve.x, at))
    if not 0 < after < len(x) or x[after] - x[after - 1] > curve.gap:
        return float("nan")
    share = (at - x[after - 1]) / (x[after] - x[after - 1])
    return float(y[after - 1] + share * (y[after] - y[after - 1]))


_STRETCHES = (
    4096,
    2048,
    1024,
    512,
    256,
    128,
    64,
    32,
    16,
    12,
    8,
    6,
    4,
    3,
    2,
    1,
)  # a panel has about a thousand pixel columns


def thin(spec: Spec, room: Room) -> Spec:
    """The spec with as many points as fit."""
    return finest(
        _STRETCHES, lambda stretches: _thinned(spec, stretches), lambda many: room.most if many <= 1024 else room.easy
    )


def points_between(spec: Spec, low: float, high: float) -> Spec:
    """The points of each series in a range of x, plus the nearest neighbour on each side, for the line."""
    blocks = dict(spec.blocks)
    for entry in spec.head["series"]:
        x, y = spec.blocks[entry["x"]], spec.blocks[entry["y"]]
        part = slice(max(0, np.searchsorted(x, low) - 1), np.searchsorted(x, high, side="right") + 1)
        blocks[entry["x"]], blocks[entry["y"]] = x[part], y[part]
    return Spec(spec.kind, spec.head, blocks)


def _thinned(spec: Spec, stretches: int) -> Spec:
    blocks = dict(spec.blocks)
    series: list[JsonObject] = []
    thinned: list[JsonObject] = []
    for entry in spec.head["series"]:
        x, y = spec.blocks[entry["x"]], spec.blocks[entry["y"]]
        every = -(-len(y) // stretches)
        if every > 5:
            keep, name = kept(y, every), f"kept{len(series)}"
            blocks[entry["x"]], blocks[entry["y"]] = x[keep], y[keep]
            blocks[name] = np.bincount(keep // every).astype(np.uint8)
            entry = {**entry, "of": len(y), "every": every, "kept": name, "odd": odd_in(x, y, str(spec.head["x"]))}
            thinned.append(entry)
        series.append(entry)
    if not thinned:
        return spec
    return lessened(spec, {"series": series}, blocks, {}, _words(thinned, len(series)))


def _words(thinned: list[JsonObject], count: int) -> str:
    """A sentence on how many of how many points the page has: "Of each 21 of 300 points ..."."""
    most = max(thinned, key=lambda entry: int(entry["every"]))
    which = "" if len(thinned) == count else f" in {len(thinned)} of {count} series"
    up_to = "up to " if len({entry["every"] for entry in thinned}) > 1 else ""
    return (
        f"Of each {up_to}{most['every']} of {most['of']} points{which} the page has the first, the least, the largest and the last; "
        "the band is from the least to the largest."
    )


def kept(y: np.ndarray, every: int) -> np.ndarray:
    """The indices of the points to keep: in each block the ends, the minimum and maximum, an infinity of each sign, the
    first NaN, and the neighbours of its first and last number, which may border a gap.
    """
    starts = np.arange(0, len(y), every)
    padded = np.full(len(starts) * every, np.nan, np.float64)
    padded[: len(y)] = y
    stretches = padded.reshape(-1, every)
    numbers = np.isfinite(stretches)
    last = np.minimum(starts + every, len(y)) - 1
    inside = np.arange(len(padded)).reshape(-1, every) < len(y)
    parts = (
        np.where(numbers, stretches, np.inf).argmin(1),
        np.where(numbers, stretches, -np.inf).argmax(1),
        (np.isnan(stretches) & inside).argmax(1),  # the first NaN, or the first point
        (stretches == np.inf).argmax(1),
        (stretches == -np.inf).argmax(1),
        np.maximum(numbers.argmax(1) - 1, 0),  # before the first number
        every - numbers[:, ::-1].argmax(1),  # after the last number
    )
    return np.unique(np.concatenate([starts, last, *(np.minimum(starts + part, last) for part in parts)]))
