"""Events sent and sequences finished since the run last paused.

Conditions read them here. Nothing is recorded unless a condition needs it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from rfnb.control.live_runs import RunMember
from rfnb.core.dim import HostArray
from rfnb.rec import loop_stack
from rfnb.trace.probe import Ear, Place

if TYPE_CHECKING:
    from rfnb.rec.loop import Loop

ENDED = "ended"
"""kind: sequences or hypotheses have ended"""
ANY = "*"
"""kind: every event that is sent, whatever its kind"""


class StepEvent(NamedTuple):
    """A probe event, or the ends in a step.

    Attributes:
        kind: Kind of the event, or `ENDED`.
        path, module: The place, with and without the names of loops.
        step: The step; None outside of loops.
        values: Values of the event; empty for `ENDED`.
        ended: The sequences or hypotheses that had ended before, with dims; for `ENDED` those that have ended now. None if there are
            none.
        key: Equal for all events of one step of one run of a loop.
    """

    kind: str
    path: str
    module: str
    step: int | None
    values: Mapping[str, Any]
    ended: HostArray | None
    key: Any = None

    def where(self) -> str:
        """The step and the path, as text."""
        step = "" if self.step is None else f" at step {self.step}"
        return f'{step} of "{self.path}"' if self.path else step


class EventCollector(RunMember):
    """Collects events in the run's thread."""

    def __init__(self) -> None:
        self.kinds: frozenset[str] = frozenset()
        self._made: list[StepEvent] = []
        self._step: tuple[str, int] | None = None
        self._ear = Ear(self._hear, lambda kind: kind in self.kinds)

    def want(self, kinds: frozenset[str]) -> None:
        """Collect these kinds from here on. Called between two steps, by the thread that runs them."""
        self.kinds = kinds
        if kinds - {ENDED}:
            self._ear.open()
        else:
            self._ear.close()

    def is_in(self, step: tuple[str, int] | None) -> None:
        """Assign events without a place to this one: (path, step), or None outside of loops."""
        self._step = step

    def has_made(self) -> bool:
        """True if there are events to take."""
        return bool(self._made)

    def take(self) -> list[StepEvent]:
        """All events since the last call."""
        made, self._made = self._made, []
        return made

    def note_ended(self, loop: Loop, path: str, step: int) -> None:
        """Note what has ended in a loop's step, if a condition needs it."""
        if step >= 0 and ENDED in self.kinds:
            found = _ended_in(loop, step + 1)
            if found is not None:
                self._made.append(StepEvent(ENDED, path, "", step, {}, found))

    def _hear(self, kind: str, place: Place, values: Mapping[str, Any]) -> None:
        if kind not in self.kinds and ANY not in self.kinds:
            return
        path, step = place.path, place.step
        if step is None and self._step is not None:  # a scan has no place of its own
            path, step = (f"{self._step[0]}.{path}" if path else self._step[0]), self._step[1]
        self._made.append(StepEvent(kind, path, place.module, step, values, _ended_before(), place.entry))


def _ended_before() -> HostArray | None:
    """The sequences or hypotheses that ended before the innermost loop's current step."""
    loop = loop_stack.innermost()
    step: Any = None if loop is None else loop.step
    while step is not None and not hasattr(step, "ended_before"):
        step = getattr(step, "inner", None)
    return None if step is None else step.ended_before


def _ended_in(loop: Loop, steps: int) -> HostArray | None:
    """The sequences or hypotheses that ended in the last of `steps` steps of a loop; None if there are none."""
    host, dims = loop.ended, loop.end_dims
    if host is None:
        return None
    lengths = loop.step_lengths
    if loop.given_axis is not None:
        own = loop.axis.lengths
        now = None if own is None else own + (loop.longest_with_end() - loop.axis.extent) == steps
    elif lengths is not None:
        # What ended before has less, what goes on has as many as there are steps.
        longest = steps if loop.longest_with_end() == int(lengths.max(initial=0)) else steps - 1
        now = host & (lengths == longest)
    else:
        now = None
    return None if now is None or not now.any() else (now, dims)
