"""Lets another object take over a module's call: this is how a torch.nn.Module around a model runs the hooks of its parts.

    with through({id(part): make}):
        model(x)           # where the model calls `part(x)`, `make(call, args, kwargs)` is called

It costs nothing outside such a block: a Module checks for it only while some thread has a listener.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextvars import ContextVar
from types import MappingProxyType
from typing import Any

from rfnb.core.block import Undone
from rfnb.trace.probe import _open

Call = Callable[..., Any]
Make = Callable[[Call, tuple[Any, ...], dict[str, Any]], Any]

_makers: ContextVar[Mapping[int, Make]] = ContextVar("rfnb_calls_through", default=MappingProxyType({}))


class through(Undone):
    """For a with-block, let these callables make the calls of the modules with these ids, in this context; nested blocks add to them."""

    def __init__(self, makers: Mapping[int, Make]):
        self._makers, self._before = makers, _makers.get()

    def begin(self) -> None:
        self._before = _makers.get()
        _open[id(self)] = self
        _makers.set({**self._before, **self._makers})

    def undo(self) -> None:
        _open.pop(id(self), None)
        _makers.set(self._before)


def made_through(module: Any, call: Call, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The result of a call that another object took over."""
    makers = _makers.get()
    make = makers.get(id(module))
    if make is None:
        return call(module, *args, **kwargs)

    def itself(*args: Any, **kwargs: Any) -> Any:
        before = _makers.get()
        _makers.set({key: maker for key, maker in before.items() if key != id(module)})
        try:
            return call(module, *args, **kwargs)
        finally:
            _makers.set(before)

    return make(itself, args, kwargs)
