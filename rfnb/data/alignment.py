"""Align a hypothesis to a reference: the operations, their positions and counts, and both as text.

rf.align("the cat sat".split(), "a cat".split()).text()
    reference   the  cat  sat
    hypothesis  a    cat  ***
                S         D
"""

from __future__ import annotations

import operator
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass
from typing import Any

from rfnb.core.errors import type_error, value_error

OPERATIONS = {"=": "correct", "S": "substituted", "D": "deleted", "I": "inserted"}


@dataclass(frozen=True)
class Edit:
    """One column of an alignment.

    Attributes:
        operation: "=", "S" (another token), "D" (not in the hypothesis) or "I" (not in the reference).
        reference, hypothesis: The tokens; None for an insertion or a deletion, respectively.
    """

    operation: str
    reference: Any
    hypothesis: Any


@dataclass(frozen=True)
class Errors:
    """Counts of operations, in one alignment or many; add them with `+`.

    Attributes:
        correct, substituted, deleted, inserted: Numbers of tokens.
    """

    correct: int = 0
    substituted: int = 0
    deleted: int = 0
    inserted: int = 0

    @property
    def edits(self) -> int:
        """The edit distance: substituted, deleted and inserted tokens."""
        return self.substituted + self.deleted + self.inserted

    @property
    def length(self) -> int:
        """The number of tokens in the reference."""
        return self.correct + self.substituted + self.deleted

    @property
    def rate(self) -> float:
        """Error rate in percent of the reference tokens (WER for words, CER for characters). For an empty reference: 0, or
        100 per inserted token.
        """
        return 100 * self.edits / max(self.length, 1)

    def __add__(self, other: Errors) -> Errors:
        return Errors(*map(operator.add, astuple(self), astuple(other)))

    def __str__(self) -> str:
        return f"{self.rate:.2f} % ({self.substituted} substituted, {self.deleted} deleted, {self.inserted} inserted of {self.length})"


@dataclass(frozen=True)
class Alignment:
    """A shortest sequence of operations that turns a reference into a hypothesis.

    Attributes:
        edits: The operations in order.
    """

    edits: tuple[Edit, ...]

    @property
    def errors(self) -> Errors:
        """The counts of the operations."""
        kinds = [edit.operation for edit in self.edits]
        return Errors(*(kinds.count(kind) for kind in OPERATIONS))

    def text(self, *, width: int = 100) -> str:
        """Three lines: reference, hypothesis, and operations; broken into blocks of at most `width` columns."""
        names, blocks = ("reference", "hypothesis", ""), []
        rows: list[list[str]] = [[], [], []]
        room = 0
        for edit in self.edits:
            cells = [_shown(edit.reference), _shown(edit.hypothesis), edit.operation.replace("=", "")]
            size = max(map(_columns, cells))
            cells = [cell if cell else "*" * size if row < 2 else "" for row, cell in enumerate(cells)]
            if room and room + size + 2 > width - 12:
                blocks.append(rows)
                rows, room = [[], [], []], 0
            room += size + 2
            for row, cell in zip(rows, cells):
                row.append(cell + " " * (size - _columns(cell)))
        blocks.append(rows)
        lines = [
            "\n".join(f"{name:<10}  {'  '.join(row)}".rstrip() for name, row in zip(names, block)) for block in blocks
        ]
        return "\n\n".join(lines)

    def __str__(self) -> str:
        return self.text()


def align(reference: Sequence[Any], hypothesis: Sequence[Any]) -> Alignment:
    """Align two sequences of tokens; a string is a sequence of characters, so pass `text.split()` for words.

    Ties are broken from the end: a substitution before a deletion before an insertion.

    Source: Wagner and Fischer 1974, "The String-to-String Correction Problem", algorithm Y.
    """
    table = [list(range(len(hypothesis) + 1))]
    for i, token in enumerate(reference, 1):
        above, row = table[-1], [i]
        for j, other in enumerate(hypothesis, 1):
            row.append(min(above[j - 1] + (token != other), above[j] + 1, row[j - 1] + 1))
        table.append(row)
    edits = []
    i, j = len(reference), len(hypothesis)
    while i or j:
        differ = bool(i and j and reference[i - 1] != hypothesis[j - 1])
        if i and j and table[i][j] == table[i - 1][j - 1] + differ:
            i, j = i - 1, j - 1
            edits.append(Edit("S" if differ else "=", reference[i], hypothesis[j]))
        elif i and table[i][j] == table[i - 1][j] + 1:
            i -= 1
            edits.append(Edit("D", reference[i], None))
        else:
            j -= 1
            edits.append(Edit("I", None, hypothesis[j]))
    return Alignment(tuple(edits[::-1]))


def word_errors(references: Iterable[str], hypotheses: Iterable[str]) -> Errors:
    """Word errors of texts, summed; words are separated by white space, and `rate` is the WER.

    Raises:
        ValueError: If there are not as many hypotheses as references.
        TypeError: If either is a single text.
    """
    return _summed("word_errors", references, hypotheses, str.split)


def character_errors(references: Iterable[str], hypotheses: Iterable[str]) -> Errors:
    """Character errors of texts, including spaces, summed; `rate` is the CER.

    Raises:
        ValueError: If there are not as many hypotheses as references.
        TypeError: If either is a single text.
    """
    return _summed("character_errors", references, hypotheses, list)


def _summed(what: str, references: Iterable[str], hypotheses: Iterable[str], split: Any) -> Errors:
    for name, texts in (("references", references), ("hypotheses", hypotheses)):
        if isinstance(texts, str):
            raise type_error(
                f"{what}: a single text.",
                {name: repr(texts[:40])},
                "There is one text per sequence.",
                f"{name} = [{name}]",
            )
    left, right = list(references), list(hypotheses)
    if len(left) != len(right):
        raise value_error(
            f"{what}: not as many hypotheses as references.",
            {"references": len(left), "hypotheses": len(right)},
            "The n-th hypothesis belongs to the n-th reference.",
        )
    return sum((align(split(one), split(other)).errors for one, other in zip(left, right)), Errors())


def _shown(token: Any) -> str:
    """A token as text, with visible spaces."""
    return "" if token is None else "␣" if token == " " else str(token)


def _columns(text: str) -> int:
    """The number of terminal columns that a text takes."""
    wide = sum(unicodedata.east_asian_width(char) in "WF" for char in text)
    return len(text) + wide - sum(unicodedata.combining(char) > 0 for char in text)
