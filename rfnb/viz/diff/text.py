"""The `diff` view for terminals: the first difference in words, a line of bars per path, searches, what only one has."""

from __future__ import annotations

from typing import Any

import numpy as np

from rfnb.viz.kinds import title_of
from rfnb.viz.terminal import WIDTH, aligned, bar, clip, width_of

_MOST_ROWS, _MOST_LABEL, _MOST_BARS = 24, 28, 32


def text(spec: Any) -> str:
    """All of a diff."""
    head = spec.head
    parts = [f"{title_of(spec)}: {head['said']}", *(f"  {hint}" for hint in head["hints"]), head["limit"]]
    parts += table(spec)
    parts += [*head["searches"], *head["notes"], *head["next"]]
    return "\n".join(parts)


def share(log: np.ndarray | float) -> np.ndarray:
    """The place on the ramp of a difference: 0 of what is the same, a tenth for a thousandth of the tolerance, 1 for 100,000 of it."""
    with np.errstate(invalid="ignore"):
        seen = np.where(log == -np.inf, 0.0, np.clip(0.1 + 0.9 * (log + 3) / 8, 0.1, 1.0))
    return np.asarray(np.where(np.isnan(log), np.nan, seen), np.float64)


def table(spec: Any) -> list[str]:
    """The paths as lines: bars over the steps, where they differ first, how much."""
    head = spec.head
    rows = [index for index, row in enumerate(head["rows"]) if row["first"] is not None] or range(len(head["rows"]))
    shown = list(rows)[:_MOST_ROWS]
    if not shown or not head["cols"]:
        return []
    lines = []
    left = min(_MOST_LABEL, max(width_of(head["rows"][index]["label"]) for index in shown))
    log, most = spec.blocks["log"][0], spec.blocks["abs"][0]
    words = aligned([_words(head, most, index) for index in shown])
    room = max(8, min(_MOST_BARS, WIDTH - left - 6 - max(map(width_of, words))))
    for index, said in zip(shown, words):
        label = clip(head["rows"][index]["label"], left)
        lines.append(f"  {label}  {_bars(log[index], room)}  {said}")
    rest = len(head["rows"]) - len(shown)
    if rest:
        differ = sum(row["first"] is not None for index, row in enumerate(head["rows"]) if index not in shown)
        said = f"more paths, {differ} of which differ" if differ else "more paths that do not differ"
        lines.append(f"  and {rest} {said}")
    return lines


def _words(head: Any, most: np.ndarray, index: int) -> list[str]:
    row = head["rows"][index]
    if row["first"] is None:
        return ["the same", "", ""]
    mark = " (first of all)" if head.get("mark") and head["mark"][0] == index else ""
    begin, worst = f"from {head['cols'][row['first']]}{mark}", row["worst"]
    if worst is None:
        return [begin, "not in numbers", ""]
    far = float(most[index, worst])
    return [begin, f"largest {far:.3g}" if np.isfinite(far) else "NaN or infinity", f"at {head['cols'][worst]}"]


def _bars(log: np.ndarray, room: int) -> str:
    """One bar per column, the largest of its steps: "·" the same bit for bit, blank where there is nothing, "!" another label."""
    every = -(-len(log) // room)
    out = ""
    for start in range(0, len(log), every):
        here = log[start : start + every]
        here = here[~np.isnan(here)]
        worst = here.max() if here.size else np.nan
        out += (
            " "
            if np.isnan(worst)
            else "·"
            if worst == -np.inf
            else "!"
            if worst == np.inf
            else bar(float(share(worst)) * 0.999)
        )
    return out
