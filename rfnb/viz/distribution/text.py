"""The `distribution` view for terminals: a line per step with the reference, its loss and the best labels."""

from __future__ import annotations

from typing import Any

import numpy as np

from rfnb.viz.distribution.words import StepWords, of_scores, of_seq, shown_steps, step_of, warnings
from rfnb.viz.kinds import title_of
from rfnb.viz.rounding import share as rounded
from rfnb.viz.terminal import bar, clip, columns_of, width_of

_WIDE, _MOST_STEPS, _MOST_SEQS = 80, 30, 4
_NAME, _NAME_OF_SEQ = 8, 26  # the columns of the name of a step; where each is a sequence


def text(spec: Any) -> str:
    """The sequences below each other, their steps as lines."""
    head = spec.head
    lines = [f"{title_of(spec)}: {head['vocab_dim']['name']}={head['vocab_dim']['size']}, {of_scores(head)}"]
    for seq in range(min(_MOST_SEQS, len(head["seqs"]))):
        lines += _sequence(spec, seq)
    if len(head["seqs"]) > _MOST_SEQS:
        lines.append(f"Sequences: {len(head['seqs'])}, the first {_MOST_SEQS} are here")
    return "\n".join([*lines, *(f"! {warning}" for warning in warnings(spec))])


def _sequence(spec: Any, seq: int) -> list[str]:
    entry = spec.head["seqs"][seq]
    at = shown_steps(spec, seq, _MOST_STEPS)
    batch = (spec.head.get("step_dim") or {}).get("kind") == "batch"  # a classifier: one output per sequence
    rows, row, most = ("sequences", "sequence", _NAME_OF_SEQ) if batch else ("steps", "step", _NAME)
    said = ", ".join(filter(None, [f"{entry['len']} {rows}", of_seq(spec.head, seq)]))
    lines = [f"{clip(entry['label'], min(40, width_of(entry['label'])))}: {said}"]
    if not at:
        return lines
    steps = [step_of(spec, seq, step, 20) for step in at]
    names = max(len(row), *(min(most, width_of(step.name)) for step in steps))
    given = bool(spec.head.get("reference"))
    right = max(9, *(min(10, width_of(step.reference or "")) for step in steps)) if given else 0
    start = clip(row, names) + (f"  {clip('reference', right)}           prob   loss  rank" if given else "")
    lines.append(f"  {start}  best labels".rstrip())
    lines += [_line(step, names, right) for step in steps]
    if len(at) < entry["len"]:
        lines.append(f"  {len(at)} of {entry['len']} {rows}{', those with a wrong label among them' if given else ''}")
    return lines


def _line(step: StepWords, names: int, right: int) -> str:
    out = f"  {clip(step.name, names)}"
    if right:
        numbers = f"{_share(step.prob)}  {_loss(step.loss)}  {step.rank:>4}" if step.rank else " " * 18
        out += f"  {clip(step.reference if step.reference is not None else '-', right)} {step.verdict:<8} {numbers}"
    out += "  "
    if step.best is None:
        return out + "? no numbers"
    room = _WIDE - columns_of(out) - len("rest 1.00")
    done = 0.0
    for label, share in step.best:
        word = clip(label, min(8, width_of(label)))
        piece = f"{word} {bar(share)}{rounded(share)} "
        if columns_of(piece) > room or (done and share < 0.005):
            break
        out, room, done = out + piece, room - columns_of(piece), done + share
    rest = max(0.0, step.rest + sum(share for _, share in step.best) - done)
    return (out + (f"rest {rounded(rest)}" if rest >= 5e-7 else "")).rstrip()


def _share(value: float) -> str:
    return rounded(value, 3).rjust(5) if np.isfinite(value) else "    ?"


def _loss(value: float) -> str:
    return "  inf" if value == np.inf else f"{value:5.2f}" if value < 100 else f"{value:5.0f}"
