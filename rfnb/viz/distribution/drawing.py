"""The `distribution` view as a drawing: a row per step, with its probabilities as a stacked bar."""

from __future__ import annotations

from typing import Any

import numpy as np

from rfnb.viz.distribution.content import WRONG, StepWords, of_scores, of_seq, shown_steps, step_of
from rfnb.viz.drawing import fonts, labels
from rfnb.viz.drawing.shapes import Drawing, Hatch, Lines, Rect, Text
from rfnb.viz.drawing.theme import cell, on_cell

_ROW, _BAR = 20.0, 14.0
_MOST_SEQS, _MOST_STEPS, _MOST_LABELS = 4, 40, 12
_LOSS = 70.0  # the bar of the loss and its number
_FULL = 5.0  # nats for a full bar


def drawing(spec: Any, width: float) -> Drawing:
    """The outputs as a drawing with this width."""
    head = spec.head
    seqs = min(_MOST_SEQS, len(head["seqs"]))
    made = Drawing(width, 0)
    words = f"{head['vocab_dim']['name']}={head['vocab_dim']['size']}, {of_scores(head)}"
    made.add(labels.within(0, 8, words, width, 10, "muted"))
    made.height = 20
    for seq in range(seqs):
        _sequence(made, spec, seq)
        made.height += 10
    made.height -= 10
    made.alt = " ".join(description(spec, seq) for seq in range(seqs))
    made.shows(seqs, len(head["seqs"]), "sequences")
    return made


def _sequence(made: Drawing, spec: Any, seq: int) -> None:
    head, entry = spec.head, spec.head["seqs"][seq]
    at = shown_steps(spec, seq, _MOST_STEPS)
    title = ": ".join(filter(None, [labels.short(entry["label"], 60), of_seq(head, seq)]))
    labels.heading(made, title)
    if not at:
        made.add(Text(0, made.height + 8, "empty: no steps", color="muted"))
        made.height += 18
        return
    steps = [step_of(spec, seq, step, _MOST_LABELS) for step in at]
    given = bool(head.get("reference"))
    names = min(70.0, max(24.0, *(fonts.width(labels.short(step.name), 10) for step in steps))) + 8
    right = min(90.0, max(56.0, *(fonts.width(labels.short(step.reference or ""), 11) for step in steps))) + 8
    verdict = fonts.width(WRONG, 11, bold=True) + 12
    columns = [0.0, names, names + right, names + right + verdict, names + right + verdict + _LOSS + 8]
    left = columns[4] if given and made.width - columns[4] > 120 else columns[3] if given else columns[1]
    if given:
        made.add(Text(columns[1], made.height + 6, "reference", 10, "muted"))
        if left == columns[4]:
            made.add(Text(columns[3], made.height + 6, "loss, nats", 10, "muted"))
    made.add(Text(left, made.height + 6, "probability", 10, "muted"))
    made.height += 16
    for step in steps:
        y = made.height + _ROW / 2
        made.add(labels.within(0, y, labels.short(step.name), names - 8, 10, "muted"))
        if given:
            _reference(made, step, columns, y, loss=left == columns[4])
        _bar(made, step, left, y)
        made.height += _ROW
    if len(at) < entry["len"]:
        made.notes.append(f"{labels.short(entry['label'], 60)}: {len(at)} of {entry['len']} steps")


def _reference(made: Drawing, step: StepWords, columns: list[float], y: float, *, loss: bool) -> None:
    word = labels.short(step.reference) if step.reference is not None else "–"
    made.add(labels.within(columns[1], y, word, columns[2] - columns[1] - 6))
    color = "ink" if step.rank == 1 else "warn"
    made.add(Text(columns[2], y, step.verdict, color=color, bold=step.rank > 1))
    if not loss or not step.rank:
        return
    share = min(1.0, step.loss / _FULL) if np.isfinite(step.loss) else 1.0
    made.add(Rect(columns[3], y - 4, max(0.5, share * (_LOSS - 34)), 8, fill="accent" if step.rank == 1 else "warn"))
    text = f"{step.loss:.2f}" if step.loss < 100 else "∞" if not np.isfinite(step.loss) else f"{step.loss:.0f}"
    made.add(Text(columns[3] + _LOSS, y, text, 10, "muted", "right"))


def _bar(made: Drawing, step: StepWords, left: float, y: float) -> None:
    """The segments of the best labels, with that of the reference framed; the rest is hatched."""
    wide, top = made.width - left - 1, y - _BAR / 2
    if step.best is None:
        made.add(Text(left + 4, y, "no numbers: NaN or infinity", 10, "warn"))
        return
    x = left
    frame = None
    for index, (label, share) in enumerate(step.best):
        room = min(share, 1.0) * wide
        if room >= 0.5:
            made.add(Rect(x, top, max(0.5, room - 1), _BAR, fill=cell("sequential", 0.15 + 0.75 * share)))
            word = labels.fitted(labels.short(label), room - 6, 10) if room > 14 else ""
            if word not in ("", "…"):
                made.add(Text(x + 4, y, word, 10, on_cell("sequential", 0.15 + 0.75 * share)))
        if index == step.rank - 1:
            frame = (x, max(2.0, room - 1))
        x += room
    if left + wide - x > 1:
        made.add(Hatch(x, top, left + wide - x, _BAR))
    if frame is not None:
        made.add(Rect(frame[0] - 1, top - 1, frame[1] + 2, _BAR + 2, stroke="ink", line=1.5))
    made.add(Lines("line", 0.5, [[(left, y + _ROW / 2), (left + wide, y + _ROW / 2)]]))


def description(spec: Any, seq: int) -> str:
    """A description of one sequence."""
    entry = spec.head["seqs"][seq]
    words = f"Output of {labels.short(entry['label'], 60)} over {entry['len']} steps"
    said = of_seq(spec.head, seq)
    if not said or not entry.get("known"):
        return words + "."
    wrong = [step_of(spec, seq, step, 1) for step in shown_steps(spec, seq, _MOST_STEPS)]
    named = [
        f"{labels.short(step.best[0][0])} instead of {labels.short(step.reference or '')} in step {labels.short(step.name)}"
        for step in wrong
        if step.rank > 1 and step.best
    ]
    return f"{words}: {said}.{' Wrong: ' + ', '.join(named[:8]) + ('.' if len(named) <= 8 else ', …') if named else ''}"
