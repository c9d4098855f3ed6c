"""A drawing as SVG: shapes as shapes, text as text, cells as small embedded pictures with a palette. No script, style or network."""

from __future__ import annotations

import base64
import re
from collections.abc import Sequence
from xml.sax.saxutils import escape

from rfnb.viz.drawing.png import cells_png, missing_dots
from rfnb.viz.drawing.shapes import Area, Cells, Drawing, Hatch, Lines, Marks, Point, Rect, Shape, Text
from rfnb.viz.drawing.theme import Theme
from rfnb.viz.visible_text import line

_SANS = "'DejaVu Sans', Verdana, Helvetica, Arial, sans-serif"
_MONO = "'DejaVu Sans Mono', Menlo, Consolas, monospace"
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def svg(drawing: Drawing, theme: Theme, scale: float = 1.0) -> str:
    """The text of an SVG file.

    Args:
        scale: Points (1/72 inch) per unit of the drawing.
    """
    width, height = drawing.width, drawing.height
    patterns = sorted({shape.pattern for shape in drawing.shapes if isinstance(shape, Hatch)} - {"missing"})
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" viewBox="0 0 {_n(width)} {_n(height)}"'
        f' width="{_n(width * scale)}pt" height="{_n(height * scale)}pt" role="img" font-family="{_SANS}">',
        f"<title>{_text(drawing.alt)}</title>" if drawing.alt else "",
        f"<defs>{''.join(_pattern(name, theme) for name in patterns)}</defs>" if patterns else "",
        f'<rect width="{_n(width)}" height="{_n(height)}" fill="{theme.hex("paper")}"/>',
        *(_shape(shape, theme) for shape in drawing.shapes),
        "</svg>\n",
    ]
    return "\n".join(part for part in parts if part)


def _shape(shape: Shape, theme: Theme) -> str:
    if isinstance(shape, Rect):
        return _rect(shape, theme)
    if isinstance(shape, Cells):
        return _cells(shape, theme)
    if isinstance(shape, Lines):
        dash = f' stroke-dasharray="{_n(shape.dash[0])} {_n(shape.dash[1])}"' if shape.dash else ""
        return (
            f'<path d="{_path(shape.paths)}" fill="none" stroke="{theme.hex(shape.color)}" stroke-width="{_n(shape.width)}"'
            f' stroke-linejoin="round"{dash}{_alpha(shape.alpha)}/>'
        )
    if isinstance(shape, Area):
        return f'<path d="{_path(shape.paths, "Z")}" fill="{theme.hex(shape.color)}"{_alpha(shape.alpha)}/>'
    if isinstance(shape, Marks):
        return _marks(shape, theme)
    if isinstance(shape, Hatch):
        if shape.pattern == "missing":
            return _marks(Marks("hatch", missing_dots(shape), 1.0), theme)
        box = f'x="{_n(shape.x)}" y="{_n(shape.y)}" width="{_n(shape.width)}" height="{_n(shape.height)}"'
        return f'<rect {box} fill="url(#rfnb-{shape.pattern})"/>'
    return _words(shape, theme)


def _rect(shape: Rect, theme: Theme) -> str:
    inset = shape.line / 2 if shape.stroke else 0.0  # a line is inside its rectangle, as in the other formats
    x, y, width, height = shape.x + inset, shape.y + inset, shape.width - 2 * inset, shape.height - 2 * inset
    if width <= 0 or height <= 0:
        return ""
    radius = min(shape.radius, shape.width / 2, shape.height / 2)
    rounded = f' rx="{_n(radius)}"' if radius else ""
    stroke = f' stroke="{theme.hex(shape.stroke)}" stroke-width="{_n(shape.line)}"' if shape.stroke else ""
    return (
        f'<rect x="{_n(x)}" y="{_n(y)}" width="{_n(width)}" height="{_n(height)}"{rounded}'
        f' fill="{theme.hex(shape.fill) if shape.fill else "none"}"{stroke}/>'
    )


