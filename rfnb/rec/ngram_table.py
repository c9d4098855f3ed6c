"""An n-gram model as an automaton on the host: contexts with arcs for the words that were seen after them.

A context is a listed n-gram shorter than the order, and has an id. Where a context has no arc for a word, its back-off weight is added
and the context without its oldest word is asked; the empty context has an arc for every word.
"""

from __future__ import annotations

import math
from typing import Any, Protocol

import numpy as np

from rfnb.rec.arpa import Arpa

LN10 = math.log(10.0)
_CACHED = 1 << 24  # entries of rows that are kept


class Table(Protocol):
    """What an n-gram model can be asked on the host; scores are natural logs. Words are ids, contexts too."""

    order: int
    start: int
    words: dict[str, int] | None

    def word(self, text: str) -> int | None:
        """The id of a word; None if the model does not know it."""

    def add_word(self, text: str, score: float) -> None:
        """One more word, a 1-gram with this score (natural log); before the first look-up."""

    def lookup(self, contexts: np.ndarray, words: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """float32 scores of words [n] after contexts [n], and the contexts after them."""

    def row(self, context: int, words: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """float32 scores of words [n] after one context, and the contexts after them."""


class NGramTable:
    """The automaton of an ARPA model.

    Args:
        arpa: The model.
        bos: The word that stands before the first; without it in the model, the first word has the empty context.

    Attributes:
        words: Text -> id.
        start: The context before the first word.
        num_contexts: How many contexts there are.
    """

    def __init__(self, arpa: Arpa, *, bos: str = "<s>"):
        self._arpa, self._bos = arpa, bos
        self._build(arpa)

    def add_word(self, text: str, score: float) -> None:
        """See `Table.add_word`."""
        first = {**self._arpa.ngrams[0], (len(self._arpa.words),): (score / LN10, 0.0)}
        self._build(Arpa([*self._arpa.words, text], [first, *self._arpa.ngrams[1:]]))

    def _build(self, arpa: Arpa) -> None:
        bos, self.order = self._bos, arpa.order
        self.words: dict[str, int] | None = {word: index for index, word in enumerate(arpa.words)}
        self._num_words = len(arpa.words)
        grams = _with_prefixes(arpa)
        self._ids: dict[tuple[int, ...], int] = {(): 0}
        for listed in grams[: self.order - 1]:
            for gram in listed:
                self._ids[gram] = len(self._ids)
        self.num_contexts = len(self._ids)
        self._shorter = np.array([self._longest(gram[1:]) for gram in self._ids], np.int64)
        self._backoff = np.zeros(self.num_contexts)
        for listed in grams[: self.order - 1]:
            for gram, (_, weight) in listed.items():
                self._backoff[self._ids[gram]] = weight * LN10
        self._set_arcs(grams)
        self.start = self._longest((self.words[bos],)) if self.words and bos in self.words else 0
        self._rows: dict[int, tuple[np.ndarray, np.ndarray]] = {}

    def word(self, text: str) -> int | None:
        """The id of a word; None if the model does not know it."""
        assert self.words is not None
        return self.words.get(text)

    def lookup(self, contexts: np.ndarray, words: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """See `Table.lookup`."""
        node, words = np.asarray(contexts, np.int64).copy(), np.asarray(words, np.int64)
        score, after = np.zeros(node.shape), np.zeros(node.shape, np.int32)
        open_ = np.arange(node.size)
        while open_.size:
            keys = node[open_] * self._num_words + words[open_]
            place = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
            hit = self._keys[place] == keys
            score[open_] += np.where(hit, self._scores[place], self._backoff[node[open_]])
            after[open_[hit]] = self._after[place[hit]]
            open_ = open_[~hit]
            node[open_] = self._shorter[node[open_]]
        return score.astype(np.float32), after

    def row(self, context: int, words: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """See `Table.row`."""
        scores, after = self._row(int(context))
        return scores[words].astype(np.float32), after[words]

    def _row(self, context: int) -> tuple[np.ndarray, np.ndarray]:
        """Of all words: that of the shorter context with the back-off weight, and the own arcs over it."""
        found = self._rows.get(context)
        if found is not None:
            return found
        if context:
            scores, after = (part.copy() for part in self._row(int(self._shorter[context])))
            scores += self._backoff[context]
        else:
            scores, after = np.zeros(self._num_words), np.zeros(self._num_words, np.int32)
        first, last = self._slices[context : context + 2]
        words = self._keys[first:last] - context * self._num_words
        scores[words], after[words] = self._scores[first:last], self._after[first:last]
        if len(self._rows) * self._num_words > _CACHED:
            self._rows.clear()
        self._rows[context] = scores, after
        return scores, after

    def _longest(self, gram: tuple[int, ...]) -> int:
        """The longest end of an n-gram that is a context."""
        while gram not in self._ids:
            gram = gram[1:]
        return self._ids[gram]

    def _set_arcs(self, grams: list[dict[tuple[int, ...], tuple[float, float]]]) -> None:
        keys, scores, after = [], [], []
        for listed in grams:
            for gram, (probability, _) in listed.items():
                keys.append(self._ids[gram[:-1]] * self._num_words + gram[-1])
                scores.append(probability * LN10)
                after.append(self._longest(gram))
        order = np.argsort(np.array(keys, np.int64), kind="stable")
        self._keys = np.array(keys, np.int64)[order]
        self._scores, self._after = np.array(scores)[order], np.array(after, np.int32)[order]
        self._slices: Any = np.searchsorted(self._keys, np.arange(self.num_contexts + 1) * self._num_words)


def _with_prefixes(arpa: Arpa) -> list[dict[tuple[int, ...], tuple[float, float]]]:
    """The n-grams, and what lacks of their beginnings (a pruned model may lack some), with the score that they have by back-off."""
    grams = [dict(listed) for listed in arpa.ngrams]

    def score(gram: tuple[int, ...]) -> float:
        if gram in grams[len(gram) - 1]:
            return grams[len(gram) - 1][gram][0]
        weight = grams[len(gram) - 2].get(gram[:-1], (0.0, 0.0))[1]
        return weight + score(gram[1:])

    for order in range(arpa.order, 1, -1):
        for gram in grams[order - 1]:
            if gram[:-1] not in grams[order - 2]:
                grams[order - 2][gram[:-1]] = float("nan"), 0.0
    for listed in grams[1:]:
        for gram, (probability, weight) in listed.items():
            if probability != probability:
                lower = grams[len(gram) - 2].get(gram[:-1], (0.0, 0.0))[1]
                listed[gram] = lower + score(gram[1:]), weight
    return grams
