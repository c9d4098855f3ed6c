"""Rules about the labels of a hypothesis: a function of those so far, or an automaton over labels, such as a lexicon.

    rf.beam_search(step, ..., allowed=rf.Lexicon(["k ae t", "d ao g"], vocab=phones))
    rf.beam_search(step, ..., allowed=[rf.RequiredPhrases([[7, 3]]), lambda labels: range(5) if labels else [1]])

An automaton knows how many labels are needed to its end. So a search takes no label from which the end cannot be reached in time, and what
can never end is refused before the search.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from rfnb.core.errors import type_error, value_error
from rfnb.core.tensor import Tensor
from rfnb.trace.beam_labels import numbers_of

Labels = tuple[int, ...]
Rule = Callable[[Labels], Any]
_MOST_STATES = 20_000  # that are looked at before a search


class Constraint:
    """An automaton over labels, without the end label: the base for rules of your own.

    Attributes:
        start: The state of a hypothesis without labels. States are hashable.
        farthest: The most labels that any state may need to its end.
        name: For views: what has forbidden a label.
    """

    start: Hashable = ()
    farthest: int = 0
    name: str = ""

    def __init__(self) -> None:
        pass

    def labels(self, state: Hashable) -> Iterable[int] | None:
        """The labels that may come next; None: all."""
        return None

    def next(self, state: Hashable, label: int) -> Hashable:
        """The state after a label that may come."""
        raise NotImplementedError

    def ends(self, state: Hashable) -> bool:
        """Whether a hypothesis in this state may end."""
        return True

    def least(self, state: Hashable) -> int:
        """The fewest labels that are needed before it may end."""
        return 0

    def for_generate(
        self, num_labels: int, *, end_label: int, prompt: int = 1, max_new_tokens: int | None = None
    ) -> Callable[[int, Any], list[int]]:
        """The same for `generate(prefix_allowed_tokens_fn=...)` of `transformers`.

        Args:
            num_labels: The size of its vocabulary.
            end_label: Its eos_token_id.
            prompt: How many tokens come before those that are generated: 1 of an encoder-decoder.
            max_new_tokens: As of `generate`; nothing is begun then that cannot end in time.
        """
        allowed = Allowed(self, num_labels, end_label, max_new_tokens, "for_generate")
        return lambda seq, ids: np.flatnonzero(allowed.row(tuple(ids.tolist()[prompt:]))).tolist() or [end_label]


class Lexicon(Constraint):
    """One of these words, or with `between` a sequence of them: a trie (Fredkin 1960).

    Args:
        words: Sequences of labels; texts with `vocab`: labels with spaces between, or each character is one.
        vocab: Texts of the labels.
        between: The label that separates words; None: there is one word.

    Raises:
        ValueError: There is no word, or one without labels, or a label that the vocab does not have.
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
        self.start, self.farthest = 0, max(self._least)

    def labels(self, state: Any) -> Iterable[int]:
        """The labels that words go on with, and what may come between words."""
        own = self._after[state]
        return [*own, self._between] if self._between is not None and self._is_word[state] else own

    def next(self, state: Any, label: int) -> Hashable:
        """The node of the trie."""
        return 0 if label == self._between and self._is_word[state] else self._after[state][label]

    def ends(self, state: Any) -> bool:
        """Whether a word ends here."""
        return self._is_word[state]

    def least(self, state: Any) -> int:
        """To the end of the shortest word."""
        return self._least[state]


