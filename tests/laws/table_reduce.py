"""The entries of the table for reductions."""

from __future__ import annotations

from typing import Any

from table import CASES, case
from world import World, some_axes

import rfnb as rf
from rfnb import Dim, Tensor

for _name in "sum max min mean logsumexp any all argmax argmin".split():

    @case(f"reduce_{_name}")
    def _reduce(w: World, name: str = _name) -> Any:
        dims = w.dims(at_least=1)
        values = w.bools(*dims) if name in ("any", "all") else w.floats(*dims)
        axis = some_axes(w, dims, 1)[0] if name.startswith("arg") else some_axes(w, dims)
        if w.rng.random() < 0.5:
            return lambda x: rf.reduce(x, mode=name, axis=axis), [values]
        return lambda x: getattr(rf, f"reduce_{name}")(x, axis=axis), [values]


CASES["reduce"] = CASES["reduce_sum"]
for _name in "sum max min mean".split():

    @case(f"reduce_{_name}", "of integers")
    def _reduce_ints(w: World, name: str = _name) -> Any:
        axis = [w.time, (w.batch, w.time)][w.rng.integers(2)]
        return lambda x: getattr(rf, f"reduce_{name}")(x, axis=axis), [w.ints(w.batch, w.time)]


@case("reduce_mean", "of bools")
def _reduce_mean_bools(w: World) -> Any:
    return lambda x: rf.reduce_mean(x, axis=(w.time, w.batch)), [w.bools(w.batch, w.time)]


@case("top_k")
def _top_k(w: World) -> Any:
    k_dim = Dim(1 + int(w.rng.integers(w.classes.extent)), name="best")
    return lambda x: rf.top_k(x, axis=w.classes, k_dim=k_dim), [w.floats(w.batch, w.time, w.classes)]


@case("top_k", "of several dims, one ragged")
def _top_k_joint(w: World) -> Any:
    k_dim = Dim(1, name="best")

    def call(x: Tensor) -> Any:
        values, indices, dim = rf.top_k(x, axis=[w.time, w.classes], k_dim=k_dim)
        found = rf.reduce_all(rf.is_finite(values), axis=dim)  # an empty sequence has no best frame
        return values, [rf.where(found, index, 0) for index in indices], dim

    inputs = [w.floats(w.batch, w.time, w.classes)]
    if w.time.extent == 0:
        return lambda x: x, inputs
    return call, inputs
