"""The panels of the `attention` drawing: their choice, their common scale, their cells."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rfnb.core.strict_json import JsonObject
from rfnb.viz.attention.content import real
from rfnb.viz.attention.masks import hidden_of
from rfnb.viz.drawing import fonts, labels
from rfnb.viz.drawing.shapes import Cells, Drawing, Hatch, Text
from rfnb.viz.parts.matrix import (
    MatrixBox,
    Scale,
    draw_end,
    draw_key,
    draw_matrix,
    draw_odd,
    draw_padding,
    draw_scale,
)
from rfnb.viz.pool import bounds, largest_in

HEAD = 24.0  # the line with the names of the dims and the scale


@dataclass
class MapPanel:
    """One sequence of one map."""

    entry: JsonObject
    index: int
    seq: JsonObject
    values: np.ndarray  # without padding, unless the padding has a problem

    @property
    def shape(self) -> tuple[int, int]:
        """The number of rows and of columns."""
        return self.values.shape[0], self.values.shape[1]

    def real(self) -> tuple[int, int]:
        """The number of real rows and columns, without padding."""
        return min(self.seq["row_len"], self.shape[0]), min(self.seq["col_len"], self.shape[1])


def panels_of(spec: Any) -> list[MapPanel]:
    """The panels to draw: all sequences of a single map, or the first sequence of each of several maps.

    On a slider with several maps, it is the last position; with one map, each position is a panel.
    """
    maps = spec.head["maps"]
    if len({tuple(entry.get("at") or ()) for entry in maps}) > 1:
        last = max((entry.get("step") or 0 for entry in maps), default=0)
        maps = [entry for entry in maps if (entry.get("step") or 0) == last]
    chosen = [(entry, index) for entry in maps for index in range(len(entry["seqs"]) if len(maps) == 1 else 1)]
    return [_panel(spec, entry, index) for entry, index in chosen if entry["seqs"]]


def slider_note(spec: Any, panels: Sequence[MapPanel]) -> list[str]:
    """A note on the slider position that is drawn; empty if all are drawn."""
    slider = spec.head.get("slider")
    steps = {panel.entry.get("step") or 0 for panel in panels}
    if not slider or len(steps) != 1 or len(slider["labels"]) < 2:
        return []
    (step,) = steps
    return [f"{slider['name']} {slider['labels'][step]}, one of {len(slider['labels'])}"]


def first_seq_note(head: JsonObject, panels: Sequence[MapPanel]) -> list[str]:
    """A note that only the first sequence of several maps is drawn, and their number; empty if there is one."""
    seqs = len(panels[0].entry["seqs"])
    shown = {id(panel.entry) for panel in panels}
    if seqs < 2 or len(shown) < len(panels) or len(head["maps"]) < 2:
        return []
    return [f"The first of {seqs} sequences: {labels.short(panels[0].seq['label'], 60)}"]


def _panel(spec: Any, entry: JsonObject, index: int) -> MapPanel:
    wrong = str(index) in (entry.get("notes") or {})
    seq = spec.head["seqs"][entry["seqs"][index]]
    values = spec.blocks[entry["block"]][index, : seq["row_len"]] if wrong else real(spec, entry, index)
    return MapPanel(entry, index, seq, values)


def scale_of(spec: Any, panels: Sequence[MapPanel]) -> Scale:
    """The scale of all panels: 0 to 1 for ordinary weights, so that colours have the same meaning in all views."""
    low, high = spec.head.get("range") or _range(panels)
    if low == 0 and 0.2 < high <= 1.001:
        high = 1.0
    ramp = "diverging" if spec.head.get("signed") else "sequential"
    return Scale(low, high if high > low else low + 1, ramp, root=low == 0 and spec.head.get("scale") != "linear")


def _range(panels: Sequence[MapPanel]) -> tuple[float, float]:
    real = ((panel, *panel.real()) for panel in panels)
    return bounds(np.zeros(1), *(panel.values[:rows, :cols] for panel, rows, cols in real))


def label_of(spec: Any, panel: MapPanel) -> str:
    """The label of a panel: its map, sequence, and slider position."""
    names = [str(panel.entry["label"])] if len({str(entry["label"]) for entry in spec.head["maps"]}) > 1 else []
    slider = spec.head.get("slider")
    if slider:
        names.append(f"{slider['name']} {slider['labels'][panel.entry.get('step') or 0]}")
    if len(panel.entry["seqs"]) > 1 or not names:
        names.append(str(panel.seq["label"]))
    return ", ".join(names)


def draw_panel(made: Drawing, spec: Any, panel: MapPanel, place: MatrixBox, scale: Scale) -> None:
    """Draw the cells of a panel, with hatches for cells without weights."""
    _, col_len = panel.real()
    hidden = hidden_of(spec, panel.entry, panel.index)
    values, width = draw_padding(made, panel.values, place, col_len), col_len * place.pitch_x
    if hidden is not None:
        values = values.copy()
        values[:, :col_len][hidden] = np.nan
        if hidden.any():
            made.add(Hatch(place.x, place.y, width, len(values) * place.pitch_y, "mask"))
            _cover(made, hidden, place)
    for start, end in _runs(_nothing(panel, hidden)):
        made.add(Hatch(place.x, place.y + start * place.pitch_y, width, (end - start) * place.pitch_y, "missing"))
    draw_matrix(made, values, place, scale)
    part = panel.values[:, :col_len]
    if "effects" not in panel.entry:  # masked cells, and cells without a branch yet, have no value on purpose
        draw_odd(made, part if hidden is None else np.where(hidden, 0, part), place)
    draw_end(made, values, place, col_len)


def _cover(made: Drawing, hidden: np.ndarray, place: MatrixBox) -> None:
    """Draw the lightest colour over unmasked cells, so that the hatch is visible only in masked ones."""
    width, height = hidden.shape[1] * place.pitch_x, hidden.shape[0] * place.pitch_y
    few = largest_in(hidden.astype(np.float32), max(1, round(height)), max(1, round(width)))
    made.add(Cells(place.x, place.y, width, height, (few == 0).astype(np.uint8), "sequential"))


def _nothing(panel: MapPanel, hidden: np.ndarray | None) -> np.ndarray:
    """The rows that are all NaN."""
    rows, cols = panel.real()
    part = panel.values[:rows, :cols]
    if not part.size or not np.isnan(part[:, 0]).any():
        return np.zeros(rows, bool)
    return np.asarray(np.isnan(part).all(-1))


def _runs(where: np.ndarray) -> list[tuple[int, int]]:
    """Starts and ends of the runs of True."""
    edges = np.flatnonzero(np.diff(np.r_[False, where, False].astype(np.int8)))
    return [(int(start), int(end)) for start, end in zip(edges[::2], edges[1::2])]


def draw_header(made: Drawing, panels: Sequence[MapPanel], scale: Scale) -> float:
    """Draw the names of the dims, the scale and the hatches in one line; returns its right end."""
    entry = panels[0].entry
    names = f"{labels.short(entry['row_dim']['name'], 24)} ↓   {labels.short(entry['col_dim']['name'], 24)} →"
    made.add(Text(0, 9, names, 10, "muted"))
    x = fonts.width(names, 10) + 20
    if x + 140 < made.width:
        x = draw_scale(made, x, 9, scale) + 16
    hatched = {shape.pattern for shape in made.shapes if isinstance(shape, Hatch)}
    for pattern, words in (("padding", "padding"), ("mask", "masked"), ("missing", "NaN, not computed")):
        if pattern in hatched and x + 90 < made.width:
            x = draw_key(made, x, 9, pattern, words) + 14
    return x
