"""Labels along an axis: shortened, thinned so that they never overlap, and measured only where they are drawn.

The same rules as in widgets/src/axis.ts and widgets/src/labels.ts.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from rfnb.viz.drawing import fonts
from rfnb.viz.drawing.shapes import Drawing, Text
from rfnb.viz.visible import line, visible

_NUMBER = re.compile(r"\d+([.]\d+)?")
LINE = 13.0  # from one line of text to the next
_LONGEST = 120.0


def short(label: str, most: int = 16) -> str:
    """A token that can be seen, cut after `most` letters; of a huge one only the beginning is looked at."""
    text = visible(str(label)[: most + 1])
    return text if len(text) <= most and len(str(label)) <= most else text[: most - 1] + "…"


def fitted(text: str, room: float, size: float = 11.0, *, bold: bool = False) -> str:
    """A text on one line, cut so that it fits into its room; of a huge one only as much is measured as could fit."""
    least = 0.2 * size  # no letter that is seen is narrower
    kept = line(str(text)[: int(room / least) + 2])
    if len(kept) == len(text) and fonts.width(kept, size, bold=bold) <= room:
        return kept
    low, high = 0, len(kept)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fonts.width(kept[:middle] + "…", size, bold=bold) <= room else (low, middle - 1)
    return kept[:low] + "…"


def broken(text: str, room: float, size: float = 11.0, most: int = 3) -> list[str]:
    """A text on as many lines as it takes, broken between words; what is more than `most` lines is cut."""
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
    """A text cut so that it fits into its room."""
    return Text(x, y, fitted(text, room, size, bold=bold), size, color, anchor, bold, mono=mono)


def heading(drawing: Drawing, text: str) -> None:
    """A title below what is drawn already."""
    drawing.add(within(0, drawing.height + 8, text, drawing.width, 12, bold=True))
    drawing.height += 20


def stride(pitch: float, room: float) -> int:
    """Each how-many-th label is drawn when each needs `room` and has `pitch`: 1, 2, 5, 10, 20, ..."""
    base = 1
    while base < 10**9:
        for step in (1, 2, 5):
            if base * step * pitch >= room:
                return base * step
        base *= 10
    return base


@dataclass
class AxisLabels:
    """The labels of one axis that are drawn.

    Attributes:
        room: What they take across the axis.
        beside: What a slanted label takes beyond the end of the axis.
        turn: Of the text, in degrees.
        at: The positions (numbers of rows or columns) and texts.
    """

    room: float = 0.0
    beside: float = 0.0
    turn: int = 0
    size: float = 11.0
    at: list[tuple[int, str]] = field(default_factory=list)


def rows(labels: Sequence[str], pitch: float, size: float = 11.0) -> AxisLabels:
    """Labels at the left of rows of this height; of rows of which more than a third have one label (blanks of an alignment) it goes without
    saying where not all have room."""
    every = stride(pitch, size + 2)
    shown: Sequence[int] = range(0, len(labels), every)
    most, count = Counter(labels).most_common(1)[0] if every > 1 else ("", 0)
    if 3 * count > len(labels):
        shown = _apart([index for index, label in enumerate(labels) if label != most], pitch, size + 2)
    at = [(index, short(labels[index])) for index in shown]
    return AxisLabels(_widest(at, size), 0, 0, size, at)


def _apart(places: Sequence[int], pitch: float, room: float) -> list[int]:
    """The places that have room after the one before."""
    kept: list[int] = []
    for place in places:
        if not kept or (place - kept[-1]) * pitch >= room:
            kept.append(place)
    return kept


def columns(labels: Sequence[str], pitch: float, size: float = 11.0) -> AxisLabels:
    """Labels above columns of this width: level where they fit, then slanted, then upright and thinned."""
    every = stride(pitch, size + 1)
    at = [(index, short(labels[index])) for index in range(0, len(labels), every)]
    widest = _widest(at, size)
    if every == 1 and widest + 6 <= pitch:
        return AxisLabels(size + 2, 0, 0, size, at)
    if widest <= size or all(
        _NUMBER.fullmatch(text) for _, text in at
    ):  # never turned: as much room upright, or some say the others
        wide = stride(pitch, widest + (3 if widest <= size else 8))
        return AxisLabels(size + 2, 0, 0, size, [(index, labels[index]) for index in range(0, len(labels), wide)])
    if every == 1 and pitch >= size + 4:
        slant = widest * 0.7071
        return AxisLabels(slant + size * 0.7 + 2, max(0.0, slant - pitch / 2), 45, size, at)
    return AxisLabels(widest + 4, 0, 90, size, at)


def _widest(at: list[tuple[int, str]], size: float) -> float:
    return min(_LONGEST, max((fonts.width(text, size) for _, text in at), default=0.0))


def draw_rows(drawing: Drawing, axis: AxisLabels, right: float, top: float, pitch: float, color: str = "ink") -> None:
    """Labels that end at `right`, of rows from `top` on."""
    drawing.add(*(Text(right, top + (index + 0.5) * pitch, text, axis.size, color, "right") for index, text in axis.at))


def draw_columns(
    drawing: Drawing, axis: AxisLabels, left: float, bottom: float, pitch: float, color: str = "ink"
) -> None:
    """Labels that stand on `bottom`, of columns from `left` on."""
    for index, text in axis.at:
        x = left + (index + 0.5) * pitch
        if axis.turn == 0:
            drawing.add(Text(x, bottom - axis.size / 2 - 1, text, axis.size, color, "middle"))
        else:
            drawing.add(Text(x, bottom - axis.size * 0.35, text, axis.size, color, "left", turn=axis.turn))


def sentence(text: str, width: float) -> Drawing:
    """The sentence on one line."""
    made = Drawing(width, 26, text)
    made.add(within(4, 13, text, width - 8))
    return made
