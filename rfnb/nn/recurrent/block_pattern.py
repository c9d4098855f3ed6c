"""The blocks of a block-sparse matrix that are there: patterns from random graphs in which few nodes have most of the edges."""

from __future__ import annotations

import numpy as np

from rfnb.core.errors import value_error


def block_pattern(rows: int, columns: int, *, connectivity: int, seed: int) -> np.ndarray:
    """bool (rows, columns) of blocks, always the same for a seed.

    A square pattern is the adjacency of a Barabasi-Albert graph, with the diagonal, and the first `connectivity` nodes all connected.
    A wide one is several of these side by side, a tall one the transpose of a wide one.

    Raises:
        ValueError: If neither side is a multiple of the other, or connectivity is not from 1 to the smaller side.

    Source: Barabasi and Albert 1999, "Emergence of Scaling in Random Networks"; for weights: Gray et al. 2017, "GPU Kernels for
    Block-Sparse Weights", section 3.
    """
    small, large = sorted((rows, columns))
    if small == 0 or large % small or not 1 <= connectivity <= small:
        raise value_error(
            "block_pattern: no such pattern.",
            [("blocks", f"{rows} x {columns}"), ("connectivity", connectivity)],
            "One side is a multiple of the other, and connectivity is from 1 to the smaller side.",
            f"connectivity={max(1, min(connectivity, small))}, or other sizes",
        )
    wide = np.concatenate([_square(small, connectivity, [seed, part]) for part in range(large // small)], axis=1)
    return wide if rows == small else wide.T.copy()


def _square(nodes: int, connectivity: int, seed: list[int]) -> np.ndarray:
    random = np.random.RandomState(seed)  # whose numbers stay the same in all versions of NumPy
    pattern = np.eye(nodes, dtype=bool)
    ends: list[int] = list(range(connectivity))  # a node once for each of its edges (the first ones once more)
    for node in range(connectivity, nodes):
        targets: list[int] = []
        while len(targets) < connectivity:
            target = ends[random.randint(len(ends))]
            if target not in targets:
                targets.append(target)
        for target in targets:
            pattern[node, target] = pattern[target, node] = True
        ends += [*targets, *[node] * connectivity]
    pattern[:connectivity, :connectivity] = True
    return pattern
