"""The cells of a diff's picture, and the two values at one of them: pooled to a small map of the largest differences."""

from __future__ import annotations

import math
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rfnb.trace.diff import Diff
from rfnb.trace.diff_cell import names_of
from rfnb.trace.diff_numbers import differences, largest, to_order
from rfnb.trace.diff_rows import Row
from rfnb.viz.spec import Spec

_ROWS, _COLS = 48, 128  # cells of a pair
_sources: weakref.WeakKeyDictionary[Spec, tuple[Diff, list[PathStep]]] = weakref.WeakKeyDictionary()


@dataclass(frozen=True)
class PathStep:
    """One path in one step.

    Attributes:
        row, col: Position in the picture.
        value: The value that differs most there.
        log: log10 of its difference, in units of the tolerance.
        max_abs: The largest absolute difference; NaN if only one is NaN.
        differs: Whether it counts as a difference.
        first: Whether it is the first difference of the run.
    """

    row: int
    col: int
    value: Row
    log: float
    max_abs: float
    differs: bool
    first: bool


def places_of(d: Diff, paths: Sequence[str]) -> tuple[list[str], list[PathStep]]:
    """The labels of the columns in the order in which the run reached them, and the positions of all values."""
    number = {path: index for index, path in enumerate(paths)}
    cols: dict[Any, int] = {}
    found: dict[tuple[int, int], list[Row]] = {}
    for row in d.rows:
        if row.path not in number or not (row.numbers.cells or row.differs):  # nothing comparable
            continue
        ident = row.ident
        key = (ident.run, ident.steps) if ident.steps else (ident.call, ())
        place = number[row.path], cols.setdefault(key, len(cols))
        found.setdefault(place, []).append(row)
    order = sorted(cols, key=lambda key: (bool(key[1]), key[0] if key[1] else 0, key[1], key[0]))
    moved = {cols[key]: index for index, key in enumerate(order)}
    made = []
    for (path, col), rows in found.items():
        worst = max(rows, key=lambda row: (row.differs, row.numbers.units, to_order(row.numbers.max_abs)))
        first = next((row for row in rows if row is d.first), None)
        most = largest(row.numbers.max_abs for row in rows)
        differs = any(row.differs for row in rows)
        made.append(PathStep(path, moved[col], first or worst, _log(worst), most, differs, first is not None))
    made.sort(key=lambda place: (place.row, place.col))
    return [_label(key) for key in order], made


def _log(row: Row) -> float:
    """log10 of the difference in units of the tolerance."""
    if row.differs and row.status not in ("values", "hypotheses"):
        return math.inf
    units, limit = row.numbers.units, row.tolerance.units
    if not units:
        return math.inf if row.differs else -math.inf
    if not limit:
        return math.inf if row.differs else math.log10(units)
    return math.log10(units / limit) if math.isfinite(units) else math.inf


def _label(key: tuple[int, tuple[int, ...]]) -> str:
    number, steps = key
    if not steps:
        return f"call {number}" if number else "–"
    label = ".".join(map(str, steps))
    return f"{number}: {label}" if number else label


def pair_of(d: Diff, row: Row) -> tuple[np.ndarray, dict[str, Any]] | None:
    """Both values as float32 [side, row, col], and a description: name, dims, indices in further dims, pooling factors.

    With more than two dims, the innermost two are kept, at the cell that differs most. Cells outside the values are NaN in both.
    """
    pair = d.pair(row)
    if pair is None or not pair.a.size:
        return None
    a, b = pair.a.astype(np.float32), pair.b.astype(np.float32)
    apart, _ = differences(a, b)
    if pair.mask is not None:
        a, b = (np.where(pair.mask, each, np.float32(np.nan)) for each in (a, b))
        apart = np.where(pair.mask, apart, -1.0)
    names = names_of(pair)
    fixed: list[str] = []
    place = tuple(map(int, np.unravel_index(max(row.numbers.worst, 0), a.shape)))
    while a.ndim > 2:
        axis = min(range(a.ndim), key=lambda one: (a.shape[one] > 1, one))  # of size 1, else the outermost
        fixed.append(f"{names[axis]} {place[axis]}")
        a, b, apart = (np.asarray(each.take(place[axis], axis)) for each in (a, b, apart))
        names, place = names[:axis] + names[axis + 1 :], place[:axis] + place[axis + 1 :]
    while a.ndim < 2:
        a, b, apart, names = a[None], b[None], apart[None], ["", *names]
    rows, cols = ((apart >= 0).any(axis) for axis in (1, 0))
    if not rows.any():
        return None
    keep = slice(0, int(np.flatnonzero(rows)[-1]) + 1), slice(0, int(np.flatnonzero(cols)[-1]) + 1)
    a, b, apart = a[keep], b[keep], apart[keep]
    shape = a.shape
    pooled = -(-shape[0] // _ROWS), -(-shape[1] // _COLS)
    values = _pooled(np.stack([a, b]), apart, *pooled)
    return values, {"name": row.name, "dims": names, "at": ", ".join(fixed), "size": list(shape), "pool": list(pooled)}


def _pooled(values: np.ndarray, apart: np.ndarray, down: int, across: int) -> np.ndarray:
    """Both values at the cell of each block that differs most."""
    if down == across == 1:
        return values
    rows, cols = -(-apart.shape[0] // down), -(-apart.shape[1] // across)
    wide = np.pad(
        values, ((0, 0), (0, rows * down - apart.shape[0]), (0, cols * across - apart.shape[1])), constant_values=np.nan
    )
    far = np.pad(apart, ((0, rows * down - apart.shape[0]), (0, cols * across - apart.shape[1])), constant_values=-2.0)
    blocks = lambda each: each.reshape(rows, down, cols, across).swapaxes(1, 2).reshape(rows, cols, down * across)  # noqa: E731
    at = blocks(far).argmax(-1)[..., None]
    return np.stack([np.take_along_axis(blocks(each), at, -1)[..., 0] for each in wide])


def note_source(spec: Spec, d: Diff, places: list[PathStep]) -> None:
    """Remember the source of a spec as long as the spec is alive."""
    _sources[spec] = d, places


def source_of(spec: Spec) -> tuple[Diff, list[PathStep]] | None:
    """The Diff of a spec, and its cells; None for a loaded spec."""
    return _sources.get(spec)


def asked(source: tuple[Diff, list[PathStep]], name: str) -> np.ndarray | None:
    """The block for a page's request: `pair/ROW/COL`, and `pair/ROW/COL/size` [3] with its rows and cols, and 1 if it was pooled."""
    parts = name.split("/")
    if len(parts) not in (3, 4) or parts[0] != "pair" or not all(part.isdecimal() for part in parts[1:3]):
        return None
    d, places = source
    row, col = map(int, parts[1:3])
    place = next((one for one in places if (one.row, one.col) == (row, col)), None)
    found = None if place is None else pair_of(d, place.value)
    if found is None:
        return None
    values, about = found
    if len(parts) == 3:
        return values
    return np.array([*values.shape[1:], max(about["pool"]) > 1], np.float32) if parts[3] == "size" else None
