"""The prefixes of a search over alignments, on the host: different alignments of the same labels are one hypothesis.

In each step a prefix stays as it is (a blank, or a label repeated) or grows by a label. Two candidates are the same prefix only if one
stays and the other one, its beginning, grows by its last label: then their probabilities are added.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from rfnb.trace.beam_fields import CandidateFate

NEVER = -np.inf
_MANY = 2048  # values of a row
_FACTOR = np.int64(6364136223846793005)  # of Knuth's MMIX generator
# Keys of slots without a prefix, and of what would be before the empty prefix: not of any prefix.
_DEAD, _BEFORE = np.int64(-0x7EADBEEF7EADBEEF), np.int64(-0x1234567812345678)


@dataclass
class PrefixStep:
    """The decisions of one step; arrays [batch, beam] but the candidates.

    Attributes:
        tokens: The label that was added, or the blank.
        parents: Slot in the beam before.
        scores: Of the prefixes, best first.
        merged: Whether the probability of a second candidate was added. Only if asked for, as the candidates.
        candidates: cand_tokens, cand_parents, cand_scores, cand_kept, cand_verdict [batch, candidate]. What was merged is part of
            another hypothesis.
        parts: Further fields [batch, beam], see prefix_parts.py.
        next: The best labels of each hypothesis before the step, and their log probabilities, [batch, hypothesis, label]; of all
            hypotheses alike [batch, label].
    """

    tokens: np.ndarray
    parents: np.ndarray
    scores: np.ndarray
    merged: np.ndarray | None = None
    candidates: dict[str, np.ndarray] | None = None
    parts: dict[str, np.ndarray] = field(default_factory=dict)
    next: tuple[np.ndarray, np.ndarray] | None = None


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
        self,
        scores: np.ndarray,
        merged: tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray],
        num_candidates: int = 0,
        allowed: np.ndarray | None = None,
    ) -> tuple[PrefixStep, np.ndarray, np.ndarray]:
        """The best candidates go on.

        Args:
            scores: [batch, beam, labels]; at the blank that of the prefix that stays, merged ones -inf.
            merged: Slots of children, slots and labels of what was merged into them, and its scores.
            num_candidates: How many to report besides.
            allowed: bool, like scores; None: all.

        Returns:
            The step; flat slots [batch, beam] of the parents; bool [batch, beam]: which have grown.
        """
        batch, size, blank = self.batch, self.beam_size, self.blank
        labels = scores.shape[2]
        free = flat = scores.reshape(batch, size * labels)  # a view, or a copy: it is only read
        if allowed is not None:
            flat = np.where(allowed.reshape(flat.shape), flat, NEVER)
        index = best(flat, size)
        self.scores = flat.take(index + self.first_row * labels)
        parents, tokens = np.divmod(index, labels)
        grown = tokens != blank
        rows = parents + self.first_row
        key = self.key.take(rows)
        self.key_before = np.where(grown, key, self.key_before.take(rows))
        self.key = np.where(grown, key * _FACTOR + (tokens + 1), key)
        self.last = np.where(grown, tokens, self.last.take(rows))
        # They must not be the beginning of another one, nor twice the same prefix.
        if self.scores.min(initial=0) == NEVER:
            dead = self.scores == NEVER
            self.key[dead], self.key_before[dead] = _DEAD, _BEFORE
        step = PrefixStep(tokens, parents, self.scores)
        if num_candidates:
            into = np.zeros(batch * size, bool)
            into[merged[0][merged[3] > NEVER]] = True
            step.merged = into.take(rows) & ~grown
            step.candidates = self._candidates(flat, free, index, labels, merged, num_candidates)
        return step, rows, grown

    def _candidates(
        self,
        flat: np.ndarray,
        free: np.ndarray,
        kept: np.ndarray,
        labels: int,
        merged: tuple[np.ndarray, ...],
        count: int,
    ) -> dict[str, np.ndarray]:
        """The candidates that were kept, then the best others, the merged ones with what they have brought."""
        others, is_merged = free.copy(), np.zeros(flat.shape, bool)
        np.put_along_axis(others, kept, NEVER, 1)
        _, slots, tokens, brought = merged
        where = slots // self.beam_size, slots % self.beam_size * labels + tokens
        others[where], is_merged[where] = brought, True  # a slot without prefix may have the place of a merged one
        further = best(others, min(max(count - kept.shape[1], 0), flat.shape[1]))
        scores = np.take_along_axis(flat, kept, 1)
        verdict = np.where(np.take_along_axis(is_merged, further, 1), CandidateFate.MERGED, CandidateFate.CUT)
        if free is not flat:
            blocked = (flat == NEVER) & (free > NEVER)
            verdict = np.where(np.take_along_axis(blocked, further, 1), CandidateFate.BLOCKED, verdict)
        parents, tokens = np.divmod(np.concatenate([kept, further], 1), labels)
        names = ("cand_tokens", "cand_parents", "cand_scores", "cand_kept", "cand_verdict")
        values = (
            tokens,
            parents,
            np.concatenate([scores, np.take_along_axis(others, further, 1)], 1),
            np.concatenate([scores > NEVER, np.zeros(further.shape, bool)], 1),
            np.concatenate([np.where(scores > NEVER, CandidateFate.KEPT, CandidateFate.CUT), verdict], 1),
        )
        found = dict(zip(names, values))
        if free is not flat:
            found["cand_by"] = (found["cand_verdict"] == CandidateFate.BLOCKED).astype(np.int64)
        return found


def best(flat: np.ndarray, count: int) -> np.ndarray:
    """Indices of the largest values of each row, the largest first, of equal ones the first."""
    rows, width = flat.shape
    if not 0 < count < width:
        return np.argsort(-flat, axis=1, kind="stable")[:, :count]
    if width > _MANY:
        return np.array([_best_of_many(row, count) for row in flat]).reshape(rows, count)
    # One more than wanted: if it equals the last one that is wanted, there may be others that come before it.
    index = np.argpartition(flat, width - count - 1, axis=1)[:, width - count - 1 :]
    index.sort(axis=1)
    offset = np.arange(0, rows * width, width)[:, None]
    values = flat.take(index + offset)
    order = np.argsort(-values, axis=1, kind="stable")
    at = order + np.arange(0, rows * (count + 1), count + 1)[:, None]
    index, values = index.take(at), values.take(at)
    tied = (values[:, -1] == values[:, -2]) & (values[:, -1] > NEVER)
    if tied.any():
        index[tied] = np.argsort(-flat[tied], axis=1, kind="stable")[:, : count + 1]
    return index[:, :count]


def best_labels(frame: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Indices and values of the largest along the last axis, the largest first."""
    flat = frame.reshape(-1, frame.shape[-1])
    index = best(flat, min(count, flat.shape[1]))
    shape = (*frame.shape[:-1], index.shape[1])
    return index.reshape(shape), np.take_along_axis(flat, index, 1).reshape(shape)


