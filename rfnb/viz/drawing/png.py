"""A drawing as PNG, by Pillow: in milliseconds, with few colours so that the file is small.

Cells, horizontal and vertical lines are aligned to whole pixels; slanted and round shapes are drawn larger and
downsampled for smooth edges. The picture has a palette: the colours of the theme are exact, shades of edges and ramps
become the nearest one.
"""

from __future__ import annotations

import io
import math
import struct
import zlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from rfnb.viz.drawing import fonts
from rfnb.viz.drawing.shapes import Area, Cells, Drawing, Hatch, Lines, Marks, Point, Rect, Shape, Text
from rfnb.viz.drawing.theme import Rgb, Theme
from rfnb.viz.visible_text import line

DENSITY = 2.0  # pixels per unit: sharp on high-resolution screens
_FINER = 3  # oversampling factor of slanted lines
_MOST = 12_000_000  # pixels of such a larger picture: a huge one is oversampled less
_JOINTS = 3000  # rounding the corners of more points is too slow
_GAP = 7.0  # distance between the lines of a hatch


def png(drawing: Drawing, theme: Theme, density: float = DENSITY) -> bytes:
    """The bytes of a PNG file.

    Args:
        density: Pixels per unit of the drawing.
    """
    from PIL import Image

    size = (max(1, round(drawing.width * density)), max(1, round(drawing.height * density)))
    canvas = Canvas(Image.new("RGB", size, theme.rgb("paper")), theme, density)
    for shape in drawing.shapes:
        canvas.draw(shape)
    return png_file(_few_colors(canvas.image, drawing, theme))


def cells_png(cells: Cells, theme: Theme) -> bytes:
    """The cells alone, with undrawn ones transparent; larger than one pixel each, for viewers that blur when enlarging."""
    from PIL import Image

    rows, cols = cells.bytes.shape
    times = [max(1, math.ceil(2.2 * size / count)) for size, count in ((cells.width, cols), (cells.height, rows))]
    small = Image.fromarray(np.ascontiguousarray(cells.bytes))
    image = small.resize((cols * times[0], rows * times[1]), Image.Resampling.NEAREST)
    image.putpalette([value for color in theme.table(cells.ramp) for value in color])
    out = io.BytesIO()
    image.save(out, format="png", optimize=True, transparency=0)
    return out.getvalue()


