"""SearchRewind: a finished search that is rewound to one of its steps, so that testing a change only costs the later steps.

    rewound = SearchRewind(tries, following, give)
    rewound.run()               # False if the result differs; the caller then reruns the function for each change

The function is called once, and is kept inside its loop: after the last step, the content of the loop (states, beam,
stacked outputs, random numbers) is restored to that before some step, and the loop continues from there. Other values
carried by Python code are not restored. So before the first change at a step, the search is repeated from there without
a change, and must give a bitwise identical result.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from rfnb.control.position import Change, Position
from rfnb.control.turns import generators_now, set_generators
from rfnb.core.dim import Dim
from rfnb.core.tensor import Tensor
from rfnb.rec import loop_stack
from rfnb.search.search_state import Search
from rfnb.trace.beam_diagnosis import result_of
from rfnb.trace.beams import BeamHistory, Hypothesis
from rfnb.trace.probe import Later

if TYPE_CHECKING:
    from rfnb.control.held_step import HeldStep
    from rfnb.control.run import Run
    from rfnb.control.why_not import Tries
    from rfnb.rec.loop import Loop

Following = Callable[[], tuple[int, Change] | None]
Found = tuple[Hypothesis, BeamHistory]

_INSIDE = (
    "rfnb.rec.",
    "rfnb.search.",
    "rfnb.control.held_step",
    "rfnb.control.attention_edits",
    "rfnb.control.run_steps",
)


class LoopSnapshot:
    """A snapshot of everything reachable from some objects in a loop, a search and the steps of a run; tensors are not changed in place."""

    def __init__(self, *roots: Any):
        self._kept: dict[int, tuple[Any, Any]] = {}
        waiting = [*roots]
        while waiting:
            one = waiting.pop()
            if id(one) not in self._kept and (content := _content(one)) is not None:
                self._kept[id(one)] = one, content
                waiting += _parts(content)

    def put_back(self) -> None:
        """Restore the snapshot."""
        for one, content in self._kept.values():
            if isinstance(one, (list, array)):
                one[:] = content
            elif isinstance(one, np.ndarray):
                one[...] = content
            elif isinstance(one, (dict, set)):
                one.clear()
                one.update(content)
            elif not isinstance(one, tuple):
                one.__dict__.clear()
                one.__dict__.update(content)


def _content(one: Any) -> Any:
    """A copy of the content of an object; None for an immutable type."""
    if isinstance(one, (Tensor, Dim)):
        return None
    if isinstance(one, (list, dict, set, array)):
        return one[:] if isinstance(one, array) else one.copy()
    if isinstance(one, np.ndarray):
        return one.copy() if one.flags.writeable else None
    if isinstance(one, tuple):
        return one
    own = type(one).__module__.startswith(_INSIDE) and not isinstance(one, type)
    return dict(one.__dict__) if own and hasattr(one, "__dict__") else None


def _parts(content: Any) -> Iterable[Any]:
    if isinstance(content, (array, np.ndarray)):
        return ()
    return content.values() if isinstance(content, Mapping) else content


class SearchRewind:
    """The search of a run, made once and continued from its steps.

    Args:
        following: Returns the step of the loop and the change to test next; None to let the function end.
        give: Called in the thread of the run with the result; None if the change was refused.

    Attributes:
        steps: The number of steps made in the loop.
    """

    def __init__(self, tries: Tries, following: Following, give: Callable[[Found | None], None]):
        self._tries, self._following, self._give = tries, following, give
        self.steps = 0
        self._loop: Loop | None = None
        self._keep: Callable[[Later], None] | None = None  # another receiver of its choices
        self._before: list[
            tuple[LoopSnapshot, int, Any]
        ] = []  # for each step: snapshot, number of events, random numbers
        self._heard: list[tuple[Later, int]] = []  # the choices so far, and their steps
        self._arrays: list[Mapping[str, np.ndarray]] = []  # of the choices with known arrays
        self._same: set[int] = set()  # steps from which a repetition gave the same result
        self._now: tuple[int, Change | None] | None = None
        self._refused = self._fits = False

    def run(self) -> bool:
        """Run it; False if it cannot be continued in this way."""
        tries = self._tries
        first = tries.history.loop_steps[0]
        self._first = tries.whole._holder.tick_of("atlas", first, tries.place.path, tries.place.nth) - first
        try:
            made = tries.again(tries.history.loop_steps[-1], None, (), self._around)
        finally:
            self._before.clear()  # with everything they hold
        if self._fits and self._now is not None and self._now[1] is not None and made.error is not None:
            self._now = None
            self._give(None)
        return self._fits

    def _around(self, run: Run, call: Callable[[], Any]) -> Any:
        self._run, self._holder = run, run._holder
        self._holder.rewound = self
        self._changes = dict(self._holder.changes)
        return call()

    def _hear(self, told: Later) -> None:
        if self._keep is not None:
            self._keep(told)
        if self._loop is not None:
            self._heard.append((told, self._loop.num_steps - 1))

    def goes_on(self, held: HeldStep, loop: Loop, more: bool) -> bool:
        """Whether a loop makes another step; overrides the loop's own decision."""
        if self._loop is None:
            holder = self._holder
            is_it = len(holder.steps) == self._first and ".".join(loop_stack.names()) == self._tries.place.path
            if not is_it or loop.num_steps:
                return more
            search = Search.of(loop)
            self._loop, self._keep, search.keep = loop, search.keep, self._hear
        if loop is not self._loop:
            return more
        if self._now is None:  # the first time
            if more:
                kept = LoopSnapshot(
                    loop, held, self._holder.attention, self._holder.steps, self._holder.places, self._keep
                )
                self._before.append((kept, len(self._heard), generators_now()))
                return True
            if not self._is_same():
                return False
            self._plain = [*self._heard], [*self._arrays]
        elif more and not (self._refused or self._holder.has_refused()):
            self.steps += 1
            return True
        elif self._now[1] is None:
            if not self._is_same():
                self._fits = False
                return False
            self._same.add(self._now[0])
        else:
            refused = self._holder.take_refused() is not None or self._refused
            self._now = None if refused else self._now
            self._give(None if refused else self._found())
        return self._again()

    def _again(self) -> bool:
        """Rewind to the step of the next change."""
        asked = self._following()
        if asked is None or asked[0] >= len(self._before):
            self._now = None
            self._loop = None  # it may end
            return False
        step, change = asked
        self._now = step, change if step in self._same else None
        kept, heard, numbers = self._before[step]
        if self._run._turns.queue:
            self._run._turn.leave()()
        kept.put_back()
        set_generators(numbers)
        values, arrays = self._plain
        self._heard, self._arrays = values[:heard], arrays[:heard]
        self._refused, self._fits = False, True
        tick, changes = self._first + step, self._changes
        if self._now[1] is not None:
            changes = {at: done for at, done in changes.items() if at < tick} | {tick: [self._do]}
        self._holder.changes.clear()
        self._holder.changes.update(changes)
        self.steps += 1
        return True

    def _do(self, at: Position) -> None:
        assert self._now is not None and self._now[1] is not None
        try:
            self._now[1](at)
        except (ValueError, LookupError, RuntimeError):
            self._refused = True

    def _is_same(self) -> bool:
        found = self._found()
        best = self._tries.best
        return found is not None and (found[0].tokens, found[0].score) == (best.tokens, best.score)

    def _found(self) -> Found | None:
        values = [each for each, _ in self._heard]
        self._arrays += BeamHistory.of_values(values[len(self._arrays) :]).steps
        history = BeamHistory.of_values(values, [step for _, step in self._heard], steps=self._arrays)
        best = result_of(history, self._tries.seq) if values else None
        return None if best is None else (best, history)