def _best_of_many(row: np.ndarray, count: int) -> np.ndarray:
    """`best` of one row. The best values of blocks are values too, so `count` of them bound what is wanted: passes over all values that
    only compare are much quicker than a partition."""
    size = len(row) // min(16 * count, len(row))
    whole = row[: len(row) // size * size].reshape(-1, size).max(1)
    limit = np.partition(whole, len(whole) - count)[len(whole) - count]
    index = np.flatnonzero(row >= limit)
    return index[np.argsort(-row[index], kind="stable")[:count]]


def trace_back(steps: list[PrefixStep], order: np.ndarray, blank: int) -> tuple[np.ndarray, np.ndarray]:
    """Labels of the prefixes in the slots `order` [batch, beam] after the last step: [batch, beam, labels] and their numbers."""
    rows = np.arange(len(order))[:, None]
    slot, tokens = order, np.zeros((len(steps), *order.shape), np.int64)
    for index in range(len(steps) - 1, -1, -1):
        tokens[index], slot = steps[index].tokens[rows, slot], steps[index].parents[rows, slot]
    real = tokens != blank
    place, lengths = real.cumsum(0) - 1, real.sum(0)
    out = np.zeros((*order.shape, int(lengths.max(initial=0))), np.int64)
    frame, seq, hypothesis = real.nonzero()
    out[seq, hypothesis, place[frame, seq, hypothesis]] = tokens[frame, seq, hypothesis]
    return out, lengths.astype(np.int32)
