"""The edits from one list of labels to another: which are the same, replaced, more or less."""

from __future__ import annotations

from collections.abc import Sequence


def edits(reference: Sequence[str], text: Sequence[str]) -> str:
    """The fewest edits that make `text` of the reference, as letters: "=" the same, "s" another label, "i" one more, "d" one less."""
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
