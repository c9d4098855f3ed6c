"""Public functions as doors: what fails raw behind one, because of an argument that it was called with, is an error that names it.

    open_door(rf.show)       # in place: the function stays the same object, with other code
    watch_body(rf.softmax)   # the same without a call more: only for what fails inside, not for arguments that there are not

An error counts as raw if no `raise` of this package made it, and is left alone if user code (a callback, a Module) is on the way to it,
if the arguments are of the documented types, or if another function of this package made the call. It stays as the `__cause__`.
"""

from __future__ import annotations

import dis
import functools
import inspect
import itertools
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from types import CodeType, FrameType, FunctionType, TracebackType
from typing import Any

from rfnb.core.argument_types import hints_of
from rfnb.core.call_errors import FUNCTIONS, MissingArgument, MissingError, arguments_of, explain_call, failed_inside
from rfnb.core.dim_names import Arguments, again, with_dims
from rfnb.core.errors import DimError, NoPlanError, parts_of
from rfnb.core.intercept import _answer
from rfnb.core.kept_signature import keep_signature
from rfnb.core.place import DOORS, in_package
from rfnb.core.type_errors import explain_types

_LIBRARIES = {"rfnb", "torch", "numpy", *sys.stdlib_module_names} - {"__main__"}


# These methods keep what they get, or look only whether it is there, and would do so with what stands for a missing argument.
_KEEP = {"has_axis", "check_assignable", "depends_on", "call_on_commit", "cls_flatten_tensors"}


@dataclass(frozen=True)
class Door:
    """A public function: `what` messages call it, and the `code` of a call."""

    what: str
    code: str
    fn: FunctionType
    bound: bool  # to `self` or a class

    @property
    def signature(self) -> inspect.Signature:
        """The signature without `self`."""
        signature = inspect.signature(self.fn)
        return signature.replace(parameters=list(signature.parameters.values())[self.bound :])

    def with_dims(self, code: CodeType, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Arguments | None:
        """The arguments with the Dims that names among them mean, if there are any: see `core/dim_names.py`."""
        return with_dims(self.what, self.code, self.fn, code, args, kwargs)

    def error(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], failed: Exception | None = None
    ) -> TypeError | DimError | None:
        """The error for arguments that are too few, too many, unknown or of a wrong type; None if they are not to blame."""
        args = args[self.bound :]
        misfit = explain_call(self.what, self.code, self.signature, args, kwargs)
        return misfit or explain_types(
            self.what, self.code, self.signature, hints_of(self.fn), args, kwargs, error=failed
        )


def open_door(fn: FunctionType, what: str, code: str, bound: bool = False) -> None:
    """Let a call of a function, which is seldom called, say what is wrong with its arguments."""
    plain = FunctionType(fn.__code__, fn.__globals__, fn.__name__, fn.__defaults__, fn.__closure__)
    plain.__kwdefaults__, plain.__qualname__, plain.__module__ = fn.__kwdefaults__, fn.__qualname__, fn.__module__
    keep_signature(fn)
    fn.__code__ = _code_through(fn.__code__, plain, Door(what, code, fn, bound))
    DOORS.add(fn.__code__)


def watch_body(fn: FunctionType, what: str, code: str, bound: bool = False) -> None:
    """The same for a function that is called often, where a call less counts: its code gets a handler for what fails in it.

    On a Python whose code is another one, functions stay as they are.
    """
    if not _can_watch():
        return
    if bound and fn.__name__ not in _KEEP:
        _let_be_missing(fn)
    fn.__code__ = _with_handler(fn.__code__, _Failed(Door(what, code, fn, bound)))
    if not bound:
        FUNCTIONS[fn.__code__] = fn, what, code


def _let_be_missing(fn: FunctionType) -> None:
    """Give what has no default one that is an error as soon as it is touched: a call that lacks an argument enters the code of the
    method, where the handler sees it. A good call costs the same."""
    keep_signature(fn)
    code = fn.__code__
    before = fn.__defaults__ or ()
    positional = code.co_varnames[1 : code.co_argcount]  # without `self`
    fn.__defaults__ = (*map(MissingArgument, positional[: len(positional) - len(before)]), *before) or None
    given = fn.__kwdefaults__ or {}
    needed = code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]
    fn.__kwdefaults__ = {**{name: MissingArgument(name) for name in needed if name not in given}, **given} or None


