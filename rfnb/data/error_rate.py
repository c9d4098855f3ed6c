"""Phoneme and word error rate (PER, WER) for words with several right pronunciations."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class ErrorRate:
    """Counts over a set of words, and the two rates computed from them.

    Attributes:
        edits: Sum of the edit distances to the nearest references.
        phonemes: Sum of the lengths of these references.
        wrong: Number of words that match none of their references.
        words: Number of words.
    """

    edits: int
    phonemes: int
    wrong: int
    words: int

    @property
    def per(self) -> float:
        """Phoneme error rate: percent of the reference phonemes."""
        return 100 * self.edits / max(self.phonemes, 1)

    @property
    def wer(self) -> float:
        """Word error rate: percent of the words."""
        return 100 * self.wrong / max(self.words, 1)

    def __str__(self) -> str:
        return f"PER {self.per:.2f} % WER {self.wer:.2f} %"


def error_rate(pairs: Iterable[tuple[Sequence[Any], Sequence[Sequence[Any]]]]) -> ErrorRate:
    """Error rates of (hypothesis, references) pairs.

    A word is right if any reference equals the hypothesis; its phoneme errors are counted against the nearest one (the
    shortest, if tied), so further variants never make a word worse.

    Raises:
        ValueError: If a pair has no reference.
    """
    edits = phonemes = wrong = words = 0
    for hypothesis, references in pairs:
        if not references:
            raise ValueError(f"error_rate: word number {words + 1} has no reference.")
        distance, length = min((edit_distance(hypothesis, reference), len(reference)) for reference in references)
        edits += distance
        phonemes += length
        wrong += distance > 0
        words += 1
    return ErrorRate(edits, phonemes, wrong, words)


def edit_distance(a: Sequence[Any], b: Sequence[Any]) -> int:
    """Fewest insertions, deletions and substitutions that turn `a` into `b`.

    Source: Wagner and Fischer 1974, "The String-to-String Correction Problem" (one row kept instead of the table).
    """
    if a == b:
        return 0
    row = list(range(len(b) + 1))
    for i, item in enumerate(a, 1):
        diagonal, row[0] = row[0], i
        for j, other in enumerate(b, 1):
            diagonal, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, diagonal + (item != other))
    return row[-1]
