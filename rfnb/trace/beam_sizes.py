"""Smaller beams of many sizes at once: `BeamHistory.smaller` of each, in a few array operations per step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rfnb.trace.beam_fields import CandidateFate

if TYPE_CHECKING:
    from rfnb.trace.beams import BeamHistory


def kept_by(history: BeamHistory, seq: int, sizes: Sequence[int]) -> tuple[list[np.ndarray], list[int | None]]:
    """For each step what each smaller beam would have kept, bool `[size, slot]`, and for each size `SmallerBeam.exact_until`.

    Of a search that merges, samples, or whose complete hypotheses leave the beam, each size is worked out by itself.
    """
    if not _is_plain(history, seq):
        return _one_by_one(history, seq, sizes)
    most = np.asarray(sizes)[:, None]
    until: list[int | None] = [None] * len(sizes)
    kept: list[np.ndarray] = []
    for step, fields in enumerate(history.steps):
        found = _Candidates(fields, seq)
        inside = kept[-1] if kept else None
        there = found.eligible[None] if inside is None else inside[:, found.parents] & found.eligible
        best = np.argmax(there, 1)  # where there is one
        if history.threshold is not None:
            dtype = fields["scores"].dtype.type
            there = there & (found.scores[None] >= (found.scores[best] - dtype(history.threshold))[:, None])
        taken = there & (np.cumsum(there, 1) <= most)
        here = np.zeros((len(sizes), fields["scores"].shape[1]), bool)
        rows, places = np.nonzero(taken & (found.slots >= 0))
        here[rows, found.slots[places]] = True
        lost = (taken & (found.slots < 0)).any(1)
        open_ = (taken.sum(1) < most[:, 0]) & ~_all_stored(history, seq, step, there, best)
        for index in np.flatnonzero(lost | open_).tolist():
            until[index] = step if until[index] is None else until[index]
        kept.append(here)
    return kept, until


class _Candidates:
    """The candidates of a step, best first: what a smaller beam could keep of them, and in which slot each is (-1: in none)."""

    def __init__(self, fields: Mapping[str, Any], seq: int):
        names = ("tokens", "parents", "scores")
        stored = "cand_tokens" in fields
        tokens, parents, scores = (fields[f"cand_{name}" if stored else name][seq] for name in names)
        scores = scores + np.float32(0)  # of bool, too
        order = np.lexsort((tokens, parents, -scores))  # ties as in the search
        tokens, self.scores = tokens[order], scores[order]
        real = self.scores > -np.inf
        self.parents = np.where(real, parents[order], 0)
        own = {name: fields[name][seq] for name in names}
        same = (tokens[:, None] == own["tokens"]) & (self.parents[:, None] == own["parents"])
        same &= own["scores"] > -np.inf
        self.slots = np.where(same.any(1), same.argmax(1), -1)
        self.eligible = real
        if stored and "cand_verdict" in fields:
            why = fields["cand_verdict"][seq][order]
            self.eligible = real & (
                fields["cand_kept"][seq][order] | ((why != CandidateFate.BLOCKED) & (why != CandidateFate.MERGED))
            )


def _all_stored(history: BeamHistory, seq: int, step: int, there: np.ndarray, best: np.ndarray) -> np.ndarray:
    """For each size whether no candidate is unknown, as `beam_smaller` has it."""
    fields = history.steps[step]
    if (fields["scores"][seq] == -np.inf).any() and history.threshold is None:
        return np.ones(len(best), bool)
    first = there.any(1) & (best == 0) & (fields["scores"][seq] == -np.inf).any()
    stored = fields.get("cand_scores")
    if stored is None:
        return first
    parents = int((history.steps[step - 1]["scores"][seq] > -np.inf).sum()) if step else 1
    labels = history.num_labels[step]
    further = stored.shape[1] > fields["scores"].shape[1] or history.threshold is None
    rest = bool(stored[seq, -1] == -np.inf) and further
    if rest or (labels is not None and stored.shape[1] >= parents * labels):
        return np.ones(len(best), bool)
    return first


def _is_plain(history: BeamHistory, seq: int) -> bool:
    merges = any("merged" in fields for fields in history.steps)
    leaves = any(history.left(seq, step) for step in range(history.num_steps))
    return all(history.by_rank) and not merges and not leaves


def _one_by_one(history: BeamHistory, seq: int, sizes: Sequence[int]) -> tuple[list[np.ndarray], list[int | None]]:
    found = [history.smaller(seq, size) for size in sizes]
    kept = [np.zeros((len(sizes), history.beam_size(step)), bool) for step in range(history.num_steps)]
    for index, one in enumerate(found):
        for step, slots in enumerate(one.slots):
            kept[step][index, list(slots)] = True
    return kept, [one.exact_until for one in found]
