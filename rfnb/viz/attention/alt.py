"""The `attention` drawing in words: for each target of the first map, where most of its weight is."""

from __future__ import annotations

from typing import Any

import numpy as np

from rfnb.viz.attention.panels import MapPanel, label_of
from rfnb.viz.attention.text import real
from rfnb.viz.drawing.labels import short
from rfnb.viz.rounding import share

_MOST_ROWS, _MOST_NAMES = 24, 40


def description(spec: Any, panels: list[MapPanel]) -> str:
    """The picture in words: for each target, where most of the weight is."""
    entry, index, seq = panels[0].entry, panels[0].index, panels[0].seq
    values = real(spec, entry, index)
    where = f"{short(entry['label'], 60)}, {short(seq['label'], 60)}"
    words = f"Attention, {where}: {seq['row_len']} target by {seq['col_len']} source positions."
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
