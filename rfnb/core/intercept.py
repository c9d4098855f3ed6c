"""Lets somebody else answer the calls of ops for a while, wherever the ops are referred to.

    with Intercepted(handler):        # handler(op, args, kwargs) instead of op.fn(*args, **kwargs), in this context
        ...

An op that looked whether somebody wants to see its calls would pay for that in every call. Here the functions themselves are
changed while somebody looks (`fn.__code__`), so that it costs nothing else, and also those calls are seen that go through
another name of the function (`self.activation = rf.relu`).

An interrupt may come between any two instructions of Python, and another thread may run there. So all ops are switched by one call
of C, in the middle of which it is looked up which codes they get; and `stop` puts back by value what it finds, however often.
"""

from __future__ import annotations

import threading
import warnings
from collections import deque
from collections.abc import Callable, Container, Iterable, Iterator
from contextvars import ContextVar
from functools import cache
from itertools import chain, repeat
from operator import attrgetter, getitem
from types import CodeType, FunctionType
from typing import Any

from rfnb.core.call_errors import FUNCTIONS
from rfnb.core.dim_names import MAY_NAME, with_dims
from rfnb.core.kept_signature import keep_signature
from rfnb.core.op import Op, all_ops, op_of
from rfnb.core.place import DOORS
from rfnb.core.when_loaded import after_loading

Handler = Callable[[Op, tuple[Any, ...], dict[str, Any]], Any]

_open: list[Intercepted] = []  # of all threads
_innermost: ContextVar[Intercepted | None] = ContextVar("rfnb_intercepted", default=None)


class Intercepted:
    """A with-block in which calls of ops in this context are calls of `handler(op, args, kwargs)`.

    Handlers nest: what a handler calls goes to the one outside of it, or is done, if there is none.

    Args:
        only: The functions of the ops that it answers; all.
    """

    def __init__(self, handler: Handler, only: Container[Any] | None = None):
        self.handler, self.on, self.only = handler, False, only
        self.outer: Intercepted | None = None
        self._thread = threading.get_ident()

    def __enter__(self) -> Intercepted:
        try:
            switches = _known_switches()
            self.outer, self.on = _live(_innermost.get()), True
            _open.append(self)
            switches.settle()
            _innermost.set(self)
        except BaseException:
            self.stop()
            raise
        return self

    def aside(self, fn: Callable[..., Any], *args: Any) -> Any:
        """Call `fn` while only those outside of this block answer."""
        here = _innermost.get()
        try:
            try:
                _innermost.set(self.outer)
                return fn(*args)
            finally:
                _innermost.set(here)
        finally:  # the first one may be interrupted before it begins
            _innermost.set(here)

    def __exit__(self, *error: Any) -> None:
        try:
            self.stop()
        finally:
            self.stop()

    def stop(self) -> None:
        """Leave the block; a second time does nothing."""
        self.on = False
        if self in _open:
            _open.remove(self)
        for switches in _switches:
            switches.settle()
        # The garbage collector may close a generator in another thread; a notebook may do it in the context of another cell.
        if self._thread == threading.get_ident():
            here = _innermost.get()
            inside = self in _around(here)
            if inside or here is None or here in _around(self.outer):  # else an interrupt has lost it
                _innermost.set(_live(here if inside else self.outer))


def outside(op: Op) -> Callable[..., Any]:
    """The way for a handler to have a call answered outside of it, or done."""
    return op.plain if _innermost.get() is None else op.fn


def intercept_new_ops() -> None:
    """Let whoever intercepts answer the ops of modules that were loaded meanwhile, too."""
    if _open:
        _known_switches().settle()


after_loading(intercept_new_ops)


def with_plain_code(fn: FunctionType) -> FunctionType:
    """The function with its own code, for who gives it another one: an op may be answered by somebody else meanwhile."""
    op = op_of(fn)
    switch = None if op is None else _switch_of.pop(op, None)
    if switch is not None:
        _switches.clear()
        if fn.__code__ is switch.answered:
            fn.__code__ = switch.plain
    return fn


def is_intercepted() -> bool:
    """Whether calls of ops may be answered by somebody else in this context."""
    return _live(_innermost.get()) is not None


class _OfThread(threading.local):
    """`draws`: the number of calls of ops that draw random numbers in this thread while somebody intercepted."""

    draws = 0


of_thread = _OfThread()