def _cells(shape: Cells, theme: Theme) -> str:
    if not shape.bytes.size:
        return ""
    data = base64.b64encode(cells_png(shape, theme)).decode()
    box = f'x="{_n(shape.x)}" y="{_n(shape.y)}" width="{_n(shape.width)}" height="{_n(shape.height)}"'
    # Older programs know the link only by its old name.
    return f'<image {box} preserveAspectRatio="none" image-rendering="optimizeSpeed" xlink:href="data:image/png;base64,{data}"/>'


def _marks(shape: Marks, theme: Theme) -> str:
    color = theme.hex(shape.color)
    at = "".join(_mark(shape, x, y) for x, y in shape.points)
    if shape.shape == "ring":
        return f'<path d="{at}" fill="{theme.hex("paper")}" stroke="{color}" stroke-width="1.4"/>'
    if shape.shape == "cross":
        return f'<path d="{at}" fill="none" stroke="{color}" stroke-width="{_n(max(0.5, 0.35 * shape.radius))}"/>'
    return f'<path d="{at}" fill="{color}"/>'


def _mark(shape: Marks, x: float, y: float) -> str:
    r = shape.radius - (0.7 if shape.shape == "ring" else 0)  # half of its line is outside
    if shape.shape in ("dot", "ring"):
        half = f"a{_n(r)} {_n(r)} 0 1 0"
        return f"M{_n(x - r)} {_n(y)}{half} {_n(2 * r)} 0{half} {_n(-2 * r)} 0z"
    if shape.shape == "cross":
        return f"M{_n(x - r)} {_n(y - r)}L{_n(x + r)} {_n(y + r)}M{_n(x - r)} {_n(y + r)}L{_n(x + r)} {_n(y - r)}"
    if shape.shape == "square":
        return f"M{_n(x - r)} {_n(y - r)}h{_n(2 * r)}v{_n(2 * r)}h{_n(-2 * r)}z"
    tip = -r if shape.shape == "up" else r
    return f"M{_n(x - r)} {_n(y - tip)}h{_n(2 * r)}L{_n(x)} {_n(y + tip)}z"


def _words(shape: Text, theme: Theme) -> str:
    anchor = {"left": "", "middle": ' text-anchor="middle"', "right": ' text-anchor="end"'}[shape.anchor]
    # The offset of the middle of text from its baseline; the attribute for this is not supported everywhere.
    lower = 0.36 * shape.size
    turn = f' transform="rotate({-shape.turn} {_n(shape.x)} {_n(shape.y)})"' if shape.turn else ""
    weight = ' font-weight="bold"' if shape.bold else ""
    family = f' font-family="{_MONO}"' if shape.mono else ""
    halo = (
        f' stroke="{theme.hex("paper")}" stroke-width="3" stroke-linejoin="round" paint-order="stroke"'
        if shape.halo
        else ""
    )
    return (
        f'<text x="{_n(shape.x)}" y="{_n(shape.y + lower)}" font-size="{_n(shape.size)}" fill="{theme.hex(shape.color)}"'
        f'{anchor}{weight}{family}{halo}{turn} xml:space="preserve">{_text(shape.text)}</text>'
    )


def _pattern(name: str, theme: Theme) -> str:
    lines = "M-1 1L1 -1M0 7L7 0M6 8L8 6" + ("M-1 6L1 8M0 0L7 7M6 -1L8 1" if name == "mask" else "")
    return (
        f'<pattern id="rfnb-{name}" width="7" height="7" patternUnits="userSpaceOnUse">'
        f'<path d="{lines}" stroke="{theme.hex("hatch")}" stroke-width="0.8"/></pattern>'
    )


def _path(paths: Sequence[Sequence[Point]], end: str = "") -> str:
    return "".join("M" + "L".join(f"{_n(x)} {_n(y)}" for x, y in path) + end for path in paths if len(path) > 1)


def _alpha(alpha: float) -> str:
    return f' opacity="{_n(alpha)}"' if alpha < 1 else ""


def _text(text: str) -> str:
    return escape(_NOT_XML.sub("\ufffd", line(text)))


def _n(value: float) -> str:
    text = f"{value:.2f}".rstrip("0").rstrip(".")
    return "0" if text in ("", "-0") else text
