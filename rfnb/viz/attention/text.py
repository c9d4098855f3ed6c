"""The `attention` view for terminals: numbers where they fit, shades where they do not."""

from __future__ import annotations

from typing import Any

import numpy as np

from rfnb.viz.attention.check import remarks, warnings
from rfnb.viz.terminal import clip, pooled, shade, width_of
from rfnb.viz.visible import visible

_MOST_NUMBERS, _WIDTH, _HEIGHT, _MOST_MAPS = 14, 72, 36, 12


def text(spec: Any) -> str:
    """The first map of the first sequence as a picture in text, the others by name."""
    head = spec.head
    fault = problem(spec)
    if fault:
        return fault
    title = str(head.get("title", "Attention"))
    if not head["maps"] or not head["maps"][0]["seqs"]:
        return f"{title}: no weights{' yet' if head.get('live') else ''}"
    entry = head["maps"][0]
    seq = head["seqs"][entry["seqs"][0]]
    values = real(spec, entry, 0)
    names = f"{entry['row_dim']['name']} ↓ looks at {entry['col_dim']['name']} →"
    label = f"{entry['label']}, " if len(head["maps"]) > 1 else ""
    lines = [f"{title}: {label}{seq['label']}  ({names})"]
    if not values.size:
        lines.append("  empty: nothing to look at")
    elif values.shape[1] <= _MOST_NUMBERS and values.shape[0] <= _HEIGHT:
        lines += _numbers(values, seq)
    else:
        lines += _shades(values, seq)
    lines += [f"! {warning}" for warning in warnings(spec)] + [f"  {remark}" for remark in remarks(spec)]
    others = [str(other["label"]) for other in head["maps"][1:]]
    if others:
        more = f", ... ({len(others)} in all)" if len(others) > _MOST_MAPS else ""
        lines.append(f"Other maps: {', '.join(others[:_MOST_MAPS])}{more}")
    if len(entry["seqs"]) > 1:
        lines.append(f"Sequences: {len(entry['seqs'])}")
    return "\n".join(lines)


def problem(spec: Any) -> str | None:
    """The fault of the spec, as a sentence; None if it can be drawn."""
    head = spec.head
    if not isinstance(head.get("maps"), list) or not isinstance(head.get("seqs"), list):
        return "This attention view has no list of maps and of sequences."
    if head.get("fault"):
        return f"{head.get('title', 'Attention')}: {head['fault']}"
    for entry in head["maps"]:
        block = spec.blocks.get(entry.get("block"))
        if block is None or block.ndim != 3:
            return f"Map {entry.get('label')} has no array of sequence, target and source."
        if len(entry["seqs"]) > block.shape[0] or any(not 0 <= seq < len(head["seqs"]) for seq in entry["seqs"]):
            return f"Map {entry.get('label')} names sequences that are not there."
    return None


def top(values: np.ndarray) -> float:
    """The value that gets the full colour: 1 for ordinary weights, so that the scale stays while rows arrive."""
    finite = values[np.isfinite(values)]
    most = float(finite.max(initial=0.0))
    return 1.0 if 0.2 < most <= 1.001 else most or 1.0


def real(spec: Any, entry: dict[str, Any], index: int) -> np.ndarray:
    """The weights of one sequence of a map without its padding."""
    seq = spec.head["seqs"][entry["seqs"][index]]
    return spec.blocks[entry["block"]][index, : seq["row_len"], : seq["col_len"]]


def _numbers(values: np.ndarray, seq: dict[str, Any]) -> list[str]:
    rows, cols = seq["rows"], seq["cols"]
    wide = max(5, *(min(width_of(token), 9) for token in cols))
    left = max(min(width_of(token), 16) for token in rows)
    full = top(values)
    lines = [" " * left + " " + " ".join(clip(token, wide) for token in cols)]
    for token, row in zip(rows, values):
        cells = [clip(shade(value / full) + _number(value), wide) for value in row]
        lines.append(f"{clip(token, left, right=True)} " + " ".join(cells))
    return [line.rstrip() for line in lines]


def _number(value: float) -> str:
    if np.isnan(value):
        return ""  # the shade says it
    return f"{value:.2f}" if np.isfinite(value) else str(value)


def _shades(values: np.ndarray, seq: dict[str, Any]) -> list[str]:
    small, down, across = pooled(values, _HEIGHT, _WIDTH)
    full = top(values)
    left = max(min(width_of(token), 16) for token in seq["rows"][::down])
    lines = []
    for index, row in enumerate(small):
        token = seq["rows"][index * down]
        lines.append(f"{clip(token, left, right=True)} │{''.join(shade(value / full) for value in row)}│")
    cols = seq["cols"]
    lines.append(f"{' ' * left}  columns: {visible(cols[0])} … {visible(cols[-1])}, {len(cols)} in all")
    if down > 1 or across > 1:
        lines.append(f"{' ' * left}  each cell shows the largest of {down} x {across} weights")
    return lines
