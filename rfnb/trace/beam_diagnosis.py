"""Tells why a reference was not found: a search error (the model prefers it, the search lost it) or a model error."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from rfnb.core.errors import value_error
from rfnb.trace.beam_analysis import Verdict, slot_of, verdicts
from rfnb.trace.beam_labels import CombinedLabels, Labels, by_text, numbers_of

if TYPE_CHECKING:
    from rfnb.trace.beams import BeamHistory, Hypothesis

_ROUNDING = 1e-6


@dataclass(frozen=True)
class Diagnosis:
    """The reason why a reference was not found.

    Attributes:
        kind: "found", "search error" (the model prefers the reference, the search lost it), "model error" (the model prefers
            another one), or "unknown" (the reference fell and its score is not known).
        step: The step in which the reference fell out of the beam; None if it never did.
        margin: Its score minus that of the worst hypothesis kept in that step; None if unknown.
        verdict: Why it fell, as in Verdict.
        reference_score, best_score: The compared scores; the first is an upper bound if the reference fell and no score was given.
        text: All of this as a sentence.
    """

    kind: str
    step: int | None
    margin: float | None
    verdict: str | None
    reference_score: float | None
    best_score: float
    text: str


@dataclass
class _ReferenceSteps:
    """The steps through which a reference survived.

    Attributes:
        length: Length of the reference, up to its end.
        fell: The step in which it fell; None if it never did.
        margin, verdict: Margin and verdict of the continuation that was not kept.
        score: Score of the reference if it is complete, else an upper bound; None if unknown.
        complete: Whether the score is that of the whole reference.
    """

    length: int
    fell: int | None = None
    margin: float | None = None
    verdict: str | None = None
    score: float | None = None
    complete: bool = False


def diagnose(
    history: BeamHistory, seq: int, reference: Sequence[Any], score: float | None, length_exponent: float | None,
    best: Hypothesis | None,
) -> Diagnosis:  # fmt: skip
    """See `BeamHistory.diagnose`."""
    if score is not None and (
        isinstance(score, bool) or not isinstance(score, (int, float, np.number)) or np.isnan(score)
    ):
        raise value_error(
            "BeamHistory.diagnose: no score of the reference.",
            {"score": repr(score)},
            "It is the sum of the log probabilities that the model gives; None: as far as the search knows it.",
        )
    tokens = _tokens(history, reference)
    exponent = history.length_exponent if length_exponent is None else length_exponent
    collected = best is not None
    if best is None:
        best = result_of(history, seq, length_exponent)
    if best is None or (not tokens and history.blank is None):
        raise value_error(
            "BeamHistory.diagnose: there is nothing to compare.",
            [],
            "The search found nothing, or the reference is empty.",
        )
    best_score = best.rating(exponent)
    way = _way(history, seq, tokens) if history.blank is None else _way_over_alignments(history, seq, tokens)
    tokens = tokens[: way.length]
    if list(best.tokens) == tokens:
        return Diagnosis("found", None, None, None, best_score, best_score, "The best hypothesis is the reference.")
    if collected and way.complete:  # what was complete is a result, also if it fell out of the beam later
        way.fell = way.margin = way.verdict = None
    if score is not None:
        way.score, way.complete = score, True
    value = None if way.score is None else way.score / max(len(tokens), 1) ** exponent
    kind = "unknown"
    if value is not None and way.complete:
        kind = "search error" if value > best_score else "model error"
    elif value is not None and value <= best_score:  # an upper bound
        kind = "model error"
    text = _text(history, tokens, kind, way, value, best_score)
    return Diagnosis(kind, way.fell, way.margin, way.verdict, value, best_score, text)


def result_of(history: BeamHistory, seq: int, length_exponent: float | None = None) -> Hypothesis | None:
    """The result of the search. If complete hypotheses leave the beam, it is the best of them. A search that ranks by length at the
    end, like `generate` of transformers, also returns hypotheses cut at the limit in its last step.
    """
    found = history.nbest(seq, length_exponent=length_exponent)
    if history.rank_exponent is None and any(history.left(seq, step) for step in range(history.num_steps)):
        found = [item for item in found if item.ended]
    return found[0] if found else None


def _tokens(history: BeamHistory, reference: Sequence[Any]) -> list[int]:
    """The reference as token numbers of the history."""
    labels = history.labels
    if isinstance(labels, CombinedLabels):
        return [
            labels.combine(item) if isinstance(item, (tuple, list)) else _number(labels, item) for item in reference
        ]
    last = history.num_steps - 1
    return [_number(history.labels_of(min(step, last)), item) for step, item in enumerate(reference)]


def _number(labels: Labels, given: Any) -> int:
    """The number of one label."""
    size = None if labels is None else len(labels)
    (number,) = numbers_of([given], by_text(labels), size, lambda part: _no_label(labels, part))
    return number


def _no_label(labels: Labels, given: Any) -> ValueError:
    known = "none have a text" if labels is None else ", ".join(labels[:8]) + (", ..." if len(labels) > 8 else "")
    return value_error(
        "BeamHistory.diagnose: no such label.",
        {"reference": given if isinstance(given, str) else repr(given), "labels": known},
        "A reference has labels of the search, their numbers or texts.",
    )


def _way(history: BeamHistory, seq: int, tokens: list[int]) -> _ReferenceSteps:
    way = _ReferenceSteps(len(tokens))
    slot: int | None = None
    for step, fields in enumerate(history.steps[: len(tokens)]):
        found = slot_of(fields, seq, tokens[step], slot)
        if found is None:
            _fall(way, history, seq, step, lambda item: item.token == tokens[step] and slot in (None, item.parent))  # noqa: B023
            if way.score is None:
                way.score = _bound(history, seq, step, slot)
            way.score = way.score if _only_falls(history, seq) else None
            return way
        slot, way.score = found, float(fields["scores"][seq, found])
        if fields["ended"][seq, slot]:
            way.length, way.complete = step + 1, True
            return _after_the_end(way, history, seq, slot)
    if len(tokens) < history.num_steps:
        raise value_error(
            "BeamHistory.diagnose: the reference stops in the middle of hypotheses.",
            {
                "reference": " ".join(history.label(token, step) for step, token in enumerate(tokens)),
                "steps": f"{len(tokens)} of {history.num_steps}",
            },
            "It is the begin of what the search has found, but nothing ended there. A reference has the label that ends it:",
            "history.diagnose(seq, [*reference, end_label])",
        )
    way.complete = len(tokens) == history.num_steps  # cut by the limit, as the hypotheses are
    if not way.complete and not _only_falls(history, seq):
        way.score = None
    return way


def _after_the_end(way: _ReferenceSteps, history: BeamHistory, seq: int, slot: int) -> _ReferenceSteps:
    """Follow a complete reference until it falls out of the beam; if it left the beam complete, it never falls."""
    if slot in history.left(seq, way.length - 1):
        return way
    for step in range(way.length, history.num_steps):
        fields = history.steps[step]
        here = np.flatnonzero((fields["parents"][seq] == slot) & (fields["scores"][seq] > -np.inf))
        if not here.size:
            _fall(way, history, seq, step, lambda item: item.parent == slot)  # noqa: B023
            way.verdict = way.verdict or "cut by rank"
            return way
        slot = int(here[0])
        if not history.length_exponent:  # a choice that normalizes rescales what has ended
            way.score = float(fields["scores"][seq, slot])
    return way


def _fall(way: _ReferenceSteps, history: BeamHistory, seq: int, step: int, belongs: Any) -> None:
    """Record in which step the reference fell, and why."""
    way.fell = step
    lost = [item for item in verdicts(history, seq, step) if belongs(item)]
    best = max(lost, key=lambda item: item.score, default=None)
    if best is not None:
        way.margin, way.verdict = best.margin, best.verdict
        way.score = best.score if not way.complete else way.score
    elif not way.complete:
        way.score = None


def _bound(history: BeamHistory, seq: int, step: int, parent: int | None) -> float | None:
    """An upper bound for the score of a candidate that is not stored: the best ones are."""
    items = verdicts(history, seq, step)
    scores = [item.score for item in items if item.verdict not in ("kept", "ended")]
    if parent is not None:
        scores.append(float(history.steps[step - 1]["scores"][seq, parent]))
    return min(scores, default=None)


def _only_falls(history: BeamHistory, seq: int) -> bool:
    """True if scores only fall as hypotheses grow, like those of log probabilities."""
    before: np.ndarray | None = None
    for fields in history.steps:
        scores = fields["scores"][seq]
        real = scores > -np.inf
        grown = scores[real] - (0 if before is None else before[fields["parents"][seq][real]])
        if (grown > _ROUNDING).any():
            return False
        before = scores
    return True


def _way_over_alignments(history: BeamHistory, seq: int, tokens: list[int]) -> _ReferenceSteps:
    """Follow a reference over alignments: it has fallen when no prefix of it is left that could still become it."""
    way = _ReferenceSteps(len(tokens))
    goal = tuple(tokens)
    steps = _steps_of(history, seq)
    alive: dict[int, tuple[int, ...]] = {}
    for step in range(steps):
        before, alive = alive, {}
        fields = history.steps[step]
        for slot in np.flatnonzero(fields["scores"][seq] > -np.inf).tolist():
            prefix = history.prefix(seq, slot, step)
            missing = len(goal) - len(prefix)
            done = bool(fields["ended"][seq, slot])
            if prefix == goal[: len(prefix)] and 0 <= missing <= (0 if done else steps - 1 - step):
                alive[slot] = prefix
        if not alive:

            def leads_on(item: Verdict, before: dict[int, tuple[int, ...]] = before, step: int = step) -> bool:
                prefix = before.get(item.parent) if step else ()
                if prefix is None:
                    return False
                return item.token == history.blank or goal[len(prefix) : len(prefix) + 1] == (item.token,)

            _fall(
                way, history, seq, step, lambda item: leads_on(item) and item.verdict not in ("kept", "ended", "merged")
            )
            way.score = None  # other alignments would have added to it
            return way
    (slot,) = alive
    way.score, way.complete = history.from_slot(seq, slot, steps - 1).score, True
    return way


def _steps_of(history: BeamHistory, seq: int) -> int:
    """The number of steps until all hypotheses of a sequence have ended."""
    for step, fields in enumerate(history.steps):
        real = fields["scores"][seq] > -np.inf
        if fields["ended"][seq][real].all():
            return step + 1
    return history.num_steps


def _text(
    history: BeamHistory, tokens: Sequence[int], kind: str, way: _ReferenceSteps, value: float | None, best: float
) -> str:
    steps = history.num_steps
    if way.fell is not None:
        at = ""
        if history.blank is None:
            at = f", at {history.label(tokens[way.fell], way.fell) if way.fell < len(tokens) else 'its end'}"
        how = "not among the stored candidates"
        if way.margin is not None:
            how = f"{way.verdict}, {way.margin:+.3f} to the worst that was kept"
        first = f"The reference fell out of the beam in step {way.fell}{at}: {how}."
    elif not way.complete:
        first = f"The reference was in the beam until the search ended, after {steps} of its {len(tokens)} labels."
    else:
        first = "The reference was in the beam until the end."
    numbers = f"reference {value:.3f}, best {best:.3f}" if value is not None else f"best {best:.3f}"
    means = {
        "search error": "The model prefers the reference: a search error",
        "model error": "The model prefers another hypothesis: a model error",
        "unknown": "Give the model's own score of the reference to tell a search error from a model error",
    }[kind]
    return f"{first} {means} ({numbers})."
