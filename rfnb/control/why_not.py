"""why_not: why a search did not produce an expected output, and which changes would produce it, found by trying them.

    why = rf.why_not(run, "P AE R AH SH UW T")     # or of a recording, as far as its data allows
    print(why)                       # search error or model error, where it was pruned, label by label, and the repairs
    branch = why.branch(0)           # the first repair, as a branch of the run
    print(why.parts)                 # the attribution of the margin to letters and labels

The function of the run is rerun with the expected output forced, for its score; then with the fewest labels forced
after which the search finds the rest unaided, and with all attention weight on one position at the step where both
outputs diverge.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from importlib import import_module
from typing import Any

import numpy as np

from rfnb.control.ghosts import Around, history_at, last_place, once_only, plain_end, quiet
from rfnb.control.position import Change, Position
from rfnb.control.run import Run
from rfnb.control.run_steps import StepPlace
from rfnb.control.search_rewind import Found, SearchRewind
from rfnb.core.errors import index_error, runtime_error, type_error, value_error
from rfnb.search.beam_search import SearchResult
from rfnb.search.noted_searches import AlignedSearch, noted_searches
from rfnb.trace.beam_analysis import Verdict, slot_of, verdicts
from rfnb.trace.beam_diagnosis import Diagnosis, result_of
from rfnb.trace.beam_labels import by_text, numbers_of
from rfnb.trace.beams import BeamHistory, Hypothesis
from rfnb.trace.trace import Trace

_above: dict[str, str] = {}


def answers_by(*, parts: str, aligned: str) -> None:
    """Register implementations in a layer above, each as "module:function".

    Args:
        parts: Attributes a margin, given `Tries` and the expected labels.
        aligned: Answers about a search over alignments, given an `AlignedSearch`, the expected output, and the index of the sequence.
    """
    _above.update(parts=parts, aligned=aligned)


def _by_above(what: str, *args: Any) -> Any:
    module, _, function = _above[what].partition(":")
    return getattr(import_module(module), function)(*args)


@dataclass(frozen=True)
class WhyNotStep:
    """One label of both outputs, and how far the expected one is behind after it.

    Attributes:
        expected, found: Their labels; None after the end.
        expected_score, found_score: Their natural-log probabilities; None if unknown.
        behind: The score of the expected output minus that of the found one, up to here.
    """

    expected: str | None
    found: str | None
    expected_score: float | None
    found_score: float | None
    behind: float | None


@dataclass(frozen=True)
class Repair:
    """A change that produces the expected output.

    Attributes:
        kind: "label", "attention", "length" or "beam".
        words: A description of the change.
        step: The step of the loop before which it applies; None for an option of the search.
        tried: Whether it was tested and gave the expected output; else it is derived from the record of the search.
    """

    kind: str
    words: str
    step: int | None
    tried: bool
    _change: Change | None = None


class WhyNot:
    """The answer of `why_not`.

    Attributes:
        expected, found: Labels, with the end.
        kind: "found" (it was produced), "search error" (the model prefers the expected output, but the search pruned
            it), "model error" (the model prefers the found output), "not allowed" (a limit of the search forbids it),
            "impossible" (the model gives it probability 0), "too long" (the search makes fewer steps), "unknown" (it was
            not scored to its end: in a recording, or below a threshold).
        expected_score, found_score: Natural-log probabilities; the first may be None.
        fell: The step of the loop in which it was pruned, or None.
        rank, margin: At that step, the rank of its continuation among all candidates, from 1, and its score minus that
            of the worst survivor; None if it was forbidden.
        forbidden: If it is not allowed, the forbidden label, and the step of the loop.
        steps: Label by label.
        repairs: Changes that produce the expected output, the smallest first.
    """

    take_apart: Callable[[], Any] | None = None  # None if nothing can be rerun for it
    tried = "No length exponent produces it. Nothing else was tried: a recording cannot run again; rf.why_not(rf.run(fn), expected) can."

    def __init__(
        self,
        tries: Tries | None,
        kind: str,
        tokens: Sequence[int],
        both: tuple[Sequence[str], Sequence[str]],
        scores: tuple[float | None, float],
        fell: tuple[int | None, float | None, int | None],
        steps: Iterable[WhyNotStep],
        repairs: Iterable[Repair],
        forbidden: tuple[str, int] | None = None,
    ):
        self._tries, self._tokens, self.kind = tries, tokens, kind
        self.expected, self.found = map(tuple, both)
        self.expected_score, self.found_score = scores
        self.fell, self.margin, self.rank = fell
        self.forbidden = forbidden
        self.steps, self.repairs = list(steps), list(repairs)

    def branch(self, number: int = 0) -> Run:
        """Make one of `repairs` a branch of the run, which continues.

        Raises:
            IndexError: If there is no such repair.
            ValueError: If it is an option of the search, which is set where the search is called.
        """
        if not 0 <= number < len(self.repairs):
            raise index_error(
                f"why_not: no repair {number}.",
                {"repairs": len(self.repairs)},
                "Indices begin at 0.",
                "why.repairs",
            )
        repair = self.repairs[number]
        if repair._change is None:
            raise value_error(
                "why_not: this repair is an option of the search.",
                {"repair": repair.words},
                "A branch changes a step; the call of the search sets its options.",
            )
        assert repair.step is not None and self._tries is not None
        run, place = self._tries.run, self._tries.place
        return run.from_step(
            repair.step, repair._change, path=place.path, nth=place.nth, name=repair.words, paused=False
        )

    @cached_property
    def parts(self) -> Any:
        """The attribution of the margin, {step, cause}: positions of the source, earlier labels, and the baseline; all parts sum to it.

        It uses integrated gradients through the search, with embeddings interpolated from the mean of their table;
        `.occluded` has the result of occlusion, and `.disagreements` the differences. The function is rerun a hundred
        times or more; the result is cached.

        Raises:
            ValueError: If there is no margin (the output was produced, is not allowed or impossible), nothing to rerun, or no gradients.
        """
        if self.take_apart is not None and self.kind != "found":
            return self.take_apart()
        if self._tries is None or self.expected_score is None or self.kind == "found":
            raise value_error(
                "why_not: there is no margin to decompose.",
                {"kind": self.kind, "of": "a recording" if self._tries is None else self._tries.run.name},
                "A margin needs two outputs with scores, which a rerun computes.",
                "rf.why_not(rf.run(fn), expected).parts",
            )
        return _by_above("parts", self._tries, self._tokens)

    @property
    def text(self) -> str:
        """The answer in a sentence."""
        said, wanted = " ".join(self.found), " ".join(self.expected)
        if self.kind == "found":
            return f"The search found it: {wanted} ({self.found_score:.3f})."
        far = ""
        if self.expected_score is not None and self.found_score is not None:
            better, worse = sorted((self.expected_score, self.found_score), reverse=True)
            far = f" ({better:.3f} and {worse:.3f}: {better - worse:.2f} nats)"
        forbids = "it" if self.rank is None or self.forbidden is None else "{} at step {}".format(*self.forbidden)
        means = {
            "search error": f"The model prefers {wanted} to {said}{far}: the search lost it",
            "model error": f"The model prefers {said} to {wanted}{far}",
            "not allowed": f"{wanted} is not allowed: a limit of the search forbids {forbids}",
            "too long": f"{wanted} is longer than the search allows",
            "impossible": f"The model gives {wanted} the probability 0",
            "unknown": f"Whether the model prefers {said} to {wanted} is not known: it was pruned before its score was complete",
        }[self.kind]
        if self.fell is None:
            return f"{means}. It was in the beam until the end."
        if self.kind == "not allowed" and self.rank is None:
            return f"{means}. It was forbidden at step {self.fell}."
        rank = "" if self.rank is None else f" on rank {self.rank}"
        behind = (
            ""
            if self.margin is None or self.margin >= 0
            else f", {-self.margin:.2f} nats behind the last hypothesis kept"
        )
        return f"{means}. It was pruned at step {self.fell}{rank}{behind}."

    def __repr__(self) -> str:
        number = lambda value: "" if value is None else f"{value:.2f}"  # noqa: E731
        rows = [("step", "expected", "", "found", "", "behind")]
        for at, step in enumerate(self.steps):
            one, other = number(step.expected_score), number(step.found_score)
            rows.append((str(at), step.expected or "", one, step.found or "", other, number(step.behind)))
        left, right = (max(len(row[at]) for row in rows) for at in (1, 3))
        lines = [f"{n:>4}  {a:<{left}} {x:>6}  {b:<{right}} {y:>6} {z:>8}".rstrip() for n, a, x, b, y, z in rows]
        repairs = [f"{n}  {each.words}{'' if each.tried else '  (not tried)'}" for n, each in enumerate(self.repairs)]
        found = ["repairs:", *(f"  {line}" for line in repairs)] if repairs else []
        if not repairs and self.kind != "found":
            found = [self.tried]
        return "\n".join([self.text, *(lines if self.steps else []), *found])


def why_not(
    source: Run | Trace | BeamHistory | SearchResult | Any, expected: str | Sequence[Any], *, seq: int = 0
) -> WhyNot:
    """Explain why a search did not produce an expected output, label by label, and which changes would produce it, found by trying them.

    The function of a run is rerun in the background, some twenty times for a word, without leaving a branch. It tests
    the fewest labels forced in a row after which the search finds the rest unaided, and all attention weight on one
    position where both outputs diverge. A length exponent, and the smallest beam that keeps it where it was pruned, are
    derived from the record. For a recording nothing is rerun.

    Args:
        source: A run of a function with a search, from `rf.run`; a held run is continued to its end for this. Or a recording with one
            search, its history, or the result of `rf.beam_search`; or `rf.ctc_output`, `rf.transducer_output`, which are searched, also
            in a run.
        expected: Labels: a text with spaces between, or a list of texts and indices. The end label may be omitted.
        seq: Index in the batch.

    Returns:
        A `WhyNot`; `print` shows the answer.

    Raises:
        TypeError: If the source is of another type.
        IndexError: If there is no such sequence.
        ValueError: If there is no search, or several, nothing was found, or a label is unknown.
        RuntimeError: If the function has side effects, so that it is not rerun without permission.

    Source: search and model errors: Stahlberg and Byrne 2019, "On NMT Search Errors and Model Errors".
    """
    return answer(source, expected, seq, lambda tries: None)


def answer(source: Any, expected: str | Sequence[Any], seq: int, begun: Callable[[Tries], None]) -> WhyNot:
    """See `why_not`; `begun` is called with the running tests, which can be stopped."""
    asked = getattr(source, "__rfnb_why_not__", None)
    if asked is not None:
        answered: WhyNot = asked(expected, seq)
        return answered
    run = source if isinstance(source, Run) else None
    if run is not None and (aligned := _aligned_in(run)) is not None:
        of_above: WhyNot = _by_above("aligned", aligned, expected, seq)
        return of_above
    history, place = searched(run, "why_not") if run is not None else (_history_of(source), None)
    found = found_in(history, seq, "why_not")
    tokens = _tokens(history, seq, expected, found)
    tries = None if run is None or place is None else Tries(run, place, history, seq, found)
    if tries is not None:
        begun(tries)
    scored, is_short = history, False
    if tries is None or found.tokens == tuple(tokens):
        whole = next((item for item in history.finished(seq) if item.tokens == tuple(tokens)), None)
    else:
        made = tries.made(history.loop_steps[0], tries.change(0, tokens, len(tokens)))
        cut = [item.tokens for item in history.nbest(seq) if not item.ended]
        at_limit = len(tokens) > history.num_steps and history.blank is None
        if (at_limit or tuple(tokens[:-1]) in cut) and (
            made is None or made[0].tokens != tuple(tokens)
        ):  # by the step limit
            tokens = tokens[:-1]
            made = tries.made(history.loop_steps[0], tries.change(0, tokens, len(tokens)))
        if made is not None and history.blank is None and made[0].tokens[:-1][: len(tokens)] == tuple(tokens):
            tokens.append(_end_of(made[1], seq, expected, found))
            made = tries.made(history.loop_steps[0], tries.change(0, tokens, len(tokens)))
        is_short = made is not None and len(made[0].tokens) < len(tokens) and not made[0].ended
        whole, scored = made if made is not None and made[0].tokens == tuple(tokens) else (None, history)
    diagnosis = history.diagnose(seq, tokens, score=None if whole is None else whole.score)
    verdict = _where_it_fell(history, seq, tokens, diagnosis)
    texts = history.texts(tokens), history.texts(found.tokens)
    scores = found.score if diagnosis.kind == "found" else None if whole is None else whole.score, found.score
    why = None if verdict is None else verdict.verdict
    rank = None if verdict is None or why == "blocked" else verdict.rank + 1
    kind, forbidden = diagnosis.kind, None
    if whole is None and kind != "found" and (tries is not None or why == "blocked"):
        at = diagnosis.step if why == "blocked" else None
        if tries is not None and at is None and not is_short:
            at = _forbidden_at(tries, tokens)
        forbidden = None if at is None else (texts[0][at], at)
        kind = "not allowed" if forbidden is not None else "too long" if is_short else "impossible"
        if kind == "impossible" and history.threshold is not None:  # the forced output also falls below it
            kind = "unknown"
    own = found if diagnosis.kind == "found" else whole
    steps = _both(texts, None if own is None else _gains(scored, seq, own), _gains(history, seq, found))
    repairs: list[Repair] = []
    if why == "below the threshold" and verdict is not None and diagnosis.step is not None:
        behind = float(history.steps[diagnosis.step]["scores"][seq].max()) - verdict.score
        words = f"threshold={np.ceil(100 * behind) / 100:.2f} keeps it in step {diagnosis.step}"
        repairs.append(Repair("threshold", words, None, False))
    if kind == "too long":
        most = len(tokens) + all(item.tokens[-1] != tokens[-1] for item in history.finished(seq))
        repairs.append(Repair("steps", f"max_seq_len={most} allows its length", None, False))
    if kind not in ("found", "not allowed", "too long", "impossible"):
        if tries is not None:
            repairs += [*tries.labels(tokens, texts[0]), *tries.positions(tokens)]
        if kind == "model error" and scores[0] is not None:
            repairs += _exponents(history, seq, tokens, scores[0])
        if why == "cut by rank" and diagnosis.step is not None:
            repairs.append(Repair("beam", f"beam_size={rank} keeps it in step {diagnosis.step}", None, False))
    fell = diagnosis.step, diagnosis.margin, rank
    out = WhyNot(tries, kind, tokens, texts, scores, fell, steps, repairs, forbidden)
    if tries is not None:
        out.tried = (
            f"No single label{', position of an attention' if tries.attended else ''} or length exponent produces it."
        )
    return out


def _aligned_in(run: Run) -> AlignedSearch | None:
    """The last search over alignments in a run whose loops contain no other search; its function is rerun for that."""
    once_only(run)
    base = plain_end(run).run
    base._gate.until_over()
    if base.state != "done" or history_at(base, last_place(base)) is not None:
        return None
    if hasattr(base._result, "__rfnb_why_not__"):
        return AlignedSearch(base._result, None, 0, 8, {})
    noted: list[AlignedSearch] = []

    def around(made: Run, function: Callable[[], Any]) -> Any:
        with noted_searches() as own:
            try:
                return function()
            finally:
                noted.extend(own)

    quiet(base, len(base.steps) - 1, None, (), around)._gate.until_over()
    return noted[-1] if noted else None


def searched(run: Run, what: str) -> tuple[BeamHistory, StepPlace]:
    """The search in a run, run to its end."""
    once_only(run)
    base = plain_end(run)
    base.run._gate.until_over()
    place = last_place(base.run)
    history = history_at(base.run, place)
    if base.run.state == "failed":
        error = base.run.error
        raise value_error(
            f"{what}: the run failed.",
            {"run": run.name, "error": f"{type(error).__name__}: {error}".splitlines()[0]},
            "Only the result of a search can be explained. The full error:",
            "run.result",
        ) from error
    if history is None or place is None:
        raise value_error(
            f"{what}: there is no search in the last loop of this run.",
            {"run": run.name, "steps": len(base.run.steps)},
            "Candidates are only known if the run records:",
            'run = rf.run(fn, record={"model": model})',
        )
    return history, place


def found_in(history: BeamHistory, seq: int, what: str) -> Hypothesis:
    """The result of a search for a sequence.

    Raises:
        IndexError: If there is no such sequence.
        ValueError: If nothing was found.
    """
    if not 0 <= seq < history.num_seqs:
        raise index_error(
            f"{what}: no sequence {seq}.",
            {"sequences": history.num_seqs},
            "Indices begin at 0.",
            f"rf.{what}(run, {'expected, ' if what == 'why_not' else ''}seq=0)",
        )
    found = result_of(history, seq)
    if found is None:
        raise value_error(
            f"{what}: the search found nothing.", {"sequence": seq}, "There is no result to compare with."
        )
    return found


def _history_of(source: Any) -> BeamHistory:
    if isinstance(source, Trace):
        found = [*source.beams]
        if len(found) != 1:
            raise value_error(
                f"why_not: {'no search' if not found else 'several searches'} in this recording.",
                {"searches": ", ".join(found) or "none"},
                "Choose one of them:",
                f'rf.why_not(trace.beams["{found[0] if found else "search"}"], expected)',
            )
        return source.beams[found[0]]
    source = getattr(source, "history", source)
    if not isinstance(source, BeamHistory):
        raise type_error(
            "why_not: not a search.",
            {"given": type(source).__name__},
            "why_not takes a run, whose search it repeats with changes, or a recording.",
            "run = rf.run(fn); rf.why_not(run, expected)",
        )
    return source


def _tokens(history: BeamHistory, seq: int, expected: str | Sequence[Any], found: Hypothesis) -> list[int]:
    """The indices of the expected labels, with the end."""
    out = labels_in(history, expected, found, "why_not")
    end = next((item.tokens[-1] for item in history.finished(seq)), None)
    if end is not None and end not in out:
        out.append(end)
    if not out or (end in out and out.index(end) != len(out) - 1):
        raise value_error(
            "why_not: the expected output is not valid.",
            {"expected": repr(expected), "end": "none" if end is None else history.label(end, 0)},
            "It has at least one label, and no label after the end label.",
            f"rf.why_not(run, {' '.join(found.labels)!r})",
        )
    return out


def labels_in(history: BeamHistory, given: str | Sequence[Any], found: Hypothesis, what: str) -> list[int]:
    """The indices of labels of a search that are given as texts or indices, for `what`.

    Raises:
        ValueError: If a label is unknown.
    """
    known, count = by_text(history.labels_of(0)), history.num_labels[0]
    return numbers_of(
        given,
        known,
        count or None,
        lambda part: value_error(
            f"{what}: no such label.",
            {"label": repr(part), "labels": ", ".join(sorted(known, key=known.__getitem__)[:12]) or count},
            "Give labels of the search, by text or index.",
            f"rf.{what}(run, {' '.join(found.labels)!r})" if what == "why_not" else None,
        ),
    )


def _gains(history: BeamHistory, seq: int, item: Hypothesis) -> list[float]:
    """The contribution of each label of a hypothesis to its score."""
    return np.diff([0.0, *(float(history.steps[row]["scores"][seq, slot]) for row, slot in item.path)]).tolist()


class Tries:
    """Reruns of the function with changes, of which only the search is used."""

    def __init__(self, run: Run, place: StepPlace, history: BeamHistory, seq: int, best: Hypothesis):
        self.run, self.place, self.history, self.seq, self.best = run, place, history, seq, best
        self.whole = plain_end(run).run  # also if the run is held
        self._stopped, self._now = False, None
        self.attended = False  # whether there was attention to test

    _now: Run | None

    def change(self, first: int, tokens: Sequence[int], count: int) -> Change:
        """Force labels from one on, for the hypothesis that has the labels before it."""
        label, *then = tokens[first : first + count]
        before = " ".join(self.history.texts(tokens[:first]))
        return lambda at: at.force(label, *then, hypothesis=before if first else 0, seq=self.seq, only=True)

    def made(self, step: int, change: Change) -> Found | None:
        """The best result of the search with a change before a step, and the whole search; None if it was refused, or nothing survived."""
        refused: list[Exception] = []

        def do(at: Position) -> None:
            try:
                change(at)
            except (ValueError, LookupError, RuntimeError) as error:
                refused.append(error)
                raise

        again = self.again(step, do)
        history = history_at(again, self.place)
        if refused or again.state != "done" or history is None:
            return None
        best = result_of(history, self.seq)
        return None if best is None else (best, history)

    def again(
        self, step: int, change: Change | None, kinds: str | Sequence[str] = "beams", around: Around | None = None
    ) -> Run:
        """Rerun the function to its end, with a change before a step; options are those of `quiet`.

        Raises:
            RuntimeError: If this was stopped.
        """
        tick = self.whole._holder.tick_of("why_not", step, self.place.path, self.place.nth)
        if not self._stopped:
            made = self._now = quiet(self.whole, tick, change, kinds, around)
            if self._stopped:
                made._gate.stop()
            made._gate.until_over()
        if self._stopped:
            raise runtime_error(
                "why_not: the analysis was stopped.", {"run": self.run.name}, "A newer question replaced it."
            )
        return made

    def stop(self) -> None:
        """Stop the running test and start no other; called from another thread."""
        self._stopped = True
        if self._now is not None:
            self._now._gate.stop()

    def labels(self, tokens: Sequence[int], texts: Sequence[str]) -> Iterator[Repair]:
        """The fewest labels in a row after which the search finds the rest unaided."""
        first = _parts_at(tokens, self.best.tokens)
        for count in range(1, len(tokens) - first):  # forcing all of them would not be a repair
            step = self.history.loop_steps[first]
            made = self.made(step, self.change(first, tokens, count))
            if made is None:
                return
            if made[0].tokens == tuple(tokens):
                words = f"{' '.join(texts[first : first + count])} at {step}"
                yield Repair("label", words, step, True, self.change(first, tokens, count))
                return

    def positions(self, tokens: Sequence[int]) -> Iterator[Repair]:
        """All attention weight on one position, at the step where the outputs diverge."""
        first = _parts_at(tokens, self.best.tokens)
        step, known = self.history.loop_steps[first], dict[str, Any]()

        def look(at: Position) -> None:
            known.update(at.attention._known())

        self.made(step, look)
        self.attended |= bool(known)
        places = [
            (path, at) for path, each in known.items() for at in range(min(int(each.axis.extent), _MOST_POSITIONS))
        ]

        def focus(path: str, position: int) -> Change:
            return lambda at: at.attention[path].focus(position)

        changes = [focus(*place) for place in places]
        for (path, position), change, found in zip(places, changes, self._each(step, changes)):
            if found is not None and found[0].tokens == tuple(tokens):
                yield Repair("attention", f"{path} all on position {position} in step {step}", step, True, change)

    def _each(self, step: int, changes: Sequence[Change]) -> list[Found | None]:
        """The result of `made` for each of several changes before one step, rewinding the search where possible."""
        out, rewinds = list[Found | None](), len(changes) > _FEW
        while len(out) < len(changes):
            following = lambda: (step, changes[len(out)]) if len(out) < len(changes) else None  # noqa: E731
            rewinds = rewinds and SearchRewind(self, following, out.append).run()
            if not rewinds and len(out) < len(changes):
                out.append(self.made(step, changes[len(out)]))
        return out


_FEW = 2  # changes that are made without rewinding, which must be verified first
_MOST_POSITIONS = 64


def _parts_at(one: Sequence[int], other: Sequence[int]) -> int:
    """The first index at which two sequences differ."""
    same = [a == b for a, b in zip(one, other)]
    return same.index(False) if False in same else min(len(one), len(other)) - 1


def _end_of(history: BeamHistory, seq: int, expected: Any, found: Hypothesis) -> int:
    """The label that ends the expected output if nothing ended in the run: unknown until that is forced."""
    ends = (item.tokens[-1] for item in history.finished(seq))
    end = next(ends, None)
    if end is None:
        raise value_error(
            "why_not: the expected output is incomplete.",
            {"expected": repr(expected), "found": f"{len(found.tokens)} labels"},
            "No hypothesis ends there. Give as many labels as the result has, or append the end label.",
            f"rf.why_not(run, {' '.join(found.labels)!r})",
        )
    return end


def _forbidden_at(tries: Tries, tokens: Sequence[int]) -> int | None:
    """The index of the label that a limit forbids after the previous ones, for an output that cannot be forced; None if
    the model gives it probability 0.
    """
    for count in range(len(tokens) - 1, 0, -1):
        made = tries.made(tries.history.loop_steps[0], tries.change(0, tokens, count))
        if made is None:
            continue
        items = verdicts(made[1], tries.seq, count) if count < made[1].num_steps else []
        slot: int | None = None
        for step in range(count):
            slot = slot_of(made[1].steps[step], tries.seq, tokens[step], slot)
        blocked = [item.token for item in items if item.parent == slot and item.verdict == "blocked"]
        return count if tokens[count] in blocked else None
    return None


def _where_it_fell(history: BeamHistory, seq: int, tokens: Sequence[int], diagnosis: Diagnosis) -> Verdict | None:
    """The candidate that continued the expected output in the step in which it was pruned."""
    if diagnosis.step is None or diagnosis.step >= len(tokens):
        return None
    slot: int | None = None
    for step in range(diagnosis.step):
        slot = slot_of(history.steps[step], seq, tokens[step], slot)
    items = verdicts(history, seq, diagnosis.step)
    found = next((item for item in items if item.token == tokens[diagnosis.step] and slot in (None, item.parent)), None)
    if found is None:
        return None
    return replace(found, rank=sum(item.rank < found.rank for item in items if item.verdict != "blocked"))


def _both(
    texts: Sequence[Sequence[str]], expected: list[float] | None, found: list[float] | None
) -> Iterator[WhyNotStep]:
    one, other = texts
    behind = 0.0
    for at in range(max(map(len, texts))):
        own = expected[at] if expected is not None and at < len(expected) else None
        its = found[at] if found is not None and at < len(found) else None
        behind += (own or 0.0) - (its or 0.0)
        label = lambda labels, at=at: labels[at] if at < len(labels) else None  # noqa: E731
        yield WhyNotStep(label(one), label(other), own, its, None if expected is None else behind)


def _exponents(history: BeamHistory, seq: int, tokens: Sequence[int], score: float) -> Iterator[Repair]:
    """A length exponent with which it is the best of all known results."""
    others = {item.tokens: item.score for item in [*history.finished(seq), *history.nbest(seq)] if item.ended}
    others.pop(tuple(tokens), None)
    for exponent in np.arange(0.1, 3.05, 0.1):
        own = score / len(tokens) ** exponent
        if all(own > other / len(labels) ** exponent for labels, other in others.items()):
            yield Repair("length", f"length_exponent={exponent:.1f}, if it is in the beam at the end", None, False)
            break