class Canvas:
    """Puts shapes on an image."""

    def __init__(self, image: Any, theme: Theme, density: float):
        from PIL import ImageDraw

        self.image, self.theme, self.density = image, theme, density
        self._pen = ImageDraw.Draw(image)

    def draw(self, shape: Shape) -> None:
        """Draw one shape on top."""
        getattr(self, f"_{type(shape).__name__.lower()}")(shape)

    def _box(self, x: float, y: float, width: float, height: float) -> tuple[int, int, int, int]:
        """Left, top, right, bottom in whole pixels; neighbours share an edge."""
        d = self.density
        most = 1e6  # beyond the paper
        left, top, right, bottom = (round(max(-most, min(at * d, most))) for at in (x, y, x + width, y + height))
        return left, top, right, bottom

    def _rect(self, shape: Rect) -> None:
        left, top, right, bottom = self._box(shape.x, shape.y, shape.width, shape.height)
        if right <= left or bottom <= top:
            return
        fill = self.theme.rgb(shape.fill) if shape.fill else None
        stroke = self.theme.rgb(shape.stroke) if shape.stroke else None
        line = max(1, round(shape.line * self.density)) if stroke else 0
        if not shape.radius:
            self._pen.rectangle((left, top, right - 1, bottom - 1), fill, stroke, line)
            return
        radius = min(shape.radius, shape.width / 2, shape.height / 2) * self.density
        for color, inside in ((stroke, 0), (fill, line)):
            if color is None:
                continue
            box = (left + inside, top + inside, right - inside, bottom - inside)
            if box[2] <= box[0] or box[3] <= box[1]:  # a box that its line fills
                continue
            self._masked(color, 1.0, box, _round(box, max(0.0, radius - inside), 0 if fill else line))

    def _cells(self, shape: Cells) -> None:
        from PIL import Image

        left, top, right, bottom = self._box(shape.x, shape.y, shape.width, shape.height)
        if right <= left or bottom <= top or not shape.bytes.size:
            return
        small = Image.fromarray(np.ascontiguousarray(shape.bytes))
        large = small.resize((right - left, bottom - top), Image.Resampling.NEAREST)
        empty = not shape.bytes.all()
        mask = large.point([0] + [255] * 255) if empty else None
        large.putpalette([value for color in self.theme.table(shape.ramp) for value in color])
        self.image.paste(large.convert("RGB"), (left, top), mask)

    def _lines(self, shape: Lines) -> None:
        level = shape.dash is None and shape.alpha == 1
        if level and all(
            len(path) == 2 and (path[0][0] == path[1][0] or path[0][1] == path[1][1]) for path in shape.paths
        ):
            self._level(shape)
            return
        paths = [piece for path in shape.paths for piece in (dashes(path, shape.dash) if shape.dash else [path])]
        joint = "curve" if sum(map(len, paths)) <= _JOINTS else None
        self._smooth(
            shape.color, shape.alpha, paths,
            lambda pen, at, scale: pen.line(at, fill=255, width=max(1, round(shape.width * scale)), joint=joint),
            shape.width,
        )  # fmt: skip

    def _level(self, shape: Lines) -> None:
        """Horizontal and vertical lines, on whole pixels."""
        color, thick = self.theme.rgb(shape.color), max(1, round(shape.width * self.density))
        for (x0, y0), (x1, y1) in shape.paths:
            left, right = sorted((round(x0 * self.density), round(x1 * self.density)))
            top, bottom = sorted((round(y0 * self.density), round(y1 * self.density)))
            if y0 == y1:
                top -= thick // 2
                bottom, right = top + thick, max(right, left + 1)
            else:
                left -= thick // 2
                right, bottom = left + thick, max(bottom, top + 1)
            self._pen.rectangle((left, top, right - 1, bottom - 1), color)

    def _area(self, shape: Area) -> None:
        self._smooth(shape.color, shape.alpha, list(shape.paths), lambda pen, at, _: pen.polygon(at, fill=255))

    def _marks(self, shape: Marks) -> None:
        def paint(pen: Any, at: list[Point], scale: float) -> None:
            (x, y), r = at[0], shape.radius * scale
            if shape.shape in ("dot", "ring"):
                pen.ellipse((x - r, y - r, x + r, y + r), fill=255)
            elif shape.shape == "square":
                pen.rectangle((x - r, y - r, x + r, y + r), fill=255)
            elif shape.shape == "cross":
                for sign in (1, -1):
                    pen.line([(x - r, y - sign * r), (x + r, y + sign * r)], fill=255, width=max(1, round(0.35 * r)))
            else:
                tip = -r if shape.shape == "up" else r
                pen.polygon([(x - r, y - tip), (x + r, y - tip), (x, y + tip)], fill=255)

        self._smooth(shape.color, 1.0, [[point] for point in shape.points], paint, 2 * shape.radius + 2)
        if shape.shape == "ring":
            self._marks(Marks("paper", shape.points, max(0.0, shape.radius - 1.4)))

    def _hatch(self, shape: Hatch) -> None:
        left, top, right, bottom = self._box(shape.x, shape.y, shape.width, shape.height)
        if right <= left or bottom <= top:
            return
        if shape.pattern == "missing":
            self.draw(Marks("hatch", missing_dots(shape), 1.0))
            return
        gap = round(_GAP * self.density)
        y, x = np.mgrid[top:bottom, left:right]
        thick = max(1, round(0.8 * self.density))
        on = (x + y) % gap < thick
        if shape.pattern == "mask":
            on |= (x - y) % gap < thick
        self._pen.bitmap((left, top), _mask(on), fill=self.theme.rgb("hatch"))

    def _text(self, shape: Text) -> None:
        shape = replace(shape, text=line(shape.text))
        font = fonts.font(shape.size * self.density, bold=shape.bold, mono=shape.mono, text=shape.text)
        color = self.theme.rgb(shape.color)
        anchor = {"left": "l", "middle": "m", "right": "r"}[shape.anchor] + "m"
        x, y = shape.x * self.density, shape.y * self.density
        halo = round(1.5 * self.density) if shape.halo else 0
        if not shape.turn:
            self._pen.text(
                (x, y), shape.text, color, font, anchor, stroke_width=halo, stroke_fill=self.theme.rgb("paper")
            )
            return
        if halo:
            self._turned(shape, font, self.theme.rgb("paper"), x, y, halo)
        self._turned(shape, font, color, x, y)

    def _turned(self, shape: Text, font: Any, color: Rgb, x: float, y: float, stroke: int = 0) -> None:
        from PIL import Image, ImageDraw

        edge = 2 + stroke
        wide = math.ceil(font.getlength(shape.text)) + 2 * edge
        tall = math.ceil(shape.size * self.density * 1.6) + 2 * stroke
        mask = Image.new("L", (wide, tall))
        ImageDraw.Draw(mask).text((edge, tall / 2), shape.text, 255, font, "lm", stroke_width=stroke)
        start = {"left": 0.0, "middle": wide / 2, "right": float(wide)}[shape.anchor]
        turned = mask.rotate(
            shape.turn, Image.Resampling.BICUBIC if shape.turn % 90 else Image.Resampling.NEAREST, expand=True
        )
        angle = math.radians(shape.turn)
        # The new position of the point (x, y) relative to the centre.
        dx = start - wide / 2
        at = (turned.width / 2 + dx * math.cos(angle), turned.height / 2 - dx * math.sin(angle))
        place = (round(x - at[0]), round(y - at[1]))
        self.image.paste(color, (*place, place[0] + turned.width, place[1] + turned.height), turned)

    def _smooth(self, color: str, alpha: float, paths: Sequence[Sequence[Point]], paint: Any, rim: float = 1.0) -> None:
        """Paint paths oversampled, and downsample them onto the image."""
        from PIL import Image, ImageDraw

        box = self._around(paths, rim)
        if box is None:
            return
        left, top, right, bottom = box
        finer = _FINER
        while finer > 1 and (right - left) * (bottom - top) * finer * finer > _MOST:
            finer -= 1
        scale = self.density * finer
        mask = Image.new("L", ((right - left) * finer, (bottom - top) * finer))
        pen = ImageDraw.Draw(mask)
        for path in paths:
            paint(pen, [(x * scale - left * finer, y * scale - top * finer) for x, y in path], scale)
        self._masked(self.theme.rgb(color), alpha, box, mask.reduce(finer) if finer > 1 else mask)

    def _around(self, paths: Sequence[Sequence[Point]], rim: float) -> tuple[int, int, int, int] | None:
        """The pixels of the image around paths."""
        points = np.array([point for path in paths for point in path], np.float64).reshape(-1, 2)
        points = points[np.isfinite(points).all(-1)]
        if not len(points):
            return None
        low = np.floor((points.min(0) - rim) * self.density).astype(int)
        high = np.ceil((points.max(0) + rim) * self.density).astype(int) + 1
        left, top = max(0, int(low[0])), max(0, int(low[1]))
        right, bottom = min(self.image.width, int(high[0])), min(self.image.height, int(high[1]))
        return (left, top, right, bottom) if right > left and bottom > top else None

    def _masked(self, color: Rgb, alpha: float, box: tuple[int, int, int, int], mask: Any) -> None:
        if alpha < 1:
            mask = mask.point([round(level * alpha) for level in range(256)])
        self.image.paste(color, box, mask)


