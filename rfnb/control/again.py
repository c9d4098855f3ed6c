"""Again: the function of a run runs once more up to a step, for its branches and for states that were not kept."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from rfnb.control.holder import Trunk
from rfnb.control.kept import KeptSpan, StateHistory, States
from rfnb.control.look import not_made_again
from rfnb.control.surroundings import in_words
from rfnb.trace.probe import stop_hearing

if TYPE_CHECKING:
    from rfnb.control.run import Run


def once_more(
    run: Run, name: str | None, end: int, record: bool | Mapping[str, Any], kept: StateHistory | None = None
) -> Run:
    """A run of the same function, with all that was changed in it before a tick; it has not begun."""
    around = run._surroundings.differences() if run._surroundings is not None else {}
    words = in_words(around, run._changed_by_itself)
    is_other = kept is None and any(each.counts for each in around.values())
    trunk = Trunk(run._holder.steps, run._holder.kept, end, words, is_other)
    other = type(run)(run._fn, run._args, run._kwargs, name, trunk, record, kept, run._turns)
    other._numbers = run._numbers
    other._changes.update({at: list(done) for at, done in [*run._changes.items()] if at < end})
    return other


def states_at(run: Run, tick: int) -> States:
    """The states before a step that a run has begun: those that were kept, or made again by a quiet branch, which nobody hears.

    Raises:
        RuntimeError: If they were not kept, and the function does not do the same once more.
    """
    kept, steps = run._holder.kept, run._holder.steps
    found = kept.at(tick)
    if found is not None:
        return found
    if run.parent is not None and tick < kept.begin:
        return states_at(run.parent, tick)
    span = kept.around(tick, len(steps))
    # up to where it shows whether it was the same
    end = next((each for each in kept.ticks() if each >= span[-1]), span[-1])
    quiet = once_more(run, f"{run.name} again", end, False, KeptSpan(span))
    quiet._changes[end] = [lambda at: quiet._gate.stop()]
    context, modes = run._begins
    context = context.copy()
    context.run(stop_hearing)
    quiet._start(context, modes)
    quiet._gate.until_standing()
    quiet.stop()
    made = cast(KeptSpan, quiet._holder.kept).states
    if quiet.drifted or tick not in made:
        raise not_made_again(*steps[tick], quiet.drifted or f"{type(quiet._error).__name__}: {quiet._error}")
    kept.put(made)
    return made[tick]
