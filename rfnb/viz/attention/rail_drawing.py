"""The rail above a map in its drawing: the sound as cells, words as boxes below it."""

from __future__ import annotations

from typing import Any

from rfnb.viz.attention.panels import MapPanel
from rfnb.viz.drawing import fonts, labels
from rfnb.viz.drawing.matrix import MatrixBox
from rfnb.viz.drawing.shapes import Cells, Drawing, Rect, Text
from rfnb.viz.pool import largest_in

_SOUND, _WORDS, _GAP, _SIZE = 40.0, 15.0, 3.0, 10.0


def rail_height(head: dict[str, Any]) -> float:
    """The room that the rail of a spec takes above each map, with the gap below it; 0 without one."""
    rail = head.get("rail")
    if not rail:
        return 0.0
    return (_SOUND + _GAP) * bool(rail.get("block")) + (_WORDS + _GAP) * any(rail["words"])


def draw_rail(made: Drawing, spec: Any, panel: MapPanel, place: MatrixBox) -> None:
    """The rail of a panel's sequence; its corner is that of the place, whose columns are those of the map."""
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
        y += _SOUND + _GAP
    for start, end, text in rail["words"][seq]:
        x, width = place.x + start * place.pitch_x, (end - start) * place.pitch_x
        made.add(Rect(x, y, width, _WORDS - 1, stroke="muted", line=0.75))
        if fonts.width(text[:1], _SIZE) <= width - 2:
            fitted = labels.fitted(text, width - 2, _SIZE)
            made.add(Text(x + width / 2, y + _WORDS / 2, fitted, _SIZE, "ink", "middle"))


def rail_notes(head: dict[str, Any]) -> list[str]:
    """The sound above the maps as a sentence; none without one."""
    label = head.get("rail", {}).get("label")
    return [f"Above the columns: {label}"] if label else []
