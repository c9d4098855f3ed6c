"""Many maps as thumbnails: layers down and heads across, or wrapped where they are no grid."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from rfnb.viz.attention.panels import HEAD, MapPanel, draw_header, draw_panel, first_seq_note, scale_of
from rfnb.viz.drawing import fonts, labels
from rfnb.viz.drawing.matrix import MatrixBox, Scale
from rfnb.viz.drawing.shapes import Drawing, Rect

_THUMB, _LEAST, _TALL, _GAP = 112.0, 20.0, 900.0, 6.0


def thumbnails(spec: Any, panels: list[MapPanel], width: float) -> Drawing:
    """All maps, as many as there is room for."""
    downs, acrosses, at = grid_of(spec, panels)
    if len(at) < len(panels) or len(downs) == 1 or len(at) < 0.5 * len(downs) * len(acrosses):
        return _wrapped(spec, panels, width)
    left = min(140.0, max((fonts.width(labels.short(name, 20), 10) for name in downs[:64]), default=0.0)) + 8
    size = min(_THUMB, max(_LEAST, (width - left) / len(acrosses) - _GAP))
    columns = max(1, min(len(acrosses), int((width - left + _GAP) // (size + _GAP))))
    tall = _thumb_tall(panels, size)
    rows = max(1, min(len(downs), int(_TALL // (tall + _GAP))))
    shown = [panels[index] for (row, column), index in at.items() if row < rows and column < columns]
    scale = scale_of(spec, shown)
    made = Drawing(width, HEAD + 16 + rows * (tall + _GAP))
    right = left + columns * (size + _GAP)
    for column, name in enumerate(_numbers_of(acrosses)[:columns]):
        made.add(
            labels.within(left + column * (size + _GAP) + size / 2, HEAD + 7, name, size + 4, 10, "muted", "middle")
        )
    for row, name in enumerate(downs[:rows]):
        y = HEAD + 16 + row * (tall + _GAP)
        made.add(labels.within(left - 8, y + tall / 2, name, left - 8, 10, "ink", "right"))
        for column in range(columns):
            if (row, column) in at:
                _thumb(made, spec, panels[at[row, column]], (left + column * (size + _GAP), y, size, tall), scale)
    made.width = min(width, max(right, draw_header(made, spec, shown, scale)))
    _thumb_notes(made, spec, shown, panels)
    return made


def grid_of(spec: Any, panels: Sequence[MapPanel]) -> tuple[list[str], list[str], dict[tuple[int, int], int]]:
    """The names of the layers and heads, and where each panel is: (row, column) -> its number. Without a grid none has a place."""
    head = spec.head
    places = [tuple(panel.entry.get("at") or ()) for panel in panels]
    if len(set(places)) < len(panels) or any(len(place) != 2 for place in places):
        return [], [], {}
    names = [[str(name) for name in head.get(side) or []] for side in ("layers", "heads")]
    sizes = [max(place[axis] for place in places) + 1 for axis in (0, 1)]
    downs, acrosses = (own + [str(at) for at in range(len(own), size)] for own, size in zip(names, sizes))
    return downs[: sizes[0]], acrosses[: sizes[1]], {(row, col): index for index, (row, col) in enumerate(places)}


def _wrapped(spec: Any, panels: list[MapPanel], width: float) -> Drawing:
    """Thumbnails that are no grid of layers and heads, each with its label above."""
    across = max(
        1, min(len(panels), 12 if len(panels) > 24 else 8 if len(panels) > 12 else 6, int(width // (48 + _GAP)))
    )
    size = min(_THUMB + 24, (width + _GAP) / across - _GAP)
    tall = _thumb_tall(panels, size)
    rows = max(1, min(math.ceil(len(panels) / across), int(_TALL // (tall + 16 + _GAP))))
    shown = panels[: rows * across]
    scale = scale_of(spec, shown)
    made = Drawing(width, HEAD + math.ceil(len(shown) / across) * (tall + 16 + _GAP))
    for number_, panel in enumerate(shown):
        x, y = number_ % across * (size + _GAP), HEAD + number_ // across * (tall + 16 + _GAP)
        made.add(labels.within(x, y + 7, str(panel.entry["label"]), size, 10, "muted"))
        _thumb(made, spec, panel, (x, y + 16, size, tall), scale)
    draw_header(made, spec, shown, scale)
    _thumb_notes(made, spec, shown, panels)
    return made


def _thumb_tall(panels: list[MapPanel], size: float) -> float:
    rows, cols = (max(panel.shape[axis] for panel in panels) for axis in (0, 1))
    return max(min(size, size * rows / max(cols, 1)), min(size, 12.0))


def _thumb(made: Drawing, spec: Any, panel: MapPanel, box: tuple[float, float, float, float], scale: Scale) -> None:
    x, y, width, height = box
    rows, cols = panel.shape
    if rows and cols:
        draw_panel(made, spec, panel, MatrixBox(x, y, width / cols, height / rows), scale)
    wrong = bool((panel.entry.get("notes") or {}).get(str(panel.index)))
    if not rows or not cols or wrong:
        made.add(Rect(x, y, width, height, None, "warn" if wrong else "line", 1.5 if wrong else 1.0))


def _thumb_notes(made: Drawing, spec: Any, shown: Sequence[MapPanel], panels: Sequence[MapPanel]) -> None:
    made.shows(len(shown), len(panels), "maps")
    made.notes += first_seq_note(spec.head, panels)


def _numbers_of(names: list[str]) -> list[str]:
    """The names with what they share at the front said once: "heads 0", "1", "2"."""
    words = [name.rsplit(" ", 1) for name in names]
    if len({word[0] for word in words}) == 1 and all(len(word) == 2 for word in words):
        return [names[0], *(word[1] for word in words[1:])]
    return names