def _round(box: tuple[int, int, int, int], radius: float, line: int) -> Any:
    """The mask of a rounded rectangle; with a line, of its frame only."""
    from PIL import Image, ImageDraw

    width, height = max(1, box[2] - box[0]), max(1, box[3] - box[1])
    mask = Image.new("L", (width * _FINER, height * _FINER))
    edge = (0, 0, width * _FINER - 1, height * _FINER - 1)
    fill = None if line else 255
    ImageDraw.Draw(mask).rounded_rectangle(edge, radius * _FINER, fill, 255 if line else None, line * _FINER)
    return mask.reduce(_FINER)


def _mask(on: np.ndarray) -> Any:
    from PIL import Image

    return Image.fromarray((on * 255).astype(np.uint8))


def missing_dots(shape: Hatch) -> list[Point]:
    """The dots in an area without values yet."""
    xs = np.arange(shape.x + 4, shape.x + shape.width, 8.0)
    ys = np.arange(shape.y + min(4.0, shape.height / 2), shape.y + shape.height, 8.0)
    return [(float(x), float(y)) for y in ys for x in xs]


def dashes(path: Sequence[Point], dash: tuple[float, float]) -> list[list[Point]]:
    """A polyline split into dashes."""
    out: list[list[Point]] = []
    left, on = dash[0], True
    piece: list[Point] = [path[0]]
    for (x0, y0), (x1, y1) in zip(path, path[1:]):
        length = math.hypot(x1 - x0, y1 - y0)
        done = 0.0
        while length - done > left:
            done += left
            point = (x0 + (x1 - x0) * done / length, y0 + (y1 - y0) * done / length)
            if on:
                out.append([*piece, point])
            on = not on
            left, piece = dash[0] if on else dash[1], [point]
        left -= length - done
        piece.append((x1, y1))
    return [*out, piece] if on and len(piece) > 1 else out