class RequiredPhrases(Constraint):
    """A hypothesis has each of these sequences of labels in it before it ends, in any order; they may overlap.

    The scores say when. What a hypothesis does not say by itself comes at the last moment, where it may fit badly; a wider beam finds
    better places.

    Args:
        phrases: Sequences of labels; texts as of `Lexicon`.
        vocab: Texts of the labels.

    Raises:
        ValueError: There is no phrase, or one without labels, or a label that the vocab does not have.
    """

    name = "the required phrases"

    def __init__(self, phrases: Iterable[Sequence[int] | str], *, vocab: Sequence[str] | None = None):
        index = {text: number for number, text in enumerate(vocab or ())}
        self._phrases = [_labels_of(phrase, index, "RequiredPhrases") for phrase in phrases]
        if not self._phrases:
            raise value_error(
                "RequiredPhrases: there is no phrase.",
                [],
                "It has to require something.",
                "rf.RequiredPhrases([[3, 1, 4]])",
            )
        self._failure = [_failures(phrase) for phrase in self._phrases]
        self.start = (0,) * len(self._phrases)
        self.farthest = sum(map(len, self._phrases))
        self._own = {label for phrase in self._phrases for label in phrase}
        self._least: dict[Any, int] = {}

    def next(self, state: Any, label: int) -> Hashable:
        """The labels of each phrase that are there (Knuth, Morris and Pratt 1977); a whole one stays."""
        return tuple(map(self._progress, range(len(state)), state, [label] * len(state)))

    def _progress(self, place: int, done: int, label: int) -> int:
        phrase, failure = self._phrases[place], self._failure[place]
        if done == len(phrase):
            return done
        while done and phrase[done] != label:
            done = failure[done - 1]
        return done + (phrase[done] == label)

    def ends(self, state: Any) -> bool:
        """Whether all phrases are there."""
        return all(done == len(phrase) for done, phrase in zip(state, self._phrases))

    def least(self, state: Any) -> int:
        """The labels that are missing: the shortest way to all phrases, which may overlap."""
        found = self._least.get(state)
        if found is None:
            found = self._least[state] = self._shortest(state)
        return found

    def _shortest(self, state: Any) -> int:
        one_by_one = sum(len(phrase) - done for done, phrase in zip(state, self._phrases))
        seen, edge = {state}, [state]
        for steps in range(one_by_one):
            if any(map(self.ends, edge)):
                return steps
            edge = [*{after for each in edge for label in self._own for after in (self.next(each, label),)} - seen]
            seen.update(edge)
            if len(seen) > _MOST_STATES // 4:  # of many phrases: one after the other is a way, too
                break
        return one_by_one


class _OfFunction(Constraint):
    """The rule that a function of the labels is, which gives labels, a mask, or bits; the end label like any other."""

    name = "the function of the labels"

    def __init__(self, fn: Rule, num_labels: int, end_label: int | None):
        self._fn, self._num_labels, self._end = fn, num_labels, end_label
        self._found: dict[Any, np.ndarray | None] = {}

    def _row(self, state: Any) -> np.ndarray | None:
        if state not in self._found:
            self._found[state] = _row_of(self._fn(state), state, self._num_labels)
        return self._found[state]

    def labels(self, state: Any) -> Iterable[int] | None:
        row = self._row(state)
        return None if row is None else np.flatnonzero(row).tolist()

    def next(self, state: Any, label: int) -> Hashable:
        return (*state, label)

    def ends(self, state: Any) -> bool:
        row = None if self._end is None else self._row(state)
        return row is None or bool(row[self._end])


class _All(Constraint):
    """All of several constraints."""

    def __init__(self, parts: Sequence[Constraint]):
        self._parts = parts
        self.start = tuple(part.start for part in parts)
        self.farthest = sum(part.farthest for part in parts)
        self.name = " and ".join(dict.fromkeys(part.name or type(part).__name__ for part in parts))

    def labels(self, state: Any) -> Iterable[int] | None:
        given = [
            set(found) for found in map(lambda part, own: part.labels(own), self._parts, state) if found is not None
        ]
        return set.intersection(*given) if given else None

    def next(self, state: Any, label: int) -> Hashable:
        return tuple(part.next(own, label) for part, own in zip(self._parts, state))

    def ends(self, state: Any) -> bool:
        return all(part.ends(own) for part, own in zip(self._parts, state))

    def least(self, state: Any) -> int:
        return max(part.least(own) for part, own in zip(self._parts, state))


