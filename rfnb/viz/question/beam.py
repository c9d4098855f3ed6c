"""A question about a search: which continuations survive? Built from a recorded one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rfnb.core.errors import missing_key_error, value_error
from rfnb.trace.trace import Trace
from rfnb.viz.kinds import spec_of
from rfnb.viz.question.spec import QuestionStep
from rfnb.viz.question.spec import spec as question
from rfnb.viz.spec import Spec
from rfnb.viz.visible_text import visible

_ALL = 10_000  # candidates per step
_NEAR = 2e-3  # rounding tolerance of scores
_NO_PART = ("blocked", "merged")  # reasons of candidates that were not ranked


@dataclass
class Candidate:
    """A continuation of a lane: log probability of its label alone, and of the whole hypothesis."""

    lane: int
    label: str
    gain: float
    score: float
    kept: bool


def beam_spec(
    name: str,
    search: Any,
    *,
    steps: int = 3,
    first: int = 0,
    top: int = 5,
    seq: int = 0,
    path: str | None = None,
    asked: str | None = None,
) -> Spec:
    """The question which continuations survive in the beam, step by step.

    Args:
        search: A trace, a result of `rf.beam_search`, a history, a view of a search, or an argument of `rf.viz.beams`.
        steps: Maximal number of steps.
        first: The first step of the question.
        top: Minimal number of continuations shown per hypothesis: the best ones.
        seq: Index of the sequence in the batch.
        path: The path of the search, for a trace with several.

    Raises:
        ValueError: If the search does not keep the best sums, lacks such a step or sequence, or did not record cut candidates.
        KeyError: If the trace has no such search.
    """
    head = _beams(search, path).head
    if not 0 <= seq < len(head["seqs"]):
        raise _refused(
            f"there is no sequence {seq}", [("sequences", len(head["seqs"]))], "lesson.be_the_beam(name, trace, seq=0)"
        )
    one = head["seqs"][seq]
    listed = one["steps"][first : first + steps]
    if not listed or first < 0 or steps < 1:
        raise _refused(
            f"there are no steps from {first} on",
            [("steps", len(one["steps"]))],
            "lesson.be_the_beam(name, trace, steps=3)",
        )
    if one.get("sums") or one.get("arms"):
        what = "the scores are sums over alignments" if one.get("sums") else "these are two searches in one"
        raise _refused(
            what, [("search", head.get("title", ""))], "rf.beam_search(step, ...)    # one search over labels"
        )
    found = [_candidates(one["steps"], at, top, bool(one.get("parts"))) for at in range(first, first + len(listed))]
    digits = next((digits for digits in (2, 3, 4) if _tells(found, digits)), 5)
    prefixes = _prefixes(one["steps"])
    made = [
        _step(each, one["steps"], first + number, prefixes, digits, head.get("join", " "))
        for number, each in enumerate(found)
    ]
    best = "the best sums of the log probability of a hypothesis and that of its next label"
    return question("beam", name, asked or f"Pick the continuations that stay in the beam: {best}.", made, first=first)


def _beams(search: Any, path: str | None) -> Spec:
    if isinstance(search, Trace):
        known = list(search.beams)
        if (path is None and len(known) != 1) or (path is not None and path not in known):
            raise missing_key_error(
                "be_the_beam: which search of the trace?" if known else "be_the_beam: the trace has no search.",
                {"path": path, "searches": ", ".join(map(repr, known)) or "none"},
                "A trace has a search by its path.",
                f'lesson.be_the_beam(name, trace, path="{known[0]}")'
                if known
                else "with rf.record() as trace: rf.beam_search(...)",
            )
        search = search.beams[path if path is not None else known[0]]
    made = getattr(search, "spec", search)
    if not isinstance(made, Spec):
        fields = search if isinstance(search, Mapping) else None
        made = spec_of("beams", cuts=_ALL, **fields) if fields is not None else spec_of("beams", search, cuts=_ALL)
    if made.kind != "beams":
        raise _refused("this is no search", [("given", made.kind)], "lesson.be_the_beam(name, trace)")
    return made


def _candidates(steps: Sequence[Mapping[str, Any]], at: int, top: int, in_parts: bool) -> list[list[Candidate]]:
    """The continuations of each lane, by lane, best first."""
    step, before = steps[at], steps[at - 1] if at else None
    scores = [0.0] if before is None else list(before["scores"])
    by_lane: list[dict[str, Candidate]] = [{} for _ in scores]
    banned: set[tuple[int, str]] = set()

    def add(lane: int, label: str, score: float, kept: bool) -> None:
        lane = lane if before is not None else 0
        base = scores[lane]
        if base is None:
            return
        if label in by_lane[lane]:
            raise _refused(
                f"in step {at} two continuations of a lane have the same label",
                [("label", visible(label)), ("lane", lane)],
                "labels=    # of the search: texts that differ",
            )
        by_lane[lane][label] = Candidate(lane, label, score - base, score, kept)

    for label, parent, score in zip(step["tokens"], step["parents"], step["scores"]):
        if score is not None:
            add(int(parent), label, score, True)
    for cut in step["cuts"]:
        if cut.get("why") in _NO_PART:
            banned.add((int(cut["parent"]) if before is not None else 0, cut["token"]))
        elif cut["score"] is not None:
            add(int(cut["parent"]), cut["token"], cut["score"], False)
    following = {} if in_parts else step.get("next") or {}
    for lane, there in enumerate(by_lane):
        told = {str(label): float(gain) for label, gain, *_ in following.get("all") or following.get(str(lane)) or []}
        known = [(label, gain) for label, gain in told.items() if label in there]
        if any(abs(there[label].gain - gain) > _NEAR for label, gain in known) and not step.get("ends"):
            raise _refused(
                f"in step {at} a score is not the sum of the one before and a log probability",
                [("label", known[0][0]), ("step", at)],
                "rf.beam_search(step, ..., length_exponent=0)    # without lengths, rewards and factors",
            )
        going = before is None or not before["ended"][lane]
        if scores[lane] is not None and going and not step.get("ends"):
            for label, gain in told.items():
                if (lane, label) not in banned and label not in there:
                    add(lane, label, scores[lane] + gain, False)
    made = []
    for there in by_lane:
        every = sorted(there.values(), key=lambda one: -one.score)
        made.append(every[: max(top, sum(one.kept for one in every) + 1)])
    flat = [one for lane in made for one in lane]
    stay, go = [one.score for one in flat if one.kept], [one.score for one in flat if not one.kept]
    if not go:
        raise _refused(
            f"in step {at} nothing that was cut is recorded, so there is nothing to choose",
            [("step", at), ("stay", len(stay))],
            "with rf.record() as trace: ...    # or cand_tokens=, cand_parents=, cand_scores= of plain arrays",
        )
    if not stay or step.get("by_rank") is False or min(stay) < max(go) - _NEAR:
        raise _refused(
            f"in step {at} it did not keep the best",
            [("step", at), ("stay", len(stay))],
            "a beam search without sampling, groups and constraints",
        )
    return made


def _tells(found: Sequence[Sequence[Sequence[Candidate]]], digits: int) -> bool:
    """Whether sums of rounded numbers lead to the same ranking in each step as the exact ones."""
    for lanes in found:
        flat = [one for lane in lanes for one in lane]
        margin = min(one.score for one in flat if one.kept) - max(one.score for one in flat if not one.kept)
        if 1e-6 < margin <= 10.0**-digits:  # ties remain ties
            return False
    return True


def _prefixes(steps: Sequence[Mapping[str, Any]]) -> list[list[list[str]]]:
    """The labels of each hypothesis, by step and slot."""
    made: list[list[list[str]]] = []
    for at, step in enumerate(steps):
        row = []
        for label, parent in zip(step["tokens"], step["parents"]):
            before = made[at - 1][int(parent)] if at else []
            ended = at and steps[at - 1]["ended"][int(parent)]
            row.append(before if ended else [*before, label])
        made.append(row)
    return made


def _step(
    lanes: Sequence[Sequence[Candidate]],
    steps: Sequence[Mapping[str, Any]],
    at: int,
    prefixes: Sequence[Sequence[Sequence[str]]],
    digits: int,
    join: str,
) -> QuestionStep:
    def rounded(one: Candidate) -> float:
        return round(one.score, digits) + 0.0  # avoids -0

    before = steps[at - 1] if at else None
    flat = [one for lane in lanes for one in lane]
    kept = [rounded(one) for one in flat if one.kept]
    last, first_out = min(kept), max(rounded(one) for one in flat if not one.kept)
    made: dict[str, list[Any]] = {
        name: [] for name in ("rows", "names", "solution", "lanes", "labels", "texts", "after", "ties", "says")
    }
    for lane, candidates in enumerate(lanes):
        if not candidates:  # an empty lane, or a hypothesis that has left
            continue
        ended = before is not None and before["ended"][lane]
        base = 0.0 if before is None else round(before["scores"][lane], digits) + 0.0
        text = join.join(visible(label) for label in prefixes[at - 1][lane]) if at else "the start"
        name = f"lane {lane}: {text}" if at else text
        labels = ["complete" if ended else visible(one.label) for one in candidates]
        gains = [round(rounded(one) - base, digits) + 0.0 for one in candidates]  # so that the displayed numbers add up
        ranks = [1 + sum(rounded(other) > rounded(one) for other in flat) for one in candidates]
        sums = [_number(rounded(one), digits) for one in candidates]
        made["rows"].append(f"{name} ({_number(base, digits)})")
        made["names"].append(name)
        made["lanes"].append(lane)
        made["labels"].append(labels)
        made["solution"].append([int(one.kept) for one in candidates])
        made["ties"].append([int(last == first_out == rounded(one)) for one in candidates])
        made["texts"].append([f"{label} {_number(gain, digits)}" for label, gain in zip(labels, gains)])
        made["after"].append([f"{label} {total}, rank {rank}" for label, total, rank in zip(labels, sums, ranks)])
        made["says"].append(
            [
                f'"{label}" after "{text}": {_number(base, digits)} {"+" if gain > 0 else MINUS} {_number(abs(gain), digits)} = '
                f"{total}, rank {rank} of the {len(flat)} here: it {'stays' if one.kept else 'goes'}."
                for one, label, gain, total, rank in zip(candidates, labels, gains, sums, ranks)
            ]
        )
    right = (
        f"Right: the last that stays has {_number(last, digits)}, the best that goes {_number(first_out, digits)}: "
        f"a margin of {_number(round(last - first_out, digits) + 0.0, digits)}."
    )
    more = {name: made[name] for name in ("lanes", "labels", "texts", "after", "ties")} | {"size": len(kept)}
    return QuestionStep(made["rows"], made["names"], made["solution"], made["says"], right, more=more)


MINUS = "\u2212"


def _number(value: float, digits: int) -> str:
    return f"{value:.{digits}f}".replace("-", MINUS)


def _refused(what: str, operands: list[tuple[str, Any]], fix: str) -> Exception:
    return value_error(
        f"be_the_beam: {what}.",
        operands,
        "In each step the hypotheses stay that have the best sums of log probabilities.",
        fix,
    )
