"""The entries of the table for ops on dims."""

from __future__ import annotations

from typing import Any

from table import case
from world import World, some_axes

import rfnb as rf
from rfnb import Dim, Tensor


@case("replace_dim")
def _replace_dim(w: World) -> Any:
    new = Dim(w.feat.extent, name="new")
    return lambda x: rf.replace_dim(x, in_dim=w.feat, out_dim=new), [w.floats(w.batch, w.time, w.feat)]


@case("set_sparse_dim")
def _set_sparse_dim(w: World) -> Any:
    return lambda x: rf.set_sparse_dim(x, w.classes), [w.ints(w.batch, w.time, low=0, high=1)]


@case("range_over_dim")
def _range_over_dim(w: World) -> Any:
    return lambda x: x * rf.range_over_dim(w.time, device=x.device), [w.floats(w.batch, w.time)]


@case("sequence_mask")
def _sequence_mask(w: World) -> Any:
    dims = w.shuffled((w.batch, w.time, w.source, w.char))
    return lambda: (rf.sequence_mask(dims), rf.sequence_mask(w.time), rf.sequence_mask([w.feat])), []


@case("last_frame_position_of_dim")
def _last_frame(w: World) -> Any:
    x = w.floats(w.batch, w.time, w.char, w.feat)
    if w.char.extent == 0:  # there is no last frame
        return lambda x: x, [x]

    def call(x: Tensor) -> Tensor:
        last = rf.gather(x, indices=rf.last_frame_position_of_dim(w.char, device=x.device))
        return rf.where(w.char.get_size_tensor(device=x.device) > 0, last, 0)  # what is empty has no last frame either

    return call, [x]


@case("num_elements_of_shape")
def _num_elements(w: World) -> Any:
    dims = w.shuffled((w.batch, w.time, w.char, w.feat))
    return lambda: (rf.num_elements_of_shape(dims), rf.num_elements_of_shape(dims, use_mask=False)), []


@case("range_over_dim_strided")
def _range_strided(w: World) -> Any:
    axis, stride = w.shuffled((w.time, w.feat))[0], int(w.rng.integers(1, 4))
    return lambda: rf.range_over_dim_strided(axis, stride=stride), []


@case("range_over_merged_dims")
def _range_merged(w: World) -> Any:
    dims = (w.time, *w.shuffled((w.heads, w.feat)))[: w.rng.integers(1, 4)]
    return lambda x: x * rf.range_over_merged_dims(dims, device=x.device), [w.floats(w.batch, *dims)]


@case("range_over_merged_dims", "with batch")
def _range_merged_batch(w: World) -> Any:
    dims = w.shuffled((w.batch, w.time, w.feat))[: w.rng.integers(1, 4)]
    return lambda: rf.range_over_merged_dims(dims), []


@case("linspace_over_dim")
def _linspace(w: World) -> Any:
    axis = w.time if w.rng.random() < 0.6 else w.feat

    def call(x: Tensor) -> Any:
        return rf.linspace_over_dim(axis, -1.0, 2.0, device=x.device), rf.linspace_over_dim(axis, x, 4.0)

    return call, [w.floats(w.batch)]


@case("replace_dim_v2")
def _replace_dim_v2(w: World) -> Any:
    axes = (w.time, w.source, w.heads, w.feat)
    in_dim, out_dim = w.shuffled(axes)[:2]
    return lambda x: rf.replace_dim_v2(x, in_dim=in_dim, out_dim=out_dim), [w.floats(w.batch, in_dim, w.classes)]


@case("masked_fraction_of_shape")
def _masked_fraction(w: World) -> Any:
    dims = w.shuffled((w.batch, w.time, w.char, w.feat))
    return lambda: (rf.masked_fraction_of_shape(dims), rf.masked_fraction_of_shape(dims, inverse=True)), []


@case("gating")
def _gating(w: World) -> Any:
    wide = 2 * w.feat
    return lambda x: rf.gating(x, axis=wide, act_func=rf.tanh), [w.floats(w.batch, w.time, wide)]


for _name in ("opt_logical_and", "opt_logical_or"):

    @case(_name)
    def _opt_logical(w: World, name: str = _name) -> Any:
        op, flag = getattr(rf, name), bool(w.rng.random() < 0.5)
        return lambda a, b: (op(a, b), op(a, flag), op(flag, b)), [w.bools(w.batch, w.time), w.bools(w.time)]


@case("reduce_logmeanexp")
def _reduce_logmeanexp(w: World) -> Any:
    dims = w.dims(at_least=1)
    axis = some_axes(w, dims)
    return lambda x: rf.reduce_logmeanexp(x, axis=axis), [w.floats(*dims)]


@case("reduce_out")
def _reduce_out(w: World) -> Any:
    wide, mode = w.feat * w.heads, str(w.rng.choice(["max", "mean"]))

    def call(x: Tensor) -> Any:
        x = rf.copy(x)
        x.feature_dim = wide
        return rf.reduce_out(x, mode=mode, num_pieces=w.heads.extent, out_dim=w.feat)

    return call, [w.floats(w.batch, w.time, wide)]


@case("smooth_one_hot")
def _smooth_one_hot(w: World) -> Any:
    return lambda x: rf.smooth_one_hot(x, label_prob=0.8), [w.ints(w.batch, w.time, sparse_dim=w.classes)]
