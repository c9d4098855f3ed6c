"""Export a view for papers, slides and pages: HTML, SVG, PNG, PDF.

view.save("attention.pdf")                      # two columns wide
view.save("attention.svg", width=3.3)           # one column wide
view.save("slide.png", width=10, theme="dark")
"""

from __future__ import annotations

import os
from numbers import Real
from pathlib import Path
from typing import Any

from rfnb.core.atomic_file import write_whole
from rfnb.core.errors import value_error
from rfnb.viz.drawing import labels
from rfnb.viz.drawing.shapes import Drawing, Text, padded, pooled_note
from rfnb.viz.drawing.theme import theme as theme_of
from rfnb.viz.kinds import drawing_of

SUFFIXES = (".html", ".svg", ".png", ".pdf")
COLUMN, PAGE = 3.3, 6.75  # inches
_POINTS = 6 / 9  # points per unit: the smallest text, of size 9, has 6 points, and most text 7
_RIM = 3.0
_LARGER = 1.1  # maximal enlargement to reach the requested width
_LEAST_DPI = 20  # at lower resolutions text is illegible


def save(
    view: Any, path: str | os.PathLike[str], *, width: float = PAGE, theme: str = "light", dpi: float = 300
) -> Path:
    """Write a view to a file in the format of its suffix: see `View.save`."""
    kind = Path(os.fspath(path)).suffix.lower()
    if kind not in SUFFIXES:
        raise value_error(
            f"save: {kind or 'no suffix'} is not a file type of views.",
            {"path": os.fspath(path), "kinds": ", ".join(SUFFIXES)},
            "The suffix of the path determines the file type.",
            f'view.save("{Path(os.fspath(path)).stem or "view"}.svg")',
        )
    numbers = all(isinstance(each, Real) and not isinstance(each, bool) for each in (width, dpi))
    if not (numbers and 0 < width < 100 and _LEAST_DPI <= dpi <= 2400):
        raise value_error(
            "save: the picture has no size.",
            {"width": f"{width} inches", "dpi": dpi},
            f"A picture is up to 100 inches wide, with {_LEAST_DPI} to 2400 dots per inch.",
            f'view.save("{Path(os.fspath(path)).name}", width={PAGE})',
        )
    paper = theme_of(theme)
    if kind == ".html":
        from rfnb.viz.save import save_html

        return save_html(path, view, title=str(view.spec.head.get("title") or view.kind))
    drawing, points = for_paper(view.spec, width)
    write_whole(path, _drawn(kind, drawing, paper, points, dpi))
    return Path(path)


def _drawn(kind: str, drawing: Drawing, paper: Any, points: float, dpi: float) -> bytes:
    if kind == ".svg":
        from rfnb.viz.drawing.svg import svg

        return svg(drawing, paper, points).encode("utf-8")
    if kind == ".png":
        from rfnb.viz.drawing.png import png

        return png(drawing, paper, points * dpi / 72)
    from rfnb.viz.drawing.figure import pdf

    return pdf(drawing, paper, points)


def for_paper(spec: Any, width: float) -> tuple[Drawing, float]:
    """The drawing of a spec at an exact width in inches, with its notes below, and the points per unit."""
    room = width * 72 / _POINTS - 2 * _RIM
    drawing = drawing_of(spec, room)
    if drawing.width * _LARGER < room:  # centred on the paper
        paper = Drawing(room, drawing.height, drawing.alt, notes=list(drawing.notes))
        paper.put(drawing, (room - drawing.width) / 2, 0)
        drawing = paper
    for note in [*drawing.notes, *pooled_note(drawing)]:
        for said in labels.broken(note, max(drawing.width, 200), 10):
            drawing.add(Text(0, drawing.height + 8, said, 10, "muted"))
            drawing.height += labels.LINE
        drawing.height += 2
    drawing = padded(drawing, _RIM)
    return drawing, width * 72 / drawing.width  # a wider drawing (a plan) is scaled down
