"""Start: `rf.run`, which runs a function in its own thread, and `rf.gate`, which marks a step of a hand-written loop."""

from __future__ import annotations

import contextvars
import difflib
import inspect
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from numbers import Integral
from typing import Any

from rfnb.backends import registry
from rfnb.control.arguments import modules_of, no_call, options_of, runs_later
from rfnb.control.holder import Holder
from rfnb.control.run import Run
from rfnb.core.errors import runtime_error, type_error, value_error
from rfnb.ops.amp import get_amp_policy, set_amp_policy, set_amp_policy_ctx
from rfnb.rec.hold import holding
from rfnb.trace.probe import listening, trace_context


def run(
    fn: Callable[..., Any],
    *args: Any,
    paused: bool = False,
    name: str | None = None,
    record: bool | Mapping[str, Any] = True,
    break_when: Any = None,
    modules: str | Sequence[str] = (),
    **kwargs: Any,
) -> Run:
    """Run a function in its own thread, and return a handle that controls its loops.

    Settings of the current context (gradients, defaults, recordings, training) apply in the run too. It pauses at the steps of each
    `Loop`, `scan` and `beam_search`, and where the function calls `rf.gate`.

    Args:
        fn: Called with `args` and `kwargs`.
        paused: Whether it pauses before its first step.
        name: Name in messages and in the tree of branches.
        record: Whether to record it, as `run.trace`; a dict gives options of `rf.record`, such as `{"kinds": "beams"}`.
        break_when: A condition as for `Run.break_when`, or a list of them. They also see events before the first step.
        modules: Paths of modules of the recorded torch model, ends of paths, or patterns ("h.*": the outermost matches count), one
            or several: the run also pauses before each of their calls, with the inputs as states. In `generate` these are steps within a
            token.

    Raises:
        TypeError, ValueError: If fn is not callable, or the recording options or a condition are invalid.
        RuntimeError: If called within a run, whose thread would wait for another one.
    """
    if isinstance(fn, Run):
        raise type_error(
            f"run: {fn.name} was started already.",
            {"state": fn.state},
            "A run starts once. To start from the beginning, make a new run:",
            "again = run.from_step(0, paused=False)",
        )
    if not callable(fn):
        raise type_error(
            "run: not a function.", {"given": type(fn).__name__}, "A run calls a function.", "rf.run(model.search, x)"
        )
    kind = runs_later(fn)
    if kind is not None:
        raise no_call(kind, fn)
    if holding() is not None:
        raise runtime_error(
            "run: called inside a run.",
            {"fn": getattr(fn, "__name__", type(fn).__name__)},
            "The outer run holds the loops of the functions called here.",
            "fn(...)",
        )
    _check_keywords(fn, kwargs)
    made = Run(fn, args, kwargs, name, record=options_of(record), modules=modules_of(modules, record))
    for condition in (
        break_when if isinstance(break_when, (list, tuple)) else [] if break_when is None else [break_when]
    ):
        made.break_when(condition)
    if paused:
        made._is_to_hold = True
        made._gate.pause("it was started paused")
    return made._start(contextvars.copy_context(), modes_here())


def _check_keywords(fn: Callable[..., Any], kwargs: Mapping[str, Any]) -> None:
    """Refuse a keyword that the function does not take and that resembles one of `run`: the run would start without being held."""
    try:
        takes = inspect.signature(fn).parameters
    except (TypeError, ValueError):  # of a function in C
        return
    if any(each.kind is each.VAR_KEYWORD for each in takes.values()):
        return
    for keyword in kwargs:
        near = difflib.get_close_matches(keyword, ("paused", "name", "record", "break_when", "modules"), n=1)
        if keyword not in takes and near:
            raise type_error(
                f'run: there is no argument "{keyword}".',
                {"fn": getattr(fn, "__name__", type(fn).__name__), "takes": ", ".join(takes) or "nothing"},
                "Keywords that run does not have are passed to the function, which has none with this name either.",
                f"rf.run(fn, {near[0]}={kwargs[keyword]!r})",
            )


def modes_here() -> Callable[[], None]:
    """A function that applies this thread's modes, other than its context, in another thread."""
    policy = get_amp_policy()
    with set_amp_policy_ctx(None) if policy is not None else nullcontext():  # which has modes of its own
        modes = registry.selected().current_modes()

    def again() -> None:
        modes()
        if policy is not None:
            set_amp_policy(policy)

    return again


def gate(step: int, **values: Any) -> None:
    """Mark the beginning of a step of a hand-written loop: a run pauses here, as in a `Loop`, and later events belong to this step.

    The step lasts until the next one begins, or the calling module or the recording is left. Without a run or recording this does
    nothing.

    Args:
        step: From 0.
        **values: Values to read at the pause: `run.at.values`, and Tensors in `run.at.states`.
    """
    hold = holding()
    is_heard = listening()
    if not (isinstance(hold, Holder) or is_heard):
        return
    if isinstance(step, bool) or not isinstance(step, Integral) or step < 0:
        raise value_error(
            "gate: not a step number.",
            {"step": repr(step)},
            "Steps are counted from 0.",
            "rf.gate(step, loss=loss)",
        )
    if is_heard:
        trace_context.at_step(int(step))
    if isinstance(hold, Holder):  # which knows by the entry what is offered in this step
        hold.step_of_own(step, values, entry=trace_context.place.entry if is_heard else 0)
