"""Lets somebody else answer calls of functions for a while, wherever the functions are referred to.

    with intercept(functions, handler):        # handler(fn, args, kwargs) instead of fn(*args, **kwargs), in this context
        ...

An op that looked whether somebody wants to see its calls would pay for that in every call. Here the functions themselves are
changed while somebody looks (`fn.__code__`), so that it costs nothing else, and also those calls are seen that go through
another name of the function (`self.activation = rf.relu`).
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from types import CodeType, FunctionType
from typing import Any

Handler = Callable[[Callable[..., Any], tuple[Any, ...], dict[str, Any]], Any]
_PLACE = "the function to call instead"
_lock = threading.RLock()
_active: dict[FunctionType, _Switch] = {}


# The innermost last, each with the functions whose calls it answers.
_handlers: ContextVar[tuple[tuple[frozenset[FunctionType], Handler], ...]] = ContextVar("rfnb_handlers", default=())


class _Switch:
    """A function whose calls go to the handler of the context; how many `intercept` blocks want that."""

    def __init__(self, fn: FunctionType):
        self.fn, self.code = fn, fn.__code__
        self.users: set[int] = set()  # ids of the blocks
        self.original = FunctionType(fn.__code__, fn.__globals__, fn.__name__, fn.__defaults__, fn.__closure__)
        self.original.__kwdefaults__ = fn.__kwdefaults__
        self.original.__qualname__ = fn.__qualname__
        self.original.__module__ = fn.__module__

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        stack = _handlers.get()
        for place in range(len(stack) - 1, -1, -1):
            functions, handler = stack[place]
            if self.fn in functions:
                _handlers.set(stack[:place])  # what it calls goes to those outside of it
                try:
                    return handler(self.fn, args, kwargs)
                finally:
                    _handlers.set(stack)
        return self.original(*args, **kwargs)


@contextmanager
def intercept(functions: Iterable[FunctionType], handler: Handler) -> Iterator[None]:
    """While this is active, calls in this context of `functions` are calls of `handler(fn, args, kwargs)`.

    Handlers nest: what a handler calls goes to the one outside of it, or is done, if there is none.
    """
    functions = list(functions)
    own = frozenset(functions), handler
    try:
        _switch_on(functions, id(own))
        _handlers.set((*_handlers.get(), own))
        yield
    finally:
        _handlers.set(tuple(each for each in _handlers.get() if each is not own))
        _switch_off(functions, id(own))


def is_intercepted() -> bool:
    """Whether calls of some functions are answered by somebody else in this context."""
    return bool(_handlers.get())


def _switch_on(functions: list[FunctionType], user: int) -> None:
    with _lock:
        for fn in functions:
            switch = _active.get(fn)
            if switch is None:
                switch = _active[fn] = _Switch(fn)
                fn.__code__ = _code_calling(switch, fn.__code__)
            switch.users.add(user)


def _switch_off(functions: list[FunctionType], user: int) -> None:
    with _lock:
        for fn in functions:
            switch = _active.get(fn)
            if switch is None:  # an interrupt came before it was switched on
                continue
            switch.users.discard(user)
            if not switch.users:
                fn.__code__ = switch.code
                del _active[fn]


def _code_calling(switch: _Switch, like: CodeType) -> CodeType:
    """The code of `def fn(*args, **kwargs): return switch(*args, **kwargs)`, with the free variables that `like` has (a
    function does not take code with another number of them)."""
    template = _template(len(like.co_freevars))
    constants = tuple(switch if constant == _PLACE else constant for constant in template.co_consts)
    return template.replace(co_consts=constants, co_name=like.co_name, co_filename=like.co_filename)


@cache
def _template(free: int) -> CodeType:
    names = [f"_{index}" for index in range(free)]
    source = (
        f"def outer({', '.join(names)}):\n"
        "    def fn(*args, **kwargs):\n"
        f"        return {_PLACE!r}(*args, **kwargs)\n"
        f"        {', '.join(names) or 'None'}\n"
        "    return fn\n"
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)  # a string is not callable; its place is taken by what is
        scope: dict[str, Any] = {}
        exec(compile(source, "<intercepted>", "exec"), scope)
    return scope["outer"](*names).__code__
