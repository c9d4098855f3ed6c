"""The entries of the table for the pure functions of beam search."""

from __future__ import annotations

from typing import Any

from table import case
from world import World

import rfnb as rf
from rfnb import Dim, Tensor


@case("beam_search_step")
def _step(w: World) -> Any:
    size = 2 * w.heads.extent
    options: dict[str, Any] = {
        "beam_size": size, "axis": w.classes, "beam_dim": w.heads, "out_beam_dim": Dim(size, name="chosen"), "step": 3,
        "input_type": str(w.rng.choice(["logits", "log_prob"])), "length_normalization": bool(w.rng.integers(2)),
        "keep_beams": bool(w.rng.integers(2)) and w.classes.extent > 1,
    }  # fmt: skip

    def call(scores: Tensor, base: Tensor, ended: Tensor) -> Any:
        labels, parents, totals = rf.beam_search_step(scores, base, ended, **options)
        real = rf.logical_not(rf.is_neg_infinite(totals))
        return [rf.where(real, rf.set_sparse_dim(x, None), 0) for x in (labels, parents)], rf.where(real, totals, 0.0)

    return call, [w.floats(w.batch, w.heads, w.classes), w.floats(w.batch, w.heads), w.bools(w.batch, w.heads)]


@case("gather_beams")
def _gather(w: World) -> Any:
    same = bool(w.rng.integers(2))
    parents = w.ints(w.batch, w.heads if same else w.out, sparse_dim=w.heads)
    return lambda x, y, index: rf.gather_beams({"x": x, "y": y}, index), [
        w.floats(w.batch, w.heads, w.time), w.floats(w.batch, w.time, w.feat), parents
    ]  # fmt: skip


@case("backtrack")
def _backtrack(w: World) -> Any:
    values = [w.floats(w.batch, w.heads, w.time) for _ in range(3)]
    parents = [w.ints(w.batch, w.heads, sparse_dim=w.heads) for _ in range(3)]
    return lambda a, b, c, *indices: rf.backtrack([a, b, c], indices), [*values, *parents]
