"""Reruns a run's function up to a step: for branches, for states that were not kept, and for reading past states."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, cast

from rfnb.control.holder import Trunk
from rfnb.control.position import Position, PositionStates
from rfnb.control.state_history import KeptSpan, StateHistory, States
from rfnb.control.surroundings import in_words
from rfnb.core.errors import runtime_error, value_error
from rfnb.rec.selections import LabelDecision
from rfnb.trace.probe import stop_hearing

if TYPE_CHECKING:
    from rfnb.control.run import Run


def once_more(
    run: Run, name: str | None, end: int, record: bool | Mapping[str, Any], kept: StateHistory | None = None
) -> Run:
    """A run of the same function, with all changes before a tick; it has not begun."""
    around = run._surroundings.differences() if run._surroundings is not None else {}
    words = in_words(around, run._changed_by_itself)
    is_other = kept is None and any(each.counts for each in around.values())
    trunk = Trunk(run._holder.steps, run._holder.kept, end, words, is_other, run._holder.traces)
    other = type(run)(run._fn, run._args, run._kwargs, name, trunk, record, kept, run._turns, run._modules)
    other._numbers = run._numbers
    other._changes.update({at: list(done) for at, done in [*run._changes.items()] if at < end})
    return other


def start_unheard(again: Run, run: Run) -> Run:
    """Start a run derived from another one at its beginning, without listeners."""
    context, modes = run._begins
    context = context.copy()
    context.run(stop_hearing)
    return again._start(context, modes)


def states_at(run: Run, tick: int) -> States:
    """The states before a step that a run has begun: the kept ones, or recomputed by a quiet branch without listeners.

    Raises:
        RuntimeError: If they were not kept, and the function does not repeat its computation.
    """
    found = run._holder.kept.at(tick)
    if found is not None:
        return found
    while run.parent is not None and tick < run._holder.kept.begin:
        run = run.parent
    kept, steps = run._holder.kept, run._holder.steps
    span = kept.around(tick, len(steps))
    # up to where it shows whether it was the same
    end = next((each for each in kept.ticks() if each >= span[-1]), span[-1])
    quiet = once_more(run, f"{run.name} again", end, False, KeptSpan(span))
    quiet._changes[end] = [lambda at: quiet._gate.stop()]
    start_unheard(quiet, run)
    quiet._gate.until_standing()
    quiet.stop()
    made = cast(KeptSpan, quiet._holder.kept).states
    if quiet.drifted or tick not in made:
        raise not_made_again(*steps[tick], quiet.drifted or f"{type(quiet._error).__name__}: {quiet._error}")
    kept.put(made)
    return made[tick]


class HeldPast:
    """Read-only view of the state just before a past step.

    Args:
        states: States by dotted path.
        step: Number of the step.
    """

    def __init__(self, states: Mapping[str, Any], step: int):
        self._states, self._step = states, step

    def states_now(self) -> Mapping[str, Any]:
        """The states before it."""
        return self._states

    def edit(self, name: str, value: Any) -> NoReturn:
        """Refuse the change."""
        raise value_error(
            f'look: state "{name}" belongs to a past step.',
            {"step": self._step},
            "The past cannot be changed. A branch can continue differently from there:",
            f"branch = run.from_step({self._step})",
        )

    def decide(self, decided: Sequence[LabelDecision]) -> NoReturn:
        """Unused: `look` provides states only."""
        raise AssertionError

    def change_length(self, kind: str, seq: int, hypothesis: Any) -> NoReturn:
        """Unused: `look` provides states only."""
        raise AssertionError

    def attention_known(self) -> Mapping[str, Any]:
        """Nothing."""
        return {}

    def attend(self, edit: Any, steps: int | None) -> NoReturn:
        """Unused: `look` provides states only."""
        raise AssertionError


def looked_at(path: str, step: int, tick: int, states: Mapping[str, Any]) -> PositionStates:
    """The given states before a step, by name."""
    return Position(path.rpartition(".")[2], path, step, tick, HeldPast(states, step)).states


def not_made_again(path: str, step: int, why: str) -> Exception:
    """The error for states that were not kept, if a rerun did not get there in the same way."""
    return runtime_error(
        f'look: the states before step {step} of "{path}" are gone.',
        {"because": why},
        "They were not kept, so the function ran again, but with a different result. Steps that were kept can still be shown.",
    )
