"""Measures how much two arrays differ, and what is too much: the tolerance of `rf.diff`.

The difference of a cell is relative to its size: the larger of the two values, or the typical value of its tensor if that is more (the
root mean square), since a sum close to 0 has the rounding errors of its summands. In epsilons of the dtype this is roughly the number of
roundings that it takes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

EPSILON = {
    "float64": 2.0**-52, "float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7, "complex128": 2.0**-52, "complex64": 2.0**-23,
}  # fmt: skip
_SMALLER = 2.0**-2  # of a float of 8 bits

# Sums in another order: words of a G2P model alone and in a batch are up to 51 epsilons apart, after some ten steps. In half precision
# sums are made in float32, so that only what is stored is rounded: one epsilon per op, a few in a row.
UNITS = {"float64": 128.0, "float32": 128.0, "complex128": 128.0, "complex64": 128.0}
_UNITS_OF_HALF = 4.0

_CHUNK = 1 << 20  # cells that are compared at a time
_SAMPLE = 1 << 16
_MARK, _FAR = (
    1e4,
    1e3,
)  # numbers that large, and so much larger than the median, are no numbers: -1e9 where something is masked


def epsilon(dtype: str) -> float:
    """The distance from 1 to the next number of a dtype; 0 for a dtype that is not floating point."""
    return EPSILON.get(dtype, _SMALLER if dtype.startswith(("float", "bfloat")) else 0.0)


@dataclass(frozen=True)
class Tolerance:
    """The largest difference that is ignored.

    Attributes:
        dtype: The coarsest dtype of either run so far, since rounding persists.
        given: Relative to the size of a cell; None: `units` epsilons of the dtype; 0: bit for bit.
    """

    dtype: str = "float32"
    given: float | None = None

    @property
    def epsilon(self) -> float:
        """The distance from 1 to the next number of the dtype."""
        return epsilon(self.dtype)

    @property
    def units(self) -> float:
        """The tolerance in epsilons of the dtype."""
        if self.given is not None:
            return self.given / self.epsilon
        return UNITS.get(self.dtype, _UNITS_OF_HALF)

    @property
    def relative(self) -> float:
        """The tolerance relative to the size of a cell."""
        return self.given if self.given is not None else self.units * self.epsilon

    def text(self) -> str:
        """The tolerance as text."""
        if self.given == 0:
            return "bit for bit"
        if self.given is not None:
            return f"{self.given:.3g} of its size"
        return f"{self.units:.0f} epsilons of {self.dtype}, {self.relative:.2g} of its size"


class DiffNumbers(NamedTuple):
    """The measured difference of two arrays.

    Attributes:
        cells: The number of compared cells.
        differing: The number of cells that differ by more than the tolerance.
        max_abs: The largest absolute difference; NaN if one side has a NaN, else inf if one side is infinite.
        units: The largest difference of a cell relative to its size, in epsilons; inf in both of these cases, and for labels that
            differ.
        worst: The index of that cell in the flat array; -1 if there is none.
    """

    cells: int
    differing: int = 0
    max_abs: float = 0.0
    units: float = 0.0
    worst: int = -1


def largest(values: Iterable[float]) -> float:
    """The largest difference: NaN if one is NaN, 0 if there are none."""
    return float(np.max(list(values), initial=0.0))


def to_order(difference: float) -> float:
    """A difference for sorting: NaN counts as infinity."""
    return math.inf if math.isnan(difference) else difference


def compare(a: np.ndarray, b: np.ndarray, mask: np.ndarray | None, tolerance: Tolerance) -> DiffNumbers:
    """The measured difference of two arrays of one shape.

    Args:
        mask: The cells that count, broadcastable to the arrays; None means all.
    """
    real: np.ndarray | None = None
    if mask is not None:
        real = np.broadcast_to(mask, a.shape)
        a, b = a[real], b[real]
    if not a.size:
        return DiffNumbers(0)
    if a.dtype == b.dtype and np.array_equal(a, b) and (tolerance.given != 0 or _same_bits(a, b)):
        return DiffNumbers(a.size)
    found = _compare_all(a.reshape(-1), b.reshape(-1), tolerance)
    if real is not None and found.worst >= 0:
        found = found._replace(worst=int(np.flatnonzero(real)[found.worst]))
    return found


def _compare_all(a: np.ndarray, b: np.ndarray, tolerance: Tolerance) -> DiffNumbers:
    if not _is_float(a) and not _is_float(b):
        return _compare_exactly(a, b)
    typical = max(_typical(a), _typical(b))
    differing, most, units, worst = 0, 0.0, 0.0, -1
    for start in range(0, a.size, _CHUNK):
        part = slice(start, start + _CHUNK)
        apart, relative = differences(a[part], b[part], typical)
        each = relative / tolerance.epsilon
        differing += int(np.count_nonzero(_too_far(a[part], b[part], relative, tolerance)))
        most = max(most, float(apart.max()))
        place = int(each.argmax())
        if each[place] > units:
            units, worst = float(each[place]), start + place
    if worst < 0 and differing:  # by the sign of a zero
        worst = int(_different_bits(a, b).argmax())
    if most == math.inf and bool((np.isnan(a) != np.isnan(b)).any()):
        most = math.nan
    return DiffNumbers(a.size, differing, most, units, worst)


def different(a: np.ndarray, b: np.ndarray, mask: np.ndarray | None, tolerance: Tolerance) -> np.ndarray:
    """The cells that `compare` counts as differing."""
    if not _is_float(a) and not _is_float(b):
        found = a != b
    else:
        typical = max(_typical(each.reshape(-1) if mask is None else each[mask]) for each in (a, b))
        found = _too_far(a, b, differences(a, b, typical)[1], tolerance)
    return np.asarray(found if mask is None else found & mask)


def _too_far(a: np.ndarray, b: np.ndarray, relative: np.ndarray, tolerance: Tolerance) -> np.ndarray:
    return _different_bits(a, b) if tolerance.given == 0 else relative > tolerance.relative


def differences(a: np.ndarray, b: np.ndarray, typical: float | None = None) -> tuple[np.ndarray, np.ndarray]:
    """The absolute difference of each cell, and the one relative to its size. NaN equals NaN, and infinities of one sign are equal.

    Args:
        typical: The typical size of values. Default: computed from these.
    """
    if typical is None:
        typical = max(_typical(a.reshape(-1)), _typical(b.reshape(-1)))
    wide = np.complex128 if np.iscomplexobj(a) or np.iscomplexobj(b) else np.float64
    a, b = a.astype(wide), b.astype(wide)
    with np.errstate(all="ignore"):
        # Of arrays without axes NumPy makes scalars, into which nothing can be written.
        apart = np.asarray(np.abs(a - b))
        relative = np.asarray(apart / np.maximum(np.maximum(np.abs(a), np.abs(b)), typical))
    special = ~np.isfinite(apart)
    if special.any():
        same = np.asarray((a == b) | (np.isnan(a) & np.isnan(b)))
        apart[special] = np.where(same[special], 0.0, np.inf)
        relative[special] = apart[special]
    relative[apart == 0] = 0.0  # 0 of 0
    return apart, relative


def _typical(values: np.ndarray) -> float:
    """The root mean square of values, of a sample if there are very many; without infinities and the values that mark masked cells."""
    if not values.size:
        return 0.0
    sizes = np.abs(
        values[:: -(-values.size // _SAMPLE)].astype(np.complex128 if np.iscomplexobj(values) else np.float64)
    )
    sizes = sizes[sizes < np.inf]
    if not sizes.size:
        return 0.0
    if sizes.max() >= _MARK:
        there = sizes[sizes > 0]
        sizes = sizes[(sizes < _MARK) | (sizes <= _FAR * np.partition(there, there.size // 2)[there.size // 2])]
    return math.sqrt(float(np.mean(np.square(sizes)))) if sizes.size else 0.0


def _compare_exactly(a: np.ndarray, b: np.ndarray) -> DiffNumbers:
    other = a != b
    differing = int(np.count_nonzero(other))
    if not differing:
        return DiffNumbers(a.size)
    apart = np.abs(a.astype(np.float64) - b.astype(np.float64)) if a.dtype.kind in "iub" else other.astype(np.float64)
    return DiffNumbers(a.size, differing, float(apart.max()), math.inf, int(other.argmax()))


def _different_bits(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The cells in which values, or the signs of zeros, differ."""
    with np.errstate(all="ignore"):
        other = (a != b) & ~(np.isnan(a) & np.isnan(b))
        if not np.iscomplexobj(a) and not np.iscomplexobj(b):
            other |= np.signbit(a) != np.signbit(b)
    return np.asarray(other & ~(np.isnan(a) & np.isnan(b)))


def _same_bits(a: np.ndarray, b: np.ndarray) -> bool:
    return not _is_float(a) or not bool(_different_bits(a, b).any())


def _is_float(array: np.ndarray) -> bool:
    return array.dtype.kind in "fc"
