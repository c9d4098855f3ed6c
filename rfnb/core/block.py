"""Blocks that undo their effects, wherever an interrupt strikes.

    @block                                  # as contextlib.contextmanager
    def recorded(): ...

    class Listening(Undone): ... # for changes outside of Python's own blocks: `begin` and `undo`
    with Setting(variable, partial(set_default_device, "cuda")): ...

Ctrl+C raises an exception between any two instructions: inside the `__exit__` that would restore something, just before it, or just
after the `__enter__` that changed something. So a block knows what to undo before it does anything, may undo it twice, and is undone
again from outside when the with-statement releases the method it would have called (`Exit`).
"""

from __future__ import annotations

import contextlib
import functools
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from functools import partial
from typing import Any, ParamSpec, TypeVar

T = TypeVar("T")
P = ParamSpec("P")
_nothing: Any = object()


class Exit:
    """An `__exit__` method whose objects are notified when their with-block ends, even if an interrupt strikes before `__exit__`
    begins: the with-statement releases the bound method together with the block.

    Args:
        leave: The method.
        over: Called with the object and its block, as given by `block_of` at entry.
    """

    def __init__(self, leave: Callable[..., Any], over: Callable[[Any, Any], None]):
        self._leave, self._over = leave, over

    def __get__(self, instance: Any, owner: Any = None) -> Callable[..., Any]:
        if instance is None:
            return self._leave
        leave = partial(self._leave, instance)
        instance.__dict__["_block"] = weakref.ref(leave, partial(self._over, instance))
        return leave


def block_of(instance: Any) -> Any:
    """The with-block that is being entered, for `over`; None if its end cannot be observed."""
    its = instance.__dict__.get("_block")
    return its if its is not None and its() is not None else None


class Undone:
    """A with-block that is always undone. Abstract.

    Attributes:
        done: Whether the block has ended.
    """

    done = False
    _entered: Any = None

    def begin(self) -> Any:
        """Enter the block; return the value for the with-statement. Everything that `undo` needs is noted before anything is changed."""
        raise NotImplementedError

    def undo(self) -> None:
        """Undo the block, or the part that was done; a second call has no further effect."""
        raise NotImplementedError

    def _end(self) -> None:
        if not self.done:
            self.undo()
            self.done = True

    def __enter__(self) -> Any:
        self._entered = block_of(self)
        self.done = False
        try:
            return self.begin()
        except BaseException:
            self._end()
            raise

    def _leave(self, *error: Any) -> None:
        try:
            self._end()
        finally:
            self._end()

    def _over(self, its: Any) -> None:
        if self._entered is its:
            self._end()

    __exit__: Any = Exit(_leave, _over)


class Setting(Undone, contextlib.ContextDecorator):
    """A with-block in which a context variable has another value; also a decorator that applies it to each call of a function.

    Args:
        change: Sets the value.
        value: The value for the with-statement.
    """

    def __init__(self, variable: ContextVar[Any], change: Callable[[], Any], value: Any = None):
        self._variable, self._change, self._value, self._was = variable, change, value, _nothing

    def _recreate_cm(self) -> Setting:
        return Setting(self._variable, self._change, self._value)

    def begin(self) -> Any:
        self._was = self._variable.get()
        self._change()
        return self._value

    def undo(self) -> None:
        if self._was is not _nothing:
            self._variable.set(self._was)


class Among(Undone):
    """A with-block in which an item is appended to a context variable that holds a tuple. Blocks may end in any order."""

    def __init__(self, variable: ContextVar[Any], item: Any):
        self._variable, self._item = variable, item

    def begin(self) -> None:
        self._variable.set((*self._variable.get(), self._item))

    def undo(self) -> None:
        self._variable.set(tuple(other for other in self._variable.get() if other is not self._item))


class _Block(contextlib._GeneratorContextManager[T]):
    _entered: Any = None

    def __enter__(self) -> T:
        self._entered = block_of(self)
        return super().__enter__()

    def _over(self, its: Any) -> None:
        if self._entered is its:
            self.gen.close()

    __exit__: Any = Exit(contextlib._GeneratorContextManager.__exit__, _over)


def block(function: Callable[P, Iterator[T]]) -> Callable[P, contextlib.AbstractContextManager[T]]:
    """`contextlib.contextmanager`, but the function also runs to its end if an interrupt strikes outside of it."""

    @functools.wraps(function)
    def made(*args: P.args, **kwargs: P.kwargs) -> contextlib.AbstractContextManager[T]:
        return _Block(function, args, kwargs)  # type: ignore[arg-type]

    return made


@block
def all_of(managers: Sequence[contextlib.AbstractContextManager[Any]]) -> Iterator[None]:
    """Enter several context managers, nested in order."""
    if not managers:
        yield
        return
    with managers[0], all_of(managers[1:]):
        yield
