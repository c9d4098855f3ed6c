"""Curves of many points: of each stretch the first, the least, the largest and the last point, and one of a gap if it has some."""

from __future__ import annotations

from typing import Any

import numpy as np

from rfnb.viz.page.budget import Room
from rfnb.viz.page.finest import finest
from rfnb.viz.spec import Spec

_STRETCHES = (
    4096,
    2048,
    1024,
    512,
    256,
    128,
    64,
    32,
    16,
    12,
    8,
    6,
    4,
    3,
    2,
    1,
)  # a panel has about a thousand columns of pixels


def thin_curves(spec: Spec, room: Room) -> Spec:
    """Every value that is left is one that was there."""
    return finest(
        _STRETCHES, lambda stretches: _thinned(spec, stretches), lambda many: room.most if many <= 1024 else room.easy
    )


def _thinned(spec: Spec, stretches: int) -> Spec:
    blocks = dict(spec.blocks)
    series: list[dict[str, Any]] = []
    most = 1
    for entry in spec.head["series"]:
        x, y = spec.blocks[entry["x"]], spec.blocks[entry["y"]]
        every = -(-len(y) // stretches)
        if every > 5:
            keep = kept(y, every)
            blocks[entry["x"]], blocks[entry["y"]] = x[keep], y[keep]
            most = max(most, every)
        series.append(entry)
    said = f"Of each {most} points the page has the first, the least, the largest and the last." if most > 1 else ""
    said = " ".join(filter(None, [spec.head.get("thinned"), said]))
    return Spec(spec.kind, {**spec.head, "series": series, **({"thinned": said} if said else {})}, blocks)


def kept(y: np.ndarray, every: int) -> np.ndarray:
    """The indices of the points that stay."""
    starts = np.arange(0, len(y), every)
    padded = np.full(len(starts) * every, np.nan, np.float64)
    padded[: len(y)] = y
    stretches = padded.reshape(-1, every)
    gaps = np.isnan(stretches)
    low = np.where(gaps, np.inf, stretches).argmin(1)
    high = np.where(gaps, -np.inf, stretches).argmax(1)
    last = np.minimum(starts + every, len(y)) - 1
    inside = np.arange(len(padded)).reshape(-1, every) < len(y)
    gap = (gaps & inside).argmax(1)  # the first one, or the first point
    return np.unique(
        np.concatenate([starts, last, *(np.minimum(starts + part, len(y) - 1) for part in (low, high, gap))])
    )
