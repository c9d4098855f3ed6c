"""Problems in attention weights, as text: weight on padding, rows that do not sum to 1, NaN and infinity.

A row that does not sum to 1 is a problem only if most rows do: energies, weights after dropout and slices of columns
are not expected to. Rows of zeros (everything is masked) and rows of NaN (not computed yet) are fine.
`widgets/src/attention/check.ts` does the same for one row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from rfnb.core.strict_json import JsonObject
from rfnb.viz.visible_text import visible

CLOSE = 0.01  # tolerance of a sum; bfloat16 is that far off
LEAST = 1e-4  # reported weight of a row on padding


def judge(
    values: np.ndarray,
    row_lens: np.ndarray,
    col_lens: np.ndarray,
    labels: Sequence[Sequence[str]],
    *,
    partial: bool,
    hidden: Sequence[np.ndarray | None] | None = None,
) -> JsonObject:
    """The findings in a map [seq, row, col], for its entry in the spec: "sums" if its rows should sum to 1; "notes", for each sequence with
    problems these as a sentence without its end; and "remark", a note about the whole map that is not a problem.

    Args:
        labels: Labels of the rows, per sequence.
        partial: Whether rows of all NaN may be rows that are not computed yet.
        hidden: Masked cells of each sequence, bool [row, col] without its padding, or None.
    """
    masks = hidden or [None] * len(values)
    seqs = [
        _SequenceRows(values[index, : int(rows)], int(cols), mask)
        for index, (rows, cols, mask) in enumerate(zip(row_lens, col_lens, masks))
    ]
    every = np.concatenate([seq.totals[seq.computed & (seq.totals != 0)] for seq in seqs] or [np.zeros(0)])
    negative = any(seq.negative for seq in seqs)
    sums = not negative and bool(len(every)) and float((np.abs(every - 1) <= CLOSE).mean()) > 0.5
    notes: dict[str, str] = {}
    for index, seq in enumerate(seqs):
        name = lambda row, index=index: _row(row, labels[index][row])  # noqa: E731
        said = _sums(seq, name) if sums else []
        if not seq.finite:
            said += _not_finite(seq.values, seq.computed, seq.col_len, name)
            empty = ~seq.computed & (seq.col_len > 0)
            if not partial and empty.any():
                first = name(int(np.argmax(empty)))
                said.append(f"nothing but NaN in {int(empty.sum())} of {len(empty)} rows, first in {first}")
        if said:
            notes[str(index)] = "; ".join(said)
    found: JsonObject = {"sums": True} if sums else {}
    if notes:
        found["notes"] = notes
    if len(every) and not sums and not negative:
        low, high = every.min(), every.max()
        found["remark"] = f"rows do not sum to 1, but to {low:.3g}" + (f" … {high:.3g}" if high - low > CLOSE else "")
    return found


class _SequenceRows:
    """The rows of one sequence.

    Attributes:
        finite: Whether there is neither NaN nor infinity.
        computed: Whether each row has anything but NaN.
        totals: The sum of the finite values of each row.
        on_padding: The part of this sum on padding.
        on_masked: The part of this sum on masked positions.
        negative: Whether there is weight below 0.
    """

    def __init__(self, values: np.ndarray, col_len: int, hidden: np.ndarray | None):
        self.values, self.col_len = values, col_len
        self.computed = np.full(len(values), col_len > 0)
        with np.errstate(invalid="ignore"):  # infinities of both signs
            self.totals = values.sum(-1, dtype=np.float64)
        self.finite = bool(np.isfinite(self.totals).all())
        if not self.finite:  # the usual case, with all values finite, is faster
            self.computed &= ~np.isnan(values[:, :col_len]).all(-1)
            values = np.where(np.isfinite(values), values, 0)
            self.totals = values.sum(-1, dtype=np.float64)
        self.on_padding = np.abs(values[:, col_len:]).sum(-1, dtype=np.float64)
        self.on_masked = np.zeros(len(values))
        if hidden is not None:
            self.on_masked = np.where(hidden, np.abs(values[:, :col_len]), 0).sum(-1, dtype=np.float64)
        self.negative = bool(values[:, :col_len].min(initial=0.0) < -LEAST)


def _sums(seq: _SequenceRows, name: Callable[[int], str]) -> list[str]:
    """Problems of rows that should sum to 1 outside the padding."""
    said = []
    rows, totals = seq.computed, seq.totals
    misplaced = np.zeros(len(rows), bool)
    for words, share in (("padding", seq.on_padding), ("masked positions", seq.on_masked)):
        there = rows & (share > LEAST)
        misplaced |= there
        if there.any():
            worst = int(np.argmax(np.where(there, share, -1)))
            said.append(f"weight on {words} in {_of(there, rows)}, up to {share[worst]:.2g} in {name(worst)}")
    off = rows & ~misplaced & (totals != 0) & (np.abs(totals - 1) > CLOSE)
    if off.any():
        off &= np.isfinite(seq.values[:, : seq.col_len]).all(-1)
    if off.any():
        worst = int(np.argmax(np.where(off, np.abs(totals - 1), -1)))
        said.append(f"{_of(off, rows)} {_do(off)} not sum to 1: {name(worst)} to {totals[worst]:.3g}")
    return said


def _not_finite(part: np.ndarray, rows: np.ndarray, col_len: int, name: Any) -> list[str]:
    said = []
    for words, where in (("NaN", np.isnan(part)), ("infinity", np.isinf(part))):
        for place, cells in (("", where[:, :col_len]), (" on padding", where[:, col_len:])):
            hit = rows & cells.any(-1)
            if hit.any():
                said.append(f"{words}{place} in {_of(hit, rows)}, first in {name(int(np.argmax(hit)))}")
    return said


def _row(row: int, label: str) -> str:
    return f"row {row}" if label == str(row) else f"row {row} “{visible(label)}”"


def _of(some: np.ndarray, rows: np.ndarray) -> str:
    return f"{int(some.sum())} of {int(rows.sum())} rows"


def _do(some: np.ndarray) -> str:
    return "does" if some.sum() == 1 else "do"


def warnings(spec: Any, most: int = 4) -> list[str]:
    """The problems of all maps and sequences, as sentences with their location; the first ones, and the number of further ones."""
    head = spec.head
    several = len(head["maps"]) > 1
    out = []
    for entry in head["maps"]:
        for index, note in (entry.get("notes") or {}).items():
            seq = head["seqs"][entry["seqs"][int(index)]]["label"]
            place = ", ".join([*([str(entry["label"])] if several else []), str(seq)])
            out.append(f"{place}: {note}.")
    return out if len(out) <= most + 1 else [*out[:most], f"The same in {len(out) - most} more maps or sequences."]


def remarks(spec: Any) -> list[str]:
    """The notes about whole maps that are not problems."""
    maps = spec.head["maps"]
    found: dict[str, list[str]] = {}
    for entry in maps:
        if entry.get("remark"):
            found.setdefault(entry["remark"], []).append(str(entry["label"]))
    first = [f"{names[0]}: {text}" if len(maps) > 1 else text for text, names in found.items()][:1]
    more = sum(map(len, found.values())) - 1
    return [f"{text}{f' (and {more} more maps)' if more > 0 else ''}" for text in first]
