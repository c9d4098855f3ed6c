"""The `states` view for terminals: one line of bars per unit, the norm above."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from rfnb.viz.states.check import warnings
from rfnb.viz.terminal import WIDTH, bar, clip, shortened, width_of
from rfnb.viz.visible import visible

_MOST_UNITS, _MOST_STEPS, _MOST_TRACKS = 8, 40, 12


def text(spec: Any) -> str:
    """The tracks of the first sequence: per step the norm, and the units that vary most as bars."""
    head = spec.head
    fault = problem(spec)
    if fault:
        return fault
    title = str(head.get("title", "States"))
    if not head["tracks"] or not head["seqs"]:
        return f"{title}: no states{' yet' if head.get('live') else ''}"
    seq = head["seqs"][0]
    lines = [f"{title}: {seq['label']}, {seq['len']} steps"]
    tracks = head["tracks"][:_MOST_TRACKS]
    names = [f"{shortened(track['unit_dim']['name'], 18)} {spec.blocks[track['block']].shape[2]}" for track in tracks]
    left = max(12, *(min(width_of(name), 24) + 1 for name in names))
    every = max(1, -(-seq["len"] // _MOST_STEPS))
    shown = list(range(0, seq["len"], every))
    if not shown:
        return "\n".join([*lines, "  empty: no steps"])
    room = (WIDTH - left - 2) // len(shown) - 1  # for a number and the label above it
    wide = min(room, max(5, min(7, max(width_of(seq["steps"][step]) for step in shown)))) if room >= 5 else 1
    gap = " " if wide > 1 else ""
    if wide > 1:
        lines.append(" " * (left + 2) + gap.join(clip(seq["steps"][step], wide) for step in shown).rstrip())
    else:
        more = f", each {every}th" if every > 1 else ""
        first, last = (shortened(visible(seq["steps"][at][:40]), 16) for at in (0, -1))
        lines.append(f"{' ' * left}  steps {first} … {last}{more}")
    for track in tracks:
        values = spec.blocks[track["block"]][0, : seq["len"]]
        lines += _track(track, values, shown, left, wide, gap)
    if len(tracks) < len(head["tracks"]):
        lines.append(f"... and {len(head['tracks']) - len(tracks)} more tracks")
    lines += [f"! {warning}" for warning in warnings(spec)]
    if len(head["seqs"]) > 1:
        lines.append(f"Sequences: {len(head['seqs'])}")
    return "\n".join(lines)


def problem(spec: Any) -> str | None:
    """The fault of the spec, as a sentence; None if it can be drawn."""
    head = spec.head
    if not isinstance(head.get("tracks"), list) or not isinstance(head.get("seqs"), list):
        return "This states view has no list of tracks and of sequences."
    for track in head["tracks"]:
        block = spec.blocks.get(track.get("block"))
        if block is None or block.ndim != 3:
            return f"Track {track.get('label')} has no array of sequence, step and unit."
        if block.shape[0] < len(head["seqs"]):
            return f"Track {track.get('label')} has {block.shape[0]} sequences, not {len(head['seqs'])}."
    return None


def norms(values: np.ndarray) -> np.ndarray:
    """Euclidean norm per step of {step, unit}."""
    return np.sqrt(np.square(values.astype(np.float64)).sum(-1))


def _track(track: dict[str, Any], values: np.ndarray, shown: list[int], left: int, wide: int, gap: str) -> list[str]:
    unit = track["unit_dim"]
    size = values.shape[1]
    norm = norms(values)
    finite = values[np.isfinite(values)]
    most = float(np.abs(finite).max(initial=0.0))
    top = float(norm[np.isfinite(norm)].max(initial=0.0)) or 1.0
    lines = [f"{track['label']}: {unit['name']}={size}, largest magnitude {most:.3g}, norm up to {top:.3g}"]

    def line(label: str, shares: Iterable[float], texts: Iterable[str]) -> str:
        cells = [clip(bar(share) + (text_ if wide > 1 else ""), wide) for share, text_ in zip(shares, texts)]
        return f"  {clip(label, left)}{gap.join(cells)}".rstrip()

    lines.append(line("norm", norm[shown] / top, [f"{value:.2g}" for value in norm[shown]]))
    with np.errstate(invalid="ignore"):
        spread = np.nan_to_num(np.ptp(values.astype(np.float64), axis=0)) if len(values) else np.zeros(size)
    chosen = sorted(np.argsort(-spread, kind="stable")[:_MOST_UNITS].tolist())
    for index in chosen:
        column = values[shown, index]
        shares = (column / (most or 1.0) + 1) / 2
        lines.append(line(f"{unit['name']} {index}", shares, [f"{value:+.1f}" for value in column]))
    if size > len(chosen):
        lines.append(f"  (the {len(chosen)} that vary most)")
    return lines
