"""Queries of planning about dims whose sizes differ from batch to batch.

A plan serves the dims of another batch if they give the same answers. So code that reads a size while a plan is made goes through
`asked`, and code that decides by several sizes asks for the decision, not for the sizes:

    if asked(_is_small, axis, heads): ...

Lengths are read in the functions of a plan, when they run; a plan that reads them while it is made is valid for these dims only.

When a known size changes, plans and everything else computed from sizes become invalid: caches of such values register with `on_resize`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any

from rfnb.core.block import block

_on_resize: list[Callable[[], None]] = []
resizes = [0]  # how often that happened


def on_resize(clear: Callable[[], None]) -> None:
    """Register a function that clears a cache when a known size changes."""
    _on_resize.append(clear)


def tell_resized() -> None:
    """Clear everything that a changed size has invalidated."""
    resizes[0] += 1
    for clear in _on_resize:
        clear()


# As long as there are plans that are being made, in all threads, so that asking whether there is one is quick.
watching: list[None] = []


class PlanWatch:
    """The queries made while one plan was made.

    Attributes:
        asked: The answers, by function and dims.
        for_others: Whether the plan can serve other dims, because no lengths were read.
    """

    def __init__(self) -> None:
        self.asked: dict[tuple[Callable[..., Any], tuple[Any, ...]], Any] = {}
        self.for_others = True


_current: ContextVar[PlanWatch | None] = ContextVar("rfnb_watch", default=None)


@block
def watched() -> Iterator[PlanWatch]:
    """A block around the making of a plan."""
    watch = PlanWatch()
    token = _current.set(watch)
    watching.append(None)
    try:
        yield watch
    finally:
        watching.pop()
        _current.reset(token)


def asked(question: Callable[..., Any], *dims: Any) -> Any:
    """`question(*dims)`; a plan in the making will serve other dims only if they give the same answer."""
    watch = _current.get() if watching else None
    if watch is None:
        return question(*dims)
    token = _current.set(None)  # what is asked for the answer does not matter by itself
    try:
        answer = watch.asked[question, dims] = question(*dims)
    finally:
        _current.reset(token)
    return answer


def lengths_read() -> None:
    """Report that lengths are read: a plan in the making is valid for these dims only."""
    watch = _current.get()
    if watch is not None:
        watch.for_others = False
