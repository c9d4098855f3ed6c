"""Labels along an axis: shortened, thinned so that they never overlap, and measured only if they are drawn.

The same rules as in widgets/src/axis.ts and widgets/src/labels.ts.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from rfnb.viz.drawing import fonts
from rfnb.viz.drawing.shapes import Drawing, Text
from rfnb.viz.visible_text import line, visible

_NUMBER = re.compile(r"\d+([.]\d+)?")
LINE = 13.0  # line spacing
_LONGEST = 120.0


def short(label: str, most: int = 16) -> str:
    """A visible token, cut after `most` characters; only the beginning of a huge one is examined."""
    text = visible(str(label)[: most + 1])
    return text if len(text) <= most and len(str(label)) <= most else text[: most - 1] + "…"


def fitted(text: str, room: float, size: float = 11.0, *, bold: bool = False) -> str:
    """A text on one line, cut to fit; of a huge text only the part that could fit is measured."""
    least = 0.2 * size  # no visible character is narrower
    kept = line(str(text)[: int(room / least) + 2])
    if len(kept) == len(text) and fonts.width(kept, size, bold=bold) <= room:
        return kept
    low, high = 0, len(kept)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fonts.width(kept[:middle] + "…", size, bold=bold) <= room else (low, middle - 1)
    return kept[:low] + "…"


def broken(text: str, room: float, size: float = 11.0, most: int = 3) -> list[str]:
    """A text broken into lines between words; lines beyond `most` are cut."""
    lines: list[str] = []
    for word in line(text).split(" "):
        longer = f"{lines[-1]} {word}" if lines else word
        if lines and (len(lines) == most or fonts.width(longer, size) <= room):
            lines[-1] = longer
        else:
            lines.append(word)
    return [fitted(one, room, size) for one in lines]


def within(
    x: float, y: float, text: str, room: float, size: float = 11.0, color: str = "ink", anchor: str = "left", *,
    bold: bool = False, mono: bool = False,
) -> Text:  # fmt: skip
    """A text cut to fit its room."""
    return Text(x, y, fitted(text, room, size, bold=bold), size, color, anchor, bold, mono=mono)


def heading(drawing: Drawing, text: str) -> None:
    """Add a heading below everything drawn so far."""
    drawing.add(within(0, drawing.height + 8, text, drawing.width, 12, bold=True))
    drawing.height += 20


def stride(pitch: float, room: float) -> int:
    """Draw every n-th label if each needs `room` and has `pitch`: 1, 2, 5, 10, 20, ..."""
    base = 1
    while base < 10**9:
        for step in (1, 2, 5):
            if base * step * pitch >= room:
                return base * step
        base *= 10
    return base


@dataclass
class AxisLabels:
    """The labels of one axis to draw.

    Attributes:
        room: Their extent perpendicular to the axis.
        beside: Extent of a slanted label beyond the end of the axis.
        turn: Rotation of the text, in degrees.
        at: The positions (row or column indices) and texts.
    """

    room: float = 0.0
    beside: float = 0.0
    turn: int = 0
    size: float = 11.0
    at: list[tuple[int, str]] = field(default_factory=list)


def rows(labels: Sequence[str], pitch: float, size: float = 11.0) -> AxisLabels:
    """Labels to the left of rows with this height. If not all fit, a label that more than a third of the rows share (the
    blank of an alignment) is omitted.
    """
    every = stride(pitch, size + 2)
    shown: Sequence[int] = range(0, len(labels), every)
    most, count = Counter(labels).most_common(1)[0] if every > 1 else ("", 0)
    if 3 * count > len(labels):
        shown = _apart([index for index, label in enumerate(labels) if label != most], pitch, size + 2)
    at = [(index, short(labels[index])) for index in shown]
    return AxisLabels(_widest(at, size), 0, 0, size, at)


def _apart(places: Sequence[int], pitch: float, room: float) -> list[int]:
    """The positions that have room after the previous one."""
    kept: list[int] = []
    for place in places:
        if not kept or (place - kept[-1]) * pitch >= room:
            kept.append(place)
    return kept


def columns(labels: Sequence[str], pitch: float, size: float = 11.0) -> AxisLabels:
    """Labels above columns with this width: horizontal if they fit, else slanted, else vertical and thinned."""
    every = stride(pitch, size + 1)
    at = [(index, short(labels[index])) for index in range(0, len(labels), every)]
    widest = _widest(at, size)
    if every == 1 and widest + 6 <= pitch:
        return AxisLabels(size + 2, 0, 0, size, at)
    if widest <= size or all(
        _NUMBER.fullmatch(text) for _, text in at
    ):  # never rotated if vertical labels take as much room, or if horizontal ones show some
        wide = stride(pitch, widest + (3 if widest <= size else 8))
        return AxisLabels(size + 2, 0, 0, size, [(index, labels[index]) for index in range(0, len(labels), wide)])
    if every == 1 and pitch >= size + 4:
        slant = widest * 0.7071
        return AxisLabels(slant + size * 0.7 + 2, max(0.0, slant - pitch / 2), 45, size, at)
    return AxisLabels(widest + 4, 0, 90, size, at)


def _widest(at: list[tuple[int, str]], size: float) -> float:
    return min(_LONGEST, max((fonts.width(text, size) for _, text in at), default=0.0))


def draw_rows(drawing: Drawing, axis: AxisLabels, right: float, top: float, pitch: float) -> None:
    """Labels that end at `right`, for rows from `top` on."""
    drawing.add(*(Text(right, top + (index + 0.5) * pitch, text, axis.size, "ink", "right") for index, text in axis.at))


def draw_columns(
    drawing: Drawing, axis: AxisLabels, left: float, bottom: float, pitch: float, color: str = "ink"
) -> None:
    """Labels above `bottom`, for columns from `left` on."""
    for index, text in axis.at:
        x = left + (index + 0.5) * pitch
        if axis.turn == 0:
            drawing.add(Text(x, bottom - axis.size / 2 - 1, text, axis.size, color, "middle"))
        else:
            drawing.add(Text(x, bottom - axis.size * 0.35, text, axis.size, color, "left", turn=axis.turn))


def sentence(text: str, width: float) -> Drawing:
    """A sentence on one line, as a drawing."""
    made = Drawing(width, 26, text)
    made.add(within(4, 13, text, width - 8))
    return made