def _through(plain: FunctionType, door: Door, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    try:
        return plain(*args, **kwargs)
    except Exception as error:
        if called_inside(sys._getframe(1)):
            raise
        named = door.with_dims(plain.__code__, args, kwargs)
        if named is not None:
            return again(plain, plain.__code__, named, error, functools.partial(_explain, door))
        _explain(door, args, kwargs, error)
        raise


def called_with(fn: FunctionType, what: str, code: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The result of a function that gets arguments of a user through others, `*args` and `**kwargs`, with errors as of a door."""
    try:
        return fn(*args, **kwargs)
    except Exception as error:
        _explain(Door(what, code, fn, False), args, kwargs, error)
        raise


def _explain(door: Door, args: tuple[Any, ...], kwargs: dict[str, Any], error: Exception) -> None:
    """Raise the error for the arguments, if they are to blame for one that was caught."""
    inside = failed_inside(error)
    explained = None if inside and not is_raw(error, inside) else door.error(args, kwargs, error)
    if explained is not None:
        raise explained from (error if inside else None)


DOORS.add(_through.__code__)


class _Failed:
    """Called by the handler of a function while its error is handled. If it is true, the second call gives the result of the function."""

    def __init__(self, door: Door):
        self.door = door

    def __call__(self) -> Any:
        error = sys.exc_info()[1]
        traceback = None if error is None else error.__traceback__
        if traceback is None or not isinstance(error, Exception):
            return False
        code, named = traceback.tb_frame.f_code, error.__dict__.pop("named", None)
        if named is not None:
            return again(self.door.fn, code, named, error, functools.partial(_explain, self.door))
        args, kwargs = arguments_of(traceback.tb_frame)
        if called_inside(traceback.tb_frame, self.door.fn):
            return False
        named = self.door.with_dims(code, args, kwargs)
        if named is not None:
            error.__dict__["named"] = named
            return True
        raw, lacks = (
            is_raw(error, traceback),
            any(type(value) is MissingArgument for value in (*args, *kwargs.values())),
        )
        explained = self.door.error(args, kwargs, error) if raw or lacks else None
        if explained is not None:
            raise explained from (error if raw else None)
        return False


def called_inside(frame: FrameType, fn: FunctionType | None = None) -> bool:
    """Whether the function of a frame was called by this package, whose own function then answers for it. A call of the op `fn` may
    have come here through those who intercept it."""
    caller = frame.f_back
    while caller is not None and caller.f_code in DOORS:
        caller = caller.f_back
    if caller is None or not in_package(caller.f_code):
        return False
    while fn is not None and caller is not None and in_package(caller.f_code):
        if caller.f_code is _answer.__code__ and caller.f_locals["op"].fn is fn and caller.f_back is not None:
            return called_inside(caller.f_back, fn)
        caller = caller.f_back
    return True


def is_raw(error: Exception, traceback: TracebackType | None) -> bool:
    """Whether an error was made by no `raise` of this package, and by no code of the user on the way."""
    if isinstance(error, MissingError):
        return True
    if parts_of(error) is not None or isinstance(error, (NoPlanError, Warning, StopIteration)):
        return False
    last = None
    while traceback is not None:
        frame, last = traceback.tb_frame, traceback
        if not in_package(frame.f_code) and not _is_library(frame):
            return False
        traceback = traceback.tb_next
    if last is None or not in_package(last.tb_frame.f_code):
        return True
    code = last.tb_frame.f_code.co_code
    return dis.opname[code[last.tb_lasti]] != "RAISE_VARARGS"


def _is_library(frame: FrameType) -> bool:
    name = frame.f_globals.get("__name__") or ""
    return name.partition(".")[0] in _LIBRARIES and name != "__main__"


# -- code ------------------------------------------------------------------------------------------------------------------


def _code_through(code: CodeType, plain: FunctionType, door: Door) -> CodeType:
    """Code that calls `_through`, with as many free variables as `code` has (a function takes no other code), in its place. What it
    needs are globals of the function, since `torch.compile` reads no functions among constants."""
    template = _template(
        len(code.co_freevars),
        "def fn(*args, **kwargs):\n        return _through_door(_plain_of_door, _door, args, kwargs)",
    )
    parts = {"_through_door": _through, "_plain_of_door": plain, "_door": door}
    names = {name: f"{name}_{next(_numbers)}" for name in parts}
    plain.__globals__.update({names[name]: part for name, part in parts.items()})
    return template.replace(
        co_names=tuple(names.get(name, name) for name in template.co_names), co_name=code.co_name,
        co_qualname=code.co_qualname, co_filename=code.co_filename, co_firstlineno=code.co_firstlineno,
    )  # fmt: skip


_numbers = itertools.count()


@cache
def _template(free: int, source: str) -> CodeType:
    names = [f"_{index}" for index in range(free)]
    lines = [
        f"def outer({', '.join(names)}):",
        f"    {source}",
        f"        {', '.join(names) or 'None'}",
        "    return fn",
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)  # a string is not callable; its place is taken by what is
        scope: dict[str, Any] = {}
        exec(compile("\n".join(lines), __file__, "exec"), scope)
    return scope["outer"](*names).__code__


def _with_handler(code: CodeType, failed: Callable[[], Any]) -> CodeType:
    """The code of a function with a `try` around it, in whose `except:` is `if failed(): return failed()` and `raise`.

    What can be left by an error without an entry in its table of handlers gets one; nothing else in it changes.
    """
    at = len(code.co_code) // 2
    tail, depth, inner = _tail(at, len(code.co_consts))
    filled, here = [], 0
    for start, end, target, how in [*_entries(code.co_exceptiontable), (at, at, 0, 0)]:
        if here < start:
            filled.append((here, start, at, 0))
        if start < end:
            filled.append((start, end, target, how))
        here = max(here, end)
    return code.replace(
        co_code=code.co_code + tail,
        co_consts=(*code.co_consts, failed),
        co_stacksize=max(code.co_stacksize, depth),
        co_exceptiontable=b"".join(map(_entry, filled)) + inner,
        co_linetable=code.co_linetable + _lines(len(tail) // 2),
    )


@cache
def _tail(at: int, number: int) -> tuple[bytes, int, bytes]:
    """The code of the handler that begins `at` an instruction, calling the constant of that number; the stack that it needs; and the
    entries for what is raised in itself."""
    handler, depth, inner = _handler()
    tail = bytearray(handler)
    for index in range(2, len(handler), 2):
        if handler[index] == _LOAD_CONST and handler[index - 2] == _EXTENDED_ARG:
            tail[index - 1], tail[index + 1] = divmod(number, 256)
    entries = ((at + start, at + stop, at + target, how) for start, stop, target, how in inner)
    return bytes(tail), depth, b"".join(map(_entry, entries))


_LOAD_CONST, _EXTENDED_ARG = dis.opmap["LOAD_CONST"], dis.EXTENDED_ARG


@cache
def _can_watch() -> bool:
    """Whether code with a handler does what it should on this Python."""
    seen: list[Any] = []

    def divided(x: int) -> float:
        try:
            return 1 / x
        finally:
            x = 0

    try:
        answers = iter((True, 7, False))
        divided.__code__ = _with_handler(divided.__code__, lambda: (seen.append(sys.exc_info()[0]), next(answers))[1])  # type: ignore[func-returns-value]
        fine = divided(1) == 1 and not seen and divided(0) == 7
        divided(0)
    except ZeroDivisionError:
        return fine and seen == [ZeroDivisionError] * 3
    except Exception:
        return False
    return False


@cache
def _handler() -> tuple[bytes, int, list[tuple[int, int, int, int]]]:
    """The code that this Python makes of `except:`, of which `if failed(): return failed()` is the body and `raise` its end, the stack
    that it needs, and its own entries, from its begin on. `failed` has a number above 255, as if there were many constants."""
    many = "; ".join(f"fn({number}.5)" for number in range(260))
    body = "if '<failed>'(): return '<failed>'()"
    code = _template(0, f"def fn():\n        {many}\n        try: fn\n        except:\n         {body}\n         raise")
    outer, *inner = _entries(code.co_exceptiontable)
    begin = outer[2]
    own = [(start - begin, end - begin, target - begin, how) for start, end, target, how in inner if start >= begin]
    return code.co_code[2 * begin :], code.co_stacksize, own


def _entries(table: bytes) -> Iterator[tuple[int, int, int, int]]:
    """(start, end, handler, depth and mode) of each entry of a table of handlers, in instructions."""
    rest = iter(table)

    def number(byte: int) -> int:
        value = byte & 63
        while byte & 64:
            byte = next(rest)
            value = value << 6 | byte & 63
        return value

    for first in rest:
        start = number(first)
        size, target, how = (number(next(rest)) for _ in range(3))
        yield start, start + size, target, how


@cache
def _entry(entry: tuple[int, int, int, int]) -> bytes:
    start, end, target, how = entry
    return _number(start, 128) + _number(end - start) + _number(target) + _number(how)


def _number(value: int, mark: int = 0) -> bytes:
    """A number in groups of six bits, the first with the mark of an entry's begin."""
    groups = [value & 63]
    while value := value >> 6:
        groups.append(64 | value & 63)
    groups[-1] |= mark
    return bytes(reversed(groups))


@cache
def _lines(count: int) -> bytes:
    """So many instructions that are of the last line."""
    return b"".join(bytes((0xE8 | min(8, count - begin) - 1, 0)) for begin in range(0, count, 8))
