"""The program of the ops that were watched in a step. Its code is that of an earlier step, if that had the same pattern: then nothing is
lowered or compiled again, and the arrays that were seen now are bound to its names."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from rfnb.backends.raw_calls import RawCall
from rfnb.rec.lowering import Lowering
from rfnb.rec.pattern import Pattern
from rfnb.rec.program import Program, ProgramCode
from rfnb.rec.watched import SeenOps

LIMIT = 1 << 19  # parts of all keys that are kept: some 4 MB


class _Shared(NamedTuple):
    """The part of a program that all steps of a pattern share.

    Attributes:
        code: None, if not all ops are part of a program.
        bound: name -> number of an array in the pattern, or what it stands for.
        refused: The numbers of the ops that are no part of a program.
    """

    code: ProgramCode | None
    bound: Sequence[tuple[str, int | None, Any]]
    refused: list[int]


_shared: dict[Any, _Shared] = {}
_lock = threading.Lock()
_again = [False]  # for tests: lower also what is shared, and compare


def program_of(
    seen: SeenOps,
    inputs: Mapping[int, str],
    results: Sequence[Any],
    note: Callable[[int], str],
    names: Sequence[str],
    *,
    backend: Any,
    over: Sequence[str] | None = None,
    end: Sequence[RawCall] = (),
) -> Program | list[int]:
    """The program; or the numbers of the ops that are no part of one.

    Args:
        inputs: id of an array that the step was given -> its name.
        results: The arrays that it gives.
        names: Of the inputs that the program takes, in order.
        over: See `ProgramCode`.
        end: Calls after all ops.

    Raises:
        NotLowered: If there is no program, but there may be one in a later step.
    """
    pattern = Pattern(inputs, backend.RawTensorType)
    key = None
    if not seen.offers:  # else listeners of this run are in it
        key = pattern.key([*seen.calls(), (end, results)], (*inputs.values(), None, *names, None, *(over or ())))
    shared = None if key is None else _shared.get(key)
    if shared is None or _again[0]:
        made = _lowered(seen, inputs, results, names, over, end, backend)
        if isinstance(made, list):
            new = _Shared(None, [], made)
        else:
            if key is None:
                return Program(*made, note, backend)
            numbers, array = pattern.number_of, backend.RawTensorType
            bound = [
                (x, numbers(value), None) if isinstance(value, array) else (x, None, value)
                for x, value in made[1].items()
            ]
            new = _Shared(made[0], bound, [])
        if shared is not None:
            _check_same(shared, new)
        elif key is not None:
            _keep(key, new)
        shared = new
    if shared.code is None:
        return shared.refused
    arrays = pattern.arrays
    now = {name: value if number is None else arrays[number] for name, number, value in shared.bound}
    return Program(shared.code, now, note, backend)


def _lowered(
    seen: SeenOps,
    inputs: Mapping[int, str],
    results: Sequence[Any],
    names: Sequence[str],
    over: Sequence[str] | None,
    end: Sequence[RawCall],
    backend: Any,
) -> tuple[ProgramCode, dict[str, Any]] | list[int]:
    lowering = Lowering(inputs, backend.RawTensorType, fold=not seen.changes)
    refused = seen.lower(lowering)
    if refused:
        return refused
    lowering.add(end, len(seen.calls()))
    texts = [lowering.text(raw) for raw in results]
    code = ProgramCode(lowering.lines, lowering.bound, names, texts, over)
    if over is not None:
        code.make_ahead(lowering.bound, backend)
    return code, lowering.bound


def _keep(key: Any, new: _Shared) -> None:
    with _lock:
        _shared[key] = new
        while sum(map(len, _shared)) > LIMIT and len(_shared) > 1:
            del _shared[next(iter(_shared))]


def _check_same(one: _Shared, other: _Shared) -> None:
    assert one.refused == other.refused and (one.code is None) == (other.code is None)
    assert [(name, number) for name, number, _ in one.bound] == [(name, number) for name, number, _ in other.bound]
    assert [repr(value) for _, _, value in one.bound] == [repr(value) for _, _, value in other.bound]
    if one.code is not None and other.code is not None:
        assert _parts(one.code) == _parts(other.code)


def _parts(code: ProgramCode | None) -> Any:
    return code and vars(code) | {"_make": None, "ahead": _parts(code.ahead)}
