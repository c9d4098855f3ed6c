"""The things made: what a run has offered and what has ended in it since it stood between two steps before.

Conditions ask for it there. Nothing is heard unless one of them wants it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from rfnb.control.of_run import OfRun
from rfnb.core.dim import Dim
from rfnb.rec import running
from rfnb.trace.probe import Ear, Place

if TYPE_CHECKING:
    from rfnb.rec.loop import Loop

ENDED = "ended"
"""kind: sequences or hypotheses have ended"""
ANY = "*"
"""kind: whatever is offered anyway"""

Ended = tuple[np.ndarray, tuple[Dim, ...]]


class Made(NamedTuple):
    """One offer of a probe, or what has ended in a step.

    Attributes:
        kind: That of the event, or `ENDED`.
        path, module: The place; with the names of loops, and without.
        step: None: outside of loops.
        values: Of the event; of `ENDED` none.
        ended: Which sequences or hypotheses had ended before, and the dims of that; of `ENDED` which have now. None: none.
        key: Equal for what one step of one run of a loop has offered.
    """

    kind: str
    path: str
    module: str
    step: int | None
    values: Mapping[str, Any]
    ended: Ended | None
    key: Any = None

    def where(self) -> str:
        """The step and the path, in words."""
        step = "" if self.step is None else f" at step {self.step}"
        return f'{step} of "{self.path}"' if self.path else step


class Heard(OfRun):
    """Hears it, in the thread of the run."""

    def __init__(self) -> None:
        self.kinds: frozenset[str] = frozenset()
        self._made: list[Made] = []
        self._step: tuple[str, int] | None = None
        self._ear = Ear(self._hear, lambda kind: kind in self.kinds)

    def want(self, kinds: frozenset[str]) -> None:
        """Hear these kinds from here on. Called between two steps, by the thread that makes them."""
        self.kinds = kinds
        if kinds - {ENDED}:
            self._ear.open()
        else:
            self._ear.close()

    def is_in(self, step: tuple[str, int] | None) -> None:
        """Take what is offered without a place of its own as from here: (path, step), None: outside of loops."""
        self._step = step

    def has_made(self) -> bool:
        """Whether there is something to take."""
        return bool(self._made)

    def take(self) -> list[Made]:
        """All since the last call."""
        made, self._made = self._made, []
        return made

    def note_ended(self, loop: Loop, path: str, step: int) -> None:
        """Note what has ended in a step that a loop has made, if somebody wants to know."""
        if step >= 0 and ENDED in self.kinds:
            found = _ended_in(loop, step + 1)
            if found is not None:
                self._made.append(Made(ENDED, path, "", step, {}, found))

    def _hear(self, kind: str, place: Place, values: Mapping[str, Any]) -> None:
        if kind not in self.kinds and ANY not in self.kinds:
            return
        path, step = place.path, place.step
        if step is None and self._step is not None:  # a scan has no place of its own
            path, step = (f"{self._step[0]}.{path}" if path else self._step[0]), self._step[1]
        self._made.append(Made(kind, path, place.module, step, values, _ended_before(), place.entry))


def _ended_before() -> Ended | None:
    """The sequences or hypotheses that had ended before the step that the innermost loop makes."""
    loop = running.innermost()
    step: Any = None if loop is None else loop.step
    while step is not None and not hasattr(step, "ended_before"):
        step = getattr(step, "inner", None)
    return None if step is None else step.ended_before


def _ended_in(loop: Loop, steps: int) -> Ended | None:
    """The ones that have ended in the last of so many steps of a loop; None: nothing has."""
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