def _few_colors(image: Any, drawing: Drawing, theme: Theme) -> Any:
    """The image with a palette: the colours of the theme, those of its text against the paper in steps, and as many of
    each used ramp as fit.
    """
    from PIL import Image

    colors = [theme.rgb(name) for name in theme.colors]
    paper = theme.rgb("paper")
    texts = {shape.color for shape in drawing.shapes if isinstance(shape, (Text, Lines, Marks))}
    for name in sorted(text for text in texts if ":" not in text):
        ink = theme.rgb(name)
        steps = min(8, max(abs(a - b) for a, b in zip(paper, ink)) // 12)  # colours that are too close are identified
        colors += [_mixed(paper, ink, step / (steps + 1)) for step in range(1, steps + 1)]
    fills = {shape.fill or "" for shape in drawing.shapes if isinstance(shape, Rect)}
    ramps = sorted(
        {shape.ramp for shape in drawing.shapes if isinstance(shape, Cells)}
        | {fill.split(":")[1] for fill in fills if fill.startswith("cell:")}
    )
    colors = list(dict.fromkeys(colors))
    left = 256 - len(colors)
    for ramp in ramps:
        every = math.ceil(255 * len(ramps) / max(left, 1))
        colors += theme.table(ramp)[1::every]
    palette = Image.new("P", (1, 1))
    palette.putpalette([value for color in list(dict.fromkeys(colors))[:256] for value in color])
    return image.quantize(palette=palette, dither=Image.Dither.NONE)


def _mixed(one: Rgb, other: Rgb, share: float) -> Rgb:
    red, green, blue = (round(a + (b - a) * share) for a, b in zip(one, other))
    return red, green, blue


_NONE, _UP = 0, 2  # PNG row filters: none, and difference to the row above


def png_file(image: Any) -> bytes:
    """The bytes of a PNG file for a Pillow image, mode "P", opaque."""
    pixels = np.asarray(image)
    height, width = pixels.shape
    same = np.zeros(height, bool)
    same[1:] = (pixels[1:] == pixels[:-1]).all(1)
    rows = np.zeros((height, width + 1), np.uint8)
    rows[:, 0] = np.where(same, _UP, _NONE)
    rows[:, 1:] = np.where(same[:, None], 0, pixels)
    palette = bytes(image.getpalette("RGB"))[:768]
    return b"".join(
        [
            b"\x89PNG\r\n\x1a\n",
            _chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)),
            _chunk(b"PLTE", palette),
            _chunk(b"IDAT", zlib.compress(rows.tobytes(), 7)),
            _chunk(b"IEND", b""),
        ]
    )


def _chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
