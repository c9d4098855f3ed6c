"""The things that are void when a known size changes: plans, and what else was worked out from sizes."""

from __future__ import annotations

from collections.abc import Callable

_on_resize: list[Callable[[], None]] = []
resizes = [0]  # how often that happened


def on_resize(clear: Callable[[], None]) -> None:
    """Register what has to be forgotten when a known size changes."""
    _on_resize.append(clear)


def tell_resized() -> None:
    """Forget all that is void because a known size has changed."""
    resizes[0] += 1
    for clear in _on_resize:
        clear()
