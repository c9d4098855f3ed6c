"""A range of steps and a threshold: which units are on in all of it, and where else they are.

A unit is on where its value is at least the threshold; below 0, where it is at most the threshold.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Brush:
    """The steps from `start` up to, not including, `stop` of a sequence."""

    seq: int
    start: int
    stop: int
    threshold: float


def is_on(values: np.ndarray, threshold: float) -> np.ndarray:
    """Whether each value is on."""
    with np.errstate(invalid="ignore"):
        return np.asarray(values >= threshold if threshold >= 0 else values <= threshold)


def counts(values: np.ndarray, lengths: Sequence[int], brush: Brush) -> np.ndarray:
    """float32 [2, unit]: in how many steps of the range each unit is on, and in how many others of that sequence."""
    on = is_on(values[brush.seq, : lengths[brush.seq]], brush.threshold)
    here = on[brush.start : brush.stop].sum(0)
    return np.stack([here, on.sum(0) - here]).astype(np.float32)


def elsewhere(values: np.ndarray, lengths: Sequence[int], brush: Brush) -> np.ndarray:
    """float32 [seq, step]: the share of the units on in the whole range that are on in each step; NaN after ends, and if there are none."""
    out = np.full(values.shape[:2], np.nan, np.float32)
    stop = min(brush.stop, lengths[brush.seq])
    chosen = np.flatnonzero(counts(values, lengths, brush)[0] == stop - brush.start)
    if len(chosen) and stop > brush.start:
        for seq, length in enumerate(lengths):
            out[seq, :length] = is_on(values[seq, :length][:, chosen], brush.threshold).mean(-1)
    return out
