"""Words that grow by parts: labels with a merge symbol at their end (`hel@@ lo`) go on in the next label.

A word that has begun is a *partial* word and gets an id. Those that no word of the model begins with are all the same one.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rfnb.rec.ngram_table import Columns, Table

_CACHED = 1 << 22  # spelled words that are kept


class Subwords:
    """How labels make words.

    Args:
        table: The n-gram model, of words.
        labels: The text of each label.
        merge: Symbol at the end of labels that go on.
        unknown: Id of the word for what the model does not know.
    """

    def __init__(self, table: Table, labels: Sequence[str], merge: str, unknown: int):
        self.table, self.labels, self.merge, self._unknown = table, list(labels), merge, unknown
        self._goes_on = [label.endswith(merge) for label in labels]
        self._parts = [label.removesuffix(merge) for label in labels]
        self._ids = {"": 0}
        self._texts = [""]
        self._known = (
            None if table.words is None else {word[:end] for word in table.words for end in range(len(word) + 1)}
        )
        self._steps: dict[tuple[int, int], tuple[int, int]] = {}
        self._spelled: dict[int, Columns] = {}

    def word(self, text: str) -> int:
        """The id of a word, or of the unknown one."""
        found = self.table.word(text)
        return self._unknown if found is None else found

    def partial_word(self, partial: int) -> int:
        """The id of a partial word taken as a word."""
        return self.word(self._texts[partial])

    def merged_word(self, partial: int) -> int:
        """The id of a partial word with the merge symbol taken as a word."""
        return self.word(self._texts[partial] + self.merge)

    def spelled_words(self, partial: int) -> Columns:
        """Partial word + label, as they are written, for each label."""
        found = self._spelled.get(partial)
        if found is None:
            text = self._texts[partial]
            if (len(self._spelled) + 1) * len(self.labels) > _CACHED:
                self._spelled.clear()
            found = self._spelled[partial] = Columns(np.array([self.word(text + label) for label in self.labels]))
        return found

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
