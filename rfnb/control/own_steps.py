"""A loop of the user's own, whose steps are held where it says that they begin: `rf.gate`."""

from __future__ import annotations

from numbers import Integral
from typing import Any

from rfnb.control.holder import Holder
from rfnb.core.errors import value_error
from rfnb.rec.hold import holding
from rfnb.trace.probe import listening, trace_context


def gate(step: int, **values: Any) -> None:
    """A step of a loop of one's own begins: a run waits here, as it does in a `Loop`; what is offered from here on is of this step.

    That lasts until the next one begins, or the module in which it is called, or the recording, is left. Without either this does nothing.

    Args:
        step: From 0.
        **values: What can be looked at where it waits: `run.at.values`, and Tensors in `run.at.states`.
    """
    hold = holding()
    is_heard = listening()
    if not (isinstance(hold, Holder) or is_heard):
        return
    if isinstance(step, bool) or not isinstance(step, Integral) or step < 0:
        raise value_error(
            "gate: no number of a step.",
            [("step", repr(step))],
            "Steps are counted from 0.",
            "rf.gate(step, loss=loss)",
        )
    if is_heard:
        trace_context.at_step(int(step))
    if isinstance(hold, Holder):  # which knows by the entry what is offered in this step
        hold.step_of_own(step, values, entry=trace_context.place.entry if is_heard else 0)