class Allowed:
    """The rule of one search: masks of the labels that may come after those that a hypothesis has.

    Args:
        given: A `Constraint`, a function of the labels so far, a set of labels, or a list of such, which hold all.
        num_labels: How many labels there are; 0: it is not known yet, and only what can never end is found.
        end_label: What ends a hypothesis; None: nothing does.
        most: The most labels of a hypothesis with its end; None: any number.
        what: Who asks.

    Raises:
        TypeError: For anything else.
        ValueError: If nothing can end, or a label is none.
    """

    def __init__(self, given: Any, num_labels: int, end_label: int | None, most: int | None, what: str = "choice"):
        self.given, self.what = given, what
        self.num_labels, self._end, self._most = num_labels, end_label, most
        parts = [self._part(part) for part in (given if _is_several(given) else [given])]
        self._constraint = parts[0] if len(parts) == 1 else _All(parts)
        self.name = self._constraint.name or type(self._constraint).__name__
        self._states: dict[Labels, Hashable] = {(): self._constraint.start}
        self._rows: dict[Any, np.ndarray] = {}
        self._check()

    def _part(self, given: Any) -> Constraint:
        if isinstance(given, Constraint):
            return given
        if isinstance(given, (set, frozenset)) or (isinstance(given, (list, tuple, range)) and given):
            return _OfFunction(lambda _: given, self.num_labels, self._end)
        if callable(given) and not isinstance(given, type):
            return _OfFunction(given, self.num_labels, self._end)
        raise type_error(
            f"{self.what}: allowed is no rule.",
            [("allowed", "an empty list" if isinstance(given, (list, tuple)) else type(given).__name__)],
            "It is a function of the labels so far, an rf.Lexicon or another rf.Constraint, a set of labels, or a list of these.",
            "allowed=lambda labels: [0, 3, 5]",
        )

    def _check(self) -> None:
        """Refuse what can never end."""
        own, most = self._constraint, self._most
        if self._end is None or isinstance(own, _OfFunction):
            return
        least = own.least(own.start)
        if least and most is not None and least + 1 > most:
            raise self._never(f"{least} labels and the end are needed at least, {most} are made")
        seen, edge = {own.start}, [own.start]
        for _ in range(_MOST_STATES if most is None else most):
            if any(own.ends(state) for state in edge):
                return
            new = []
            for state in edge:
                following = own.labels(state)
                if following is None:
                    return  # too many to be looked at
                for label in following:
                    if not 0 <= label < (self.num_labels or label + 1):
                        raise _no_label(self.what, label, self.num_labels)
                    if label != self._end:
                        after = own.next(state, label)
                        if after not in seen:
                            seen.add(after)
                            new.append(after)
            if len(seen) > _MOST_STATES:
                return
            edge = new
            if not edge:
                break
        raise self._never("nothing that is allowed comes to an end that is allowed")

    def _never(self, why: str) -> ValueError:
        return value_error(
            f"{self.what}: what is allowed can never end.",
            [("allowed", self.name), ("end_label", self._end), ("max_seq_len", self._most)],
            f"Of {self.name}: {why}.",
            f"max_seq_len={self._constraint.least(self._constraint.start) + 1}" if self._most is not None else None,
        )

    def rows(self, written: np.ndarray) -> np.ndarray:
        """bool [..., labels]: what may come after labels [..., steps]."""
        out = np.empty((*written.shape[:-1], self.num_labels), bool)
        for place in np.ndindex(written.shape[:-1]):
            out[place] = self.row(tuple(written[place].tolist()))
        return out

    def row(self, labels: Labels, left: int | None = None) -> np.ndarray:
        """bool [labels]: what may come after these; after the end everything, which the search knows better.

        Args:
            left: How many labels may still come, with the end. Default: by the most that there are.
        """
        if self._end is not None and self._end in labels:
            return np.ones(self.num_labels, bool)
        state = self._state(labels)
        if state is None:  # what was not allowed: it goes nowhere
            return np.zeros(self.num_labels, bool)
        if left is None and self._most is not None:
            left = self._most - len(labels)
        own = self._constraint
        key = state, left if left is not None and own.farthest and left <= own.farthest + 1 else None
        found = self._rows.get(key)
        if found is None:
            found = self._rows[key] = self._made(state, key[1])
        return found

    def needs(self, labels: Labels) -> int | None:
        """The fewest labels that are needed after these before they may be all; None: it cannot be."""
        state = self._state(labels)
        if state is None:
            return None
        return 0 if self._constraint.ends(state) else max(1, self._constraint.least(state))

    def _made(self, state: Hashable, left: int | None) -> np.ndarray:
        own, end = self._constraint, self._end
        given = own.labels(state)
        row = np.zeros(self.num_labels, bool)
        if given is None:
            row[:] = True
        else:
            labels = np.fromiter(given, np.int64)
            if labels.size and not 0 <= labels.min() <= labels.max() < self.num_labels:
                raise _no_label(self.what, labels[(labels < 0) | (labels >= self.num_labels)][0], self.num_labels)
            row[labels] = True
        if end is not None:
            row[end] = own.ends(state)
        if left is not None:  # after this label there are left - 1, and the last one is the end
            for label in np.flatnonzero(row):
                if label != end and own.least(own.next(state, int(label))) + 2 > left:
                    row[label] = False
        return row

    def _state(self, labels: Labels) -> Hashable:
        found = self._states.get(labels, self)
        if found is self:
            before, label = self._state(labels[:-1]), labels[-1]
            found = None
            if before is not None:
                given = self._constraint.labels(before)
                if given is None or label in given:
                    found = self._constraint.next(before, label)
            self._states[labels] = found
        return found


