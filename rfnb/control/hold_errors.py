"""Messages for a finished run that had no step to hold, and how to hold it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from rfnb.core.errors import message

_RULE = "A run pauses before steps: of a Loop, scan, while_loop or beam_search of rf, and at rf.gate."


def nothing_held(name: str, fn: Callable[..., Any], result: Any, loops: Sequence[str], has_model: bool) -> str:
    """The message for a run that was to be held but ran through.

    Args:
        fn: The function that ran.
        result: Its result.
        loops: The loops that began without a held step, as text.
        has_model: Whether it records a model.
    """
    called = getattr(fn, "__name__", type(fn).__name__)
    rule, line = _RULE, "for step, batch in enumerate(batches): rf.gate(step)"
    if inspect.isgenerator(result):
        rule, line = (
            "It returned a generator, which runs only when it is iterated.",
            "rf.run(lambda: list(fn(...)))",
        )
    elif called == "generate":
        rule = "The steps of generate can be held if the run records the model."
        line = 'rf.run(model.generate, ids, record={"model": model}, paused=True)'
    elif has_model and not loops:
        rule = "A forward pass has no steps of a loop. It can be held before calls of modules, by their paths:"
        line = 'rf.run(fn, record={"model": model}, modules=["layers.0", "layers.1"], paused=True)'
    return message(
        f"{name}: the run was to pause, but has no step to pause at.",
        {"ran": called, "loops": ", ".join(loops) or "none"},
        rule,
        line,
    )
