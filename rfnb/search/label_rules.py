"""Rules about the labels of a hypothesis: a function of the labels so far, or an automaton over labels, such as a lexicon.

    rf.beam_search(step, ..., allowed=rf.Lexicon(["k ae t", "d ao g"], vocab=phones))
    rf.beam_search(step, ..., allowed=[rf.RequiredPhrases([[7, 3]]), lambda labels: range(5) if labels else [1]])

An automaton knows how many labels it still needs to accept. So a search takes no label from which acceptance cannot be reached in time,
and a rule that can never accept is refused before the search.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from typing import Any

import numpy as np

from rfnb.core.errors import type_error, value_error
from rfnb.core.tensor import Tensor
from rfnb.trace.host_copies import values_of

Labels = tuple[int, ...]
Rule = Callable[[Labels], Any]
MOST_STATES = 20_000  # that are looked at before a search
MOST_MASKS, MOST_BYTES = 256, 1 << 14  # that are kept, of at most so many bytes each
_EVERYTHING, _NOTHING = 0, 1  # places of rows in every table
_ENDED, _NOWHERE = object(), object()  # states: after the end; of what was not allowed


class Constraint:
    """An automaton over labels, without the end label: the base class for rules of your own.

    Attributes:
        start: The state of a hypothesis without labels. States are hashable.
        farthest: The most labels that any state may need before it accepts.
        apart: The labels that it distinguishes; all others lead from a state to the same successor. None: each may lead to another.
        name: Name of the rule that forbade a label, for views.
    """

    start: Hashable = ()
    farthest: int = 0
    apart: Collection[int] | None = None
    name: str = ""
    tables: dict[Any, Any] | None = None

    def __init__(self) -> None:
        pass

    def labels(self, state: Hashable) -> Iterable[int] | None:
        """The labels that may come next; None means all."""
        return None

    def next(self, state: Hashable, label: int) -> Hashable:
        """The state after an allowed label."""
        raise NotImplementedError

    def ends(self, state: Hashable) -> bool:
        """True if a hypothesis in this state may end."""
        return True

    def least(self, state: Hashable) -> int:
        """The fewest labels needed before a hypothesis in this state may end."""
        return 0

    def for_generate(
        self, num_labels: int, *, end_label: int, prompt: int = 1, max_new_tokens: int | None = None
    ) -> Callable[[int, Any], list[int]]:
        """The rule as a function for `generate(prefix_allowed_tokens_fn=...)` of `transformers`.

        Args:
            num_labels: The size of its vocabulary.
            end_label: Its eos_token_id.
            prompt: The number of tokens before the generated ones: 1 for an encoder-decoder.
            max_new_tokens: As in `generate`; the rule then starts nothing that cannot end in time.
        """
        allowed = LabelRules(self, num_labels, end_label, max_new_tokens, "for_generate")
        return lambda seq, ids: np.flatnonzero(allowed.row(ids.tolist()[prompt:])).tolist() or [end_label]


class _OfFunction(Constraint):
    """The rule defined by a function of the labels that returns labels, a mask, or bits; the end label is like any other."""

    name = "the function of the labels"

    def __init__(self, fn: Rule, num_labels: int, end_label: int | None):
        self._fn, self._num_labels, self._end = fn, num_labels, end_label
        self._found: dict[Any, np.ndarray | None] = {}
        self._last: tuple[Any, Any, np.ndarray | None] = (
            None,
            None,
            None,
        )  # what was given last, what was in it, its row

    def row(self, state: Any) -> np.ndarray | None:
        """bool [labels]: the labels that may come next; None means all."""
        if state in self._found:
            return self._found[state]
        given = self._fn(state)
        last, had, row = self._last
        if not (
            given is last and had is not None and given == had
        ):  # it may be the same object with something else in it
            row = _row_of(given, state, self._num_labels)
            kept = given if isinstance(given, (tuple, frozenset, range)) else None
            self._last = given, given.copy() if type(given) in (set, list) else kept, row
        self._found[state] = row
        return row

    def labels(self, state: Any) -> Iterable[int] | None:
        row = self.row(state)
        return None if row is None else np.flatnonzero(row).tolist()

    def next(self, state: Any, label: int) -> Hashable:
        return (*state, label)

    def ends(self, state: Any) -> bool:
        row = None if self._end is None else self.row(state)
        return row is None or bool(row[self._end])


class _All(Constraint):
    """The conjunction of several constraints."""

    def __init__(self, parts: Sequence[Constraint]):
        self._parts = parts
        self.start = tuple(part.start for part in parts)
        self.farthest = sum(part.farthest for part in parts)
        each = [part.apart for part in parts]
        self.apart = None if None in each else {label for apart in each for label in apart or ()}
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


class Prefixes:
    """The labels of a search's hypotheses as a tree: a node is a number, 0 is the empty prefix.

    Attributes:
        ways: For each node: its parent, its last label, and its depth.
    """

    def __init__(self) -> None:
        self.ways = [(0, -1, 0)]
        self._known: dict[tuple[int, int], int] = {}

    def after(self, nodes: Iterable[int], labels: Iterable[int]) -> list[int]:
        """The children of these nodes by one label each."""
        known, ways, out = self._known, self.ways, []
        for way in zip(nodes, labels):
            node = known.get(way)
            if node is None:
                node = known[way] = len(ways)
                ways.append((way[0], way[1], ways[way[0]][2] + 1))
            out.append(node)
        return out


class RuleRows:
    """The distinct rows of allowed labels: place 0 allows everything, 1 nothing.

    Attributes:
        table: bool [places, labels]; it is replaced, and never changed where a place is known.
        places: (state, labels left or None for any number) -> place.
        masks: Some rows as raw arrays, by places and kind.
        moves: (state, label) -> (next state, its place for any number of labels left).
        can_end: The label limits for which acceptance was found possible.
    """

    def __init__(self, num_labels: int):
        self.table = np.zeros((8, num_labels), bool)
        self.table[_EVERYTHING] = True
        self.places: dict[Any, int] = {}
        self.masks: dict[Any, Any] = {}
        self.moves: dict[Any, tuple[Any, int]] = {}
        self.can_end: set[int | None] = set()
        self._known = {self.table[place].tobytes(): place for place in (_NOTHING, _EVERYTHING)}
        self._lock = threading.Lock()  # searches of other threads may have the same automaton

    def __reduce__(self) -> Any:
        return RuleRows, (self.table.shape[1],)

    def place(self, row: np.ndarray) -> int:
        """The place of a row."""
        key = row.tobytes()
        found = self._known.get(key)
        if found is None:
            with self._lock:
                place = len(self._known)
                if place >= len(self.table):
                    self.table = np.concatenate([self.table, np.zeros_like(self.table)])
                self.table[place] = row
                found = self._known.setdefault(key, place)
        return found


class LabelRules:
    """The rule of one search: masks of the labels that may follow those of a hypothesis.

    Args:
        given: A `Constraint`, a function of the labels so far, a set of labels, or a list of these, all of which must hold.
        num_labels: The number of labels; 0 if it is not known yet: then only rules that can never accept are found.
        end_label: The label that ends a hypothesis; None if there is none.
        most: The most labels of a hypothesis, its end included; None: any number.
        what: Name of the caller, for messages.
        prefixes: The tree of the labels so far, if it exists already.

    Raises:
        TypeError: For anything else.
        ValueError: If no hypothesis can end, or a label does not exist.
    """

    def __init__(
        self,
        given: Any,
        num_labels: int,
        end_label: int | None,
        most: int | None,
        what: str = "choice",
        prefixes: Prefixes | None = None,
    ):
        self.given, self.what = given, what
        self.num_labels, self._end, self._most = num_labels, end_label, most
        parts = [self._part(part) for part in (given if _is_several(given) else [given])]
        self._constraint = parts[0] if len(parts) == 1 else _All(parts)
        self.name = self._constraint.name or type(self._constraint).__name__
        self.prefixes = Prefixes() if prefixes is None else prefixes
        self._at: dict[int, tuple[Any, int]] = {}  # node -> state, and its place if any number of labels may still come
        self._last: tuple[Any, int] = None, 0  # row of a function, and its place
        # The rows of an automaton of ours serve all searches with it; what others may change, like a function, is asked anew.
        tables = self._constraint.tables
        key = num_labels, end_label
        tables = {} if tables is None else tables
        self._rows = tables.get(key) or tables.setdefault(key, RuleRows(num_labels))
        if most not in self._rows.can_end:
            self._check()
            self._rows.can_end.add(most)

    def _part(self, given: Any) -> Constraint:
        if isinstance(given, Constraint):
            return given
        if isinstance(given, (set, frozenset, list, tuple, range)) and given:
            return _OfFunction(lambda _: given, self.num_labels, self._end)
        if callable(given) and not isinstance(given, type):
            return _OfFunction(given, self.num_labels, self._end)
        raise type_error(
            f"{self.what}: allowed is no rule.",
            {"allowed": f"{'an empty ' if isinstance(given, Collection) and not given else ''}{type(given).__name__}"},
            "It is a function of the labels so far, an rf.Lexicon or another rf.Constraint, a set of labels, or a list of these.",
            "allowed=lambda labels: [0, 3, 5]",
        )

    def _check(self) -> None:
        """Refuse a rule that can never accept."""
        own, most = self._constraint, self._most
        if self._end is None or isinstance(own, _OfFunction):
            return
        least = own.least(own.start)
        if least and most is not None and least + 1 > most:
            raise self._never(
                f"{least} labels and the end are needed at least, {most} are made", f"max_seq_len={least + 1}"
            )
        seen, edge = {own.start}, [own.start]
        for _ in range(MOST_STATES if most is None else most):
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
            if len(seen) > MOST_STATES:
                return
            edge = new
            if not edge:
                break
        raise self._never("nothing that is allowed comes to an end that is allowed")

    def _never(self, why: str, fix: str | None = None) -> ValueError:
        return value_error(
            f"{self.what}: what is allowed can never end.",
            {"allowed": self.name, "end_label": self._end, "max_seq_len": self._most},
            f"Of {self.name}: {why}.",
            fix,
        )

    def places(self, nodes: Sequence[int]) -> list[int]:
        """The places in `rows` of what may follow the labels of these nodes, within the limit; node 0 allows everything."""
        most, farthest, at = self._most, self._constraint.farthest, self._at
        out = [(at.get(node) or self._look(node))[1] for node in nodes]
        if most is not None and farthest:
            for place, node in enumerate(nodes):
                left = most - self.prefixes.ways[node][2]
                if left <= farthest + 1:
                    out[place] = self.place(node, left)
        return out

    def place(self, node: int, left: int) -> int:
        """The place for one node, after which at most `left` labels may follow, the end included."""
        state, place = self._at.get(node) or self._look(node)
        if left > self._constraint.farthest + 1 or state is _ENDED or state is _NOWHERE:
            return place
        return self._place(state, left)

    def rows(self, places: Any) -> np.ndarray:
        """bool [..., labels]: the allowed labels, for `places` [...]."""
        return self._rows.table.take(places, 0)

    def mask(
        self, places: tuple[int, ...], kind: tuple[Sequence[int], Any, str | None], make: Callable[[np.ndarray], Any]
    ) -> Any:
        """`rows` as a raw array {kind, labels} built by `make`. Cached, since the same places recur: in the next step, and in other
        searches.
        """
        masks, key = self._rows.masks, (places, kind)
        found = masks.get(key)
        if found is None:
            found = make(self.rows(places).reshape(*kind[0], -1))
            if len(places) * self.num_labels <= MOST_BYTES:
                if len(masks) >= MOST_MASKS:
                    masks.clear()
                masks[key] = found
        return found

    def row(self, labels: Sequence[int]) -> np.ndarray:
        """bool [labels]: the labels that may follow these."""
        node = functools.reduce(lambda node, label: self.prefixes.after([node], [label])[0], labels, 0)
        return self._rows.table[self.places([node])[0]]

    def needs(self, node: int) -> int | None:
        """The fewest labels needed after those of a node before the hypothesis may end; None if it cannot."""
        state, _ = self._at.get(node) or self._look(node)
        if state is _NOWHERE:
            return None
        return 0 if self._constraint.ends(state) else max(1, self._constraint.least(state))

    def _place(self, state: Any, left: int | None = None) -> int:
        own = self._constraint
        if own.__class__ is _OfFunction:
            row = own.row(state)
            if row is not self._last[0]:
                self._last = row, _EVERYTHING if row is None else self._rows.place(row)
            return self._last[1]
        key = state, left
        found = self._rows.places.get(key)
        if found is None:
            found = self._rows.places[key] = self._rows.place(self._made(*key))
        return found

    def _made(self, state: Hashable, left: int | None) -> np.ndarray:
        own, end = self._constraint, self._end
        if left is not None:  # after this label there are left - 1, and the last one is the end
            row = self._rows.table[self._place(state)].copy()
            given = [label for label in np.flatnonzero(row).tolist() if label != end]
            apart = own.apart
            alike = [] if apart is None else [label for label in given if label not in apart]
            one_by_one = given if apart is None else [label for label in given if label in apart]
            for labels in [*([label] for label in one_by_one), *([alike] if alike else [])]:
                if own.least(own.next(state, labels[0])) + 2 > left:
                    row[labels] = False
            return row
        next_labels, row = own.labels(state), np.empty(self.num_labels, bool)
        row[:] = next_labels is None
        if next_labels is not None:
            labels = [*next_labels]
            if labels and not 0 <= min(labels) <= max(labels) < self.num_labels:
                wrong = next(label for label in labels if not 0 <= label < self.num_labels)
                raise _no_label(self.what, wrong, self.num_labels)
            row[labels] = True
        if end is not None:
            row[end] = own.ends(state)
        return row

    def _look(self, node: int) -> tuple[Any, int]:
        if not node:
            self._at[0] = self._constraint.start, self._place(self._constraint.start)
            return self._at[0]
        at, ways = self._at, self.prefixes.ways
        before, label, _ = ways[node]
        if before not in at:
            way = [before]
            while way[-1] and ways[way[-1]][0] not in at:
                way.append(ways[way[-1]][0])
            for earlier in reversed(way):
                self._look(earlier)
        found = at[node] = self._after(*at[before], label)
        return found

    def _after(self, state: Any, place: int, label: int) -> tuple[Any, int]:
        moves = None if self._constraint.tables is None else self._rows.moves
        found = None if moves is None else moves.get((state, label))
        if found is None:
            if state is _ENDED or label == self._end:
                found = _ENDED, _EVERYTHING  # the search knows better what comes after the end
            elif not self._rows.table[place, label]:
                found = _NOWHERE, _NOTHING
            else:
                after = self._constraint.next(state, label)
                found = after, self._place(after)
            if moves is not None:
                if len(moves) >= MOST_STATES:
                    moves.clear()
                moves[state, label] = found
        return found


def check_allowed(given: Any, num_labels: int, end_label: int, max_seq_len: int) -> None:
    """Refuse, before any step, an invalid rule or one that can never accept; without `num_labels` (0) labels are not checked for range."""
    if given is not None:
        LabelRules(given, num_labels, end_label, max_seq_len, "beam_search")


class AllowedPrefixes:
    """The rule of a search over alignments, where a blank adds no label.

    Args:
        allowed: The rule for labels.
        blank: Index of the blank among the classes.
        num_classes: Number of classes, including the blank.
        shape: (batch, beam).
    """

    def __init__(self, allowed: LabelRules, blank: int, num_classes: int, shape: tuple[int, int]):
        self._allowed, self._blank, self.name = allowed, blank, allowed.name
        classes = np.arange(num_classes)
        self._label = classes - (classes > blank) if allowed.num_labels < num_classes else classes
        self._nodes = [[0] * shape[1] for _ in range(shape[0])]

    def rows(self, left: np.ndarray, after_blank: np.ndarray, live: np.ndarray) -> np.ndarray:
        """bool [batch, beam, classes]: the classes that may come next.

        Args:
            left, after_blank: [batch, beam]: how many labels may still come, now and after a blank.
            live: bool [batch, beam]: the unfinished hypotheses; the others are not restricted.
        """
        places, blank = np.zeros(live.shape, np.int64), np.ones(live.shape, bool)
        for seq, slot in zip(*live.nonzero()):
            node = self._nodes[seq][slot]
            places[seq, slot] = self._allowed.place(node, int(left[seq, slot]) + 1)
            needed = self._allowed.needs(node)
            blank[seq, slot] = needed is not None and needed <= after_blank[seq, slot]
        out = self._allowed.rows(places).take(self._label, -1, mode="clip")
        out[..., self._blank] = blank
        return out

    def follow(self, parents: np.ndarray, grown: np.ndarray, tokens: np.ndarray) -> None:
        """Follow the chosen prefixes: parent slots, whether each grew, and by which class; [batch, beam]."""
        after, label = self._allowed.prefixes.after, self._label
        self._nodes = [
            [
                after([before[parent]], [int(label[token])])[0] if more else before[parent]
                for parent, more, token in zip(*row)
            ]
            for before, row in zip(self._nodes, zip(parents.tolist(), grown.tolist(), tokens.tolist()))
        ]

    def only_ended(self, scores: np.ndarray) -> np.ndarray:
        """The scores [batch, beam] after the last step, with -inf where the rule does not accept.

        Raises:
            ValueError: If the rule accepts no hypothesis of a sequence.
        """
        may = np.array([[self._allowed.needs(node) == 0 for node in row] for row in self._nodes], bool)
        out = np.where(may.reshape(scores.shape), scores, -np.inf)
        lost = (out == -np.inf).all(1)
        if lost.any():
            raise value_error(
                f"{self._allowed.what}: nothing that is allowed has come to its end.",
                {"allowed": self.name, "sequence": int(lost.argmax()), "beam_size": scores.shape[1]},
                "The sequence is too short for what is allowed, the model gives it probability 0, or it has fallen out of the beam.",
                f"beam_size={4 * scores.shape[1]}",
            )
        return out


def _is_several(given: Any) -> bool:
    return isinstance(given, (list, tuple)) and any(isinstance(part, Constraint) or callable(part) for part in given)


def _no_label(what: str, label: int, num_labels: int) -> ValueError:
    return value_error(
        f"{what}: allowed gives a label that is none.",
        {"allowed": int(label), "labels": num_labels},
        f"Labels are whole numbers from 0 to {num_labels - 1}.",
    )


def _row_of(given: Any, labels: Labels, num_labels: int) -> np.ndarray | None:
    """bool [labels] for the result of a function of the labels: None for all, labels, a mask, or bits in int32, lowest first."""
    if given is None:
        return None
    if isinstance(given, Tensor) or hasattr(given, "detach"):
        given = values_of(given)
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
            {
                "after": labels,
                "gives": f"{type(given).__name__} {array.shape} {array.dtype}",
                "labels": num_labels,
            },
            "A function of the labels so far gives labels, a bool for each label, 32 of them as bits of an int32, or None for all.",
            "allowed=lambda labels: [0, 3, 5]",
        )
    if array.size and not 0 <= array.min() <= array.max() < num_labels:
        raise _no_label("choice", array[(array < 0) | (array >= num_labels)][0], num_labels)
    row = np.zeros(num_labels, bool)
    row[array.astype(np.int64)] = True
    return row
