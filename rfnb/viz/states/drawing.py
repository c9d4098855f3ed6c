"""The `states` view as a drawing: per track a strip of units by steps and the line of its norms, over a common axis of steps."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from rfnb.core.strict_json import JsonObject
from rfnb.viz.drawing import fonts, labels
from rfnb.viz.drawing.shapes import Drawing, Lines, Marks, Text, paths_of
from rfnb.viz.parts.matrix import (
    MatrixBox,
    Scale,
    draw_end,
    draw_key,
    draw_matrix,
    draw_odd,
    draw_padding,
    draw_scale,
    number,
)
from rfnb.viz.pool import bounds
from rfnb.viz.states.tracks import CHANGING, MOST_ROWS, asides, changes, changing, line_of, name_of, without_prefix

_CELL, _LEFT, _TITLE, _NORM, _GAP = 38.0, 46.0, 18.0, 34.0, 12.0
_STRIP, _STRIP_LEAST, _UNIT, _STRIPS = 150.0, 28.0, 14.0, 900.0  # _STRIPS: of all strips together
_MOST_SEQS, _MOST_TRACKS = 3, 8


def drawing(spec: Any, width: float) -> Drawing:
    """The states as a drawing with this width."""
    head = spec.head
    seqs = head["seqs"][:_MOST_SEQS]
    tracks = head["tracks"][:_MOST_TRACKS]
    scales = [scale_of(spec, track) for track in tracks]
    names = without_prefix([str(track["label"]) for track in head["tracks"]])[: len(tracks)]
    sizes = [spec.blocks[track["block"]].shape[2] for track in tracks]
    slim = asides([(str(track["label"]), size) for track, size in zip(tracks, sizes)])
    made, right = Drawing(width, 0), 0.0
    for index in range(len(seqs)):
        one = _sequence(spec, index, tracks, names, scales, slim, width, title=len(head["seqs"]) > 1)
        made.put(one, 0, made.height)
        right = max(right, one.width)
        made.height += one.height + (16 if index < len(seqs) - 1 else 0)
    made.width = min(width, right)
    made.alt = " ".join(description(spec, index) for index in range(len(seqs)))
    if any(size > MOST_ROWS and not alone for size, alone in zip(sizes, slim)) and any(seq["len"] > 1 for seq in seqs):
        most = f"those {CHANGING} are drawn that change most, from top to bottom by when."
        made.notes.append(f"Of more than {MOST_ROWS} units {most}")
    if any(slim):
        made.notes.append(f"Of more than {MOST_ROWS} units of a gate, or of what it lets in, the line alone is drawn.")
    made.shows(len(seqs), len(head["seqs"]), "sequences")
    made.shows(len(tracks), len(head["tracks"]), "tracks")
    return made


def scale_of(spec: Any, track: JsonObject) -> Scale:
    """The scale of a track over all sequences; values after their ends are excluded."""
    block = spec.blocks[track["block"]]
    if "range" in track:
        low, high = track["range"]
        return Scale(low, high, "diverging")  # a gate, centred at half open
    low, high = bounds(*(block[seq, : entry["len"]] for seq, entry in enumerate(spec.head["seqs"])))
    most = max(abs(low), abs(high)) or 1.0
    return Scale(-most, most, "diverging")


def _sequence(
    spec: Any,
    index: int,
    tracks: list[JsonObject],
    names: list[str],
    scales: list[Scale],
    slim: list[bool],
    width: float,
    *,
    title: bool,
) -> Drawing:
    head, seq = spec.head, spec.head["seqs"][index]
    blocks = [spec.blocks[track["block"]][index] for track in tracks]
    wrong = [str(index) in (track.get("notes") or {}) for track in tracks]
    # Values after the end are drawn only if they have a problem.
    shown = [block if bad else block[: seq["len"]] for block, bad in zip(blocks, wrong)]
    steps = max((len(block) for block in shown), default=0)
    pitch = min(_CELL, (width - _LEFT - 8) / max(steps, 1))
    axis = labels.columns(seq["steps"][: seq["len"]], pitch)
    if axis.beside:
        pitch = min(_CELL, (width - _LEFT - axis.beside) / max(steps, 1))
        axis = labels.columns(seq["steps"][: seq["len"]], pitch)
    made = Drawing(width, 0)
    if title:
        labels.heading(made, str(seq["label"]))
    name = str(head["step_dim"]["name"]) if head.get("step_dim") else "step"
    made.add(labels.within(0, made.height + 8, f"{name} →", _LEFT + 60, 10, "muted"))
    made.height += 16 + axis.room + 3
    labels.draw_columns(made, axis, _LEFT, made.height - 2, pitch)
    if not steps:
        made.add(Text(_LEFT, made.height + 8, "empty: no steps", color="muted"))
        made.height += 20
        return made
    # The strips of several sequences and tracks share the height of a page.
    many = (len(tracks) - sum(slim)) * min(len(head["seqs"]), _MOST_SEQS)
    most = min(_STRIP, max(_STRIPS / max(many, 1), 1.5 * _STRIP_LEAST))
    heads: list[float] = []
    for track, label, values, scale, alone in zip(tracks, names, shown, scales, slim):
        heads.append(_track(made, track, label, values, seq, scale, pitch, 0.0 if alone else most))
    made.height -= _GAP - 4
    made.width = min(width, max(_LEFT + steps * pitch + max(axis.beside, 4), *heads))
    return made


def _track(
    made: Drawing,
    track: JsonObject,
    label: str,
    values: np.ndarray,
    seq: JsonObject,
    scale: Scale,
    pitch: float,
    most: float,
) -> float:
    """Draw a title with the scale, the strip (none if the height is 0) and the norms; returns the right end of the title."""
    top, length = made.height, seq["len"]
    rows = changing(values[:length]) if most else np.zeros(0, int)
    units = len(rows)
    unit = min(_UNIT, most / max(units, 1))
    tall = max(_STRIP_LEAST, units * unit) if most else 0.0
    strip = top + _TITLE
    label = labels.fitted(label, made.width * 0.4, 11, bold=True)
    made.add(Text(_LEFT, top + 8, label, bold=True))
    at = _LEFT + fonts.width(label, 11, bold=True) + 10
    unit_name, all_units = track["unit_dim"]["name"], values.shape[1]
    words = f"{unit_name}={all_units}" if units in (0, all_units) else f"{units} of {all_units} {unit_name}"
    words = labels.fitted(words, made.width * 0.25, 10)
    made.add(Text(at, top + 8, words, 10, "muted"))
    at += fonts.width(words, 10) + 16
    if most and at + 130 < made.width:
        at = draw_scale(made, at, top + 8, scale, 72)
    if len(values) > length and at + 100 < made.width:
        at = draw_key(made, at + 14, top + 8, "padding", "after the end")
    if units:
        place = MatrixBox(_LEFT, strip, pitch, tall / units)
        strong = values[:, rows].T.astype(np.float32, copy=False)
        seen = draw_padding(made, strong, place, length)
        middle = (scale.low + scale.high) / 2  # the value farthest from it represents a cell
        draw_matrix(made, seen - middle, place, replace(scale, low=scale.low - middle, high=scale.high - middle))
        draw_odd(made, strong[:, :length], place)
        draw_end(made, seen, place, length)  # values change after the end
        made.add(Text(_LEFT - 6, strip + min(5.5, tall / 2), str(rows[0]), 10, "muted", "right"))
        if units > 1:
            made.add(Text(_LEFT - 6, strip + tall - 5.5, str(rows[-1]), 10, "muted", "right"))
    gate = bool(track.get("gate"))
    of_steps = line_of(values[:length], gate=gate), changes(values[:length], gate=gate)
    _line(made, *of_steps, strip + tall + 6, pitch, gate=gate)
    made.height = strip + tall + 6 + _NORM + _GAP
    return at


def _line(made: Drawing, norm: np.ndarray, change: np.ndarray, top: float, pitch: float, *, gate: bool) -> None:
    """Draw the norms from 0 to the largest, or the openings of a gate from 0 to 1, and a thinner line for the distance of
    each step from the previous one; of many steps, the extremes per unit of width.
    """
    most = 1.0 if gate else bounds(norm, change)[1] or 1.0
    right = _LEFT + max(len(norm), 1) * pitch
    made.add(Lines("line", 0.8, [[(_LEFT, top + _NORM), (right, top + _NORM)]]))
    name = "mean" if gate else name_of(gate=False)
    texts = ((top + 5, number(most)), (top + _NORM / 2 + 1, name), (top + _NORM - 3, "0"))
    made.add(*(Text(_LEFT - 6, y, text, 10, "muted", "right") for y, text in texts))
    xs = _LEFT + (np.arange(len(norm)) + 0.5) * pitch
    for values, color, thick in ((change, "muted", 0.7), (norm, "accent", 1.3)):
        paths = paths_of(xs, top + _NORM * (1 - np.where(np.isfinite(values), values, np.nan) / most))
        made.add(Lines(color, thick, [path for path in paths if len(path) > 1]))
    dots = [point for path in paths for point in path] if pitch >= 7 else [path[0] for path in paths if len(path) == 1]
    if dots:
        made.add(Marks("accent", dots, 1.8))


def description(spec: Any, index: int) -> str:
    """A description of one sequence."""
    seq = spec.head["seqs"][index]
    words = f"States of {labels.short(seq['label'], 60)} over {seq['len']} steps."
    for track in spec.head["tracks"][:_MOST_TRACKS]:
        values = spec.blocks[track["block"]][index, : seq["len"]]
        low, high = bounds(values)
        span = f"values from {low:.3g} to {high:.3g}" if np.isfinite(values).any() else "no values"
        words += f" {labels.short(track['label'], 60)}: {labels.short(track['unit_dim']['name'], 60)}={values.shape[1]}, {span}."
    return words
