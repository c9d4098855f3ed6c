"""Statistics of a head, over the rows that have a choice: computed rows that may see more than one position.

    entropy   of a row, relative to uniform weights over its visible positions: 0 is one position, 1 is uniform
    diagonal  how much nearer to the diagonal the weight lies than uniform weights would: 1 on it, 0 no nearer, below 0 farther
    first     weight on the first position
    last      weight on the last position, over the rows that may see it; NaN if a mask leaves only one such row
    padding   largest weight of a row on padding or on masked positions, which should be 0
    change    half of the absolute difference to the same head in the previous layer: 0 is equal, 1 is disjoint

NaN if undefined. They are computed from the exact weights, never from the thinned data of a page.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from rfnb.viz.attention.masks import above

NAMES = ("entropy", "diagonal", "first", "last", "padding", "change")
LOOKS = ("evenly", "at the first", "at the last", "along the diagonal", "at few", "mixed")
_MOST_KEPT = 1 << 20  # cells of a cached table of distances
EVEN, MOST, NEAR, FEW = 0.95, 0.5, 0.75, 0.3  # of entropy, of first and last, of diagonal, of entropy


def measure(
    values: np.ndarray, row_len: int, col_len: int, *, causal: bool = False, hidden: np.ndarray | None = None
) -> np.ndarray:
    """The badges of one sequence of a map [row, col] with rows that sum to 1; change is NaN.

    Args:
        hidden: Masked cells, bool [row_len, col_len].
    """
    out = np.full(len(NAMES), np.nan)
    part, outside = values[:row_len, :col_len], values[:row_len, col_len:]
    if not part.size:
        return out
    off = np.abs(np.nan_to_num(outside)).sum(-1, dtype=np.float64)
    seen: np.ndarray | None = None
    if hidden is not None:
        off += np.where(hidden, np.abs(np.nan_to_num(part)), 0).sum(-1, dtype=np.float64)
        part, seen = np.where(hidden, np.float32(0), part), ~hidden
    elif causal:
        part, seen = np.tril(part, col_len - row_len), ~above(row_len, col_len)
    out[4] = off.max()
    totals = part.sum(-1, dtype=np.float64)
    count = np.full(row_len, col_len) if seen is None else seen.sum(-1)
    rows = (count > 1) & np.isfinite(totals) & (totals > 0)
    if not rows.any():
        return out
    share = 1 / np.where(rows, totals, 1)
    logs = np.log(np.maximum(part, np.float32(1e-38)))
    plogp = np.einsum("ij,ij->i", part, logs) * share
    uniform = np.log(np.where(rows, count, 2))
    out[0] = ((np.log(np.where(rows, totals, 1)) - plogp) / uniform)[rows].mean()
    away = distances(row_len, col_len, causal)
    spread = away.mean(-1) if seen is None else (away * seen).sum(-1) / np.maximum(count, 1)
    if spread[rows].sum() > 0:
        out[1] = 1 - (np.einsum("ij,ij->i", part, away) * share)[rows].sum() / spread[rows].sum()
    for at, col in ((2, 0), (3, col_len - 1)):
        own = rows if seen is None else rows & seen[:, col]
        if own.sum() > (seen is not None and at == 3):
            out[at] = (part[:, col] * share)[own].mean()
    return out


def change(one: np.ndarray, other: np.ndarray) -> float:
    """Half of the absolute difference of rows, averaged over the rows that both maps have."""
    with np.errstate(invalid="ignore"):
        apart = np.abs(one - other).sum(-1, dtype=np.float64)
    apart = apart[np.isfinite(apart)]
    return float(apart.mean() / 2) if apart.size else float("nan")


def looks(badges: np.ndarray) -> int:
    """The index into LOOKS of the attention pattern of a head."""
    entropy, diagonal, first, last = badges[:4]
    if np.isnan(entropy):
        return len(LOOKS) - 1
    tests = (entropy >= EVEN, first >= MOST, last >= MOST, diagonal >= NEAR, entropy <= FEW)
    return next((index for index, holds in enumerate(tests) if holds), len(LOOKS) - 1)


def distances(rows: int, cols: int, causal: bool) -> np.ndarray:
    """The distance of each cell from the diagonal, in columns; in a causal map the last row is aligned with the last column."""
    made = _kept if rows * cols <= _MOST_KEPT else _kept.__wrapped__  # do not cache large tables
    return made(rows, cols, causal)


@lru_cache(maxsize=8)
def _kept(rows: int, cols: int, causal: bool) -> np.ndarray:
    at = np.arange(rows) + (cols - rows) if causal else np.arange(rows) * ((cols - 1) / max(rows - 1, 1))
    away = np.arange(cols, dtype=np.float32)[None, :] - at.astype(np.float32)[:, None]
    np.abs(away, out=away)
    away.setflags(write=False)
    return away
