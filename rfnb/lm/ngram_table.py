"""An n-gram model as an automaton on the host: contexts with arcs for the words seen after them.

A context is a listed n-gram shorter than the order, and has an id. If a context has no arc for a word, its back-off
weight is added and the context without its oldest word is tried; the empty context has an arc for every word.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np

from rfnb.lm.arpa import Arpa, Ngrams

LN10 = math.log(10.0)


class Columns:
    """The labels that score rows are over: each label is a word, and several labels may be the same word.

    Args:
        words: The id of the word of each label.
    """

    def __init__(self, words: np.ndarray):
        self.words = words = np.asarray(words, np.int64)
        self._distinct, self._first, which = np.unique(words, return_index=True, return_inverse=True)
        self.again = np.flatnonzero(self._first[which] != np.arange(len(words)))
        self.source = self._first[which][self.again]
        top = int(words.max(initial=0))
        self._of_word = None
        if top < 4 * len(words):  # a table is faster if most words have a label
            self._of_word = np.full(top + 2, -1, np.int64)
            self._of_word[self._distinct] = self._first

    def of(self, words: np.ndarray) -> np.ndarray:
        """The first label of each word, -1 for words without a label."""
        if self._of_word is not None:
            return self._of_word.take(words, mode="clip")  # the last entry means no label
        if not len(self.words):
            return np.full(words.shape, -1)
        place = np.minimum(self._distinct.searchsorted(words), len(self._distinct) - 1)
        return np.where(self._distinct[place] == words, self._first[place], -1)


class Table(Protocol):
    """An n-gram model on the host, with all its queries; scores are natural logs. Words and contexts are ids."""

    order: int
    start: int
    words: dict[str, int] | None

    def word(self, text: str) -> int | None:
        """The id of a word; None if the model does not know it."""

    def add_word(self, text: str, score: float) -> None:
        """Add a word, a 1-gram with this score (natural log); call it before the first look-up."""

    def lookup(self, contexts: np.ndarray, words: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """float32 scores of words [n] after contexts [n], and the next contexts."""

    def rows(self, contexts: np.ndarray, columns: Columns) -> np.ndarray:
        """float32 scores of all labels after contexts [n]: [n, labels]."""


class NGramTable:
    """The automaton of an ARPA model. If the model lacks `<s>`, the first word has the empty context.

    Attributes:
        words: Text -> id.
        start: The context before the first word.
        num_contexts: The number of contexts.
    """

    def __init__(self, arpa: Arpa):
        self._arpa = arpa
        self._build(arpa)

    def add_word(self, text: str, score: float) -> None:
        """See `Table.add_word`."""
        first = {**self._arpa.ngrams[0], (len(self._arpa.words),): (score / LN10, 0.0)}
        self._build(Arpa([*self._arpa.words, text], [first, *self._arpa.ngrams[1:]]))

    def _build(self, arpa: Arpa) -> None:
        self.order = arpa.order
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
        self.start = self._longest((self.words["<s>"],)) if "<s>" in self.words else 0

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

    def rows(self, contexts: np.ndarray, columns: Columns) -> np.ndarray:
        """See `Table.rows`."""
        nodes = np.asarray(contexts, np.int64)
        out = np.empty((len(nodes), len(columns.words)), np.float32)
        found = self._arcs(nodes, columns)
        _, _, first, weights = next(found)  # the empty context has an arc for every word
        np.add(self._scores[first], weights[:, None], out=out, casting="same_kind")
        for row, column, arcs, weights in found:
            out[row, column] = self._scores[arcs] + weights
        out[:, columns.again] = out[:, columns.source]
        return out

    def after(self, contexts: np.ndarray, columns: Columns) -> np.ndarray:
        """The contexts after all labels: int32 [n, labels]."""
        nodes = np.asarray(contexts, np.int64)
        found = self._arcs(nodes, columns)
        _, _, first, _ = next(found)
        out = np.tile(self._after[first], (len(nodes), 1))
        for row, column, arcs, _ in found:
            out[row, column] = self._after[arcs]
        out[:, columns.again] = out[:, columns.source]
        return out

    def _arcs(
        self, nodes: np.ndarray, columns: Columns
    ) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]]:
        """Row, column and arc of the labels that have one, and the weight to add: the empty context first, then longer
        contexts, whose arcs replace earlier ones. The empty context yields an arc for each label and a weight for each
        row.
        """
        chain, weights = [nodes], [np.zeros(len(nodes))]
        while chain[-1].any():
            weights.append(weights[-1] + self._backoff[chain[-1]])
            chain.append(self._shorter[chain[-1]])
        none = np.zeros(0, np.int64)
        yield none, none, columns.words, weights[-1]  # the empty context has an arc for every word
        for node, weight in zip(chain[-2::-1], weights[-2::-1]):
            first, last = self._slices[node], self._slices[node + 1]
            count = np.where(node > 0, last - first, 0)
            row = np.repeat(np.arange(len(node)), count)
            arcs = np.arange(len(row)) + np.repeat(first - (count.cumsum() - count), count)
            column = columns.of(self._keys[arcs] - node[row] * self._num_words)
            own = column >= 0
            row = row[own]
            yield row, column[own], arcs[own], weight[row]

    def _longest(self, gram: tuple[int, ...]) -> int:
        """The longest suffix of an n-gram that is a context."""
        while gram not in self._ids:
            gram = gram[1:]
        return self._ids[gram]

    def _set_arcs(self, grams: list[Ngrams]) -> None:
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


def _with_prefixes(arpa: Arpa) -> list[Ngrams]:
    """The n-grams, plus their missing prefixes (a pruned model may lack some), with back-off scores."""
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
