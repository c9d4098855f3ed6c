"""Quantise and pool arrays [seq, row, col] until they are small enough.

The finest rung that fits is chosen, from a ladder of decreasing sizes. Deflating each rung to know its size would take
seconds for large arrays, so a sample estimates which ones to try.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from rfnb.viz.code import BlockCode, Kind, encode
from rfnb.viz.page.budget import Room
from rfnb.viz.page.page_spec import lessened
from rfnb.viz.pool import Pooling, bounds, pooled
from rfnb.viz.spec import Spec

_SIDES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 1024, 2048, 4096)
_LEAST = 0.01  # deflated bytes per cell: a lower bound, so no sample is needed if even this is too large
_SAMPLE = 1 << 17  # cells
_FEW = 64  # grids
_ROUGH = 5  # values per cell in each direction, where the others leave room for more
_FOCUS = 0.3  # fraction of the room for the map that is shown first


@dataclass(frozen=True)
class Grid:
    """An array to code.

    Attributes:
        name: The name of its block.
        values: float32 [seq, row, col].
        lengths: Real rows and columns by sequence.
        kind: The kind of code.
        merge: How the values of a block are pooled.
        factors: Maps a number of values per cell to the pooled rows and columns.
    """

    name: str
    values: np.ndarray
    lengths: Sequence[tuple[int, int]]
    kind: Kind
    merge: Pooling
    factors: Callable[[int], tuple[int, int]]


@dataclass(frozen=True)
class Rung:
    """A degree of compression: about `cells` values per byte, with only every `step`-th level used."""

    cells: int
    step: int


@dataclass(frozen=True)
class CodedArray:
    """The bytes of a Grid.

    Attributes:
        size: Deflated size of `levels` in bytes.
    """

    code: BlockCode
    levels: np.ndarray
    size: int


def square(rows: int, cols: int) -> Callable[[int], tuple[int, int]]:
    """Pooling factors for maps: equal for rows and columns, but a small axis is kept as long as possible."""

    def factors(cells: int) -> tuple[int, int]:
        most_down, most_across = (max(1, size // 8 if cells < 1024 else size) for size in (rows, cols))
        down = min(round(cells**0.5), most_down)
        across = min(max(1, cells // down), most_across)
        return min(max(1, cells // across), most_down), across

    return factors


def cols_first(cols: int, least: int) -> Callable[[int], tuple[int, int]]:
    """Pooling factors that keep the rows as long as there are more than `least` columns."""

    def factors(cells: int) -> tuple[int, int]:
        across = max(1, min(cells, -(-cols // least)))
        return max(1, cells // across), across

    return factors


def ladder() -> Iterator[Rung]:
    """From all values and levels downwards."""
    for side in _SIDES:
        for step in (1, 3, 6) if side == 1 else (3, 6):
            yield Rung(side * side, step)


def fit(grids: Sequence[Grid], room: int) -> tuple[Rung, dict[str, CodedArray]]:
    """The finest rung on which all grids together take at most `room` bytes; the last one if none fits."""
    made: dict[str, CodedArray] = {}
    rung = Rung(1, 1)
    for rung in ladder():
        if room <= 0 or _estimate(grids, rung, room) > 1.05 * room:
            continue
        made = {grid.name: coded(grid, rung) for grid in grids}
        if sum(one.size for one in made.values()) <= room:
            return rung, made
    return rung, made or {grid.name: coded(grid, rung) for grid in grids}


def fit_in(grids: list[Grid], room: Room, glance: int) -> tuple[Rung, dict[str, CodedArray]]:
    """The finest rung that fits into the preferred room if its patterns are recognisable, else into the full room."""
    several = 1 - _FOCUS if len(grids) > 1 else 1.0
    if room.easy < glance * glance * len(grids) // 8:  # less than one bit per cell that should be recognisable
        return fit(grids, int(several * room.most))
    rung, made = fit(grids, int(several * room.easy))
    sides = [(grid.values.shape[2], one.levels.shape[2]) for grid, one in zip(grids, made.values())]
    seen = all(shown >= min(cols, max(glance, cols // _ROUGH)) for cols, shown in sides)
    if room.most == room.easy or (seen and sum(one.size for one in made.values()) <= room.easy):
        return rung, made
    return fit(grids, int(several * room.most))


def finer(grid: Grid, than: Rung, made: dict[str, CodedArray], room: Room) -> CodedArray:
    """The grid on the finest rung that fits into the room that the others leave."""
    used = sum(one.size for one in made.values())
    left = (room.easy if used <= room.easy else room.most) - used + made[grid.name].size
    for rung in ladder():
        if rung.cells >= than.cells:
            break
        if grid.values.size // rung.cells * 0.01 <= left and (one := coded(grid, rung)).size <= left:
            return one
    return made[grid.name]


def with_codes(spec: Spec, made: dict[str, CodedArray], more: dict[str, np.ndarray], words: str) -> Spec:
    """The spec with these arrays replaced by coded ones, and more fields."""
    blocks = {name: made[name].levels if name in made else block for name, block in spec.blocks.items()}
    codes = {name: one.code for name, one in made.items()}
    return lessened(spec, {}, {**blocks, **more}, codes, words)


def words_of(made: dict[str, CodedArray], what: str, nouns: str, axes: tuple[str, str]) -> str:
    """A sentence that describes the compression in the page."""
    pools = sorted({one.code.pool[1:] for one in made.values()})
    down, across = pools[-1] if pools else (1, 1)
    if (down, across) == (1, 1):
        return f"The page has these {nouns} rounded to one byte each."
    block = f"{down} {axes[0]} × {across} {axes[1]}"
    finer = " or fewer" if len(pools) > 1 else ""
    return f"The page has {what} of each {block}{finer}, rounded to one byte."


def coded(grid: Grid, rung: Rung) -> CodedArray:
    """A grid coded on a rung."""
    down, across = grid.factors(rung.cells)
    values = pooled(grid.values, (down, across), grid.lengths, grid.merge)
    real = (values[seq, : -(-rows // down), : -(-cols // across)] for seq, (rows, cols) in enumerate(grid.lengths))
    span = bounds(np.zeros(1), *real)
    shape = tuple(grid.values.shape)
    code, levels = encode(values, grid.kind, shape=shape, pool=(1, down, across), step=rung.step, span=span)
    return CodedArray(code, levels, len(zlib.compress(levels.tobytes(), 6)))


def _estimate(grids: Sequence[Grid], rung: Rung, room: int) -> float:
    """An estimate of the size of the grids; a number above `room` if they certainly do not fit."""
    cells = [_cells(grid, rung) for grid in grids]
    if _LEAST * sum(cells) > room:
        return 2.0 * room
    if sum(grid.values.size for grid in grids) <= 4 * _SAMPLE and len(grids) <= _FEW:
        return 0.0  # trying is as fast
    every = max(1, len(grids) // 4)
    size = taken = 0
    for grid in grids[every // 2 :: every]:
        down, across = grid.factors(rung.cells)
        values = grid.values[:1]
        rows = max(1, _SAMPLE // max(1, 4 * values.shape[2] // across)) * down
        start = max(0, (values.shape[1] - rows) // 2) // down * down
        part = pooled(values[:, start : start + rows], (down, across), [], grid.merge)
        _, levels = encode(part, grid.kind, shape=part.shape, pool=(1, 1, 1), step=rung.step)
        size += len(zlib.compress(levels.tobytes(), 6))
        taken += levels.size
    return size * sum(cells) / max(1, taken)


def _cells(grid: Grid, rung: Rung) -> int:
    down, across = grid.factors(rung.cells)
    seqs, rows, cols = grid.values.shape
    return int(seqs * -(-rows // down) * -(-cols // across))
