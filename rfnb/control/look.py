"""Look: the states before a step that was made, which nobody changes any more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from rfnb.control.position import Position, PositionStates
from rfnb.core.errors import runtime_error, value_error
from rfnb.rec.decisions import Decided


class HeldPast:
    """A step that was made.

    Args:
        states: By dotted path.
        step: Its number.
    """

    def __init__(self, states: Mapping[str, Any], step: int):
        self._states, self._step = states, step

    def states_now(self) -> Mapping[str, Any]:
        """The states before it."""
        return self._states

    def edit(self, name: str, value: Any) -> NoReturn:
        """Refused."""
        raise value_error(
            f'look: state "{name}" is that of a step that was made.',
            [("step", self._step)],
            "What was is not changed. From there the run goes on another way as a branch:",
            f"branch = run.from_step({self._step})",
        )

    def decide(self, decided: Sequence[Decided]) -> NoReturn:
        """Nobody asks: `look` gives states alone."""
        raise AssertionError

    def change_length(self, kind: str, seq: int, hypothesis: Any) -> NoReturn:
        """Nobody asks: `look` gives states alone."""
        raise AssertionError

    def attention_known(self) -> Mapping[str, Any]:
        """Nothing."""
        return {}

    def attend(self, edit: Any, steps: int | None) -> NoReturn:
        """Nobody asks."""
        raise AssertionError


def looked_at(path: str, step: int, tick: int, states: Mapping[str, Any]) -> PositionStates:
    """These states before a step, by name."""
    return Position(path.rpartition(".")[2], path, step, tick, HeldPast(states, step)).states


def not_made_again(path: str, step: int, why: str) -> Exception:
    """The states before a step were not kept, and another run of the function did not come there in the same way."""
    return runtime_error(
        f'look: the states before step {step} of "{path}" are gone.',
        [("because", why)],
        "They were not kept, so the function has run again, and did something else. A step that was kept can be looked at.",
    )
