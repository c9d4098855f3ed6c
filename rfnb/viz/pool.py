"""Pool several values to one without losing the important ones: over runs along an axis, or over blocks of arrays [seq, row, col]."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

_LONG = 32  # along the last axis, NumPy's own loop is faster for runs of at least this length


@dataclass(frozen=True)
class Pooling:
    """A way to pool several values to one.

    Attributes:
        two: Combines two arrays elementwise.
        runs: Combines the values between given starts along an axis.
    """

    two: Callable[[np.ndarray, np.ndarray], np.ndarray]
    runs: Callable[[np.ndarray, np.ndarray, int], np.ndarray]


def _farther(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    return np.where((np.abs(other) > np.abs(one)) | np.isnan(other), other, one)


def _farthest(values: np.ndarray, starts: np.ndarray, axis: int) -> np.ndarray:
    low, high = (merge.reduceat(values, starts, axis=axis) for merge in (np.minimum, np.maximum))
    return np.where(-low > high, low, high)


# The largest value; NaN only if all are NaN.
largest = Pooling(np.fmax, lambda values, starts, axis: np.fmax.reduceat(values, starts, axis=axis))
# The value farthest from 0, with its sign; NaN if any is NaN.
extreme = Pooling(_farther, _farthest)


def merged(values: np.ndarray, starts: np.ndarray, axis: int, merge: Pooling) -> np.ndarray:
    """One value for each run along an axis: from each of the ascending starts to the next one, and from the last to the end."""
    lengths = np.diff(starts, append=values.shape[axis])
    if axis == values.ndim - 1 and lengths.min() >= _LONG:
        return merge.runs(values, starts, axis)
    # Combine the first values of all runs with the second ones, and so on: ten times as fast as `reduceat`.
    least, out = int(lengths.min()), values.take(starts, axis)
    for at in range(1, least):
        out = merge.two(out, values.take(starts + at, axis))
    for at in range(least, int(lengths.max())):
        longer = np.flatnonzero(lengths > at)
        there = (slice(None),) * axis + (longer,)
        out[there] = merge.two(out[there], values.take(starts[longer] + at, axis))
    return out


def pooled(
    values: np.ndarray, factors: tuple[int, int], lengths: Sequence[tuple[int, int]], merge: Pooling
) -> np.ndarray:
    """The values pooled in blocks of `factors` rows and columns.

    Args:
        lengths: Real rows and columns by sequence. A block with real values ignores the padding in it.
    """
    out = _blocks(values, factors, merge)
    for seq, (rows, cols) in enumerate(lengths):
        if (rows < values.shape[1] or cols < values.shape[2]) and rows and cols:
            part = _blocks(values[seq : seq + 1, :rows, :cols], factors, merge)
            out[seq, : part.shape[1], : part.shape[2]] = part[0]
    return out


def _blocks(values: np.ndarray, factors: tuple[int, int], merge: Pooling) -> np.ndarray:
    if factors == (1, 1) or not values.size:
        return values.copy()
    for axis, factor in enumerate(factors, 1):
        if factor > 1:
            values = merged(values, np.arange(0, values.shape[axis], factor), axis, merge)
    return values


def largest_in(values: np.ndarray, rows: int, cols: int) -> np.ndarray:
    """Values [row, col] reduced to at most the given number of cells, each the largest of a block (NaN only if all are NaN).

    Blocks differ by at most one row and column; they are disjoint, and none is empty.
    """
    for axis, most in enumerate((max(rows, 1), max(cols, 1))):
        size = values.shape[axis]
        if size > most:
            values = merged(values, np.arange(most) * size // most, axis, largest)
    return values


def bounds(*arrays: np.ndarray) -> tuple[float, float]:
    """The lowest and the highest finite value; (0, 0) without any."""
    low, high = np.inf, -np.inf
    for array in arrays:
        if array.size:
            least, most = float(array.min()), float(array.max())
            if not (np.isfinite(least) and np.isfinite(most)):
                finite = array[np.isfinite(array)]
                if not finite.size:
                    continue
                least, most = float(finite.min()), float(finite.max())
            low, high = min(low, least), max(high, most)
    return (low, high) if low <= high else (0.0, 0.0)


def together(arrays: Sequence[np.ndarray], fill: float = 0) -> np.ndarray:
    """Arrays [seq, ...] of different sizes, concatenated over sequences."""
    shape = np.max([array.shape[1:] for array in arrays], axis=0)
    out = np.full((sum(map(len, arrays)), *shape), fill, arrays[0].dtype)
    start = 0
    for array in arrays:
        out[(slice(start, start + len(array)), *(slice(size) for size in array.shape[1:]))] = array
        start += len(array)
    return out
