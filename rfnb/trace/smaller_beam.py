"""The search with a smaller beam, or with many smaller ones at once, from the history of a larger one.

As long as the smaller beam is a subset of the larger one, its candidates are those of its hypotheses, and the best of them are known.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from rfnb.core.errors import value_error
from rfnb.core.whole_number import whole
from rfnb.trace.beam_analysis import Verdict, slot_of, verdicts
from rfnb.trace.beam_fields import CandidateFate

if TYPE_CHECKING:
    from rfnb.trace.beams import BeamHistory, Hypothesis


@dataclass(frozen=True)
class SmallerBeam:
    """The hypotheses that a smaller beam would have kept.

    Attributes:
        slots: For each step the slots of the recorded beam that are in the smaller one, best first.
        exact_until: The first step in which it may have kept something else: what the recorded search has cut, or a hypothesis
            without the alignments that only the larger beam had. What follows is an estimate. None: all of it is exact. Of a
            choice that does not keep the best of all candidates (`keep_beams`, `sampling`, `cheating`) nothing is.
        best: The best hypothesis of the last step that was recorded, or that has left the beam complete, as far as known.
    """

    slots: tuple[tuple[int, ...], ...]
    exact_until: int | None
    best: Hypothesis | None


def smaller(history: BeamHistory, seq: int, beam_size: int) -> SmallerBeam:
    """See `BeamHistory.smaller`."""
    if (whole(beam_size) or 0) < 1:
        raise value_error(
            "BeamHistory.smaller: no size of a beam.",
            {"beam_size": repr(beam_size)},
            "At least one hypothesis must survive.",
        )
    slots: list[tuple[int, ...]] = []
    exact_until = None
    ends: list[tuple[int, int]] = []  # what has left before its end
    inside: set[int] | None = None  # of the step before; None: there was one hypothesis
    for step, fields in enumerate(history.steps):
        if not history.by_rank[step] and beam_size >= history.beam_size(step):
            slots.append(tuple(np.flatnonzero(fields["scores"][seq] > -np.inf).tolist()))
            inside = set(slots[-1])
            continue
        found = _above_threshold(history, step, _candidates(history, seq, step, inside))
        kept = [slot_of(fields, seq, item.token, item.parent) for item in found]
        left = history.left(seq, step)
        places = [place for place, slot in enumerate(kept) if slot not in left][:beam_size]  # what left takes no place
        going, gone = len(places), [place for place, slot in enumerate(kept[:beam_size]) if slot in left]
        places = sorted(places + gone)
        chosen, kept = [found[place] for place in places], [kept[place] for place in places]
        ends += [(step, slot) for slot in kept if slot is not None and slot in left]
        if exact_until is None and (
            None in kept
            or (going < beam_size and not _all_stored(history, seq, step, bool(found) and found[0].rank == 0))
            or not history.by_rank[step]
            or _merged_otherwise(history, seq, step, inside, chosen)
        ):
            exact_until = step
        slots.append(tuple(slot for slot in kept if slot is not None))
        inside = set(slots[-1])
    ends += [(len(slots) - 1, slot) for slot in slots[-1]] if slots else []
    final = [history.from_slot(seq, k, step) for step, k in ends]
    best = max(final, key=lambda item: item.rating(history.length_exponent), default=None)
    return SmallerBeam(tuple(slots), exact_until, best)


def _candidates(history: BeamHistory, seq: int, step: int, inside: set[int] | None) -> list[Verdict]:
    """The candidates that the smaller beam could keep. What was merged into a hypothesis that it does not have is one by itself."""
    found = [item for item in verdicts(history, seq, step) if inside is None or item.parent in inside]
    whole = [item for item in found if item.verdict in ("kept", "ended", "cut by rank", "below the threshold")]
    merged = [item for item in found if item.verdict == "merged"]
    if not merged:
        return whole
    assert inside is not None
    before = {history.prefix(seq, slot, step - 1) for slot in inside}
    return whole + [item for item in merged if (*history.prefix(seq, item.parent, step - 1), item.token) not in before]


def _above_threshold(history: BeamHistory, step: int, found: list[Verdict]) -> list[Verdict]:
    """Best first, without those that are too much worse than the best one of the smaller beam."""
    found = sorted(found, key=lambda item: item.rank)
    if history.threshold is None or not found:
        return found
    dtype = history.steps[step]["scores"].dtype.type
    least = dtype(found[0].score) - dtype(history.threshold)
    return [item for item in found if item.score >= least]


def _all_stored(history: BeamHistory, seq: int, step: int, has_first: Any) -> Any:
    """Whether no candidate is unknown to a beam, or to each of several, of which `has_first` says whether they have the best of all."""
    fields = history.steps[step]
    place = (fields["scores"][seq] == -np.inf).any()  # for more, and there was nothing else
    known = place and history.threshold is None
    stored = fields.get("cand_scores")
    if stored is not None and not known:  # else only what was kept is known
        parents = int((history.steps[step - 1]["scores"][seq] > -np.inf).sum()) if step else 1
        labels = history.num_labels[step]
        # What is kept comes first, so that -inf is last only if there is nothing else. With a threshold, what is below it follows.
        further = stored.shape[1] > fields["scores"].shape[1] or history.threshold is None
        known = further and stored[seq, -1] == -np.inf or labels is not None and stored.shape[1] >= parents * labels
    return known | (place & has_first)


def _merged_otherwise(
    history: BeamHistory, seq: int, step: int, inside: set[int] | None, chosen: list[Verdict]
) -> bool:
    """Whether something that is kept has other alignments in the smaller beam."""
    if "merged" not in history.steps[step] or inside is None:
        return False
    fields = history.steps[step]
    before = {history.prefix(seq, slot, step - 1) for slot in inside}
    for item in chosen:
        slot = slot_of(fields, seq, item.token, item.parent)
        if slot is None or (fields["merged"][seq, slot] and history.prefix(seq, slot, step)[:-1] not in before):
            return True
    return False


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
        scores, parents, slots, eligible = _all_candidates(fields, seq)
        inside = kept[-1] if kept else None
        there = eligible[None] if inside is None else inside[:, parents] & eligible
        best = np.argmax(there, 1)  # where there is one
        if history.threshold is not None:
            dtype = fields["scores"].dtype.type
            there = there & (scores[None] >= (scores[best] - dtype(history.threshold))[:, None])
        taken = there & (np.cumsum(there, 1) <= most)
        here = np.zeros((len(sizes), fields["scores"].shape[1]), bool)
        rows, places = np.nonzero(taken & (slots >= 0))
        here[rows, slots[places]] = True
        lost = (taken & (slots < 0)).any(1)
        open_ = (taken.sum(1) < most[:, 0]) & ~_all_stored(history, seq, step, there.any(1) & (best == 0))
        for index in np.flatnonzero(lost | open_).tolist():
            until[index] = step if until[index] is None else until[index]
        kept.append(here)
    return kept, until


def _all_candidates(fields: Mapping[str, Any], seq: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """The candidates of a step, best first: scores, parents, in which slot each is (-1: in none), and what a smaller beam could keep."""
    names = ("tokens", "parents", "scores")
    stored = "cand_tokens" in fields
    tokens, parents, scores = (fields[f"cand_{name}" if stored else name][seq] for name in names)
    scores = scores + np.float32(0)  # of bool, too
    order = np.lexsort((tokens, parents, -scores))  # ties as in the search
    tokens, scores = tokens[order], scores[order]
    eligible = scores > -np.inf
    parents = np.where(eligible, parents[order], 0)
    own = {name: fields[name][seq] for name in names}
    same = (tokens[:, None] == own["tokens"]) & (parents[:, None] == own["parents"])
    same &= own["scores"] > -np.inf
    if stored and "cand_verdict" in fields:
        why = fields["cand_verdict"][seq][order]
        eligible &= fields["cand_kept"][seq][order] | ((why != CandidateFate.BLOCKED) & (why != CandidateFate.MERGED))
    return scores, parents, np.where(same.any(1), same.argmax(1), -1), eligible


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
