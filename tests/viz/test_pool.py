"""Several values as one: each cell is worked out again, block by block, by a plain loop."""

from __future__ import annotations

import numpy as np
import pytest

from rfnb.viz.pool import extreme, largest, largest_in, merged


def with_odd(*shape: int) -> np.ndarray:
    """Values of both signs with NaN, infinity, and whole stretches of NaN."""
    random = np.random.default_rng(sum(shape))
    values = random.standard_normal(shape).astype(np.float32)
    for odd in (np.nan, np.inf):
        values[random.random(shape) < 0.05] = odd
    values[tuple(slice(size // 2) for size in shape)] = np.nan
    return values


def most_of(block: np.ndarray) -> float:
    there = block[~np.isnan(block)]
    return float(there.max()) if there.size else np.nan


def farthest_of(block: np.ndarray) -> float:
    return np.nan if np.isnan(block).any() else float(block.flat[np.abs(block).argmax()])


# Of the last axis long runs are merged in another way than short ones.
RUNS = {"equal": range(0, 120, 8), "of one": range(9), "uneven": (0, 3, 4, 50, 110), "long": (0, 40, 72)}


@pytest.mark.parametrize("starts", RUNS.values(), ids=RUNS.keys())
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("merge, expected", [(largest, most_of), (extreme, farthest_of)], ids=["largest", "farthest"])
def test_runs_are_merged_from_each_start_to_the_next(starts, axis, merge, expected):
    values = with_odd(120, 5) if axis == 0 else with_odd(5, 120)
    starts = np.array(starts)
    found = np.moveaxis(merged(values, starts, axis, merge), axis, 0)
    lines = np.moveaxis(values, axis, 0)
    ends = [*starts[1:], 120]
    plain = [[expected(lines[start:end, line]) for line in range(5)] for start, end in zip(starts, ends)]
    np.testing.assert_array_equal(found, np.array(plain, np.float32))


@pytest.mark.parametrize("rows, cols", [(3, 4), (1, 1), (0, 0), (70, 7), (64, 300), (1000, 1000)])
def test_each_cell_of_a_small_picture_has_a_block_of_its_own(rows, cols):
    values = with_odd(70, 300)
    down, across = (np.arange(min(size, max(most, 1)) + 1) * size // min(size, max(most, 1))
                    for size, most in ((70, rows), (300, cols)))  # fmt: skip
    plain = [[most_of(values[r0:r1, c0:c1]) for c0, c1 in zip(across, across[1:])] for r0, r1 in zip(down, down[1:])]
    np.testing.assert_array_equal(largest_in(values, rows, cols), np.array(plain, np.float32))
