"""Scales with round ticks, as in widgets/src/curves/scale.ts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Ticks:
    """A scale from `low` to `high` with its ticks. A tick without text is a thin line."""

    low: float
    high: float
    log: bool
    at: Sequence[tuple[float, str]]

    def shares(self, values: np.ndarray) -> np.ndarray:
        """Positions from 0 to 1; NaN is kept."""
        if self.log:
            return np.asarray(np.log(np.maximum(values, 1e-300) / self.low) / math.log(self.high / self.low))
        return np.asarray((values - self.low) / (self.high - self.low))


def y_ticks(low: float, high: float, *, log: bool = False, count: int = 4) -> Ticks:
    """A scale for y values. It begins at 0 if that wastes little, so that heights can be compared."""
    if log and low > 0:
        return _log_ticks(low, high)
    if low == high:
        low, high = (0.0, 1.0) if low == 0 else (0.0, 2 * low) if low > 0 else (2 * low, 0.0)
    elif 0 < low < 0.35 * high:
        low = 0.0
    elif 0.35 * low < high < 0:
        high = 0.0
    step = nice_step(high / count - low / count)  # the difference of huge numbers would overflow
    room = 0.25 * (high / 1.0 - low)
    first, last = math.floor(low / step + 1e-6), math.ceil(high / step - 1e-6)
    bottom, top = first * step, last * step
    if last - first > 2 and low - bottom > room:
        first, bottom = first + 1, low - 0.15 * room
    if last - first > 1 and top - high > room:
        last, top = last - 1, high + 0.15 * room
    return Ticks(bottom, top, False, _texts([index * step for index in range(first, last + 1)], step))


def x_ticks(low: float, high: float, count: int, *, whole: bool) -> Ticks:
    """The x axis: from the first to the last point, with at most about `count` ticks inside."""
    if low == high:
        low, high = low - 1, high + 1
    step = nice_step((high - low) / max(count, 1))
    step = max(1.0, step) if whole else step
    first, last = math.ceil(low / step - 1e-6), math.floor(high / step + 1e-6)
    return Ticks(low, high, False, _texts([index * step for index in range(first, last + 1)], step))


def nice_step(size: float) -> float:
    """The smallest of 1, 2, 5, 10, 20, ... that is at least `size`."""
    power = 10.0 ** math.floor(math.log10(size))
    return next((step for step in (1, 2, 5) if step * power >= size * 0.999), 10) * power


def _log_ticks(low: float, high: float) -> Ticks:
    powers = range(math.floor(math.log10(low) + 1e-9), math.ceil(math.log10(high)) + 1)
    every = max(1, len(powers) // 6)
    values = [step * 10.0**power for power in powers for step in ((1, 2, 5) if len(powers) <= 4 else (1,))]
    below = [value for value in values if value <= low * 1.0001]
    above = [value for value in values if value >= high * 0.9999]
    bottom, top = below[-1] if below else low, above[0] if above else high
    if bottom >= top:
        bottom, top = bottom / 2, top * 2
    inside = [value for value in values if bottom <= value <= top]
    strong = inside if len(inside) <= 4 else [value for value in inside if _is_power(value)][::every]
    if len(strong) < 2:
        strong = [inside[0], inside[-1]]
    return Ticks(bottom, top, True, [(value, tick_text(value, value) if value in strong else "") for value in inside])


def _is_power(value: float) -> bool:
    return abs(math.log10(value) - round(math.log10(value))) < 1e-9


def _texts(values: list[float], step: float) -> list[tuple[float, str]]:
    most = max(map(abs, values), default=0.0)
    return [(value, tick_text(value, step, most)) for value in values]


def tick_text(value: float, step: float, most: float | None = None) -> str:
    """A tick with the digits that the tick distance requires: 0.25, 1500, 20k, 2e−4."""
    most = abs(value) if most is None else most
    if value == 0:
        return "0"
    if most >= 1e9 or most < 1e-3:
        finer = max(3, math.floor(math.log10(abs(value))) - math.floor(math.log10(step) + 1e-9))
        digits, power = f"{value:.{finer}e}".split("e")
        text = f"{digits.rstrip('0').rstrip('.')}e{int(power)}"
    elif most >= 1e6 and step >= 1e5:
        text = f"{round(value / 1e6, 6):.9g}M"
    elif step >= 1e3:
        text = f"{round(value / 1e3, 6):.9g}k"
    else:
        text = f"{value:.{max(0, -math.floor(math.log10(step) + 1e-9))}f}"
    return text.replace("-", "−")
