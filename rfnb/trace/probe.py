"""probe: offer a value to whoever listens; the path and step it is offered at.

    probe("attention", weights=weights, axis=time)

Nobody listening costs one look at a list. Library code offers; `rfnb/trace/record.py` decides what is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple


class Place(NamedTuple):
    """Where in the run: the dotted path, the step of the innermost loop (None outside of one), and that loop's axis."""

    path: str = ""
    step: int | None = None
    axis: Any = None


Listener = Callable[[str, Place, dict[str, Any]], None]
_place: ContextVar[Place] = ContextVar("rfnb_place", default=Place())  # noqa: B039 (a tuple)
_listeners: ContextVar[tuple[Listener, ...]] = ContextVar("rfnb_listeners", default=())
_open = [0]  # how many recordings are open in any thread: 0 makes `listening` a single test


def listening() -> bool:
    """Whether somebody records in this context."""
    return _open[0] > 0 and bool(_listeners.get())


def probe(kind: str, **values: Any) -> None:
    """Offer named values (Tensors and plain data) as an event of `kind`."""
    if _open[0]:
        place = _place.get()
        for listener in _listeners.get():
            listener(kind, place, values)


@contextmanager
def listen(listener: Listener) -> Iterator[None]:
    """Let `listener(kind, place, values)` hear the probes of this context for a with-block."""
    token = _listeners.set((*_listeners.get(), listener))
    _open[0] += 1
    try:
        yield
    finally:
        _open[0] -= 1
        _listeners.reset(token)


class TraceContext:
    """Keeps track of the place; used by Module and Loop, and only while somebody listens."""

    @contextmanager
    def module(self, path: str) -> Iterator[None]:
        """Inside of the module at `path` (from the outermost module)."""
        before = _place.get()
        _place.set(before._replace(path=path))
        try:
            yield
        finally:
            _place.set(before)

    @contextmanager
    def loop(self, name: str, step: int, axis: Any) -> Iterator[None]:
        """Inside of one step of a loop; its path is that of the module around it, then its name."""
        before = _place.get()
        _place.set(Place(f"{before.path}.{name}" if before.path else name, step, axis))
        try:
            yield
        finally:
            _place.set(before)

    @property
    def place(self) -> Place:
        return _place.get()


trace_context = TraceContext()