def check_allowed(given: Any, num_labels: int, end_label: int, max_seq_len: int) -> None:
    """Refuse, before a step is made, what is no rule or can never end; without `num_labels` (0) no label can be one too many."""
    if given is not None:
        Allowed(given, num_labels, end_label, max_seq_len, "beam_search")


class AllowedPrefixes:
    """The rule of a search over alignments, where a blank writes no label.

    Args:
        allowed: What the labels may be.
        blank: Index of the blank among the classes.
        num_classes: With the blank.
        shape: (batch, beam).
    """

    def __init__(self, allowed: Allowed, blank: int, num_classes: int, shape: tuple[int, int]):
        self._allowed, self._blank, self.name = allowed, blank, allowed.name
        classes = np.arange(num_classes)
        self._label = classes - (classes > blank) if allowed.num_labels < num_classes else classes
        self._written = [[()] * shape[1] for _ in range(shape[0])]

    def rows(self, left: np.ndarray, after_blank: np.ndarray, live: np.ndarray) -> np.ndarray:
        """bool [batch, beam, classes]: what may come next.

        Args:
            left, after_blank: [batch, beam]: how many labels may still come, and after a blank.
            live: bool [batch, beam]: which hypotheses go on; the others do as they do.
        """
        out = np.ones((*live.shape, len(self._label)), bool)
        for seq, slot in zip(*live.nonzero()):
            labels = self._written[seq][slot]
            row = self._allowed.row(labels, int(left[seq, slot]) + 1).take(self._label, mode="clip")
            needed = self._allowed.needs(labels)
            row[self._blank] = needed is not None and needed <= after_blank[seq, slot]
            out[seq, slot] = row
        return out

    def follow(self, parents: np.ndarray, grown: np.ndarray, tokens: np.ndarray) -> None:
        """The prefixes have been chosen: slots of the parents, which have grown, by which class; [batch, beam]."""
        before, label = self._written, self._label
        self._written = [
            [
                (*before[seq][parent], int(label[token])) if more else before[seq][parent]
                for parent, more, token in zip(*row)
            ]
            for seq, row in enumerate(zip(parents.tolist(), grown.tolist(), tokens.tolist()))
        ]

    def only_ended(self, scores: np.ndarray) -> np.ndarray:
        """The scores [batch, beam] after the last step, -inf for what may not be all.

        Raises:
            ValueError: Nothing of a sequence may.
        """
        may = np.array([[self._allowed.needs(labels) == 0 for labels in row] for row in self._written], bool)
        out = np.where(may.reshape(scores.shape), scores, -np.inf)
        lost = (out == -np.inf).all(1)
        if lost.any():
            raise value_error(
                f"{self._allowed.what}: nothing that is allowed has come to its end.",
                [("allowed", self.name), ("sequence", int(lost.argmax())), ("beam_size", scores.shape[1])],
                "The sequence is too short for what is allowed, the model gives it probability 0, or it has fallen out of the beam.",
                f"beam_size={4 * scores.shape[1]}",
            )
        return out


