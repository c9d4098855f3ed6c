"""An order of units in which those that move together stand together.

Average linkage over 1 - correlation, by chains of nearest neighbours (Murtagh 1983): quadratic in time, and the same tree as joining the
nearest pair again and again. Where two groups are joined they are turned so that the ends that meet are the nearest ones. Nothing
is drawn at random, ties go to the unit of the lower number.
"""

from __future__ import annotations

import numpy as np


def clustered(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The order of the units of {step, unit}, and each one's correlation with the one before it in that order (NaN: the first).

    Units that never move come last, in their own order.
    """
    moved = values - values.mean(0) if len(values) else values
    size = np.sqrt(np.square(moved).sum(0))
    alive = np.flatnonzero(size > 1e-9 * (1 + np.abs(values).max(initial=0.0)))
    shapes = moved[:, alive] / size[alive]
    near = np.clip(shapes.T @ shapes, -1.0, 1.0)
    order = _leaves(1 - near)
    with_before = np.full(values.shape[1], np.nan)
    with_before[1 : len(order)] = near[order[:-1], order[1:]]
    still = np.setdiff1d(np.arange(values.shape[1]), alive)
    return np.concatenate([alive[order], still]).astype(np.int64), with_before


def _leaves(distances: np.ndarray) -> np.ndarray:
    count = len(distances)
    if not count:
        return np.zeros(0, np.int64)
    left = distances.copy()
    np.fill_diagonal(left, np.inf)
    groups: dict[int, list[int]] = {index: [index] for index in range(count)}
    chain: list[int] = []
    while len(groups) > 1:
        if not chain:
            chain.append(min(groups))
        last, before = chain[-1], chain[-2] if len(chain) > 1 else -1
        nearest = int(left[last].argmin())
        # The second test is for rounding: a chain never gets longer than there are groups.
        if before >= 0 and (left[last, before] <= left[last, nearest] or len(chain) > len(groups)):
            del chain[-2:]
            one, other = sorted((last, before))
            _join(left, groups, one, other, distances)
        else:
            chain.append(nearest)
    return np.asarray(next(iter(groups.values())), np.int64)


def _join(left: np.ndarray, groups: dict[int, list[int]], one: int, other: int, distances: np.ndarray) -> None:
    """Put the group `other` to the group `one`."""
    first, second = groups[one], groups.pop(other)
    mean = (len(first) * left[one] + len(second) * left[other]) / (len(first) + len(second))
    left[one], left[:, one] = mean, mean
    left[other], left[:, other] = np.inf, np.inf
    left[one, one] = np.inf
    turns = [(a, b) for a in (first, first[::-1]) for b in (second, second[::-1])]
    ends = [distances[a[-1], b[0]] for a, b in turns]
    best = turns[int(np.argmin(ends))]
    groups[one] = [*best[0], *best[1]]
