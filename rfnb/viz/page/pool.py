"""Several values as one, so that what counts is not lost: arrays [seq, row, col], pooled over rows and columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

_LONG = 32  # from this factor on, NumPy's own loop over runs is faster than one over slices


@dataclass(frozen=True)
class Merge:
    """A way to make one value of several.

    Attributes:
        two: The values of two arrays, one by one.
        runs: The values from each of some starts on, along an axis.
    """

    two: Callable[[np.ndarray, np.ndarray], np.ndarray]
    runs: Callable[[np.ndarray, np.ndarray, int], np.ndarray]


def _farther(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    return np.where((np.abs(other) > np.abs(one)) | np.isnan(other), other, one)


def _farthest(values: np.ndarray, starts: np.ndarray, axis: int) -> np.ndarray:
    low, high = (merge.reduceat(values, starts, axis=axis) for merge in (np.minimum, np.maximum))
    return np.where(-low > high, low, high)


# The largest value; NaN only where all are.
largest = Merge(np.fmax, lambda values, starts, axis: np.fmax.reduceat(values, starts, axis=axis))
# The value farthest from 0, with its sign; NaN where one is.
extreme = Merge(_farther, _farthest)


def pooled(
    values: np.ndarray, factors: tuple[int, int], lengths: Sequence[tuple[int, int]], merge: Merge
) -> np.ndarray:
    """The values by one per block of `factors` rows and columns.

    Args:
        lengths: By sequence, the rows and columns before the padding. Where a block has both, the padding has no part in it.
    """
    out = _merged(values, factors, merge)
    for seq, (rows, cols) in enumerate(lengths):
        if (rows < values.shape[1] or cols < values.shape[2]) and rows and cols:
            part = _merged(values[seq : seq + 1, :rows, :cols], factors, merge)
            out[seq, : part.shape[1], : part.shape[2]] = part[0]
    return out


def _merged(values: np.ndarray, factors: tuple[int, int], merge: Merge) -> np.ndarray:
    if factors == (1, 1) or not values.size:
        return values.copy()
    for axis, factor in enumerate(factors, 1):
        if factor >= _LONG:
            values = merge.runs(values, np.arange(0, values.shape[axis], factor), axis)
            continue
        # Slices of every so manieth value: ten times as fast as `reduceat`.
        parts = [
            values[(slice(None),) * axis + (slice(first, None, factor),)]
            for first in range(min(factor, values.shape[axis]))
        ]
        values = parts[0].copy()
        for part in parts[1:]:
            there = (slice(None),) * axis + (slice(part.shape[axis]),)
            values[there] = merge.two(values[there], part)
    return values
