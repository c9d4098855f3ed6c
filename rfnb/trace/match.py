"""Filters for events by kind, path and step, shared by `record` and `trace.select`."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Iterable
from fnmatch import fnmatchcase
from typing import Any

from rfnb.core.errors import message, nearest, type_error, value_error
from rfnb.core.place import warn_user

Steps = int | range | slice | Collection[int] | Callable[[int], bool]


def kind_filter(kinds: str | Iterable[str] | None) -> Callable[[str], bool]:
    """A test for the given kinds; None accepts all."""
    if kinds is None:
        return lambda kind: True
    wanted = frozenset([kinds] if isinstance(kinds, str) else kinds)
    return wanted.__contains__


def warn_of_kinds(what: str, wanted: Iterable[str], events: Iterable[Any]) -> None:
    """Warn about a kind that no event has and rfnb does not send. At `record` no event exists yet, so only near misspellings are
    reported.
    """
    there = {event.kind for event in events}
    for kind in wanted:
        near = difflib.get_close_matches(str(kind), sorted(_OFFERED | there), n=1, cutoff=0.75)
        if kind not in there | _OFFERED and (near or what == "select"):
            code = "trace.select(kind=" if what == "select" else "rf.record(kinds="
            warn_user(
                message(
                    f'{what}: there are no events of the kind "{kind}".',
                    {"recorded": ", ".join(sorted(there)) or "nothing", "offered": ", ".join(sorted(_OFFERED))},
                    "A kind is one of those that are offered, or a word of your own. Did you mean",
                    f'{code}"{nearest(kind, sorted(there) + sorted(_OFFERED))}")',
                )
            )


def warn_of_paths(what: str, wanted: Iterable[str], there: Collection[tuple[str, str]]) -> None:
    """Warn about a requested path that no event has; for a pattern with `*`, if nothing resembles it.

    Args:
        there: Pairs of path and path without loops, for all events.
    """
    for path in wanted:
        if there and not any(_matches(path, name) for names in there for name in names):
            paths = sorted({name for name, _ in there})
            ends = {name.rpartition(".")[2] for name in paths} | set(paths)
            warn_user(
                message(
                    f'{what}: there are no events of the path "{path}".',
                    {
                        "offered" if what == "record" else "recorded": ", ".join(f'"{name}"' for name in paths[:8])
                        + (", ..." if len(paths) > 8 else "")
                    },
                    "A path is a pattern with *, a recorded path, or an end of one. Did you mean",
                    f'{_TYPED[what]}path="{nearest(path, sorted(ends))}")',
                )
            )


_TYPED = {"record": "rf.record(", "select": "trace.select(", "show": "rf.show(trace, "}
_OFFERED = frozenset({"attention", "states", "beams", "tokens", "module"})


def path_filter(path: str | Iterable[str] | None) -> Callable[[str, str], bool]:
    """A test of (path, path without loops).

    Args:
        path: Patterns with `*`, `?` or `[...]`, or ends of a path ("att" means "decoder.att"), one or several; None means all.
    """
    if path is None:
        return lambda path, module: True
    patterns = [path] if isinstance(path, str) else list(path)
    return lambda path, module: any(_matches(pattern, path) or _matches(pattern, module) for pattern in patterns)


def step_filter(steps: Steps | None) -> Callable[[int], bool]:
    """A test of the step of an event inside a loop.

    Args:
        steps: One step, a range, a slice, a collection of ints, or a function of the step; None: all.

    Raises:
        TypeError: For anything else.
        ValueError: For a slice that counts from the end.
    """
    if steps is None:
        return lambda step: True
    if isinstance(steps, int) and not isinstance(steps, bool):
        return lambda step: step == steps
    if isinstance(steps, slice):
        return _slice_filter(steps)
    if callable(steps):
        return lambda step: bool(steps(step))
    if isinstance(steps, range) or (isinstance(steps, Collection) and not isinstance(steps, (str, bytes))):
        return lambda step: step in steps
    raise type_error(
        "Steps have an unknown form.",
        {"steps": f"{type(steps).__name__} {steps!r}"},
        "Steps are an int, a range, a slice, a collection of ints, or a function of the step.",
        "rf.record(steps=range(10))",
    )


def is_end_of(part: str, path: str) -> bool:
    """True if `part` is a dotted path or its last parts."""
    return path == part or path.endswith(f".{part}")


def is_inside(path: str, outer: str) -> bool:
    """True if a path is that of a module or inside it."""
    return not outer or path == outer or path.startswith(f"{outer}.")


def _matches(pattern: str, path: str) -> bool:
    if any(sign in pattern for sign in "*?["):
        return fnmatchcase(path, pattern)
    return is_end_of(pattern, path)


def _slice_filter(steps: slice) -> Callable[[int], bool]:
    start, stop, stride = steps.start or 0, steps.stop, steps.step or 1
    if start < 0 or stride < 0 or (stop is not None and stop < 0):
        raise value_error(
            "Steps cannot be counted from the end.",
            {"steps": f"{steps!r}"},
            "While a loop runs, its number of steps is unknown.",
            "trace.attention[path]    # record all, then take the last ones",
        )

    def test(step: Any) -> bool:
        return step >= start and (stop is None or step < stop) and (step - start) % stride == 0

    return test
