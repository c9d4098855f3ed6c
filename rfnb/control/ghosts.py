"""Ghosts: previews of the effect of a change, before it is made.

    ghost = Ghost(run, 1, "search", 0, [{"do": "force", "label": "EY", "only": True}], "EY at 1")
    ghost.on_change(tell)            # called in the thread that runs it
    ghost.told()["words"]            # "With EY at 1: P EY R AH SH UW T, -6.72, 4.95 nats worse."

A ghost reruns the function like a branch, with the same commands. It is not part of a tree of branches and has no
listeners, and only its search is recorded. To keep a ghost, execute its commands: the result is the same.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from rfnb.control.branch_tree import outcome_of
from rfnb.control.commands import changes_of, said
from rfnb.control.position import Position
from rfnb.control.rerun import once_more, start_unheard
from rfnb.control.run import Run
from rfnb.control.run_steps import StepPlace
from rfnb.core.errors import runtime_error
from rfnb.trace.beams import BeamHistory
from rfnb.trace.edits import aligned
from rfnb.trace.run_tree import Outcome
from rfnb.trace.trace import Trace

Around = Callable[[Run, Callable[[], Any]], Any]
_FEW = 4  # items in a message
_EQUAL = 0.005  # nats below which two results are equally likely


class Lane(NamedTuple):
    """The path of one hypothesis through a search.

    Attributes:
        row: The row of the search with its first label.
        parent: The parent slot; None at the beginning.
        before: Its score before the first label.
        labels, scores: Its labels from there on, and its score after each.
        ended: Whether it is complete.
        end: Its last position: (row, slot).
        fell: If its first label was forced but pruned: (step, nats behind the last survivor, if known).
    """

    row: int
    parent: int | None
    before: float
    labels: list[str]
    scores: list[float]
    ended: bool
    end: tuple[int, int]
    fell: tuple[int, float | None] | None = None


class Ghost:
    """A rerun with changes, for display only.

    Args:
        run: The run from which it branches.
        step, path, nth: The branching point, as in `Run.from_step`.
        then: Commands, as in `branch`; without any, it repeats the run.
        name: A short name of the changes: "EY at 1".
        seq: The sequence whose hypothesis is followed.
        rows: Whether to record attention too, to show its rows.

    Attributes:
        place: The step at which it branches.

    Raises:
        ValueError: If a command is invalid.
        IndexError: If the run has not reached that step.
    """

    def __init__(
        self,
        run: Run,
        step: int,
        path: str | None = None,
        nth: int | None = None,
        then: Sequence[Any] = (),
        name: str = "",
        seq: int = 0,
        rows: bool = False,
    ):
        self.name, self.seq, self.rows = name, seq, rows
        self.refused: str | None = None
        tick = run._holder.tick_of("from_step", step, path, nth)
        self.place = run._holder.places[tick]
        self._then, self._do = then, changes_of(then) if then else None
        once_only(run)
        self._told: list[Callable[[], None]] = []
        self._base = plain_end(run) if then else None
        self.run = quiet(run, tick, self._change if then else None, ["beams", "attention"] if rows else "beams")
        self.run._gate.on_change(self._tell)
        if self._base is not None:
            self._base.on_change(self._tell)
        if self.run.trace is not None:
            # Before its step there is nothing to report, and listeners notified now would learn of the first change later.
            steps = self.run._holder.steps
            self.run.trace.subscribe(
                lambda event: self._tell() if event.kind == "beams" and len(steps) > tick else None
            )

    def _change(self, at: Position) -> None:
        try:
            assert self._do is not None
            self._do(at)
        except Exception as error:
            self.refused = said(error)
            self.run._gate.stop()

    def on_change(self, tell: Callable[[], None]) -> None:
        """Call `tell`, in any thread, whenever `told` changes."""
        self._told.append(tell)

    def _tell(self) -> None:
        for tell in self._told:
            tell()

    def stop(self) -> None:
        """Stop it, since its answer is no longer needed."""
        self._told.clear()
        self.run._gate.stop()

    @property
    def is_over(self) -> bool:
        """Whether it has ended."""
        bases = [] if self._base is None or self.refused else [self._base.run]
        return all(run._gate.mode == "over" for run in [self.run, *bases])

    def lane(self) -> tuple[BeamHistory | None, Lane | None]:
        """The search, and the path of its best hypothesis so far."""
        history = history_at(self.run, self.place)
        if history is None or self.refused:
            return history, None
        return history, lane_of(history, self.seq, self.place.step, forced_in(self._then))

    def told(self) -> dict[str, Any]:
        """A description for a page: the lane so far and, at the end, the result in a sentence."""
        is_over = self.is_over  # before its search is read, which may end meanwhile
        history, lane = self.lane()
        told: dict[str, Any] = {"name": self.name, "over": is_over, "refused": self.refused}
        told["lane"] = None if lane is None else {**lane._asdict(), "seq": self.seq}
        if is_over and not self.refused:
            error, runs = self.run.error, [self.run, *([] if self._base is None else [self._base.run])]
            why = next((each._gate.reason for each in runs if each.state == "stopped"), "")
            if error is not None:
                told["refused"] = f"With {self.name} it fails: {type(error).__name__}: {str(error).splitlines()[0]}"
            elif why:
                told |= {"refused": f"The effect of {self.name} is unknown: {why.rstrip('.')}.", "lane": None}
            elif self._base is not None:
                told |= verdict(self.name, self._base.outcome, result_of(self.run, history), self.seq, lane)
        return told


def quiet(
    run: Run,
    tick: int,
    change: Callable[[Position], None] | None,
    kinds: str | Sequence[str] = "beams",
    around: Around | None = None,
) -> Run:
    """A rerun without listeners, with all changes up to a tick plus another change there.

    Args:
        around: Called in its thread with the run and the function to call, to compute something different from the run.
    """
    given = run._record
    record = {**(given if isinstance(given, Mapping) else {}), "kinds": kinds}
    made = once_more(run, f"{run.name} again", tick, record)
    if around is not None:
        fn = made._fn
        made._holder.leave_trunk()
        made._fn = lambda *args, **kwargs: around(made, lambda: fn(*args, **kwargs))
    if change is None:
        made._changes.update({at: list(done) for at, done in [*run._changes.items()]})
    else:
        made._changes[tick] = [change]

    def never_wait() -> None:
        if made._gate.mode == "paused":  # it has no view, so nobody could resume it
            made._gate.stop()

    made._gate.on_change(never_wait)
    return start_unheard(made, run)


def once_only(run: Run) -> None:
    """Refuse to rerun a function with side effects without permission.

    Raises:
        RuntimeError: If it changed objects outside of its loops.
    """
    left = [each.words for each in run._changed_by_itself.values() if each.counts]
    if left:
        raise runtime_error(
            f"{run.name}: a rerun would repeat its side effect on {left[0]} each time.",
            {"changes": ", ".join(left[:_FEW])},
            "The effect of a change is previewed only for functions without side effects. A branch runs it anyway:",
            f"branch = run.from_step({run.steps[-1][1]})" if run.steps else None,
        )


class _Base:
    """An unmodified run to the end, with which ghosts are compared; a finished run is used itself."""

    def __init__(self, run: Run):
        self.changes = len(run.changes)
        self.run = run if run.state == "done" else quiet(run, len(run.steps) - 1, None)
        self._place = last_place(run)
        self._told: set[Callable[[], None]] = set()

    def on_change(self, tell: Callable[[], None]) -> None:
        """Call `tell` at the end; a repeated registration is ignored."""
        if tell not in self._told and self.run._gate.mode != "over":
            self._told.add(tell)
            self.run._gate.on_change(tell)

    @property
    def outcome(self) -> Outcome:
        return result_of(self.run, history_at(self.run, self._place))


_bases: weakref.WeakKeyDictionary[Run, _Base] = weakref.WeakKeyDictionary()


def plain_end(run: Run) -> _Base:
    """The end that a run would reach, computed once for all its ghosts until the run is changed."""
    if run.state == "done":  # it is the run itself, and must not be kept alive for this
        _bases.pop(run, None)
        return _Base(run)
    there = _bases.get(run)
    if there is None or there.changes != len(run.changes):
        there = _bases[run] = _Base(run)
    return there


# -- results ---------------------------------------------------------------------------------------------------------------


def last_place(run: Run) -> StepPlace | None:
    """The last step that a run has started."""
    return run._holder.places[len(run.steps) - 1] if run.steps else None


def history_at(run: Run, at: StepPlace | None) -> BeamHistory | None:
    """The search whose choices are made in the loop of this step, or None."""
    trace = run.trace
    if trace is None or at is None:
        return None
    for found in trace.beams:
        for number in range(trace.beams.num_runs(found)):
            (first, *_) = trace.beams.events(found, number)
            place = run.place_of(first.entry)
            if place is not None and (place.path, place.nth) == (at.path, at.nth):
                return trace.beams[found, number]
    return None


def result_of(run: Run, history: BeamHistory | None) -> Outcome:
    """The result of a run: of the search in it, else of its function."""
    trace = run.trace if run.trace is not None else Trace()
    return outcome_of(run._result if history is None else history, trace)


def forced_in(then: Sequence[Any]) -> Any:
    """The label that commands force while the beam may drop it, or None."""
    asked = [one for one in then if isinstance(one, Mapping) and one.get("do") == "force" and not one.get("only")]
    return asked[0].get("label") if len(asked) == len(then) == 1 else None


def lane_of(history: BeamHistory, seq: int, step: int, forced: Any = None) -> Lane | None:
    """The path of the best hypothesis from a step of the loop to its end; for a forced label that is pruned, the path up to there."""
    if seq >= history.num_seqs or step not in history.loop_steps:
        return None
    first = history.loop_steps.index(step)
    best, fell = next(iter(history.nbest(seq)), None), None
    if forced is not None:
        end, fell = _end_of(history, seq, first, forced)
        best = best if fell is None else history.from_slot(seq, end[1], end[0])
    if best is None:
        return None
    way = history.path(seq, best.end[1], best.end[0])[first:]
    if not way:
        return None
    labels, scores = [], []
    for row, slot in way:
        token = int(history.steps[row]["tokens"][seq, slot])
        labels.append("" if token == history.blank else history.label(token, row))
        scores.append(round(float(history.steps[row]["scores"][seq, slot]), 5))
    if fell is None:
        scores[-1] = round(best.score, 5)  # including the score of its end
    parent = None if not first else int(history.steps[first]["parents"][seq, way[0][1]])
    before = 0.0 if parent is None else round(float(history.steps[first - 1]["scores"][seq, parent]), 5)
    return Lane(first, parent, before, labels, scores, best.ended, way[-1], fell)


def _end_of(
    history: BeamHistory, seq: int, first: int, forced: Any
) -> tuple[tuple[int, int], tuple[int, float | None] | None]:
    """The last position (row, slot) of a hypothesis with this label in a row, and where and by how much it was pruned."""
    fields = history.steps[first]
    slots = [
        slot
        for slot, token in enumerate(fields["tokens"][seq].tolist())
        if fields["scores"][seq, slot] > -np.inf and forced in (token, history.label(token, first))
    ]
    at = (first, slots[0] if slots else 0)
    for row in range(first, history.num_steps):
        fates = [history.fate(seq, slot, row) for slot in slots]
        if not slots or any(each.kind in ("last step", "ended and left") for each in fates):
            return at, None
        at = row, max(slots, key=lambda slot: history.steps[row]["scores"][seq, slot])
        following = [child for each in fates for child in each.children]
        if not following:
            margins = [-each.margin for each in fates if each.margin is not None]
            return at, (history.loop_steps[row + 1], round(min(margins), 5) if margins else None)
        slots = following
    return at, None


def verdict(name: str, plain: Outcome, changed: Outcome, seq: int = 0, lane: Lane | None = None) -> dict[str, Any]:
    """Compare a result with that of a change.

    Returns:
        Its labels with an edit mark for each ("=": unchanged), its score, the difference in nats (below 0: less
        likely), and a sentence with all of these.
    """
    labels, score = _of(changed, seq)
    before, other = _of(plain, seq)
    difference = None if score is None or other is None else round(score - other, 5)
    same = labels == before if labels or before else changed == plain
    said = [" ".join(labels) or changed.text or "no labels"]
    if score is not None:
        said.append(f"{score:.2f}".replace("-", "−"))
    if same:
        said.append("no change")
    elif difference is not None:
        far = f"{abs(difference):.2f} nats {'better' if difference > 0 else 'worse'}"
        said.append("as likely" if abs(difference) < _EQUAL else far)
    words = f"With {name}: {', '.join(said)}."
    if lane is not None and lane.fell is not None:
        step, behind = lane.fell
        far = "" if behind is None else f", {behind:.2f} nats behind the last hypothesis kept"
        words += f" {lane.labels[0]} was pruned at step {step}{far}."
    told = {"labels": list(labels), "score": score, "difference": difference, "same": same, "words": words}
    edits = aligned(before, labels)
    return told if same or edits is None else told | {"edits": edits.replace("d", "")}


def _of(outcome: Outcome, seq: int) -> tuple[tuple[str, ...], float | None]:
    labels = outcome.seqs[seq] if seq < len(outcome.seqs) else ()
    score = outcome.scores[seq] if seq < len(outcome.scores) else None
    return labels, None if score is None else round(float(score), 5)
