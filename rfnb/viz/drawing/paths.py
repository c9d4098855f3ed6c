"""Lines through many points: those that stand out in each unit of width, broken where there is none."""

from __future__ import annotations

import numpy as np

from rfnb.viz.drawing.shapes import Point


def paths_of(xs: np.ndarray, ys: np.ndarray) -> list[list[Point]]:
    """The lines through points in the order of x, broken at NaN: at most the first, lowest, highest and last of each unit of width."""
    known = np.isfinite(ys)
    if not known.any():
        return []
    kept = _standing_out(xs, ys, known)
    broken = np.cumsum(~known)  # points with no NaN between them have the same number
    out: list[list[Point]] = []
    last = -1
    for index in kept.tolist():
        if broken[index] != last:
            out.append([])
            last = int(broken[index])
        out[-1].append((float(xs[index]), float(ys[index])))
    return out


def _standing_out(xs: np.ndarray, ys: np.ndarray, known: np.ndarray) -> np.ndarray:
    at = np.flatnonzero(known)
    column = np.floor(xs[at]).astype(np.int64)
    starts = np.flatnonzero(np.r_[True, column[1:] != column[:-1]])
    if len(starts) * 4 >= len(at):
        return at
    ends = np.r_[starts[1:], len(at)] - 1
    by_height = at[np.lexsort((ys[at], column))]
    return np.unique(np.concatenate([at[starts], at[ends], by_height[starts], by_height[ends]]))
