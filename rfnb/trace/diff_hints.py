"""Hints on the cause of a difference: rounded, shifted by a step, scaled, dropped, from another sequence, from padding."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from rfnb.core.tensor import Tensor
from rfnb.trace.diff_events import values_of
from rfnb.trace.diff_numbers import Tolerance, compare, different
from rfnb.trace.diff_text import cut

if TYPE_CHECKING:
    from rfnb.trace.diff import Diff
    from rfnb.trace.diff_rows import Pair, Row

_SUDDEN = 30.0  # times what there was before
_FEW = 4  # cells, of which nothing is said


def hints(diff: Diff, row: Row) -> list[str]:
    """Sentences on a difference, the most telling first."""
    most = _most_before(diff, row)
    found = [_before(most, row)]
    pair = diff.pair(row)
    if pair is None or not row.numbers.differing or pair.a.dtype.kind not in "fc":
        return list(filter(None, found))
    a, b = _cells(pair)
    tests = [
        _not_finite(a, b, diff.names), _padding(diff, row, pair, most), _shifted(diff, row, pair), _other_sequence(pair, row, diff.names),
        _rounded(a, b, diff.names), _dropped(a, b, diff.names), _scaled(a, b, row.tolerance, diff.names),
    ]  # fmt: skip
    return list(filter(None, [*found, *tests]))


def _cells(pair: Pair) -> tuple[np.ndarray, np.ndarray]:
    """The cells that count."""
    if pair.mask is None:
        return pair.a.reshape(-1), pair.b.reshape(-1)
    return pair.a[pair.mask], pair.b[pair.mask]


def _most_before(diff: Diff, row: Row) -> float | None:
    """The largest difference in the values computed before, in epsilons; None if none were compared."""
    found = None
    for one in diff.rows:
        if one is row:
            break
        if one.numbers.cells:
            found = max(found or 0.0, one.numbers.units)
    return found


def _before(most: float | None, row: Row) -> str:
    """Whether the difference appears at once, or grew from rounding."""
    if most is None:
        return "It is the first value that was recorded."
    if most == 0:
        return "Everything before it is the same, bit for bit."
    word = f"of at most {most:.2g} epsilons"
    if row.numbers.units > _SUDDEN * most:
        return f"It comes at once: what was computed before has differences {word}."
    return f"It has grown: what was computed before has differences {word}."


def _not_finite(a: np.ndarray, b: np.ndarray, names: tuple[str, str]) -> str:
    """NaN or infinity on one side."""
    parts = []
    for name, one, other in ((names[0], a, b), (names[1], b, a)):
        for word, test in (("NaN", np.isnan), ("infinite", np.isinf)):
            count = int(np.count_nonzero(test(one) & ~test(other)))
            if count:
                parts.append(f"{count} of {one.size} cells are {word} in {name} and not in the other")
    return _sentence("; ".join(parts))


def _rounded(a: np.ndarray, b: np.ndarray, names: tuple[str, str]) -> str:
    """One side contains only numbers of a smaller dtype."""
    if a.dtype != np.float32 or b.dtype != np.float32 or not a.any() or not b.any():
        return ""
    for name, one, other in ((names[0], a, b), (names[1], b, a)):
        for dtype, test, last, epsilon in (
            ("bfloat16", _is_bfloat16, 16, 2.0**-7),
            ("float16", _is_float16, 13, 2.0**-10),
        ):
            if test(one) and not test(other) and _uses(one, last):
                near = not compare(one, other, None, Tolerance(dtype, 4 * epsilon)).differing
                how = "rounded to it" if near else "computed in it"
                return f"All values of {name} are numbers of {dtype}, although its dtype is float32: they were {how}."
    return ""


def _is_bfloat16(values: np.ndarray) -> bool:
    return not bool((np.ascontiguousarray(values).view(np.uint32) & 0xFFFF).any())


def _is_float16(values: np.ndarray) -> bool:
    with np.errstate(all="ignore"):
        return bool(np.array_equal(values.astype(np.float16).astype(np.float32), values, equal_nan=True))


def _uses(values: np.ndarray, bit: int) -> bool:
    """True if a bit of float32 is set about as often as by chance; numbers such as 0.5, 2 and 4.5 exist in every dtype and show no
    rounding.
    """
    found = np.unique(values[np.isfinite(values)])
    return len(found) >= _FEW and 4 * int(np.count_nonzero(found.view(np.uint32) >> bit & 1)) >= len(found)


def _dropped(a: np.ndarray, b: np.ndarray, names: tuple[str, str]) -> str:
    """Zeros on one side, as from dropout, or on both sides at different places."""
    for name, one in zip(names, (a, b)):
        if not one.any():
            return f"{name} is 0 in all cells."
    only = [int(np.count_nonzero((one == 0) & (other != 0))) for one, other in ((a, b), (b, a))]
    if max(only) < max(_FEW, a.size // 50):
        return ""
    if min(only):
        return (
            f"{only[0]} of {a.size} cells are 0 in {names[0]} only and {only[1]} in {names[1]} only: "
            "dropout with other random numbers looks so."
        )
    name = names[0] if only[0] else names[1]
    return f"{max(only)} of {a.size} cells are 0 in {name} only: dropout looks so, or a mask."


def _scaled(a: np.ndarray, b: np.ndarray, tolerance: Tolerance, names: tuple[str, str]) -> str:
    """One side is the other times a factor, or plus a constant."""
    good = np.isfinite(a) & np.isfinite(b) & (a != 0) & (b != 0)
    if np.count_nonzero(good) < _FEW or a.dtype.kind == "c":
        return ""
    one, other = a[good].astype(np.float64), b[good].astype(np.float64)
    place = int(np.abs(one).argmax())
    factor, more = other[place] / one[place], other[place] - one[place]
    close = max(8 * tolerance.relative, 1e-6)
    if abs(factor - 1) > 4 * close and np.all(np.abs(other - factor * one) <= close * np.abs(other)):
        if np.array_equal(a == 0, b == 0):
            return f"{names[1]} is {factor:.6g} times {names[0]} in all cells."
        return f"Where neither is 0, {names[1]} is {factor:.6g} times {names[0]}."
    size = np.abs(np.concatenate([one, other])).max()
    if abs(more) > 4 * close * size and np.all(np.abs(other - one - more) <= close * size):
        return f"{names[1]} is {names[0]} {'+' if more > 0 else '-'} {abs(more):.6g} in all cells."
    return ""


def _shifted(diff: Diff, row: Row, pair: Pair) -> str:
    """One side has the values of the other one step later."""
    if row.step is None or pair.a.size < _FEW:
        return ""
    for offset, word in ((1, "later"), (-1, "earlier")):
        for side in (1, 0):
            found = _at_step(diff, row, offset, side)
            if found is None:
                continue
            mine, other = (pair.a, found.b) if side else (found.a, pair.b)
            # The first cells of a state that begins with zeros say nothing.
            if mine.shape == other.shape and mine.any() and not _differ(mine, other, pair, row):
                return f"What {diff.names[1 - side]} has here, {diff.names[side]} has one step {word}: the same values."
    return ""


def _at_step(diff: Diff, row: Row, offset: int, side: int) -> Pair | None:
    """The pair of this row with one side taken from another step."""
    wanted = row.ident._replace(steps=(*row.ident.steps[:-1], row.ident.steps[-1] + offset))
    event = diff.event_at(wanted, side)
    if event is None:
        return None
    events = list(diff.events_of(row))
    events[side] = event
    values = [values_of(one).get(row.name) for one in events]
    if not all(isinstance(value, Tensor) for value in values):
        return None
    return diff.pair_of(events[0], events[1], row.name)


def _other_sequence(pair: Pair, row: Row, names: tuple[str, str]) -> str:
    """A sequence on one side equals another sequence on the other."""
    axis = pair.plan.batch
    if axis is None or not 1 < pair.a.shape[axis] <= 64 or pair.mask is not None:
        return ""
    other = different(pair.a, pair.b, pair.mask, row.tolerance)
    rest = tuple(one for one in range(other.ndim) if one != axis)
    wrong = np.flatnonzero(other.any(rest)).tolist()
    moved = []
    for seq in wrong:
        mine = pair.b.take(seq, axis)
        found = [
            one
            for one in wrong
            if one != seq and not compare(pair.a.take(one, axis), mine, None, row.tolerance).differing
        ]
        if not found or not mine.any():
            return ""
        moved.append(f"{seq} is {found[0]}")
    return f"Sequences are in another order: in {names[1]}, number {', '.join(moved[:4])} of {names[0]}."


def _padding(diff: Diff, row: Row, pair: Pair, most: float | None) -> str:
    """A difference that appears at once in sequences that are padded, or padded on one side only."""
    if row.numbers.units <= _SUDDEN * (most or 0):
        return ""
    padded = [_padded(diff, row, side) for side in (0, 1)]
    if None not in diff.seqs:
        one, other = (padded[side].get(diff.seqs[side] or 0) for side in (0, 1))
        if bool(one) == bool(other) and one == other:
            return ""
        name, much = (diff.names[1], other) if (other or 0) > (one or 0) else (diff.names[0], one)
        frames = f"{much} {'frame' if much == 1 else 'frames'} of padding more than in the other"
        return f"In {name} this sequence has {frames}: what {_where(diff, row)} computes may read padding."
    axis = pair.plan.batch
    if axis is None:
        return ""
    other_cells = different(pair.a, pair.b, pair.mask, row.tolerance)
    rest = tuple(one for one in range(other_cells.ndim) if one != axis)
    wrong = set(np.flatnonzero(other_cells.any(rest)).tolist())
    short = [seq for seq in wrong if padded[0].get(seq) or padded[1].get(seq)]
    if wrong and len(short) == len(wrong) < pair.a.shape[axis]:
        return f"Only sequences that are padded differ: what {_where(diff, row)} computes may read padding."
    return ""


def _where(diff: Diff, row: Row) -> str:
    return f'"{cut(row.path)}"' if row.path else "this"


def _padded(diff: Diff, row: Row, side: int) -> dict[int, int]:
    """The number of padded frames of each sequence on one side, in the ragged dims of the event and of those just before it."""
    events = (diff.a, diff.b)[side].events
    found: dict[int, int] = {}
    for event in reversed(events[max(0, row.events[side] - 20) : row.events[side] + 1]):
        for dim in _ragged(event):
            if len(dim.length_dims) == 1:
                for seq, length in enumerate(dim.lengths.tolist()):
                    found[seq] = max(found.get(seq, 0), dim.extent - length)
    return found


def _ragged(event: Any) -> list[Any]:
    tensors = (
        [value for value in values_of(event).values() if isinstance(value, Tensor)] if event.kind != "beams" else []
    )
    tensors += [x for _, x in event.values.get("inputs", ())] if event.kind in ("module", "op") else []
    return [
        dim for tensor in tensors for dim in tensor.dims if dim.size is None and dim.is_dim_known() and dim.length_dims
    ]


def _differ(a: np.ndarray, b: np.ndarray, pair: Pair, row: Row) -> bool:
    return bool(
        compare(a, b, pair.mask if pair.mask is None or pair.mask.shape == a.shape else None, row.tolerance).differing
    )


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}." if text else ""
