"""Maps of a recording that are too large to keep in memory together: a view keeps overviews of them.

A recording has the queries and keys of the weights. So the view has a `RecomputedBlock` in place of an array, and
recomputes weights on demand. The badges, problems and range are those of the exact weights.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from rfnb.core.memo import make_room
from rfnb.core.strict_json import JsonObject
from rfnb.viz.attention import badges
from rfnb.viz.spec import Spec

MOST = 1 << 24  # cells of all maps of a recording that are kept exactly
_OVERVIEWS = 1 << 21  # cells of all overviews, approximately


class RecentWeights:
    """A cache for the weights of the most recently viewed runs.

    Attributes:
        most: Maximal number of runs.
    """

    def __init__(self, most: int):
        self.most = most
        self._arrays: dict[Any, np.ndarray] = {}

    def get(self, key: Any, make: Callable[[], np.ndarray]) -> np.ndarray:
        """The weights of a run; `make` computes them if they are not cached."""
        found = self._arrays.pop(key, None)
        found = make() if found is None else found
        make_room(self._arrays, self.most)
        self._arrays[key] = found
        return found

    def keep(self, most: int) -> None:
        """Set the number of entries to keep."""
        self.most = most
        make_room(self._arrays, most + 1)


class RecomputedBlock:
    """One map [sequence, target, source] of a run.

    Args:
        values: The map.
        make: Computes the weights of the run, [sequence, map, target, source].
        number: The index of the map in these.
        factor: Rows and columns per cell of the overview.
    """

    by_rows = True
    ndim = 3
    dtype = np.dtype(np.float32)

    def __init__(
        self,
        values: np.ndarray,
        make: Callable[[], np.ndarray],
        number: int,
        factor: int,
        recent: RecentWeights,
        key: Any,
    ):
        self.shape, self.size, self.factor = values.shape, values.size, factor
        self._make, self._number, self._recent, self._key = make, number, recent, key
        self._overview = _pooled(values, factor)
        self.nbytes = self._overview.nbytes

    def __getitem__(self, at: Any) -> np.ndarray:
        return np.asarray(self._recent.get(self._key, self._make)[:, self._number][at])

    def overview(self) -> np.ndarray:
        """The largest weight of each block of cells, [sequence, row, column]."""
        return self._overview


def remade(spec: Spec, make: Callable[[], np.ndarray], runs: int, recent: RecentWeights, key: Any) -> Spec:
    """The spec, with overviews if this many runs are too large to keep.

    Args:
        make: Computes the weights of all maps of the spec, [sequence, map, target, source].
    """
    blocks: JsonObject = {entry["block"]: spec.blocks[entry["block"]] for entry in spec.head["maps"]}
    if not blocks or runs * sum(block.size for block in blocks.values()) <= MOST:
        return spec
    rows, cols = next(iter(blocks.values())).shape[1:]
    factor = 1
    while rows * cols > factor * factor * _OVERVIEWS // max(runs, 8):
        factor *= 2
    if factor == 1:
        return spec
    made: JsonObject = {
        name: RecomputedBlock(block, make, number, factor, recent, key)
        for number, (name, block) in enumerate(blocks.items())
    }
    # Masked cells have no weight; a mask is as large as a map.
    maps = [{name: value for name, value in entry.items() if name != "mask"} for entry in spec.head["maps"]]
    others = {name: block for name, block in spec.blocks.items() if name not in blocks and not name.startswith("mask")}
    return Spec(spec.kind, {**spec.head, "maps": maps}, {**others, **made})


def with_change(spec: Spec, made: Spec, before: Spec | None) -> None:
    """Add the changes relative to the previous layer to the badges of a spec, from the exact weights of both."""
    if before is None or "badges" not in spec.blocks or before.head["seqs"] != made.head["seqs"]:
        return
    at = badges.NAMES.index("change")
    for number, (one, other) in enumerate(zip(made.head["maps"], before.head["maps"])):
        if one["at"] != other["at"] or one["seqs"] != other["seqs"]:
            continue
        for seq, where in enumerate(one["seqs"]):
            size = made.head["seqs"][where]
            pair = [each.blocks[entry["block"]][seq] for each, entry in ((made, one), (before, other))]
            near = [values[: size["row_len"], : size["col_len"]] for values in pair]
            spec.blocks["badges"][number, seq, at] = badges.change(near[0], near[1])


def _pooled(values: np.ndarray, factor: int) -> np.ndarray:
    """The largest weight of each block of cells."""
    seqs, rows, cols = values.shape
    values = (
        np.pad(values, [(0, 0), (0, -rows % factor), (0, -cols % factor)]) if rows % factor or cols % factor else values
    )
    down, across = (size // factor for size in values.shape[1:])
    pooled = values.reshape(seqs, down, factor, across * factor).max(2)
    return np.ascontiguousarray(pooled.reshape(seqs, down, across, factor).max(3))
