"""Blocks of states that are made when a page asks for them: "track0/order/cluster", "track0/on/<seq>/<start>/<stop>/<threshold>"."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rfnb.viz.states.orders import order_of


def derived(spec: Any, name: str) -> np.ndarray | None:
    """The block of this name; None if there is none."""
    track, _, rest = name.partition("/")
    what, _, which = rest.partition("/")
    values, seqs = spec.blocks.get(track), spec.head.get("seqs")
    if values is None or values.ndim != 3 or not seqs:
        return None
    if what == "order":
        known = any(order["name"] == which for order in spec.head.get("orders") or [])
        return order_of(values, seqs, which) if known else None
    brush = _brush(which, values.shape, seqs) if what in ("on", "elsewhere") else None
    if brush is None:
        return None
    return (counts if what == "on" else elsewhere)(values, [seq["len"] for seq in seqs], brush)


def _brush(text: str, shape: tuple[int, ...], seqs: Any) -> Brush | None:
    try:
        seq, start, stop, threshold = text.split("/")
        brush = Brush(int(seq), int(start), int(stop), float(threshold))
    except ValueError:
        return None
    fits = (
        0 <= brush.seq < len(seqs) and 0 <= brush.start < brush.stop <= shape[1] and brush.threshold == brush.threshold
    )
    return brush if fits else None


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
