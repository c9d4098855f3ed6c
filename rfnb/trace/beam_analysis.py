"""What the history of a search tells: verdicts, a smaller beam, and why a reference was not found.

history.verdicts(seq=0, step=3)                # each candidate: kept, cut by rank with its margin, blocked, ...
history.smaller(seq=0, beam_size=2).best       # "with a beam of 2 you would have got ..."
history.diagnose(seq=0, reference=[5, 2, 0])   # search error or model error, at which step, by how much
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from rfnb.trace.beam_fields import VERDICTS

if TYPE_CHECKING:
    from rfnb.trace.beams import BeamHistory, Hypothesis


@dataclass(frozen=True)
class Verdict:
    """One candidate of a step.

    Attributes:
        token, label, parent, score: Of the candidate; parent is a slot of the step before.
        rank: Its place among the stored candidates by score, from 0.
        margin: Its score minus that of the worst hypothesis that was kept: below 0 if it was cut by rank.
        verdict: "kept", "ended" (kept, and complete now), "cut by rank", "below the threshold", "blocked" or "merged".
    """

    token: int
    label: str
    parent: int
    score: float
    rank: int
    margin: float
    verdict: str


@dataclass(frozen=True)
class Fate:
    """What became of a hypothesis after a step.

    Attributes:
        kind: "continued", "cut" (none of its continuations was kept), "ended and cut" (complete, and then fell out), "ended and left"
            (complete, and so it left the beam), or "last step".
        children: Slots of the next step that continue it.
        margin: If cut: of its best stored continuation, see Verdict; None if none is stored.
    """

    kind: str
    children: tuple[int, ...]
    margin: float | None = None


@dataclass(frozen=True)
class SmallerBeam:
    """What a smaller beam would have kept.

    Attributes:
        slots: For each step the slots of the recorded beam that are in the smaller one, best first.
        exact_until: The first step in which it would have kept something that the recorded search has cut, so that what follows
            is not known; None: all of it is exact.
        best: The best hypothesis of the last step, as far as known.
    """

    slots: tuple[tuple[int, ...], ...]
    exact_until: int | None
    best: Hypothesis | None


@dataclass(frozen=True)
class Diagnosis:
    """Why a reference was not found.

    Attributes:
        kind: "found", "search error" (the model prefers the reference, the search lost it), "model error" (the model prefers
            another one), or "unknown" (the reference fell and its score is not known).
        step: In which the reference fell out of the beam; None if it never did.
        margin: Its score minus that of the worst hypothesis that was kept in that step; None if not known.
        verdict: Why it fell, as in Verdict.
        reference_score, best_score: Compared; the first is an upper bound if the reference fell and no score was given.
        text: All of this as a sentence.
    """

    kind: str
    step: int | None
    margin: float | None
    verdict: str | None
    reference_score: float | None
    best_score: float
    text: str


def verdicts(history: BeamHistory, seq: int, step: int) -> list[Verdict]:
    """See `BeamHistory.verdicts`."""
    fields = history.steps[step]
    if "cand_tokens" not in fields:
        scores = fields["scores"]
        named = {"cand_tokens": fields["tokens"], "cand_parents": fields["parents"]}
        fields = {**fields, **named, "cand_scores": scores, "cand_kept": scores > -np.inf}
    scores = fields["cand_scores"][seq]
    order = np.argsort(-scores, kind="stable")
    ranks = np.empty(len(order), int)
    ranks[order] = np.arange(len(order))
    worst = _worst_kept(fields, seq)
    out = []
    for index, score in enumerate(scores):
        if score == -np.inf:
            continue
        token, parent = int(fields["cand_tokens"][seq, index]), int(fields["cand_parents"][seq, index])
        verdict, margin = _verdict(history, fields, seq, index, step), float(score) - worst
        out.append(Verdict(token, history.label(token), parent, float(score), int(ranks[index]), margin, verdict))
    return out


def _verdict(history: BeamHistory, fields: dict[str, Any], seq: int, index: int, step: int) -> str:
    if not fields["cand_kept"][seq, index]:
        code = int(fields["cand_verdict"][seq, index]) if "cand_verdict" in fields else 1
        return VERDICTS[code or 1]
    slot = _slot(fields, seq, int(fields["cand_tokens"][seq, index]), int(fields["cand_parents"][seq, index]))
    before = step > 0 and bool(history.steps[step - 1]["ended"][seq, fields["cand_parents"][seq, index]])
    return "ended" if slot is not None and fields["ended"][seq, slot] and not before else "kept"


def _worst_kept(fields: dict[str, Any], seq: int) -> float:
    scores = fields["scores"][seq]
    real = scores[scores > -np.inf]
    return float(real.min()) if real.size else -np.inf


def _slot(fields: dict[str, Any], seq: int, token: int, parent: int | None) -> int | None:
    """The slot of a kept hypothesis by its token and parent (None: any)."""
    same = (fields["tokens"][seq] == token) & (fields["scores"][seq] > -np.inf)
    if parent is not None:
        same &= fields["parents"][seq] == parent
    found = np.flatnonzero(same)
    return int(found[0]) if found.size else None


def fate(history: BeamHistory, seq: int, k: int, step: int) -> Fate:
    """See `BeamHistory.fate`."""
    history.path(seq, k, step)  # checks
    if k in history.left(seq, step):
        return Fate("ended and left", ())
    if step + 1 >= history.num_steps:
        return Fate("last step", ())
    fields = history.steps[step + 1]
    here = (fields["parents"][seq] == k) & (fields["scores"][seq] > -np.inf)
    children = tuple(np.flatnonzero(here).tolist())
    if children:
        return Fate("continued", children)
    margins = [item.margin for item in verdicts(history, seq, step + 1) if item.parent == k]
    kind = "ended and cut" if history.steps[step]["ended"][seq, k] else "cut"
    return Fate(kind, (), max(margins, default=None))


def smaller(history: BeamHistory, seq: int, beam_size: int) -> SmallerBeam:
    """See `BeamHistory.smaller`."""
    if beam_size < 1:
        raise ValueError(f"BeamHistory.smaller: beam_size {beam_size}.\nAt least one hypothesis goes on.")
    slots: list[tuple[int, ...]] = []
    inside: set[int] | None = None  # of the step before; None: there was one hypothesis
    exact_until = None
    ends: list[tuple[int, int]] = []  # what has left before its end
    for step, fields in enumerate(history.steps):
        found = [item for item in verdicts(history, seq, step) if item.verdict in ("kept", "ended", "cut by rank")]
        found = sorted((item for item in found if inside is None or item.parent in inside), key=lambda item: item.rank)
        kept = [_slot(fields, seq, item.token, item.parent) for item in found]
        left = history.left(seq, step)
        places = [place for place, slot in enumerate(kept) if slot not in left][:beam_size]  # what left takes no place
        going, gone = len(places), [place for place, slot in enumerate(kept[:beam_size]) if slot in left]
        kept = [kept[place] for place in sorted(places + gone)]
        ends += [(step, slot) for slot in kept if slot is not None and slot in left]
        stored = fields.get("cand_scores")
        all_stored = stored is None or bool((stored[seq] == -np.inf).any())
        if exact_until is None and (None in kept or (going < beam_size and not all_stored)):
            exact_until = step
        slots.append(tuple(slot for slot in kept if slot is not None))
        inside = set(slots[-1])
    ends += [(len(slots) - 1, slot) for slot in slots[-1]] if slots else []
    best = max((history.from_slot(seq, k, step) for step, k in ends), key=lambda item: item.score, default=None)
    return SmallerBeam(tuple(slots), exact_until, best)


def diagnose(
    history: BeamHistory, seq: int, reference: Sequence[int], score: float | None, length_exponent: float
) -> Diagnosis:
    """See `BeamHistory.diagnose`."""
    reference = [int(token) for token in reference]
    ranked = history.nbest(seq, length_exponent=length_exponent)  # what the search gives: not what fell out of the beam
    if not ranked or not reference:
        raise ValueError(
            "BeamHistory.diagnose: there is nothing to compare.\nThe search found nothing, or the reference is empty."
        )
    best = ranked[0]
    best_score = best.score / len(best.tokens) ** length_exponent
    if list(best.tokens) == reference:
        return Diagnosis("found", None, None, None, best_score, best_score, "The best hypothesis is the reference.")
    slot: int | None = None
    fell: tuple[int, float | None, str | None] | None = None
    known = None  # the score of the reference at its end, or where it fell
    for step, fields in enumerate(history.steps):
        if step >= len(reference):  # complete: it goes on as what it is
            here = np.flatnonzero((fields["parents"][seq] == slot) & (fields["scores"][seq] > -np.inf))
            if not history.steps[step - 1]["ended"][seq, slot] or slot in history.left(seq, step - 1):
                break  # a reference without its end: what follows is not it; or it left the beam complete
            if not here.size:
                fell = step, _margin_of(history, seq, step, None, slot), "cut by rank"
                break
            slot = int(here[0])
            continue
        found = _slot(fields, seq, reference[step], slot)
        if found is None:
            item = next(
                (
                    item
                    for item in verdicts(history, seq, step)
                    if item.token == reference[step] and slot in (None, item.parent)
                ),
                None,
            )
            known = None if item is None else item.score
            fell = step, None if item is None else item.margin, None if item is None else item.verdict
            break
        slot, known = found, float(fields["scores"][seq, found])
    complete = fell is None or fell[0] >= len(reference)
    if score is not None:
        known, complete = score, True
    value = None if known is None else known / len(reference) ** length_exponent
    if complete:
        assert value is not None
        kind = "search error" if value > best_score else "model error"
    else:  # scores only fall, so what is worse already stays worse
        kind = "model error" if value is not None and value <= best_score and length_exponent == 0 else "unknown"
    where, margin, verdict = (None, None, None) if fell is None else fell
    text = _text(history, reference, kind, fell, value, best_score)
    return Diagnosis(kind, where, margin, verdict, value, best_score, text)


def _margin_of(history: BeamHistory, seq: int, step: int, token: int | None, parent: int | None) -> float | None:
    found = [
        item.margin for item in verdicts(history, seq, step) if item.parent == parent and token in (None, item.token)
    ]
    return max(found, default=None)


def _text(
    history: BeamHistory, reference: Sequence[int], kind: str, fell: tuple[int, float | None, str | None] | None, value: float | None,
    best: float,
) -> str:  # fmt: skip
    parts = []
    if fell is not None:
        step, margin, verdict = fell
        token = history.label(reference[step]) if step < len(reference) else "its end"
        how = (
            f"{verdict}, {margin:+.3f} to the worst that was kept"
            if margin is not None
            else "not among the stored candidates"
        )
        parts.append(f"The reference fell out of the beam in step {step}, at {token}: {how}.")
    else:
        parts.append("The reference was in the beam until the end.")
    numbers = f"reference {value:.3f}, best {best:.3f}" if value is not None else f"best {best:.3f}"
    means = {
        "search error": "The model prefers the reference: a search error",
        "model error": "The model prefers another hypothesis: a model error",
        "unknown": "Give the model's own score of the reference to tell a search error from a model error",
    }[kind]
    return " ".join([*parts, f"{means} ({numbers})."])
