"""Lets another object answer the calls of ops for a while, however the ops are referenced.

    with Intercepted(handler):        # handler(op, args, kwargs) instead of op.fn(*args, **kwargs), in this context
        ...

Checking in each op whether its calls are intercepted would cost time in every call. Instead the functions themselves are changed while
there is an interceptor (`fn.__code__`), so that it costs nothing otherwise, and calls are seen even if they use another reference to the
function (`self.activation = rf.relu`).

An interrupt or a thread switch may occur between any two Python instructions. So all ops are switched by a single C call, which looks up
their codes on the way; and `stop` restores by value, any number of times.
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
from rfnb.core.import_hooks import after_loading
from rfnb.core.kept_signature import keep_signature
from rfnb.core.op import Args, Kwargs, Op, all_ops, op_of
from rfnb.core.place import DOORS

Handler = Callable[[Op, tuple[Any, ...], dict[str, Any]], Any]

_open: list[Intercepted] = []  # of all threads
_innermost: ContextVar[Intercepted | None] = ContextVar("rfnb_intercepted", default=None)


class Intercepted:
    """A with-block in which op calls of this context become calls of `handler(op, args, kwargs)`.

    Handlers nest: an op call in a handler goes to the next outer one, or is carried out if there is none.

    Args:
        only: The functions of the ops that it answers; default: all.
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
        """Call `fn` while only the outer handlers answer."""
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
        """Leave the block; a second call does nothing."""
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
    """A function with which a handler passes a call to the outer handlers, or carries it out."""
    return op.plain if _innermost.get() is None else op.fn


def intercept_new_ops() -> None:
    """Let current interceptors also answer the ops of modules loaded since."""
    if _open:
        _known_switches().settle()


after_loading(intercept_new_ops)


def with_plain_code(fn: FunctionType) -> FunctionType:
    """The function with its own code, for callers that replace the code, since an op may currently be intercepted."""
    op = op_of(fn)
    switch = None if op is None else _switch_of.pop(op, None)
    if switch is not None:
        _switches.clear()
        if fn.__code__ is switch.answered:
            fn.__code__ = switch.plain
    return fn


def is_intercepted() -> bool:
    """True if op calls in this context may be intercepted."""
    return _live(_innermost.get()) is not None


class OfThread(threading.local):
    """Values of a thread, each at first as given."""

    def __init__(self, **first: Any):
        vars(self).update(first)


of_thread = OfThread(draws=0)  # the number of op calls in this thread that drew random numbers while intercepted


def _answer(op: Op, args: Args, kwargs: Kwargs) -> Any:
    if op.draws:
        of_thread.draws += 1
    here = _innermost.get()
    block = _live(here)
    if block is not None and not MAY_NAME.isdisjoint(map(type, (*args, *kwargs.values()))):
        args, kwargs = _with_dims(op, args, kwargs)
    while block is not None and block.only is not None and op.fn not in block.only:
        block = _live(block.outer)
    return op.plain(*args, **kwargs) if block is None else block.aside(block.handler, op, args, kwargs)


def _with_dims(op: Op, args: Args, kwargs: Kwargs) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments with names replaced by Dims, as interceptors see them."""
    code = op.plain.__code__
    fn, what, written = FUNCTIONS.get(code, (None, "", ""))
    named = None if fn is None else with_dims(what, written, fn, code, args, kwargs)
    return (args, kwargs) if named is None else named


def _around(block: Intercepted | None) -> Iterator[Intercepted]:
    """A block and its outer blocks."""
    while block is not None:
        yield block
        block = block.outer


def _live(block: Intercepted | None) -> Intercepted | None:
    """The first active block; a context copied inside a block keeps it for ever."""
    while block is not None and not block.on:
        block = block.outer
    return block


def one_of(off_on: tuple[Iterable[Any], Iterable[Any]], users: list[Any]) -> Iterator[Any]:
    """The items of the second argument if there are users, else of the first; decided when the first item is requested.

    So a C call that consumes them all is a single step for interrupts and other threads, which occur only between Python instructions
    (as a generator would have).
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
    """All ops with their codes with and without an interceptor."""

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
        """True if no op has been declared since, and none was given other code, as happens in notebooks that reload modules."""
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
    """Code for `op.fn` that calls the interceptor, with as many free variables as it has (a function accepts no other code)."""
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
