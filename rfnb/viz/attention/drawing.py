"""The `attention` view as a drawing: one map with its labels, several side by side, or many as thumbnails, layers down and heads across."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from rfnb.core.strict_json import JsonObject
from rfnb.viz.attention.content import real
from rfnb.viz.attention.long_maps import glance, is_long, note
from rfnb.viz.attention.panels import (
    HEAD,
    MapPanel,
    draw_header,
    draw_panel,
    first_seq_note,
    label_of,
    panels_of,
    scale_of,
    slider_note,
)
from rfnb.viz.attention.words import effect_labels
from rfnb.viz.drawing import fonts, labels
from rfnb.viz.drawing.labels import short
from rfnb.viz.drawing.shapes import Cells, Drawing, Rect, Text
from rfnb.viz.drawing.theme import on_cell
from rfnb.viz.parts.matrix import MatrixBox, Scale, number
from rfnb.viz.pool import largest_in
from rfnb.viz.rounding import minus, share

_CELL, _TALL, _LEAST = 34.0, 560.0, 14.0  # largest cell, highest map, lowest row of a long map
_MOST_SEQS, _LABELLED = 12, 6
_LOW, _LABEL = 5.0, 3  # height of a blank row of an alignment, and the factor for label rows
_NUMBER, _NUMBERS = 9.0, 200  # font size of the values in cells, and their maximal number


def drawing(spec: Any, width: float) -> Drawing:
    """The weights as a drawing with this width."""
    if is_long(spec):
        made = drawing(glance(spec), width)
        made.notes.append(note(spec))
        made.alt = f"{made.alt} {note(spec)}."
        return made
    panels = panels_of(spec)
    many = len(spec.head["maps"]) > 1
    made = (thumbnails if many and len(panels) > _LABELLED else _labelled)(spec, panels, width)
    made.alt = description(spec, panels)
    made.notes += slider_note(spec, panels) + rail_notes(spec.head)
    return made


def _labelled(spec: Any, panels: list[MapPanel], width: float) -> Drawing:
    shown = panels[:_MOST_SEQS]
    scale = scale_of(spec, shown)
    across = _across(shown, width)
    room = (width - (across - 1) * 16) / across
    tall = _TALL if len(shown) == 1 else max(120.0, min(_TALL, room * 0.9))
    numbers = sum(panel.values.size for panel in shown) <= _NUMBERS
    made = Drawing(width, HEAD)
    top, right = HEAD, 0.0
    for start in range(0, len(shown), across):
        row = [
            _with_labels(spec, panel, scale, room, tall, title=len(panels) > 1, numbers=numbers)
            for panel in shown[start : start + across]
        ]
        for column, one in enumerate(row):
            made.put(one, column * (room + 16), top)
            right = max(right, column * (room + 16) + one.width)
        top += max(one.height for one in row) + 10
    made.height = top
    made.width = min(width, max(right, draw_header(made, shown, scale)))
    made.shows(len(shown), len(panels), "panels")
    made.notes += first_seq_note(spec.head, shown)
    return made


def _across(panels: list[MapPanel], width: float) -> int:
    """The number of panels per row."""
    if len(panels) == 1:
        return 1
    most = max(1, int(width // 160))
    widest = max(panel.shape[1] for panel in panels)
    fit = max(1, int(width // (min(widest * 20.0, 260) + 70)))
    return min(len(panels), most, max(fit, 2 if width > 400 else 1))


def _with_labels(
    spec: Any, panel: MapPanel, scale: Scale, width: float, tall: float, *, title: bool, numbers: bool
) -> Drawing:
    low = bool(spec.head.get("alignment"))
    panel = low_blanks(panel) if low else panel
    (rows, cols), (row_len, col_len) = panel.shape, panel.real()
    top = 16.0 if title else 0.0
    if not rows or not cols:
        return _empty(spec, panel, width, title=title)
    row_labels, col_labels = panel.seq["rows"][:row_len], panel.seq["cols"][:col_len]
    left = labels.rows(row_labels, min(_CELL, tall / rows)).room + 7

    def sizes(room: float) -> tuple[float, float]:
        if low:
            return min(_CELL, max(20.0, room) / cols), min(_LOW, tall / rows)
        return _cells(cols, rows, max(20.0, room), tall)

    cell, high = sizes(width - left - 6)
    across = labels.columns(col_labels, cell)
    if across.beside:
        cell, high = sizes(width - left - across.beside)
        across = labels.columns(col_labels, cell)
    down = labels.rows(row_labels, high)
    left = down.room + 7
    above = rail_height(spec.head)
    y = top + across.room + 3 + above
    made = Drawing(left + cols * cell + max(across.beside, 4), y + rows * high + 4)
    if title:
        made.add(labels.within(left, 7, label_of(spec, panel), width - left, bold=True))
    place = MatrixBox(left, y, cell, high)
    draw_panel(made, spec, panel, place, scale)
    draw_rail(made, spec, panel, MatrixBox(left, y - above, cell, high))
    said = effect_labels(panel.entry, panel.index)
    if said is not None:
        _said(made, panel, place, scale, said)
    elif cell >= 29 and high >= 17 and numbers:
        _numbers(made, panel, place, scale)
    labels.draw_rows(made, down, left - 6, y, high)
    labels.draw_columns(made, across, left, y - above - 2, cell)
    return made


def low_blanks(panel: MapPanel) -> MapPanel:
    """The panel of an alignment whose alternate rows are blanks: label rows become several rows each, with the label in the middle one."""
    names: list[str] = []
    for row in range(panel.seq["row_len"]):
        names += ["", str(panel.seq["rows"][row]), ""] if row % 2 else [""]
    values = np.repeat(panel.values, np.where(np.arange(len(panel.values)) % 2, _LABEL, 1), axis=0)
    return replace(panel, values=values, seq={**panel.seq, "rows": names, "row_len": len(names)})


def _cells(cols: int, rows: int, width: float, tall: float) -> tuple[float, float]:
    """Width and height of a cell: square, except for very long maps with few rows or columns."""
    cell, high = min(_CELL, width / cols), min(_CELL, tall / rows)
    small, large = min(cell, high), max(cell, high)
    if large > 4 * small:
        large = min(large, max(4 * small, _LEAST))
        return (small, large) if cell <= high else (large, small)
    return small, small


def _empty(spec: Any, panel: MapPanel, width: float, *, title: bool) -> Drawing:
    made = Drawing(min(width, 160.0), 34.0 if title else 20.0)
    if title:
        made.add(labels.within(0, 7, label_of(spec, panel), width, bold=True))
    made.add(Text(0, 26.0 if title else 10.0, "empty", color="muted"))
    return made


def _numbers(made: Drawing, panel: MapPanel, place: MatrixBox, scale: Scale) -> None:
    """Write the weights into their cells."""
    rows, cols = panel.real()
    part = panel.values[:rows, :cols]
    shares = scale.shares(part)
    for row, col in np.argwhere(np.isfinite(part)):
        value = float(part[row, col])
        text = minus(share(value)) if abs(value) < 9.995 else number(value)
        x, y = place.x + (col + 0.5) * place.pitch_x, place.y + (row + 0.5) * place.pitch_y
        if fonts.width(text, _NUMBER) <= place.pitch_x - 2:
            made.add(Text(x, y, text, _NUMBER, on_cell(scale.ramp, float(shares[row, col])), "middle"))


def _said(made: Drawing, panel: MapPanel, place: MatrixBox, scale: Scale, said: list[list[str]]) -> None:
    """Write the labels of a map of effects into their cells, if there is room."""
    shares = scale.shares(panel.values)
    for row, texts in enumerate(said):
        for col, text in enumerate(texts):
            if not text or fonts.width(text, _NUMBER) > place.pitch_x - 1 or place.pitch_y < _NUMBER + 1:
                continue
            share_ = float(np.nan_to_num(shares[row, col], nan=0.5))
            x, y = place.x + (col + 0.5) * place.pitch_x, place.y + (row + 0.5) * place.pitch_y
            made.add(Text(x, y, text, _NUMBER, on_cell(scale.ramp, share_), "middle", bold=True))


_MOST_ROWS, _MOST_NAMES = 24, 40


def description(spec: Any, panels: list[MapPanel]) -> str:
    """A description of the picture: the main sources of each target."""
    entry, index, seq = panels[0].entry, panels[0].index, panels[0].seq
    values = real(spec, entry, index)
    where = f"{short(entry['label'], 60)}, {short(seq['label'], 60)}"
    words = f"{'Effects' if entry.get('effects') else 'Attention'}, {where}: {seq['row_len']} target by {seq['col_len']} source positions."
    first = values[:_MOST_ROWS]
    rows = [row for row in range(len(first)) if values.shape[1] and np.isfinite(first[row]).any()]
    most = [
        f"{short(seq['rows'][row])} to {short(seq['cols'][int(np.nanargmax(values[row]))])} {share(float(np.nanmax(values[row])))}"
        for row in rows
    ]
    if most:
        words += f" Largest weights: {', '.join(most)}{', ...' if len(values) > len(first) else ''}."
    if len(panels) > 1:
        names = [short(label_of(spec, panel), 60) for panel in panels[:_MOST_NAMES]]
        words += f" {len(panels)} panels: {', '.join(names)}{', ...' if len(panels) > len(names) else ''}."
    return words


_SOUND, _WORDS, _APART, _SIZE = 40.0, 15.0, 3.0, 10.0


def rail_height(head: JsonObject) -> float:
    """The height of the rail of a spec above each map, including the gap below it; 0 without a rail."""
    rail = head.get("rail")
    if not rail:
        return 0.0
    return (_SOUND + _APART) * bool(rail.get("block")) + (_WORDS + _APART) * any(rail["words"])


def draw_rail(made: Drawing, spec: Any, panel: MapPanel, place: MatrixBox) -> None:
    """Draw the rail of a panel's sequence at the corner of the place, with the columns of the map."""
    rail = spec.head.get("rail")
    if not rail:
        return
    seq, y = panel.entry["seqs"][panel.index], place.y
    _, cols = panel.real()
    if rail.get("block"):
        values = spec.blocks[rail["block"]][seq, :, : rail["cols"][seq]]
        if values.size and cols:
            width = cols * place.pitch_x
            few = largest_in(values.astype("float32"), int(_SOUND), max(1, round(width))).astype("uint8")
            made.add(Cells(place.x, y, width, _SOUND, few, "sequential"))
        y += _SOUND + _APART
    for start, end, text in rail["words"][seq]:
        x, width = place.x + start * place.pitch_x, (end - start) * place.pitch_x
        made.add(Rect(x, y, width, _WORDS - 1, stroke="muted", line=0.75))
        if fonts.width(text[:1], _SIZE) <= width - 2:
            fitted = labels.fitted(text, width - 2, _SIZE)
            made.add(Text(x + width / 2, y + _WORDS / 2, fitted, _SIZE, "ink", "middle"))


