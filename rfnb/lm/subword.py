"""Words made of parts: the next label continues a label with a merge symbol at its end (`hel@@ lo`).

An incomplete word is a *partial* word and gets an id. Partial words that are no prefix of a word of the model share one id.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence

import numpy as np

from rfnb.lm.ngram_table import Columns, Table

_LAST = chr(0x10FFFF)  # sorts after all continuations of a word


class Subwords:
    """Rules that combine labels into words.

    Args:
        table: The n-gram model over words.
        labels: The text of each label.
        merge: Symbol at the end of labels that are continued.
        unknown: Id of the unknown word.

    Attributes:
        columns: The labels as words, by their texts.
    """

    def __init__(self, table: Table, labels: Sequence[str], merge: str, unknown: int):
        self.table, self.labels, self.merge, self.unknown = table, list(labels), merge, unknown
        self._goes_on = [label.endswith(merge) for label in labels]
        self._parts = [label.removesuffix(merge) for label in labels]
        self._ids = {"": 0}
        self._texts = [""]
        self.columns = Columns(np.array([self.word(label) for label in labels]))
        self._label_of: dict[str, list[int]] = {}
        for index, label in enumerate(labels):
            self._label_of.setdefault(label, []).append(index)
        words = table.words
        self._sorted = None if words is None else sorted(words)
        self._known = None if words is None else {word[:end] for word in words for end in range(len(word) + 1)}
        self._steps: dict[tuple[int, int], tuple[int, int]] = {}
        self._spelled: dict[int, tuple[np.ndarray, np.ndarray]] = {}

    def word(self, text: str) -> int:
        """The id of a word; that of the unknown word if the model lacks it."""
        found = self.table.word(text)
        return self.unknown if found is None else found

    def partial_word(self, partial: int) -> int:
        """The id of a partial word, scored as a word."""
        return self.word(self._texts[partial])

    def merged_word(self, partial: int) -> int:
        """The id of a partial word with its merge symbol, scored as a word."""
        return self.word(self._texts[partial] + self.merge)

    def spelled_words(self, partial: int) -> tuple[np.ndarray, np.ndarray]:
        """The labels that complete a partial word to a word of the model, and the ids of these words. All other labels
        give the unknown word.
        """
        found = self._spelled.get(partial)
        if found is None:
            pairs = list(self._continuations(self._texts[partial]))
            found = self._spelled[partial] = (
                np.array([label for label, _ in pairs], np.int64),
                np.array([word for _, word in pairs], np.int64),
            )
        return found

    def _continuations(self, text: str) -> Iterator[tuple[int, int]]:
        """Labels, and the words that begin with a text followed by the label."""
        if self._sorted is None:  # the words are unknown
            for label, written in enumerate(self.labels):
                word = self.table.word(text + written)
                if word is not None:
                    yield label, word
            return
        first, last = (bisect_left(self._sorted, end) for end in (text, text + _LAST))
        for written in self._sorted[first:last]:
            for label in self._label_of.get(written[len(text) :], ()):
                yield label, self.word(written)

    def step(self, partial: int, label: int) -> tuple[int, int]:
        """The next partial word, and the id of the word that the label completes, or -1."""
        found = self._steps.get((partial, label))
        if found is None:
            text = self._texts[partial] + self._parts[label]
            after = self._partial(text) if self._goes_on[label] else 0
            found = self._steps[partial, label] = after, self.word(text) if text and not self._goes_on[label] else -1
        return found

    def _partial(self, text: str) -> int:
        if self._known is not None and text not in self._known:
            text = "\0"  # no continuation makes it a word of the model
        index = self._ids.setdefault(text, len(self._texts))
        if index == len(self._texts):
            self._texts.append(text)
        return index