def _is_several(given: Any) -> bool:
    return isinstance(given, (list, tuple)) and any(isinstance(part, Constraint) or callable(part) for part in given)


def _no_label(what: str, label: int, num_labels: int) -> ValueError:
    return value_error(
        f"{what}: allowed gives a label that is none.",
        [("allowed", int(label)), ("labels", num_labels)],
        f"Labels are whole numbers from 0 to {num_labels - 1}.",
    )


def _row_of(given: Any, labels: Labels, num_labels: int) -> np.ndarray | None:
    """bool [labels] for what a function of the labels gives: None for all, labels, a mask, or bits in int32, the lowest first."""
    if given is None:
        return None
    if isinstance(given, Tensor):
        given = given.numpy()
    elif hasattr(given, "detach"):
        given = given.detach().cpu().numpy()
    array = np.asarray(list(given) if isinstance(given, (set, frozenset)) or not hasattr(given, "__len__") else given)
    if array.dtype == bool and array.shape == (num_labels,):
        return array
    words = -(-num_labels // 32)
    if (
        array.dtype in (np.int32, np.uint32)
        and array.shape in ((words,), (1, words))
        and not isinstance(given, (list, tuple))
    ):
        bits = np.unpackbits(np.ascontiguousarray(array).view(np.uint8).reshape(-1), bitorder="little")
        return bits[:num_labels].astype(bool)
    if array.size and (array.ndim != 1 or array.dtype.kind not in "iu"):
        raise type_error(
            "choice: allowed gives no labels.",
            [
                ("after", labels),
                ("gives", f"{type(given).__name__} {array.shape} {array.dtype}"),
                ("labels", num_labels),
            ],
            "A function of the labels so far gives labels, a bool for each label, 32 of them as bits of an int32, or None for all.",
            "allowed=lambda labels: [0, 3, 5]",
        )
    if array.size and not 0 <= array.min() <= array.max() < num_labels:
        raise _no_label("choice", array[(array < 0) | (array >= num_labels)][0], num_labels)
    row = np.zeros(num_labels, bool)
    row[array.astype(np.int64)] = True
    return row


def _labels_of(word: Sequence[int | str] | str, index: Mapping[str, int], what: str) -> Labels:
    def wrong(part: Any) -> Exception:
        return value_error(
            f"{what}: a label that is none.",
            [("word", repr(word)), ("label", repr(part)), ("vocab", ", ".join([*index][:12]) or "not given")],
            "Labels are whole numbers from 0, or texts of the vocab.",
            f"rf.{what}([[3, 1, 4]])" if not index else f"rf.{what}([{next(iter(index))!r}], vocab=vocab)",
        )

    out = numbers_of(word, index, None, wrong)
    if not out:
        raise value_error(f"{what}: a word without labels.", [("word", repr(word))], "It has one label at least.")
    return tuple(out)


def _failures(phrase: Labels) -> list[int]:
    """For each beginning of a phrase the longest shorter one that it ends with."""
    out, done = [0], 0
    for label in phrase[1:]:
        while done and phrase[done] != label:
            done = out[done - 1]
        done += phrase[done] == label
        out.append(done)
    return out
