"""Compares two searches: the first step in which they keep different hypotheses, and whether that is more than a tie.

Hypotheses are matched by their labels. If two of them are equally good within the tolerance, rounding decides which comes first or is
cut: that is a tie, and so is everything that follows from it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from rfnb.trace.beams import BeamHistory
from rfnb.trace.diff_numbers import Tolerance
from rfnb.trace.diff_slots import labels_of
from rfnb.trace.edits import aligned
from rfnb.trace.lookup import SearchEvents

SAME, SWAP, TIE, SCORES, ORDER, OTHER = "same", "swap", "tie", "scores", "order", "other"
REAL = (SCORES, ORDER, OTHER)


Labels = tuple[str, ...]
Ties = tuple[set[Labels], set[Labels]]  # the labels of hypotheses with the same score, on both sides


class BeamEntry(NamedTuple):
    """A hypothesis in the beam of a step.

    Attributes:
        labels: All its labels.
        rank: From 0.
        score: natural-log probability, summed over steps.
    """

    labels: Labels
    rank: int
    score: float


@dataclass
class StepOfSearch:
    """One step of two searches, for one sequence.

    Attributes:
        step: Step of the loop.
        verdict: "same"; "swap": two equally good hypotheses are in another order; "tie": a hypothesis cut on one side is as good as
            one that was kept, or the step follows from such a tie; "scores": the same hypotheses with other scores; "order"; "other":
            other hypotheses.
        shared: The number of hypotheses that both have.
        sizes: The number of hypotheses of each.
        only_a, only_b: The hypotheses that the other one lacks. If the beams have different sizes, only the best of the larger one
            are compared, as many as the smaller one has.
        max_abs, units: The largest score difference of a shared hypothesis, absolute and in epsilons relative to its size.
        worst: That hypothesis, in a and in b.
    """

    step: int
    verdict: str
    shared: int
    sizes: tuple[int, int]
    only_a: tuple[BeamEntry, ...] = ()
    only_b: tuple[BeamEntry, ...] = ()
    max_abs: float = 0.0
    units: float = 0.0
    worst: tuple[BeamEntry, BeamEntry] | None = None


@dataclass
class BestOfBoth:
    """The best hypothesis of a sequence in both searches.

    Attributes:
        labels_a, labels_b: The labels; None if there are none.
        score_a, score_b: Natural-log probabilities.
        edits: Edits from a to b: "=" equal, "s" substituted, "i" inserted in b, "d" deleted; None if too long to align.
    """

    labels_a: Labels | None
    labels_b: Labels | None
    score_a: float
    score_b: float
    edits: str | None

    @property
    def same(self) -> bool:
        """True if the labels are equal."""
        return self.labels_a == self.labels_b


@dataclass
class SequenceDiff:
    """Two searches for one sequence.

    Attributes:
        seq_a, seq_b: Its index in both batches.
        steps: All steps that both ran for it.
        result: The results of both.
    """

    seq_a: int
    seq_b: int
    steps: list[StepOfSearch] = field(default_factory=list)
    result: BestOfBoth | None = None

    @property
    def first(self) -> StepOfSearch | None:
        """The first step that differs by more than a tie."""
        return next((step for step in self.steps if step.verdict in REAL), None)

    @property
    def tie(self) -> StepOfSearch | None:
        """The first tie that the two searches broke differently."""
        return next((step for step in self.steps if step.verdict in (SWAP, TIE)), None)


@dataclass
class SearchDiff:
    """Two runs of a search.

    Attributes:
        path, run: Path and run of the search in a.
        seqs: Each sequence that is compared.
        lengths: The number of steps of both.
    """

    path: str
    run: int
    seqs: list[SequenceDiff]
    lengths: tuple[int, int]


def search_diff(a: SearchEvents, b: SearchEvents, pairs: Sequence[tuple[int, int]], tolerance: Tolerance) -> SearchDiff:
    """Compare two runs of a search step by step.

    Args:
        pairs: The indices of the sequences in a and in b.
    """
    seqs = []
    for one, other in pairs:
        found = SequenceDiff(one, other)
        ties: Ties = set(), set()
        for index in range(min(a.history.num_steps, b.history.num_steps)):
            if _over(a.history, one, index) and _over(b.history, other, index):
                break
            found.steps.append(_step(a.history, b.history, (one, other), index, tolerance, ties))
        found.result = _result(a.history, b.history, one, other)
        seqs.append(found)
    return SearchDiff(a.path, a.run, seqs, (a.history.num_steps, b.history.num_steps))


def _over(history: BeamHistory, seq: int, index: int) -> bool:
    """True if all hypotheses had ended before this step."""
    if not index:
        return False
    fields = history.steps[index - 1]
    there = fields["scores"][seq] > -np.inf
    return not bool((there & ~fields["ended"][seq].astype(bool)).any())


def _step(
    a: BeamHistory, b: BeamHistory, seqs: tuple[int, int], index: int, tolerance: Tolerance,
    ties: Ties,
) -> StepOfSearch:  # fmt: skip
    mine, other = _entries(a, seqs[0], index), _entries(b, seqs[1], index)
    sizes = a.beam_size(index), b.beam_size(index)
    if sizes[0] != sizes[1]:  # the larger beam has more, and that is no difference
        mine, other = ({key: each[key] for key in list(each)[: min(sizes)]} for each in (mine, other))
    shared = [key for key in mine if key in other]
    only_a = [entry for key, entry in mine.items() if key not in other]
    only_b = [entry for key, entry in other.items() if key not in mine]
    found = StepOfSearch(a.loop_steps[index], SAME, len(shared), (len(mine), len(other)), tuple(only_a), tuple(only_b))
    for key in shared:
        one, two = mine[key], other[key]
        apart = 0.0 if one.score == two.score else abs(one.score - two.score)
        units = apart if apart == np.inf else apart / (tolerance.epsilon * max(abs(one.score), abs(two.score), 1.0))
        if units > found.units or found.worst is None:
            found.max_abs, found.units, found.worst = apart, units, (one, two)
    if only_a or only_b:
        near = lambda one, two: _are_tied(a, b, seqs, index, one, two, tolerance)  # noqa: E731
        found.verdict = _verdict_of_others(found, near, tolerance, ties)
    elif not found.units <= tolerance.units:
        found.verdict = SCORES
    else:
        turned = _turned([mine[key] for key in shared], [other[key] for key in shared])
        if turned:
            tied = all(_are_near(one.score, two.score, tolerance) for one, two in turned)
            found.verdict = SWAP if tied else ORDER
    return found


def _entries(history: BeamHistory, seq: int, index: int) -> dict[tuple[Labels, int], BeamEntry]:
    """The hypotheses after a step by their labels; duplicates (other alignments) get different numbers."""
    fields, found = history.steps[index], dict[tuple[Labels, int], BeamEntry]()
    slots = np.flatnonzero(fields["scores"][seq] > -np.inf).tolist()
    for rank, slot in enumerate(slots):
        labels, number = labels_of(history, seq, slot, index), 0
        while (labels, number) in found:
            number += 1
        found[labels, number] = BeamEntry(labels, rank, float(fields["scores"][seq, slot]))
    return found


def _verdict_of_others(
    found: StepOfSearch, near: Callable[[BeamEntry, BeamEntry], bool], tolerance: Tolerance,
    ties: Ties,
) -> str:  # fmt: skip
    """ "tie" if the other hypotheses are a tie or follow from one, else "other"."""
    new = [
        [entry for entry in only if not any(entry.labels[: len(tie)] == tie for tie in ties[side])]
        for side, only in enumerate((found.only_a, found.only_b))
    ]
    if any(ties) and (not new[0] or not new[1]):
        return TIE
    if found.units > tolerance.units or len(new[0]) != len(new[1]):
        return OTHER
    pairs = list(zip(new[0], new[1], strict=True))
    if not all(near(one, two) for one, two in pairs):
        return OTHER
    for one, two in pairs:
        ties[0].add(one.labels)
        ties[1].add(two.labels)
    return TIE


def _are_tied(
    a: BeamHistory,
    b: BeamHistory,
    seqs: tuple[int, int],
    index: int,
    one: BeamEntry,
    two: BeamEntry,
    tolerance: Tolerance,
) -> bool:
    """True if the hypotheses that only a keeps and those that only b keeps are equally good in both: each side has cut those of the
    other.
    """
    cut_a, cut_b = _score_of_cut(a, seqs[0], index, two.labels), _score_of_cut(b, seqs[1], index, one.labels)
    in_a = two.score if cut_a is None else cut_a
    in_b = one.score if cut_b is None else cut_b
    return _are_near(one.score, in_a, tolerance) and _are_near(in_b, two.score, tolerance)


def _score_of_cut(history: BeamHistory, seq: int, index: int, labels: Labels) -> float | None:
    """The score of a cut candidate; -inf if it is not among the stored best ones; None if candidates are unknown."""
    fields = history.steps[index]
    if "cand_tokens" not in fields:
        return None
    candidates = (fields[f"cand_{name}"][seq].tolist() for name in ("tokens", "parents", "scores"))
    for token, parent, score in zip(*candidates, strict=True):
        before = labels_of(history, seq, parent, index - 1) if index else ()
        label = () if token == history.blank else (history.label(token, index),)
        if score > -np.inf and (*before, *label) == labels:
            return float(score)
    return -np.inf


def _are_near(one: float, other: float, tolerance: Tolerance) -> bool:
    """True if two hypotheses are equally good, with each score off by at most the tolerance."""
    if not np.isfinite(one - other):
        return False
    return abs(one - other) <= 2 * tolerance.relative * max(abs(one), abs(other), 1.0)


def _turned(mine: Sequence[BeamEntry], other: Sequence[BeamEntry]) -> list[tuple[BeamEntry, BeamEntry]]:
    """Neighbours in a that have the opposite order in b."""
    rank = {entry.rank: two.rank for entry, two in zip(mine, other)}
    in_order = sorted(mine, key=lambda entry: entry.rank)
    return [(one, two) for one, two in zip(in_order, in_order[1:]) if rank[one.rank] > rank[two.rank]]


def _result(a: BeamHistory, b: BeamHistory, one: int, other: int) -> BestOfBoth:
    best = []
    for history, seq in ((a, one), (b, other)):
        top = history.nbest(seq)
        best.append((top[0].labels, top[0].score) if top else (None, float("nan")))
    (labels_a, score_a), (labels_b, score_b) = best
    return BestOfBoth(labels_a, labels_b, score_a, score_b, aligned(labels_a or (), labels_b or ()))
