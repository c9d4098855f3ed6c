"""Measures the cost of one computation in rfnb as a ratio to the same in raw torch."""

from __future__ import annotations

import gc
import math
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from device import chosen, clock

TURNS = 61  # odd: the median is a turn that happened
SAMPLE_SECONDS = 1e-3  # of the raw side; far above the clock's resolution, short against a time slice of the scheduler


@dataclass(frozen=True)
class Ratio:
    """One measured op: median, 10 % and 90 % quantile of time(rfnb) / time(raw), and both medians in seconds per call."""

    name: str
    median: float
    low: float
    high: float
    rfnb: float
    raw: float
    limit: float | None

    def check(self) -> None:
        """Fails if the median is over the limit; the limits are those of the CPU, and of another device it is only measured."""
        over = self.limit is not None and self.median > self.limit and not chosen()
        assert not over, f"{self.name}: {self.median:.2f}x raw torch, the limit is {self.limit}x"


def _seconds(fn: Callable[[], Any], calls: int) -> float:
    start = clock()
    for _ in range(calls):
        fn()
    return (clock() - start) / calls


def _raw(value: Any) -> list[torch.Tensor]:
    """The raw tensors of a result: of a Tensor, a torch tensor, or a tuple or list of them."""
    if isinstance(value, tuple | list):
        return [raw for item in value for raw in _raw(item)]
    raw = getattr(value, "raw_tensor", value)
    return [raw] if isinstance(raw, torch.Tensor) else []


def _assert_same(name: str, rfnb: Any, raw: Any) -> None:
    ours, theirs = _raw(rfnb), _raw(raw)
    assert ours and len(ours) == len(theirs), (
        f"{name}: {len(ours)} and {len(theirs)} tensors are not the same computation"
    )
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b, equal_nan=True, msg=lambda m: f"{name}: rfnb and raw torch differ. {m}")


def measure(
    name: str,
    rfnb: Callable[[], Any],
    raw: Callable[[], Any],
    *,
    limit: float | None = None,
    turns: int = TURNS,
    warmup: int = 20,
) -> Ratio:
    """Times both sides in turns.

    Args:
        rfnb, raw: The same computation in both; results are compared, with the same order of axes.
        limit: Largest allowed median ratio; see `Ratio.check`.
        turns: How often each side is timed; odd.
        warmup: Calls of each side before that. Fewer for what takes long.
    """
    _assert_same(name, rfnb(), raw())
    for fn in (rfnb, raw):
        _seconds(fn, warmup)  # caches, plans
    calls = max(1, math.ceil(SAMPLE_SECONDS / _seconds(raw, warmup)))
    ours, theirs = [], []
    gc.collect()
    gc.disable()
    try:
        for turn in range(turns):
            sides = [(rfnb, ours), (raw, theirs)]
            for fn, times in sides if turn % 2 else reversed(sides):  # neither side is always the first
                times.append(_seconds(fn, calls))
    finally:
        gc.enable()
    ratios = [a / b for a, b in zip(ours, theirs, strict=True)]
    deciles = statistics.quantiles(ratios, n=10)
    return Ratio(
        name,
        statistics.median(ratios),
        deciles[0],
        deciles[-1],
        statistics.median(ours),
        statistics.median(theirs),
        limit,
    )
