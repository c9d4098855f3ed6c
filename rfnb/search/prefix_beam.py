"""The prefixes of a search over alignments, on the host: different alignments of the same labels are one hypothesis.

In each step a prefix stays as it is (a blank, or a label repeated) or grows by a label. Two candidates are the same prefix only if one
stays and the other one, its beginning, grows by its last label: then their probabilities are added.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

NEVER = -np.inf
KEPT, CUT, MERGED = 0, 1, 4  # cand_verdict; see `VERDICTS` of rfnb/trace/beam_fields.py
_FACTOR = np.int64(6364136223846793005)  # of Knuth's MMIX generator
# Keys of slots without a prefix, and of what would be before the empty prefix: not of any prefix.
_DEAD, _BEFORE = np.int64(-0x7EADBEEF7EADBEEF), np.int64(-0x1234567812345678)


@dataclass
class Step:
    """What one step has decided; arrays [batch, beam] but the candidates.

    Attributes:
        tokens: The label that was added, or the blank.
        parents: Slot in the beam before.
        scores: Of the prefixes, best first.
        merged: Whether the probability of a second candidate was added.
        candidates: cand_tokens, cand_parents, cand_scores, cand_kept, cand_verdict [batch, candidate], only if asked for. What was
            merged is part of another hypothesis.
    """

    tokens: np.ndarray
    parents: np.ndarray
    scores: np.ndarray
    merged: np.ndarray
    candidates: dict[str, np.ndarray] | None = None


class PrefixBeam:
    """The prefixes that go on. A prefix is known by a key of 64 bits, made of those of its labels: two different ones of a search
    having the same is less likely than an error of the memory.

    Args:
        batch: Number of sequences.
        beam_size: Prefixes kept of each.
        blank: Index of the blank.

    Attributes:
        last: The last label [batch, beam]; the blank for the empty prefix.
        scores: [batch, beam], natural log, -inf for slots without prefix.
    """

    def __init__(self, batch: int, beam_size: int, blank: int):
        self.batch, self.beam_size, self.blank = batch, beam_size, blank
        shape = batch, beam_size
        self.rows = np.arange(batch * beam_size).reshape(shape)
        self.first_row = self.rows[:, :1].copy()
        self.key, self.key_before = np.full(shape, _DEAD), np.full(shape, _BEFORE)
        self.last = np.full(shape, blank)
        self.scores = np.full(shape, NEVER)
        if beam_size:
            self.key[:, 0], self.scores[:, 0] = 0, 0

    def pairs(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Flat slots of a prefix and of its beginning, where both are in the beam, and the label between them."""
        where, child, parent = (self.key_before[:, :, None] == self.key[:, None, :]).nonzero()
        child = child + where * self.beam_size
        return child, parent + where * self.beam_size, self.last.reshape(-1)[child]

    def select(
        self, scores: np.ndarray, merged: tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray], num_candidates: int = 0
    ) -> tuple[Step, np.ndarray, np.ndarray]:
        """The best candidates go on.

        Args:
            scores: [batch, beam, labels]; at the blank that of the prefix that stays, merged ones -inf.
            merged: Slots of children, slots and labels of what was merged into them, and its scores.
            num_candidates: How many to report besides.

        Returns:
            The step; flat slots [batch, beam] of the parents; bool [batch, beam]: which have grown.
        """
        batch, size, blank = self.batch, self.beam_size, self.blank
        labels = scores.shape[2]
        flat = scores.reshape(batch, size * labels)  # a view, or a copy: it is only read
        index = best(flat, size)
        self.scores = np.take_along_axis(flat, index, 1) if batch != 1 else flat[:, index[0]]
        parents, tokens = np.divmod(index, labels)
        grown = tokens != blank
        rows = parents + self.first_row
        key = self.key.take(rows)
        self.key_before = np.where(grown, key, self.key_before.take(rows))
        self.key = np.where(grown, key * _FACTOR + (tokens + 1), key)
        self.last = np.where(grown, tokens, self.last.take(rows))
        dead = self.scores == NEVER
        if dead.any():  # they must not be the beginning of another one, nor twice the same prefix
            self.key[dead], self.key_before[dead] = _DEAD, _BEFORE
        into = np.zeros(batch * size, bool)
        into[merged[0][merged[3] > NEVER]] = True
        step = Step(tokens, parents, self.scores, into.take(rows) & ~grown)
        if num_candidates:
            step.candidates = self._candidates(flat, index, labels, merged, num_candidates)
        return step, rows, grown

    def _candidates(
        self, flat: np.ndarray, kept: np.ndarray, labels: int, merged: tuple[np.ndarray, ...], count: int
    ) -> dict[str, np.ndarray]:
        """The best candidates of the step, the merged ones with what they have brought."""
        flat = flat.copy()
        is_merged, is_kept = np.zeros(flat.shape, bool), np.zeros(flat.shape, bool)
        _, slots, tokens, scores = merged
        where = slots // self.beam_size, slots % self.beam_size * labels + tokens
        flat[where], is_merged[where] = scores, True
        np.put_along_axis(is_kept, kept, True, 1)
        order = best(flat, min(count, flat.shape[1]))
        first = np.argsort(~np.take_along_axis(is_kept, order, 1), axis=1, kind="stable")
        order = np.take_along_axis(order, first, 1)
        parents, tokens = np.divmod(order, labels)
        verdict = np.where(is_kept, KEPT, np.where(is_merged, MERGED, CUT))
        picked = [np.take_along_axis(values, order, 1) for values in (flat, is_kept, verdict)]
        names = ("cand_tokens", "cand_parents", "cand_scores", "cand_kept", "cand_verdict")
        return dict(zip(names, (tokens, parents, *picked)))


def best(flat: np.ndarray, count: int) -> np.ndarray:
    """Indices of the largest values of each row, the largest first, of equal ones the first."""
    if count < flat.shape[1]:
        index = np.argpartition(flat, flat.shape[1] - count, axis=1)[:, flat.shape[1] - count :]
        index.sort(axis=1)
    else:
        index = np.broadcast_to(np.arange(flat.shape[1]), (len(flat), min(count, flat.shape[1])))
    if len(flat) == 1:
        return index[:, np.argsort(-flat[0, index[0]], kind="stable")]
    order = np.argsort(-np.take_along_axis(flat, index, 1), axis=1, kind="stable")
    return np.take_along_axis(index, order, 1)


def log_add(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """log(exp(a) + exp(b)); -inf where both are."""
    return np.logaddexp(a, b)


def trace_back(steps: list[Step], order: np.ndarray, blank: int) -> tuple[np.ndarray, np.ndarray]:
    """Labels of the prefixes in the slots `order` [batch, beam] after the last step: [batch, beam, labels] and their numbers."""
    slot, path = order, []
    for step in reversed(steps):
        path.append(np.take_along_axis(step.tokens, slot, 1))
        slot = np.take_along_axis(step.parents, slot, 1)
    shape = (*order.shape, len(steps))
    tokens: Any = np.stack(path[::-1], 2) if path else np.zeros(shape, np.int64)
    real = tokens != blank
    lengths = real.sum(2)
    front = np.argsort(~real, axis=2, kind="stable")
    longest = int(lengths.max(initial=0))
    return np.take_along_axis(tokens, front, 2)[:, :, :longest], lengths.astype(np.int32)
