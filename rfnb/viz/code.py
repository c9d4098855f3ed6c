"""Quantised values: one byte for each value or block of values, for arrays that are too large for a page.

    code, levels = encode(pooled, "sqrt", shape=(1, 30, 50), pool=(1, 4, 4))     # levels: uint8 [1, 8, 13]
    decode(levels, code)     # float32 [1, 30, 50], approximately

A byte is a level from 0 to 252, or 253 for -inf, 254 for inf, 255 for NaN. Zero stays exactly zero. "sqrt": the levels are even in
the square root of the value, so that small weights stay visible; "linear": even, from `low` to `high`. How the values
that share a byte are pooled is up to the caller. The counterpart is `widgets/src/block.ts`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from rfnb.core.errors import value_error
from rfnb.viz.pool import bounds

Kind = Literal["sqrt", "linear"]
LEVELS = 252  # the highest; even, so that 0 is the middle level of a symmetric range
_MINUS, _PLUS, _NAN = 253, 254, 255


@dataclass(frozen=True)
class BlockCode:
    """The decoding of the bytes of a block.

    Attributes:
        kind: "sqrt" or "linear".
        low: The value of level 0.
        high: The value of level 252.
        shape: The shape of the values.
        pool: By axis, how many values share a byte.
    """

    kind: Kind
    low: float
    high: float
    shape: tuple[int, ...]
    pool: tuple[int, ...]

    @property
    def stored_shape(self) -> tuple[int, ...]:
        """The shape of the bytes."""
        return tuple(-(-size // factor) for size, factor in zip(self.shape, self.pool))

    def table(self) -> np.ndarray:
        """float32 [256]: the value of each byte."""
        share = np.arange(256, dtype=np.float64) / LEVELS
        values = self.low + (self.high - self.low) * (share * share if self.kind == "sqrt" else share)
        values[[_MINUS, _PLUS, _NAN]] = -math.inf, math.inf, math.nan
        return values.astype(np.float32)

    def entry(self) -> dict[str, Any]:
        """The code as JSON data, without the shape."""
        return {"kind": self.kind, "low": self.low, "high": self.high}

    @staticmethod
    def of_entry(entry: Any, shape: Any, pool: Any) -> BlockCode:
        """The code in JSON data.

        Raises:
            ValueError: If it is not a valid code.
        """
        try:
            kind, low, high = entry["kind"], float(entry["low"]), float(entry["high"])
            sizes, factors = tuple(map(int, shape)), tuple(map(int, pool if pool is not None else [1] * len(shape)))
        except (KeyError, TypeError, ValueError):
            kind, low, high, sizes, factors = "", 0.0, 0.0, (), ()
        usable = kind in ("sqrt", "linear") and math.isfinite(low) and math.isfinite(high)
        if not usable or len(sizes) != len(factors) or min(sizes, default=0) < 0 or min(factors, default=1) < 1:
            raise value_error(
                "unpack: a block has an unknown code.",
                {"code": entry, "shape": shape, "pool": pool},
                "A code has a kind (sqrt, linear), low and high; pool has one factor from 1 on per axis.",
                '{"kind": "sqrt", "low": 0, "high": 1}, pool=[1, 2, 2]',
            )
        return BlockCode(kind, low, high, sizes, factors)


def encode(
    pooled: np.ndarray,
    kind: Kind,
    *,
    shape: tuple[int, ...],
    pool: tuple[int, ...],
    step: int = 1,
    span: tuple[float, float] | None = None,
) -> tuple[BlockCode, np.ndarray]:
    """Quantise pooled values to bytes.

    Args:
        pooled: float32, one per byte.
        kind: "sqrt" becomes "linear" if there are values below 0.
        shape: The shape of the values before pooling.
        pool: By axis, how many of these were pooled.
        step: 1, 2, 3 or 6: only every step-th level is used, which deflates better.
        span: The range of values to represent; others are clipped. Default: the full range.
    """
    finite = np.isfinite(pooled)
    low, high = bounds(np.zeros(1), pooled) if span is None else span
    high = high if high > low else low + 1
    if low < 0:
        kind, low, high = "linear", -max(-low, high), max(-low, high)
    low, high = (
        float(str(np.float32(value))) for value in (low, high)
    )  # rounded, since they are stored in the head of a frame
    share = (np.where(finite, pooled, 0).astype(np.float64) - low) / (high - low)
    np.clip(share, 0, 1, out=share)
    if kind == "sqrt":
        np.sqrt(share, out=share)
    levels = (np.rint(share * (LEVELS // step)) * step).astype(np.uint8)
    if not finite.all():
        levels[pooled == -np.inf], levels[pooled == np.inf], levels[np.isnan(pooled)] = _MINUS, _PLUS, _NAN
    return BlockCode(kind, low, high, shape, pool), levels


def decode(levels: np.ndarray, code: BlockCode) -> np.ndarray:
    """float32 with the shape of the values; those that share a byte are equal."""
    values = code.table()[levels]
    for axis, (factor, size) in enumerate(zip(code.pool, code.shape)):
        if factor > 1:
            values = np.take(values, np.arange(size) // factor, axis=axis)
    return values
