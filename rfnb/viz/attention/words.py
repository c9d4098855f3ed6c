"""Merge word pieces to words: weights to the pieces of a word are summed, those from its pieces averaged.

    starts(["un", "##der", "stand"], "##") == [0, 2]

So a row still sums to 1, and shows what a word attends to.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from rfnb.core.errors import value_error

# At the start of a piece, at the start of a word, at the end of a piece.
_CONTINUES, _BEGINS, _GOES_ON = ("##",), ("▁", "Ġ", " "), ("@@",)
MARKERS = (*_CONTINUES, "▁", "Ġ", *_GOES_ON)
Merge = str | bool | Callable[[list[str]], Sequence[int]]


def starts(pieces: Sequence[str], merge: Merge) -> list[int]:
    """The indices of the pieces that start words.

    Args:
        merge: A marker ("##", "▁", "Ġ", "@@"), True to detect it, or a function from pieces to the word index of each.

    Raises:
        ValueError: If the marker is unknown, or the function does not return an increasing index per piece.
    """
    pieces = list(pieces)
    if callable(merge):
        numbers = [int(number) for number in merge(pieces)]
        if len(numbers) != len(pieces) or any(b < a for a, b in zip(numbers, numbers[1:])):
            raise value_error(
                "attention: merge does not give the word of each piece.",
                {"pieces": len(pieces), "numbers": numbers[:12]},
                "The function gives one number per piece, which never falls; equal numbers are one word.",
                "rf.viz.attention(weights, source=pieces, merge=lambda pieces: [0, 0, 1])",
            )
        return [i for i, number in enumerate(numbers) if i == 0 or number != numbers[i - 1]]
    marker = marker_of(pieces) if merge is True else merge
    if marker not in (None, *MARKERS):
        raise value_error(
            "attention: merge is not a known marker of word pieces.",
            {"merge": repr(merge), "known": ", ".join(MARKERS)},
            "A marker tells which pieces form one word. For other tokenizers, pass a function from pieces to word numbers.",
            'rf.viz.attention(weights, source=pieces, merge="▁")',
        )
    if marker is None:
        return list(range(len(pieces)))
    return [i for i in range(len(pieces)) if i == 0 or not _continues(pieces, i, str(marker))]


def marker_of(pieces: Sequence[str]) -> str | None:
    """The marker of the pieces; None if they are words."""
    marked = lambda piece, marker: piece.endswith(marker) if marker in _GOES_ON else piece.startswith(marker)  # noqa: E731
    hits = {marker: sum(len(piece) > len(marker) and marked(piece, marker) for piece in pieces) for marker in MARKERS}
    best = max(hits, key=lambda marker: hits[marker])
    return best if hits[best] else None


def _continues(pieces: Sequence[str], at: int, marker: str) -> bool:
    if marker in _CONTINUES:
        return pieces[at].startswith(marker)
    if marker in _GOES_ON:
        return pieces[at - 1].endswith(marker)
    special = _special(pieces[at]) or _special(pieces[at - 1])
    return not pieces[at].startswith((marker, *_BEGINS)) and not special


def _special(piece: str) -> bool:
    """Whether it is a special token: <s>, [CLS], <|end|>."""
    return len(piece) > 2 and (piece[0], piece[-1]) in (("<", ">"), ("[", "]"))


def joined(pieces: Sequence[str], begins: Sequence[int]) -> list[str]:
    """The words."""
    words = []
    for start, stop in zip(begins, [*begins[1:], len(pieces)]):
        parts = [str(piece) for piece in pieces[start:stop]]
        if len(parts) > 1:
            parts = [
                part[2:] if part.startswith("##") else part[:-2] if part.endswith("@@") else part for part in parts
            ]
        words.append(_plain("".join(parts)))
    return words


def _plain(word: str) -> str:
    """A word without its marker."""
    return word[1:] if len(word) > 1 and word[0] in "▁Ġ" else word


def merged(array: Any, rows: Sequence[int], row_len: int, cols: Sequence[int], col_len: int) -> np.ndarray:
    """Weights [..., row, col] of words, followed by the unchanged padding.

    Args:
        rows, cols: Indices at which the words of the targets and of the sources start.
    """
    array = np.asarray(array, np.float64)
    if len(cols) < col_len:
        inner = np.add.reduceat(array[..., :col_len], list(cols), axis=-1)
        array = np.concatenate([inner, array[..., col_len:]], -1)
    if len(rows) < row_len:
        sizes = np.diff([*rows, row_len])[:, None]
        inner = np.add.reduceat(array[..., :row_len, :], list(rows), axis=-2) / sizes
        array = np.concatenate([inner, array[..., row_len:, :]], -2)
    return array


def effect_labels(entry: dict[str, Any], index: int) -> list[list[str]] | None:
    """The labels in the cells of a map of effects, [row][column]; None for other maps."""
    effects = entry.get("effects")
    return None if not effects else effects[index]["labels"]
