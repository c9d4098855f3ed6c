"""A drawing as an `<img>`: PNG, the only form that every notebook viewer shows.

The background is opaque white, so that a picture is readable on a dark page too.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from html import escape

import numpy as np

from rfnb.viz.drawing.png import png
from rfnb.viz.drawing.shapes import Cells, Drawing, padded, pooled_note
from rfnb.viz.drawing.theme import theme
from rfnb.viz.parts.matrix import farthest
from rfnb.viz.pool import largest_in

_RIM = 4.0  # margin around it
CELLS = 48_000  # cells of a picture in a notebook, so that it stays small
_BYTES = 28_000  # bytes of its file; a larger one is redrawn with fewer cells and pixels
_COARSER = ((10_000, 1.25), (4_000, 1.0))  # cells and pixel density
_NOISE = 90_000  # bytes of a file that leave too little room for the values; the second step below is only for pictures with less room
_most: ContextVar[int] = ContextVar("rfnb_picture", default=_BYTES)
_LEAST = 16  # rows and columns of a thumbnail, unless it has too many


def img(drawing: Drawing) -> str:
    """The drawing as an `<img>` with its description, and a note on how many values share a cell."""
    drawing = padded(drawing, _RIM)
    drawn = lighter(drawing)
    file = png(drawn, theme("light"))
    most = _most.get()
    for number, (cells, density) in enumerate(_COARSER):  # noise, which does not deflate
        if len(file) > (_NOISE if number and most == _BYTES else most):
            drawn = lighter(drawing, cells)
            file = png(drawn, theme("light"), density=density)
    data = base64.b64encode(file).decode()
    alt = escape(drawing.alt, quote=True)
    note = "".join(f"\n<p>{said}</p>" for said in pooled_note(drawn))
    return f'<img alt="{alt}" width="{math.ceil(drawing.width)}" src="data:image/png;base64,{data}">{note}'


@contextmanager
def smaller(most: int) -> Iterator[None]:
    """Inside this context, pictures are coarser if their files exceed this many bytes."""
    token = _most.set(most)
    try:
        yield
    finally:
        _most.reset(token)


def lighter(drawing: Drawing, cells: int = CELLS) -> Drawing:
    """The drawing with at most about the given number of cells, each the strongest of its block."""
    sizes = [shape.bytes.size for shape in drawing.shapes if isinstance(shape, Cells)]
    if sum(sizes) <= cells:
        return drawing
    share, least = math.sqrt(cells / sum(sizes)), min(_LEAST, max(2, int(math.sqrt(cells / len(sizes)))))
    shapes = [_fewer(shape, share, least) if isinstance(shape, Cells) else shape for shape in drawing.shapes]
    return replace(drawing, shapes=shapes)


def _fewer(shape: Cells, share: float, least: int) -> Cells:
    rows, cols = shape.bytes.shape
    if rows == 1:  # a colour scale
        return shape
    most = (max(min(rows, least), round(rows * share)), max(min(cols, least), round(cols * share)))
    if shape.ramp != "diverging":
        return replace(shape, bytes=_leveled(largest_in(shape.bytes, *most)))
    middle = 128  # of the ramp
    far = farthest(shape.bytes.astype(np.int16) - middle, *most)
    return replace(shape, bytes=_leveled((far + middle).astype(np.uint8)))


def _leveled(shades: np.ndarray) -> np.ndarray:
    """The cells quantised to 32 shades, including both ends: noise then deflates better."""
    levels = np.round(np.arange(255) / 254 * 31) / 31 * 254 + 1
    return np.r_[0, np.round(levels)].astype(np.uint8)[shades]
