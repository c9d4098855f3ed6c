"""Words that grow by parts: labels with a merge symbol at their end (`hel@@ lo`) go on in the next label.

A word that has begun is a *partial* word and gets an id. Those that no word of the model begins with are all the same one.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence

import numpy as np

from rfnb.lm.ngram_table import Columns, Table

_LAST = chr(0x10FFFF)  # after all that a word can go on with


class Subwords:
    """The rules by which labels make words.

    Args:
        table: The n-gram model, of words.
        labels: The text of each label.
        merge: Symbol at the end of labels that go on.
        unknown: Id of the word for what the model does not know.

    Attributes:
        columns: The labels as they are written, as words.
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
        """The id of a word, or of the unknown one."""
        found = self.table.word(text)
        return self.unknown if found is None else found

    def partial_word(self, partial: int) -> int:
        """The id of a partial word taken as a word."""
        return self.word(self._texts[partial])

    def merged_word(self, partial: int) -> int:
        """The id of a partial word with the merge symbol taken as a word."""
        return self.word(self._texts[partial] + self.merge)

    def spelled_words(self, partial: int) -> tuple[np.ndarray, np.ndarray]:
        """The labels which, as they are written, make a word of the model of a partial word, and the ids of these words. With all others
        it is the unknown one."""
        found = self._spelled.get(partial)
        if found is None:
            pairs = list(self._continuations(self._texts[partial]))
            found = self._spelled[partial] = (
                np.array([label for label, _ in pairs], np.int64),
                np.array([word for _, word in pairs], np.int64),
            )
        return found

    def _continuations(self, text: str) -> Iterator[tuple[int, int]]:
        """Labels and words that begin with a text and go on with the label."""
        if self._sorted is None:  # the words are not known
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
        """The partial word after a label, and the id of the word that it has completed, or -1."""
        found = self._steps.get((partial, label))
        if found is None:
            text = self._texts[partial] + self._parts[label]
            after = self._partial(text) if self._goes_on[label] else 0
            found = self._steps[partial, label] = after, self.word(text) if text and not self._goes_on[label] else -1
        return found

    def _partial(self, text: str) -> int:
        if self._known is not None and text not in self._known:
            text = "\0"  # nothing that comes makes it a word of the model
        index = self._ids.setdefault(text, len(self._texts))
        if index == len(self._texts):
            self._texts.append(text)
        return index
