"""The prefixes of a search over alignments, on the host: different alignments of the same labels are one hypothesis.

In each step a prefix stays (a blank, or a repeated label) or grows by a label. Two candidates are the same prefix only if one stays and
the other, its parent, grows by its last label; then their probabilities are added.
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
    """The decisions of one step; arrays [batch, beam] except for the candidates.

    Attributes:
        tokens: The label that was added, or the blank.
        parents: Slot in the previous beam.
        scores: Scores of the prefixes, best first.
        merged: Whether the probability of a second candidate was added. Only on request, like the candidates.
        candidates: cand_tokens, cand_parents, cand_scores, cand_kept, cand_verdict [batch, candidate]. A merged candidate is part of
            another hypothesis.
        parts: Further fields [batch, beam], see prefix_parts.py.
        next: The best labels of each hypothesis before the step with their log probabilities, [batch, hypothesis, label]; [batch,
            label] if they are the same for all hypotheses.
    """

    tokens: np.ndarray
    parents: np.ndarray
    scores: np.ndarray
    merged: np.ndarray | None = None
    candidates: dict[str, np.ndarray] | None = None
    parts: dict[str, np.ndarray] = field(default_factory=dict)
    next: tuple[np.ndarray, np.ndarray] | None = None


class PrefixBeam:
    """The surviving prefixes. A prefix is identified by a 64-bit key computed from its labels; a collision within a search is less
    likely than a memory error.

    Args:
        batch: Number of sequences.
        beam_size: Prefixes kept for each sequence.
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
        """Flat slots of a prefix and its parent, where both are in the beam, and the label between them."""
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
        """Keep the best candidates.

        Args:
            scores: [batch, beam, labels]; the entry of the blank is for the prefix that stays; merged ones are -inf.
            merged: Slots of children, with slots, labels and scores of the candidates merged into them.
            num_candidates: How many candidates to report as well.
            allowed: bool, like scores; None: all.

        Returns:
            The step; flat slots [batch, beam] of the parents; bool [batch, beam]: the prefixes that have grown.
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
        """The kept candidates, then the best others, and the merged ones with their contributions."""
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
    """Indices of the largest values of each row, largest first; ties are broken by order."""
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
    """Indices and values of the largest entries along the last axis, largest first."""
    flat = frame.reshape(-1, frame.shape[-1])
    index = best(flat, min(count, flat.shape[1]))
    shape = (*frame.shape[:-1], index.shape[1])
    return index.reshape(shape), np.take_along_axis(flat, index, 1).reshape(shape)


def _best_of_many(row: np.ndarray, count: int) -> np.ndarray:
    """`best` for one row. The maxima of blocks are values too, so the `count` largest of them bound the result: passes that only
    compare are much faster than a partition.
    """
    size = len(row) // min(16 * count, len(row))
    whole = row[: len(row) // size * size].reshape(-1, size).max(1)
    limit = np.partition(whole, len(whole) - count)[len(whole) - count]
    index = np.flatnonzero(row >= limit)
    return index[np.argsort(-row[index], kind="stable")[:count]]


def trace_back(steps: list[PrefixStep], order: np.ndarray, blank: int) -> tuple[np.ndarray, np.ndarray]:
    """The labels [batch, beam, labels] of the prefixes in slots `order` [batch, beam] after the last step, and their number."""
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