def rail_notes(head: JsonObject) -> list[str]:
    """A note about the sound above the maps; empty without sound."""
    label = head.get("rail", {}).get("label")
    return [f"Above the columns: {label}"] if label else []


_THUMB, _LEAST_THUMB, _TALL_PAGE, _GAP = 112.0, 20.0, 900.0, 6.0


def thumbnails(spec: Any, panels: list[MapPanel], width: float) -> Drawing:
    """All maps, as many as fit."""
    downs, acrosses, at = grid_of(spec, panels)
    if len(at) < len(panels) or len(downs) == 1 or len(at) < 0.5 * len(downs) * len(acrosses):
        return _wrapped(spec, panels, width)
    left = min(140.0, max((fonts.width(labels.short(name, 20), 10) for name in downs[:64]), default=0.0)) + 8
    size = min(_THUMB, max(_LEAST_THUMB, (width - left) / len(acrosses) - _GAP))
    columns = max(1, min(len(acrosses), int((width - left + _GAP) // (size + _GAP))))
    tall = _thumb_tall(panels, size)
    rows = max(1, min(len(downs), int(_TALL_PAGE // (tall + _GAP))))
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
    made.width = min(width, max(right, draw_header(made, shown, scale)))
    _thumb_notes(made, spec, shown, panels)
    return made


def grid_of(spec: Any, panels: Sequence[MapPanel]) -> tuple[list[str], list[str], dict[tuple[int, int], int]]:
    """The names of the layers and heads, and the grid cell of each panel: (row, column) -> its number. Empty if the maps form no grid."""
    head = spec.head
    places = [tuple(panel.entry.get("at") or ()) for panel in panels]
    if len(set(places)) < len(panels) or any(len(place) != 2 for place in places):
        return [], [], {}
    names = [[str(name) for name in head.get(side) or []] for side in ("layers", "heads")]
    sizes = [max(place[axis] for place in places) + 1 for axis in (0, 1)]
    downs, acrosses = (own + [str(at) for at in range(len(own), size)] for own, size in zip(names, sizes))
    return downs[: sizes[0]], acrosses[: sizes[1]], {(row, col): index for index, (row, col) in enumerate(places)}


def _wrapped(spec: Any, panels: list[MapPanel], width: float) -> Drawing:
    """Thumbnails that form no grid of layers and heads, each with its label above."""
    across = max(
        1, min(len(panels), 12 if len(panels) > 24 else 8 if len(panels) > 12 else 6, int(width // (48 + _GAP)))
    )
    size = min(_THUMB + 24, (width + _GAP) / across - _GAP)
    tall = _thumb_tall(panels, size)
    rows = max(1, min(math.ceil(len(panels) / across), int(_TALL_PAGE // (tall + 16 + _GAP))))
    shown = panels[: rows * across]
    scale = scale_of(spec, shown)
    made = Drawing(width, HEAD + math.ceil(len(shown) / across) * (tall + 16 + _GAP))
    for number_, panel in enumerate(shown):
        x, y = number_ % across * (size + _GAP), HEAD + number_ // across * (tall + 16 + _GAP)
        made.add(labels.within(x, y + 7, str(panel.entry["label"]), size, 10, "muted"))
        _thumb(made, spec, panel, (x, y + 16, size, tall), scale)
    draw_header(made, shown, scale)
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
    """The names with their common prefix only once: "heads 0", "1", "2"."""
    words = [name.rsplit(" ", 1) for name in names]
    if len({word[0] for word in words}) == 1 and all(len(word) == 2 for word in words):
        return [names[0], *(word[1] for word in words[1:])]
    return names
