"""Automata over labels: a lexicon, and required phrases."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

from rfnb.core.errors import value_error
from rfnb.search.label_rules import MOST_STATES, Constraint
from rfnb.trace.beam_labels import numbers_of

Labels = tuple[int, ...]


class Lexicon(Constraint):
    """One of these words, or with `between` a sequence of them: a trie (Fredkin 1960).

    Args:
        words: Sequences of labels; with `vocab` strings: labels separated by spaces, or one label per character.
        vocab: The labels as text.
        between: The label that separates words; None: a single word.

    Raises:
        ValueError: If there are no words, a word has no labels, or a label is not in the vocab.
    """

    name = "the lexicon"

    def __init__(
        self,
        words: Iterable[Sequence[int] | str],
        *,
        vocab: Sequence[str] | None = None,
        between: int | str | None = None,
    ):
        index = {text: number for number, text in enumerate(vocab or ())}
        self._after: list[dict[int, int]] = [{}]  # node: label -> node; node 0 is the begin of a word
        self._is_word = [False]
        parents = [0]
        for word in words:
            node = 0
            for label in _labels_of(word, index, "Lexicon"):
                if label not in self._after[node]:
                    self._after[node][label] = len(self._after)
                    self._after.append({})
                    self._is_word.append(False)
                    parents.append(node)
                node = self._after[node][label]
            self._is_word[node] = True
        if not self._after[0]:
            raise value_error(
                "Lexicon: there is no word.", [], "Nothing would be allowed.", "rf.Lexicon([[3, 1, 4], [2, 7]])"
            )
        self._between = None if between is None else _labels_of([between], index, "Lexicon")[0]
        self._least = [0 if is_word else len(self._after) for is_word in self._is_word]
        for node in range(len(parents) - 1, 0, -1):  # a node comes after its parent
            self._least[parents[node]] = min(self._least[parents[node]], 1 + self._least[node])
        self.start, self.farthest, self.tables = 0, max(self._least), {}

    def labels(self, state: Any) -> Iterable[int]:
        """The labels that continue a word, and the separator where a word may end."""
        own = self._after[state]
        return [*own, self._between] if self._between is not None and self._is_word[state] else own

    def next(self, state: Any, label: int) -> Hashable:
        """The next node of the trie."""
        return 0 if label == self._between and self._is_word[state] else self._after[state][label]

    def ends(self, state: Any) -> bool:
        """True if a word ends here."""
        return self._is_word[state]

    def least(self, state: Any) -> int:
        """The number of labels to the end of the shortest word."""
        return self._least[state]


class RequiredPhrases(Constraint):
    """Requires a hypothesis to contain each of these label sequences before it ends, in any order; they may overlap.

        rf.RequiredPhrases(["EH N", {"IH D", "AH D"}], vocab=phones)     # "EH N", and one of two ends

    The scores decide where. A phrase that a hypothesis does not produce by itself is forced at the last moment, where it may fit badly;
    a wider beam finds better places.

    Args:
        phrases: Sequences of labels, or strings as for `Lexicon`. A set of these, or a list of lists of labels, is a bank: one of
            them is required.
        vocab: The labels as text.

    Raises:
        ValueError: If there are no phrases, a phrase has no labels, or a label is not in the vocab.

    Source: banks: Post and Vilar 2018, section 3; several alternatives in one: Li et al. 2021, "Guided Generation of Cause and Effect".
    """

    name = "the required phrases"

    def __init__(self, phrases: Iterable[Any], *, vocab: Sequence[str] | None = None):
        index = {text: number for number, text in enumerate(vocab or ())}
        banks = [
            sorted(each, key=repr) if isinstance(each, (set, frozenset)) else each if _is_bank(each) else [each]
            for each in phrases
        ]
        if not banks or not all(banks):
            raise value_error(
                f"RequiredPhrases: there is no phrase{' in a bank' if banks else ''}.",
                [],
                "It has to require something.",
                "rf.RequiredPhrases([[3, 1, 4]])",
            )
        self._banks = [[_labels_of(phrase, index, "RequiredPhrases") for phrase in bank] for bank in banks]
        self._failures = [[_failures(phrase) for phrase in bank] for bank in self._banks]
        self.start, self.tables = tuple((0,) * len(bank) for bank in self._banks), {}
        self.farthest = sum(min(map(len, bank)) for bank in self._banks)
        self.apart = self._own = {label for bank in self._banks for phrase in bank for label in phrase}
        self._least: dict[Any, int] = {}

    def next(self, state: Any, label: int) -> Hashable:
        """The number of matched labels of each phrase (Knuth, Morris and Pratt 1977) in each bank; a bank with a complete phrase is
        satisfied for good.
        """
        out = []
        for of_bank, bank, failures in zip(state, self._banks, self._failures):
            now = tuple(
                _progress(phrase, failure, done, label) for phrase, failure, done in zip(bank, failures, of_bank)
            )
            out.append(() if any(done == len(phrase) for done, phrase in zip(now, bank)) else now)
        return tuple(out)

    def ends(self, state: Any) -> bool:
        """True if every bank has a complete phrase."""
        return not any(state)

    def least(self, state: Any) -> int:
        """The number of missing labels: the shortest way to complete all phrases, which may overlap."""
        found = self._least.get(state)
        if found is None:
            found = self._least[state] = self._shortest(state)
        return found

    def _shortest(self, state: Any) -> int:
        one_by_one = sum(
            min((len(phrase) - done for done, phrase in zip(of_bank, bank)), default=0)
            for of_bank, bank in zip(state, self._banks)
        )
        seen, edge = {state}, [state]
        for steps in range(one_by_one):
            if any(map(self.ends, edge)):
                return steps
            edge = [*{after for each in edge for label in self._own for after in (self.next(each, label),)} - seen]
            seen.update(edge)
            if len(seen) > MOST_STATES // 4:  # of many phrases: one after the other is a way, too
                break
        return one_by_one


def _is_bank(given: Any) -> bool:
    return isinstance(given, (list, tuple)) and bool(given) and all(isinstance(each, (list, tuple)) for each in given)


def _progress(phrase: Labels, failure: list[int], done: int, label: int) -> int:
    while done and phrase[done] != label:
        done = failure[done - 1]
    return done + (phrase[done] == label)


def _labels_of(word: Sequence[int | str] | str, index: Mapping[str, int], what: str) -> Labels:
    def wrong(part: Any) -> Exception:
        return value_error(
            f"{what}: a label that is none.",
            {"word": repr(word), "label": repr(part), "vocab": ", ".join([*index][:12]) or "not given"},
            "Labels are whole numbers from 0, or texts of the vocab.",
            f"rf.{what}([[3, 1, 4]])" if not index else f"rf.{what}([{next(iter(index))!r}], vocab=vocab)",
        )

    if not isinstance(word, Iterable):
        raise wrong(word)
    out = numbers_of(word, index, None, wrong)
    if not out:
        raise value_error(f"{what}: a word without labels.", {"word": repr(word)}, "It has one label at least.")
    return tuple(out)


def _failures(phrase: Labels) -> list[int]:
    """For each prefix of a phrase, the length of its longest proper suffix that is also a prefix."""
    out, done = [0], 0
    for label in phrase[1:]:
        while done and phrase[done] != label:
            done = out[done - 1]
        done += phrase[done] == label
        out.append(done)
    return out
