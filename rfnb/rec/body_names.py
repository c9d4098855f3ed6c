"""Names that the body reads before assigning: these carry a value from one step to the next.

They are read off the bytecode of the enclosing function (or notebook cell), since the body is not a function.
"""

from __future__ import annotations

import dis
import re
from collections.abc import Callable, Iterator
from types import CodeType, FrameType
from typing import Any, NamedTuple

from rfnb.core.memo import make_room

# What follows in the code does not follow in the run.
_ENDS = ("RETURN", "RERAISE", "RAISE", "JUMP_FORWARD", "JUMP_BACKWARD")


class BodyNames(NamedTuple):
    """Names that a body reads and assigns.

    Attributes:
        read: All that it reads.
        carried: name -> the line of its last assignment, for what it reads before it assigns it.
        stored: Attributes and items: (name, attribute or key) -> line of an assignment.
    """

    read: tuple[str, ...]
    carried: dict[str, int]
    stored: dict[tuple[str, Any], int]


class _Step(NamedTuple):
    """One instruction: the names that it loads and stores in order, its successors, and its line."""

    names: list[tuple[str, str]]
    after: list[int]
    line: int


def names_of_for(frame: FrameType) -> BodyNames | None:
    """The names of the body of a `for` at whose head the frame stands; None if it stands elsewhere."""
    head = frame.f_lasti
    return _known(frame.f_code, head, head, _names_of_for)


def names_in(code: CodeType, first: int, last: int) -> BodyNames:
    """The names in the instructions from `first` to `last`."""
    return _known(code, first, last, _names_in)


# A code is told by its id, since its hash goes through all of it; the entry keeps it alive. The newest are kept.
_cache: dict[tuple[int, int, int], tuple[CodeType, Any]] = {}
_MOST = 256


def _known(code: CodeType, first: int, last: int, find: Callable[[CodeType, int, int], Any]) -> Any:
    found = _cache.get((id(code), first, last))
    if found is None:
        make_room(_cache, _MOST)
        found = _cache[id(code), first, last] = code, find(code, first, last)
    return found[1]


def _names_of_for(code: CodeType, head: int, _: int) -> BodyNames | None:
    found = next((each for each in dis.get_instructions(code) if each.offset == head), None)
    if found is None or not found.opname.startswith("FOR_ITER"):
        return None
    return names_in(code, found.offset + 1, found.argval - 1)


def _names_in(code: CodeType, first: int, last: int) -> BodyNames:
    steps = dict(_steps(code, first, last))
    read: dict[str, None] = {}
    stored: dict[str, int] = {}
    for step in steps.values():
        for kind, name in step.names:
            if kind == "LOAD":
                read.setdefault(name)
            else:
                stored[name] = step.line
    if "super" in read and code.co_argcount:
        read.setdefault(code.co_varnames[0])  # `super()` takes it without a word
    begin = min(steps, default=first)
    carried = {name: line for name, line in stored.items() if name in read and _reads_first(steps, begin, name)}
    return BodyNames(tuple(read), carried, _stored_inside(code, first, last))


def _names_of(each: dis.Instruction) -> Iterator[tuple[str, str]]:
    """LOAD and STORE of variables; newer versions of Python combine two in one instruction."""
    if not re.search("_(FAST|NAME|GLOBAL|DEREF|CLASSDEREF)", each.opname) or each.opname.startswith("DELETE"):
        return
    kinds = re.findall("LOAD|STORE", each.opname)
    names = each.argval if isinstance(each.argval, tuple) else (each.argval,)
    yield from zip(kinds, names)


def _steps(code: CodeType, first: int, last: int) -> Iterator[tuple[int, _Step]]:
    inside = [each for each in dis.get_instructions(code) if first <= each.offset <= last]
    for each, following in zip(inside, [*inside[1:], None]):
        after = [] if each.opname.startswith(_ENDS) or following is None else [following.offset]
        if each.opcode in dis.hasjrel or each.opcode in dis.hasjabs:
            after.append(each.argval)
        line = each.positions.lineno if each.positions is not None and each.positions.lineno else code.co_firstlineno
        yield each.offset, _Step(list(_names_of(each)), after, line)


def _reads_first(steps: dict[int, _Step], begin: int, name: str) -> bool:
    """True if some path through the body reads a name before assigning it."""
    todo, seen = [begin], set()
    while todo:
        offset = todo.pop()
        if offset in seen or offset not in steps:
            continue
        seen.add(offset)
        step = steps[offset]
        first = next((kind for kind, other in step.names if other == name), None)
        if first == "LOAD":
            return True
        if first is None:
            todo += step.after
    return False


def _stored_inside(code: CodeType, first: int, last: int) -> dict[tuple[str, Any], int]:
    """(name, attribute) of each `name.attribute = ...`, and (name, key) of `name["key"] = ...`."""
    inside = [each for each in dis.get_instructions(code) if first <= each.offset <= last]
    inside = [each for each in inside if each.opname not in ("CACHE", "EXTENDED_ARG", "PRECALL")]
    found: dict[tuple[str, Any], int] = {}
    for index, each in enumerate(inside):
        before = inside[max(index - 2, 0) : index]
        line = each.positions.lineno if each.positions is not None else None
        if each.opname == "STORE_ATTR" and before:
            owner, key = before[-1], each.argval
        elif each.opname == "STORE_SUBSCR" and len(before) == 2 and before[1].opname == "LOAD_CONST":
            owner, key = before[0], before[1].argval
        else:
            continue
        name = next((name for _, name in _names_of(owner)), None)
        if name is not None and isinstance(key, (str, int)):
            found[name, key] = line or code.co_firstlineno
    return found
