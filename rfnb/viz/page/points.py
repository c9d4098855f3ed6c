"""Curves of many points: a band from the least to the largest point of each stretch, and the points that show where it begins and ends.

Every point that is left is one that was there. A series that is thinned has `of`, the number of its points, `every`, how many of them are
a stretch, `kept`, the block with how many of each stretch are left, and `odd`, what is no number in all of them, in words.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rfnb.viz.curves.content import odd_in
from rfnb.viz.page.budget import Room
from rfnb.viz.page.finest import finest
from rfnb.viz.page.heads import lessened
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
    """The spec with as many points as there is room for."""
    return finest(
        _STRETCHES, lambda stretches: _thinned(spec, stretches), lambda many: room.most if many <= 1024 else room.easy
    )


def between(spec: Spec, low: float, high: float) -> Spec:
    """The points of each series from one x to another, and the nearest one on each side, to which its line goes."""
    blocks = dict(spec.blocks)
    for entry in spec.head["series"]:
        x, y = spec.blocks[entry["x"]], spec.blocks[entry["y"]]
        part = slice(max(0, np.searchsorted(x, low) - 1), np.searchsorted(x, high, side="right") + 1)
        blocks[entry["x"]], blocks[entry["y"]] = x[part], y[part]
    return Spec(spec.kind, spec.head, blocks)


def _thinned(spec: Spec, stretches: int) -> Spec:
    blocks = dict(spec.blocks)
    series: list[dict[str, Any]] = []
    thinned: list[dict[str, Any]] = []
    for entry in spec.head["series"]:
        x, y = spec.blocks[entry["x"]], spec.blocks[entry["y"]]
        every = -(-len(y) // stretches)
        if every > 5:
            keep, name = kept(y, every), f"kept{len(series)}"
            blocks[entry["x"]], blocks[entry["y"]] = x[keep], y[keep]
            blocks[name] = np.bincount(keep // every).astype(np.uint8)
            entry = {**entry, "of": len(y), "every": every, "kept": name, "odd": odd_in(x, y, str(spec.head["x"]))}
            thinned.append(entry)
        series.append(entry)
    if not thinned:
        return spec
    return lessened(spec, {"series": series}, blocks, {}, _words(thinned, len(series)))


def _words(thinned: list[dict[str, Any]], count: int) -> str:
    """The sentence on what the page has of how many points: "Of each 21 of 300 points ..."."""
    most = max(thinned, key=lambda entry: int(entry["every"]))
    which = "" if len(thinned) == count else f" in {len(thinned)} of {count} series"
    up_to = "up to " if len({entry["every"] for entry in thinned}) > 1 else ""
    return (
        f"Of each {up_to}{most['every']} of {most['of']} points{which} the page has the first, the least, the largest and the last; "
        "the band is from the least to the largest."
    )


def kept(y: np.ndarray, every: int) -> np.ndarray:
    """The indices of the points that stay: of each stretch the ends, the least and the largest number, an infinity of each sign, the
    first that is no number, and those beside its first and its last number, where nothing but gaps may be.
    """
    starts = np.arange(0, len(y), every)
    padded = np.full(len(starts) * every, np.nan, np.float64)
    padded[: len(y)] = y
    stretches = padded.reshape(-1, every)
    numbers = np.isfinite(stretches)
    last = np.minimum(starts + every, len(y)) - 1
    inside = np.arange(len(padded)).reshape(-1, every) < len(y)
    parts = (
        np.where(numbers, stretches, np.inf).argmin(1),
        np.where(numbers, stretches, -np.inf).argmax(1),
        (np.isnan(stretches) & inside).argmax(1),  # the first one, or the first point
        (stretches == np.inf).argmax(1),
        (stretches == -np.inf).argmax(1),
        np.maximum(numbers.argmax(1) - 1, 0),  # before the first number
        every - numbers[:, ::-1].argmax(1),  # after the last number
    )
    return np.unique(np.concatenate([starts, last, *(np.minimum(starts + part, last) for part in parts)]))
