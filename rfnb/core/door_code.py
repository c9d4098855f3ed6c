"""Bytecode of functions that are doors: code that calls something else, code with a handler for failures, and code that first checks
some arguments. All of it is compiled by this Python and recombined, so that a call needs no extra call.
"""

from __future__ import annotations

import dis
import itertools
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from types import CodeType, FunctionType
from typing import Any


def code_through(code: CodeType, plain: FunctionType, through: Callable[..., Any], door: object) -> CodeType:
    """Code that calls `through(plain, door, args, kwargs)`, with as many free variables as `code` (a function accepts no other code).
    Its helpers are globals of the function, since `torch.compile` does not read functions among constants.
    """
    template = _template(
        len(code.co_freevars),
        "def fn(*args, **kwargs):\n        return _through_door(_plain_of_door, _door, args, kwargs)",
    )
    parts = {"_through_door": through, "_plain_of_door": plain, "_door": door}
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


def with_handler(code: CodeType, failed: Callable[[], Any]) -> CodeType:
    """The code of a function inside a `try` whose `except:` is `if failed(): return failed()` and `raise`.

    Every instruction without an entry in the exception table gets one; nothing else changes.
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


def with_checks(code: CodeType, tests: Sequence[tuple[str, Any, str]], check: str, door: object) -> CodeType:
    """The code of a function that first checks some arguments: if one is neither its default nor of these types, it calls `check()`.

    Args:
        tests: (parameter, its default, name of a global with the types). The default is a Python constant or `NO_DEFAULT`. Without
            types: the parameter is `*extra` or `**unknown`, and must be empty.
        check: The name of a global, which finds the `door` among the constants.
    """
    begin, consts, names = code.co_code[::2].index(_RESUME) + 1, list(code.co_consts), list(code.co_names)
    first = bytearray()
    for parameter, default, types in tests:
        unless = "" if default is NO_DEFAULT else "p is not '<default>' and "
        fragment, holes = _check(f"{unless}not isinstance(p, types)" if types else "p")
        made = bytearray(fragment)
        for index, what in holes:
            if what == "p":
                made[index + 1] = code.co_varnames.index(parameter)
                made[index] = _LOAD_DEREF if parameter in code.co_cellvars else made[index]
                continue
            if what == "default":
                consts.append(default)
                number = len(consts) - 1
            else:
                name = {"types": types, "check": check}.get(what, what)
                if name not in names:
                    names.append(name)
                number = 2 * names.index(name) + (made[index + 1] & 1)
            made[index - 1], made[index + 1] = divmod(number, 256)
        first += made
    size = len(first) // 2
    moved = [(start + size * (start >= begin), end + size * (end > begin), target + size, how)
             for start, end, target, how in _entries(code.co_exceptiontable)]  # fmt: skip
    line = _end_of_lines(code.co_linetable, begin)
    return code.replace(
        co_code=code.co_code[: 2 * begin] + bytes(first) + code.co_code[2 * begin :],
        co_consts=(*consts, door),
        co_names=tuple(names),
        co_stacksize=max(code.co_stacksize, 4),
        co_exceptiontable=b"".join(map(_entry, moved)),
        co_linetable=code.co_linetable[:line] + _lines(size) + code.co_linetable[line:],
    )


NO_DEFAULT = object()
_RESUME, _LOAD_DEREF = dis.opmap["RESUME"], dis.opmap["LOAD_DEREF"]


@cache
def _check(is_wrong: str) -> tuple[bytes, list[tuple[int, str]]]:
    """The code of one check of `p`, and its operands: the index of an instruction, and what it loads. Constants and names use numbers
    above 255, as if there were many.
    """
    many = "; ".join([f"fn({number}.5)" for number in range(260)] + [f"name{number}" for number in range(130)])
    code = _template(
        0, f"def fn(p):\n        {many}\n        begin\n        if {is_wrong}: check()\n        end\n        fn"
    )
    holes: list[tuple[int, str]] = []
    begin = end = 0
    for each in dis.get_instructions(code):
        what = "default" if each.argval == "<default>" else str(each.argval)
        if what == "begin":
            begin = -1
        elif begin < 0:  # behind it, the POP_TOP
            begin = each.offset + 2
        elif what == "end":
            end = each.offset - 2
            break
        elif begin and (each.opname.startswith(("LOAD_GLOBAL", "LOAD_FAST")) or what == "default"):
            holes.append((each.offset - begin, what))
    return code.co_code[begin:end], holes


def _end_of_lines(table: bytes, begin: int) -> int:
    """The index in a line table at which this many instructions end."""
    at = count = 0
    while count < begin:
        count += (table[at] & 7) + 1
        at += 1
        while at < len(table) and not table[at] & 128:
            at += 1
    return at


@cache
def _tail(at: int, number: int) -> tuple[bytes, int, bytes]:
    """The code of the handler starting at instruction `at`, which calls the constant of that number; its stack depth; and the entries
    for exceptions inside it.
    """
    handler, depth, inner = _handler()
    tail = bytearray(handler)
    for index in range(2, len(handler), 2):
        if handler[index] == _LOAD_CONST and handler[index - 2] == _EXTENDED_ARG:
            tail[index - 1], tail[index + 1] = divmod(number, 256)
    entries = ((at + start, at + stop, at + target, how) for start, stop, target, how in inner)
    return bytes(tail), depth, b"".join(map(_entry, entries))


_LOAD_CONST, _EXTENDED_ARG = dis.opmap["LOAD_CONST"], dis.EXTENDED_ARG


@cache
def can_watch() -> bool:
    """True if code with a handler works on this Python."""
    seen: list[Any] = []

    def divided(x: int) -> float:
        try:
            return 1 / x
        finally:
            x = 0

    try:
        answers = iter((True, 7, False))
        checked = with_checks(divided.__code__, [("x", 5, "str")], "list", None)
        divided.__code__ = with_handler(checked, lambda: (seen.append(sys.exc_info()[0]), next(answers))[1])  # type: ignore[func-returns-value]
        fine = divided(1) == 1 and not seen and divided(0) == 7
        divided(0)
    except ZeroDivisionError:
        return fine and seen == [ZeroDivisionError] * 3
    except Exception:
        return False
    return False


@cache
def _handler() -> tuple[bytes, int, list[tuple[int, int, int, int]]]:
    """The code that this Python compiles for `except:` with the body `if failed(): return failed()` and `raise`, its stack depth, and
    its own entries, relative to its start. `failed` has a number above 255, as if there were many constants.
    """
    many = "; ".join(f"fn({number}.5)" for number in range(260))
    body = "if '<failed>'(): return '<failed>'()"
    code = _template(0, f"def fn():\n        {many}\n        try: fn\n        except:\n         {body}\n         raise")
    outer, *inner = _entries(code.co_exceptiontable)
    begin = outer[2]
    own = [(start - begin, end - begin, target - begin, how) for start, end, target, how in inner if start >= begin]
    return code.co_code[2 * begin :], code.co_stacksize, own


def _entries(table: bytes) -> Iterator[tuple[int, int, int, int]]:
    """(start, end, handler, depth and mode) of each entry of an exception table, in instructions."""
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
    """A number in groups of six bits, the first with the start mark of an entry."""
    groups = [value & 63]
    while value := value >> 6:
        groups.append(64 | value & 63)
    groups[-1] |= mark
    return bytes(reversed(groups))


@cache
def _lines(count: int) -> bytes:
    """Line table entries for this many instructions on the last line."""
    return b"".join(bytes((0xE8 | min(8, count - begin) - 1, 0)) for begin in range(0, count, 8))