def _answer(op: Op, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if op.draws:
        of_thread.draws += 1
    here = _innermost.get()
    block = _live(here)
    if block is not None and not MAY_NAME.isdisjoint(map(type, (*args, *kwargs.values()))):
        args, kwargs = _with_dims(op, args, kwargs)
    while block is not None and block.only is not None and op.fn not in block.only:
        block = _live(block.outer)
    return op.plain(*args, **kwargs) if block is None else block.aside(block.handler, op, args, kwargs)


def _with_dims(op: Op, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments with Dims in place of names: whoever answers sees those."""
    code = op.plain.__code__
    fn, what, written = FUNCTIONS.get(code, (None, "", ""))
    named = None if fn is None else with_dims(what, written, fn, code, args, kwargs)
    return (args, kwargs) if named is None else named


def _around(block: Intercepted | None) -> Iterator[Intercepted]:
    """A block and those outside of it."""
    while block is not None:
        yield block
        block = block.outer


def _live(block: Intercepted | None) -> Intercepted | None:
    """The first of them that is on; a context that was copied inside of a block keeps it for ever."""
    while block is not None and not block.on:
        block = block.outer
    return block


def one_of(off_on: tuple[Iterable[Any], Iterable[Any]], users: list[Any]) -> Iterator[Any]:
    """The items of the second if there are users, else of the first; decided when the first item is asked for.

    So a call of C that takes them all is one step from the look at the users to the end, for interrupts and other threads: these
    come between instructions of Python only (which a generator would have).
    """
    return chain.from_iterable(map(getitem, repeat(off_on, 1), map(bool, repeat(users, 1))))


# -- switching -------------------------------------------------------------------------------------------------------------


class _Switch:
    """The two codes of an op."""

    def __init__(self, op: Op):
        fn = op.fn
        self.plain = fn.__code__
        keep_signature(fn)  # not that of the code which answers
        op.plain = FunctionType(fn.__code__, fn.__globals__, fn.__name__, fn.__defaults__, fn.__closure__)
        op.plain.__kwdefaults__ = fn.__kwdefaults__
        op.plain.__qualname__, op.plain.__module__ = fn.__qualname__, fn.__module__
        self.answered = _code_answering(op)


class _Switches:
    """All ops with the codes that they have while nobody intercepts, and while somebody does."""

    def __init__(self, ops: list[Op]):
        for op in ops:
            switch = _switch_of.get(op)
            now = op.fn.__code__
            if switch is None or (now is not switch.plain and now is not switch.answered):
                _switch_of[op] = _Switch(op)
        self._functions = tuple(op.fn for op in ops)
        self._plain = tuple(_switch_of[op].plain for op in ops)
        self._codes = self._plain, tuple(_switch_of[op].answered for op in ops)

    def are_current(self) -> bool:
        """Whether no op has been declared since, and none was given other code, as notebooks do that reload modules."""
        return len(self._functions) == len(all_ops()) and (
            bool(_open) or tuple(map(_code_of, self._functions)) == self._plain
        )

    def settle(self) -> None:
        """Give each op the code that it should have."""
        deque(map(setattr, self._functions, repeat("__code__"), one_of(self._codes, _open)), 0)


_code_of = attrgetter("__code__")
_switch_of: dict[Op, _Switch] = {}
_switches: list[_Switches] = []  # one, once somebody has intercepted


def _known_switches() -> _Switches:
    if not _switches or not _switches[0].are_current():
        _switches[:] = [_Switches(all_ops())]
    return _switches[0]


def _code_answering(op: Op) -> CodeType:
    """Code for `op.fn` that asks who answers, with as many free variables as it has (a function takes no other code)."""
    code = op.fn.__code__
    template = _template(len(code.co_freevars), op.draws)
    parts = {"<asked>": _innermost.get, "<plain>": op.plain, "<answer>": _answer, "<op>": op}
    constants = tuple(parts.get(each, each) if isinstance(each, str) else each for each in template.co_consts)
    code = template.replace(co_consts=constants, co_name=op.fn.__name__, co_qualname=op.fn.__qualname__)
    DOORS.add(code)  # it only calls the op
    return code


@cache
def _template(free: int, always: bool) -> CodeType:
    names = [f"_{index}" for index in range(free)]
    nobody = "" if always else "        if '<asked>'() is None: return '<plain>'(*args, **kwargs)\n"
    source = (
        f"def outer({', '.join(names)}):\n"
        f"    def fn(*args, **kwargs):\n{nobody}"
        "        return '<answer>'('<op>', args, kwargs)\n"
        f"        {', '.join(names) or 'None'}\n"
        "    return fn\n"
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)  # a string is not callable; its place is taken by what is
        scope: dict[str, Any] = {}
        exec(compile(source, __file__, "exec"), scope)
    return scope["outer"](*names).__code__
