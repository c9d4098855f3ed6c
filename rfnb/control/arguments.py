"""Checks of the arguments of `rf.run` and of a run's commands, and of whether there was a step to hold."""

from __future__ import annotations

import functools
import inspect
import math
import threading
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from numbers import Real
from typing import Any

from rfnb.core.errors import message, nearest, type_error, value_error
from rfnb.trace.match import is_inside
from rfnb.trace.record import record as recorded


def runs_later(fn: Callable[..., Any]) -> str | None:
    """The kind of a function whose call runs nothing yet (a generator, a coroutine); None for an ordinary function."""
    while isinstance(fn, functools.partial):
        fn = fn.func
    for each in (fn, type(fn).__call__):
        if inspect.isgeneratorfunction(each) or inspect.isasyncgenfunction(each):
            return "generator"
        if inspect.iscoroutinefunction(each):
            return "coroutine"
    return None


def no_call(kind: str, fn: Any) -> TypeError:
    """The error for a call whose result would run later, outside of the run."""
    name = getattr(fn, "__name__", type(fn).__name__)
    return type_error(
        f"run: the call returns a {kind} and runs nothing.",
        {"fn": name},
        "A run is the call of a function. Pass a function that consumes all of it:",
        "rf.run(lambda: list(fn(...)))" if kind == "generator" else "rf.run(lambda: asyncio.run(fn(...)))",
    )


def limit_of(what: str, timeout: Any) -> float | None:
    """The timeout in seconds; None means no limit. Negative values become 0."""
    if timeout is None or timeout == float("inf"):
        return None
    if isinstance(timeout, bool) or not isinstance(timeout, Real) or math.isnan(timeout):
        raise value_error(
            f"{what}: not a number of seconds.",
            {"timeout": repr(timeout)},
            "The timeout is the maximal number of seconds; None waits without limit.",
        )
    return min(max(0.0, float(timeout)), threading.TIMEOUT_MAX)


def options_of(record: Any) -> bool | Mapping[str, Any]:
    """The `record` argument of a run, checked against the options of `rf.record`.

    Raises:
        TypeError: If `rf.record` has no such options.
    """
    if not isinstance(record, bool):
        known = list(inspect.signature(recorded).parameters)
        if not isinstance(record, Mapping) or not set(record) <= set(known):
            raise type_error(
                "run: invalid value of record.",
                {
                    "record": sorted(map(str, record)) if isinstance(record, Mapping) else repr(record),
                    "options": ", ".join(known),
                },
                "record is True, False, or a dict of options of rf.record.",
                'rf.run(fn, record={"kinds": "beams"})',
            )
    return record


def modules_of(modules: str | Sequence[str], record: Any) -> frozenset[str]:
    """The paths of the modules before whose calls a run waits.

    Raises:
        ValueError: If the run records no such modules.
    """
    wanted = [modules] if isinstance(modules, str) else list(modules)
    model = record.get("model") if isinstance(record, Mapping) else None
    models = model if isinstance(model, Mapping) else {} if model is None else {"": model}
    paths = [
        ".".join(filter(None, [prefix, path]))
        for prefix, each in models.items()
        if hasattr(each, "named_modules")
        for path, _ in each.named_modules()
    ]
    ends = [".".join(path.split(".")[-count:]) for path in paths[1:] for count in (1, 2)]
    found: set[str] = set()
    for each in wanted:
        means = [path for path in paths if fnmatchcase(path, each) or fnmatchcase(path, f"*.{each}")]
        fit = [path for path in means if not any(path != other and is_inside(path, other) for other in means)]
        if not fit:
            raise value_error(
                f'run: no module "{each}".',
                {"model": ", ".join(type(each).__name__ for each in models.values()) or "none is recorded",
                 "modules": ", ".join(paths[1:7]) + (", ..." if len(paths) > 7 else "") or "none"},
                "Choose modules of the recorded model by their paths, ends of paths, or patterns:",
                f'rf.run(fn, record={{"model": model}}, modules="{nearest(each, ends) if ends else each}", paused=True)',
            )  # fmt: skip
        found.update(fit)
    return frozenset(found)


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
