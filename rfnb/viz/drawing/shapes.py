"""Drawing: a picture as a short list of shapes, for all output formats: PNG, SVG, PDF, matplotlib axes.

drawing = Drawing(400, 80, alt="One cell")
drawing.add(Rect(10, 10, 20, 20, fill="accent"), Text(34, 20, "a cell"))
png(drawing, theme("light"))        # rfnb/viz/drawing/png.py; likewise svg.py, figure.py

Lengths are in units; text is 11 units high; x goes right, y down. Colours are names in a theme. All lines or marks of
one style are one shape, so a picture of a large search is a list of a few dozen shapes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

Point = tuple[float, float]


@dataclass(frozen=True)
class Rect:
    """A rectangle, its corners rounded by `radius`."""

    x: float
    y: float
    width: float
    height: float
    fill: str | None = None
    stroke: str | None = None
    line: float = 1.0
    radius: float = 0.0


@dataclass(frozen=True, eq=False)
class Cells:
    """A matrix of bytes as a picture: 1 to 255 are colours of a ramp, 0 is not drawn.

    Attributes:
        of: The rows and columns of values that it represents; None if each cell is one value.
    """

    x: float
    y: float
    width: float
    height: float
    bytes: np.ndarray  # uint8 [row, col]
    ramp: str
    of: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        if self.bytes.ndim != 2:
            raise ValueError(
                f"cells of {self.bytes.ndim} dims"
            )  # raised while a picture is made, and shown as a sentence


@dataclass(frozen=True)
class Lines:
    """Polylines of one style. `dash`: lengths of a dash and a gap."""

    color: str
    width: float
    paths: Sequence[Sequence[Point]]
    dash: tuple[float, float] | None = None
    alpha: float = 1.0


@dataclass(frozen=True)
class Area:
    """Filled polygons of one colour."""

    color: str
    paths: Sequence[Sequence[Point]]
    alpha: float = 1.0


@dataclass(frozen=True)
class Marks:
    """Small marks of one style: "dot", "ring", "square", "up", "down", "cross"."""

    color: str
    points: Sequence[Point]
    radius: float
    shape: str = "dot"


@dataclass(frozen=True)
class Text:
    """One line of text, vertically centred at y. `turn`: degrees counter-clockwise around (x, y). `halo`: with an outline
    in the colour of the paper.
    """

    x: float
    y: float
    text: str
    size: float = 11.0
    color: str = "ink"
    anchor: str = "left"  # or "middle", "right"
    bold: bool = False
    turn: int = 0
    halo: bool = False
    mono: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.text, str):
            raise TypeError(f"a text is of type {type(self.text).__name__}")  # likewise


@dataclass(frozen=True)
class Hatch:
    """A hatch: diagonal lines for padding ("padding"), crossed lines for a mask ("mask"), dots for values that are still
    missing ("missing").
    """

    x: float
    y: float
    width: float
    height: float
    pattern: str = "padding"


Shape = Rect | Cells | Lines | Area | Marks | Text | Hatch


@dataclass
class Drawing:
    """A picture.

    Attributes:
        width: Width in units.
        alt: A description of the picture.
        notes: Sentences below it: omissions and problems.
    """

    width: float
    height: float
    alt: str = ""
    shapes: list[Shape] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def add(self, *shapes: Shape) -> None:
        """Put shapes on top."""
        self.shapes += shapes

    def shows(self, shown: int, of: int, what: str) -> None:
        """Note how many are drawn, if not all are."""
        if shown < of:
            self.notes.append(f"{shown} of {of} {what}")

    def put(self, other: Drawing, x: float, y: float) -> None:
        """Draw another drawing at a position in this one."""
        self.shapes += [moved(shape, x, y) for shape in other.shapes]


def pooled_note(drawing: Drawing) -> list[str]:
    """A note on the number of values per cell of the picture; empty if it is one."""
    cells = [shape for shape in drawing.shapes if isinstance(shape, Cells) and shape.bytes.size]
    pools = [
        (-(-cell.of[0] // cell.bytes.shape[0]), -(-cell.of[1] // cell.bytes.shape[1]), cell.ramp)
        for cell in cells
        if cell.of is not None
    ]
    down, across = max((pool[0] for pool in pools), default=1), max((pool[1] for pool in pools), default=1)
    if down * across == 1:
        return []
    ramps = {ramp for rows, cols, ramp in pools if rows * cols > 1}
    which = " or ".join(
        words for ramp, words in (("sequential", "the largest"), ("diverging", "that farthest from 0")) if ramp in ramps
    )
    return [f"A cell of the picture is {which} of up to {down} × {across} values."]


def padded(drawing: Drawing, rim: float) -> Drawing:
    """The drawing with a margin."""
    made = Drawing(drawing.width + 2 * rim, drawing.height + 2 * rim, drawing.alt, notes=list(drawing.notes))
    made.put(drawing, rim, rim)
    return made


def moved(shape: Shape, x: float, y: float) -> Shape:
    """The shape at another place."""
    if isinstance(shape, (Lines, Area)):
        return replace(shape, paths=[[(a + x, b + y) for a, b in path] for path in shape.paths])
    if isinstance(shape, Marks):
        return replace(shape, points=[(a + x, b + y) for a, b in shape.points])
    return replace(shape, x=shape.x + x, y=shape.y + y)


def curve(start: Point, end: Point, parts: int = 10) -> list[Point]:
    """A smooth step between two points, horizontal at both ends."""
    (x0, y0), (x1, y1) = start, end
    if y0 == y1:
        return [start, end]
    ts = [index / parts for index in range(parts + 1)]
    # The Bezier curve whose handles are horizontal and reach the middle.
    return [
        (
            bezier(t, x0, (x0 + x1) / 2, (x0 + x1) / 2, x1),
            bezier(t, y0, y0, y1, y1),
        )
        for t in ts
    ]


def bezier(t: float, a: float, b: float, c: float, d: float) -> float:
    """A coordinate of a cubic Bezier curve."""
    s = 1 - t
    return s * s * s * a + 3 * s * s * t * b + 3 * s * t * t * c + t * t * t * d


def paths_of(xs: np.ndarray, ys: np.ndarray) -> list[list[Point]]:
    """The lines through points sorted by x, broken at NaN: at most the first, lowest, highest and last point per unit of width."""
    known = np.isfinite(ys)
    if not known.any():
        return []
    kept = _standing_out(xs, ys, known)
    broken = np.cumsum(~known)  # points without NaN between them share an index
    out: list[list[Point]] = []
    last = -1
    for index in kept.tolist():
        if broken[index] != last:
            out.append([])
            last = int(broken[index])
        out[-1].append((float(xs[index]), float(ys[index])))
    return out


def _standing_out(xs: np.ndarray, ys: np.ndarray, known: np.ndarray) -> np.ndarray:
    at = np.flatnonzero(known)
    column = np.floor(xs[at]).astype(np.int64)
    starts = np.flatnonzero(np.r_[True, column[1:] != column[:-1]])
    if len(starts) * 4 >= len(at):
        return at
    ends = np.r_[starts[1:], len(at)] - 1
    by_height = at[np.lexsort((ys[at], column))]
    return np.unique(np.concatenate([at[starts], at[ends], by_height[starts], by_height[ends]]))
