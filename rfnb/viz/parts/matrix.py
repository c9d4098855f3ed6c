"""Matrices in drawings: as many cells as fit, coded as bytes; their scale; marks for NaN and infinities."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rfnb.viz.drawing import fonts
from rfnb.viz.drawing.shapes import Cells, Drawing, Hatch, Lines, Marks, Text
from rfnb.viz.drawing.theme import cell
from rfnb.viz.pool import largest_in
from rfnb.viz.rounding import significant

_MOST_MARKS, _LEAST_MARK = 200, 4.0


@dataclass(frozen=True)
class Scale:
    """Maps values to positions in a colour ramp.

    Attributes:
        root: Whether to use the square root, so that small weights stay visible.
    """

    low: float
    high: float
    ramp: str = "sequential"
    root: bool = False

    def shares(self, values: np.ndarray) -> np.ndarray:
        """Positions from 0 to 1; NaN is kept."""
        values = values.astype(np.float64)  # in float32 the range of huge values overflows
        shares = np.clip(values / self.high, 0, 1) ** 0.5 if self.root else (values - self.low) / (self.high - self.low)
        return np.asarray(np.clip(shares, 0, 1))

    def bytes(self, values: np.ndarray) -> np.ndarray:
        """uint8: 1 to 255 along the ramp, 0 for NaN."""
        shares = self.shares(values)
        return np.where(np.isnan(shares), 0, 1 + np.round(254 * np.nan_to_num(shares))).astype(np.uint8)

    def value(self, share: float) -> float:
        """The value at this position."""
        return share * share * self.high if self.root else self.low + share * (self.high - self.low)


def farthest(values: np.ndarray, rows: int, cols: int) -> np.ndarray:
    """Values [row, col] reduced to at most the given number of cells, each the signed entry of a block farthest from 0."""
    if values.shape[0] <= rows and values.shape[1] <= cols:
        return values
    high, low = largest_in(values, rows, cols), -largest_in(-values, rows, cols)
    return np.where(-low > high, low, high)


@dataclass(frozen=True)
class MatrixBox:
    """The position of a matrix in a drawing: its corner, and the size of a cell."""

    x: float
    y: float
    pitch_x: float
    pitch_y: float


def draw_matrix(drawing: Drawing, values: np.ndarray, place: MatrixBox, scale: Scale) -> None:
    """Draw the cells of a matrix, at most one per unit of the drawing, with a thin gap between large ones; NaN is not drawn."""
    rows, cols = values.shape
    width, height = cols * place.pitch_x, rows * place.pitch_y
    if not rows or not cols:
        return
    signed = scale.ramp == "diverging"
    small = (farthest if signed else largest_in)(values, max(1, round(height)), max(1, round(width)))
    drawing.add(Cells(place.x, place.y, width, height, scale.bytes(small), scale.ramp, (rows, cols)))
    if min(place.pitch_x, place.pitch_y) >= 7:
        right, bottom = place.x + width, place.y + height
        xs = [place.x + index * place.pitch_x for index in range(1, cols)]
        ys = [place.y + index * place.pitch_y for index in range(1, rows)]
        lines = [[(x, place.y), (x, bottom)] for x in xs] + [[(place.x, y), (right, y)] for y in ys]
        drawing.add(Lines("paper", 1.0 if signed else 0.75, lines))


def draw_padding(drawing: Drawing, values: np.ndarray, place: MatrixBox, length: int) -> np.ndarray:
    """Hatch the columns after the given number; return the values without zeros there, so that nonzero padding is visible."""
    rows, cols = values.shape
    if cols <= length:
        return values
    values = values.copy()
    values[:, length:][values[:, length:] == 0] = np.nan
    x, width = place.x + length * place.pitch_x, (cols - length) * place.pitch_x
    drawing.add(Hatch(x, place.y, width, rows * place.pitch_y))
    return values


def draw_end(drawing: Drawing, values: np.ndarray, place: MatrixBox, length: int) -> None:
    """Draw a line between the real columns and the values after them."""
    rows, cols = values.shape
    if cols > length:
        x = place.x + length * place.pitch_x
        drawing.add(Lines("warn", 1.5, [[(x, place.y), (x, place.y + rows * place.pitch_y)]]))


def draw_odd(drawing: Drawing, values: np.ndarray, place: MatrixBox) -> None:
    """Draw a cross for NaN among numbers, a triangle for an infinity; only the first ones if there are many, and none if
    cells are too small.
    """
    if min(place.pitch_x, place.pitch_y) < _LEAST_MARK or bool(np.isfinite(values).all()):
        return
    radius = min(place.pitch_x, place.pitch_y, 12.0) * 0.3
    nan = np.isnan(values) & ~np.isnan(values).all(-1, keepdims=True)
    for where, shape in ((nan, "cross"), (values == np.inf, "up"), (values == -np.inf, "down")):
        at = np.argwhere(where)[:_MOST_MARKS]
        points = [(place.x + (col + 0.5) * place.pitch_x, place.y + (row + 0.5) * place.pitch_y) for row, col in at]
        if points:
            drawing.add(Marks("warn", points, max(radius, 1.5), shape))


def draw_scale(drawing: Drawing, x: float, y: float, scale: Scale, width: float = 96.0) -> float:
    """Draw a colour ramp with its numbers, vertically centred at y; returns its right end."""
    low, high = number(scale.low), number(scale.high)
    drawing.add(Text(x, y, low, 10, "muted"))
    left = x + fonts.width(low, 10) + 5
    drawing.add(Cells(left, y - 4.5, width, 9, np.arange(1, 256, dtype=np.uint8)[None], scale.ramp))
    drawing.add(Text(left + width + 5, y, high, 10, "muted"))
    if scale.root:
        drawing.add(Lines(cell(scale.ramp, 0.0), 0.8, [[(left + width / 2, y - 4.5), (left + width / 2, y + 4.5)]]))
    return left + width + 5 + fonts.width(high, 10)


def draw_key(drawing: Drawing, x: float, y: float, pattern: str, words: str) -> float:
    """Draw a hatch and its meaning; returns its right end."""
    drawing.add(Hatch(x, y - 4.5, 18, 9, pattern), Text(x + 23, y, words, 10, "muted"))
    return x + 23 + fonts.width(words, 10)


def number(value: float) -> str:
    """Three significant digits, with a true minus sign, as in the page."""
    if not np.isfinite(value):
        return "NaN" if np.isnan(value) else "∞" if value > 0 else "−∞"
    text = significant(value, 3)
    return text.replace("e-0", "e-").replace("e+0", "e").replace("e+", "e").replace("-", "−")
