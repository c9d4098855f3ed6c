"""An n-gram model through the package `kenlm`, for KenLM's binary files; the package is only needed here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from rfnb.core.errors import message
from rfnb.rec.ngram_table import LN10, Columns

_CACHED = 1 << 24  # scores in rows that are kept


class KenLmTable:
    """A model of the package with the interface of `Table`: contexts get their ids when they are first met.

    Raises:
        ModuleNotFoundError: Without the package.
    """

    words: dict[str, int] | None = None  # the package does not list them

    def __init__(self, path: str | Path):
        try:
            import kenlm
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError(
                message("NGramLM: the package kenlm is not installed.", [("file", path)],
                        "KenLM's binary files are read through it; ARPA files (also .gz) need no package.",
                        "pip install kenlm")
            ) from error  # fmt: skip
        self._model: Any = kenlm.Model(str(path))
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

    def word(self, text: str) -> int | None:
        """The id of a word; None if the model does not know it."""
        return self._word(text) if text in self._model or text == "<unk>" else None

    def add_word(self, text: str, score: float) -> None:
        """See `Table.add_word`; the package has a word for what is unknown."""

    def lookup(self, contexts: np.ndarray, words: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """See `Table.lookup`."""
        found = [self._arc(int(context), int(word)) for context, word in zip(contexts, words)]
        scores = np.array([score for score, _ in found], np.float32)
        return scores, np.array([after for _, after in found], np.int32)

    def rows(self, contexts: np.ndarray, columns: Columns) -> np.ndarray:
        """See `Table.rows`. The package is asked for one word at a time."""
        out = np.empty((len(contexts), len(columns.words)), np.float32)
        for row, context in zip(out, contexts.tolist()):
            row[:] = self._row(context, columns)
        return out

    def _row(self, context: int, columns: Columns) -> np.ndarray:
        found = self._rows.get((context, columns))
        if found is None:
            state, after, ask = self._states[context], self._new_state(), self._model.BaseScore
            found = np.array([ask(state, self._words[word], after) for word in columns.words.tolist()]) * LN10
            if (len(self._rows) + 1) * len(found) > _CACHED:
                self._rows.clear()
            self._rows[context, columns] = found = found.astype(np.float32)
        return found

    def _arc(self, context: int, word: int) -> tuple[float, int]:
        found = self._arcs.get((context, word))
        if found is None:
            after = self._new_state()
            score = self._model.BaseScore(self._states[context], self._words[word], after) * LN10
            found = self._arcs[context, word] = score, self._context(after)
        return found

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
