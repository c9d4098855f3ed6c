"""An n-gram model from the package `kenlm`, for KenLM's binary files; only this module needs the package."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from rfnb.core.errors import message, value_error
from rfnb.lm.ngram_table import LN10, Columns

_CACHED = 1 << 24  # scores in cached rows
# The package gives this score (log10) to unknown words if the model has none for them.
_UNKNOWN, _MISSING = "<unk>", -100.0


class KenLmTable:
    """A model of the package with the interface of `Table`: contexts get ids when they first occur.

    Raises:
        ModuleNotFoundError: Without the package.
    """

    words: dict[str, int] | None = None  # the package does not list them

    def __init__(self, path: str | Path):
        try:
            import kenlm
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError(
                message("NGramLM: the package kenlm is not installed.", {"file": path},
                        "KenLM's binary files are read through it; ARPA files (also .gz) need no package.",
                        "pip install kenlm")
            ) from error  # fmt: skip
        self._path = path
        with open(path, "rb"):  # the package has no specific error for a missing file
            pass
        try:
            self._model: Any = kenlm.Model(str(path))
        except OSError as error:
            raise value_error(
                "NGramLM: the package kenlm cannot read this model.",
                {"file": path, "reason": _reason(error)},
                "It reads models of order 2 or higher. ARPA files are also read without it:",
                "rf.NGramLM(..., package=False)",
            ) from error
        self._new_state = kenlm.State
        self.order: int = self._model.order
        state = kenlm.State()
        self._model.BeginSentenceWrite(state)
        self._ids: dict[Any, int] = {}
        self._states: list[Any] = []
        self._texts: dict[str, int] = {}
        self._words: list[str] = []
        self.start = self._context(state)
        self._arcs: dict[tuple[int, int], tuple[float, int]] = {}
        self._rows: dict[tuple[int, Columns], np.ndarray] = {}
        self._added: dict[str, float] = {}
        nothing = kenlm.State()
        self._model.NullContextWrite(nothing)
        self._lacks_unknown = self._model.BaseScore(nothing, _UNKNOWN, kenlm.State()) == _MISSING

    def word(self, text: str) -> int | None:
        """The id of a word; None if the model does not know it."""
        unknown = text == _UNKNOWN and not self._lacks_unknown
        return self._word(text) if text in self._model or unknown or text in self._added else None

    def add_word(self, text: str, score: float) -> None:
        """See `Table.add_word`.

        Raises:
            ValueError: If the model has its own score for unknown words, since the package cannot add further words.
        """
        if not self._lacks_unknown:
            raise value_error(
                "NGramLM: the package kenlm knows one word for what is unknown.",
                {"file": self._path, "unknown": text},
                f"The model has a score for it, as {_UNKNOWN}.",
                f'rf.NGramLM(..., unknown="{_UNKNOWN}")',
            )
        self._added[text] = score / LN10 - _MISSING

    def lookup(self, contexts: np.ndarray, words: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """See `Table.lookup`."""
        found = [self._arc(int(context), int(word)) for context, word in zip(contexts, words)]
        scores = np.array([score for score, _ in found], np.float32)
        return scores, np.array([after for _, after in found], np.int32)

    def rows(self, contexts: np.ndarray, columns: Columns) -> np.ndarray:
        """See `Table.rows`. The package is queried one word at a time."""
        out = np.empty((len(contexts), len(columns.words)), np.float32)
        for row, context in zip(out, contexts.tolist()):
            row[:] = self._row(context, columns)
        return out

    def _row(self, context: int, columns: Columns) -> np.ndarray:
        found = self._rows.get((context, columns))
        if found is None:
            state, after = self._states[context], self._new_state()
            found = np.array([self._score(state, word, after) for word in columns.words.tolist()], np.float32)
            if (len(self._rows) + 1) * len(found) > _CACHED:
                self._rows.clear()
            self._rows[context, columns] = found
        return found

    def _arc(self, context: int, word: int) -> tuple[float, int]:
        found = self._arcs.get((context, word))
        if found is None:
            after = self._new_state()
            score = self._score(self._states[context], word, after)
            found = self._arcs[context, word] = score, self._context(after)
        return found

    def _score(self, state: Any, word: int, after: Any) -> float:
        """The score as a natural log; `after` is set to the next state."""
        text = self._words[word]
        return (self._model.BaseScore(state, text, after) + self._added.get(text, 0.0)) * LN10

    def _context(self, state: Any) -> int:
        index = self._ids.setdefault(state, len(self._states))
        if index == len(self._states):
            self._states.append(state)
        return index

    def _word(self, text: str) -> int:
        index = self._texts.setdefault(text, len(self._words))
        if index == len(self._words):
            self._words.append(text)
        return index


def _reason(error: OSError) -> str:
    """The message of the package, without the location in its source."""
    text = str(error).rstrip(")").rpartition("Exception.")[2].strip()
    return " ".join(text.split()) or str(error)
