"""A loop of the user's own, whose steps are held where it says that they begin: `rf.gate`."""

from __future__ import annotations

from numbers import Integral
from typing import Any

from rfnb.control.holder import Holder
from rfnb.core.errors import value_error
from rfnb.rec.hold import holding


def gate(step: int, **values: Any) -> None:
    """A step of a loop of one's own begins: a run waits here, as it does in a `Loop`; without a run this does nothing.

    Args:
        step: From 0.
        **values: What can be looked at where it waits: `run.at.values`, and Tensors in `run.at.states`.
    """
    hold = holding()
    if isinstance(hold, Holder):
        if isinstance(step, bool) or not isinstance(step, Integral) or step < 0:
            raise value_error(
                "gate: no number of a step.",
                [("step", repr(step))],
                "Steps are counted from 0.",
                "rf.gate(step, loss=loss)",
            )
        hold.step_of_own(step, values)
