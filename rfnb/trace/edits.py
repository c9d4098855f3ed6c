"""The edits from one list of labels to another: equal, substituted, inserted or deleted."""

from __future__ import annotations

from collections.abc import Sequence

_MOST_CELLS = 1 << 20  # of the table of an alignment


def aligned(a: Sequence[str], b: Sequence[str]) -> str | None:
    """The edits from a to b as letters; common prefixes and suffixes are equal. None if the rest is too long to align."""
    begin = 0
    while begin < min(len(a), len(b)) and a[begin] == b[begin]:
        begin += 1
    end = 0
    while end < min(len(a), len(b)) - begin and a[len(a) - 1 - end] == b[len(b) - 1 - end]:
        end += 1
    inner_a, inner_b = a[begin : len(a) - end], b[begin : len(b) - end]
    if len(inner_a) * len(inner_b) > _MOST_CELLS:
        return None
    return "=" * begin + edits(inner_a, inner_b) + "=" * end


def edits(reference: Sequence[str], text: Sequence[str]) -> str:
    """The fewest edits that turn the reference into `text`, as letters: "=" equal, "s" substituted, "i" inserted, "d" deleted."""
    rows = [list(range(len(text) + 1))]
    for index, wanted in enumerate(reference):
        row = [index + 1]
        for place, got in enumerate(text):
            row.append(min(rows[-1][place] + (got != wanted), rows[-1][place + 1] + 1, row[place] + 1))
        rows.append(row)
    made, down, across = [], len(reference), len(text)
    while down or across:
        here = rows[down][across]
        if down and across:
            same = reference[down - 1] == text[across - 1]
            if here == rows[down - 1][across - 1] + (not same):
                made.append("=" if same else "s")
                down, across = down - 1, across - 1
                continue
        if across and here == rows[down][across - 1] + 1:
            made.append("i")
            across -= 1
        else:
            made.append("d")
            down -= 1
    return "".join(reversed(made))
