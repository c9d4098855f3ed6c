"""The entries of the table for ops that rearrange."""

from __future__ import annotations

from typing import Any

from table import case
from world import World

import rfnb as rf
from rfnb import Dim, Tensor


@case("merge_dims")
def _merge_dims(w: World) -> Any:
    dims = [[w.heads, w.feat], [w.time, w.feat], [w.feat, w.heads, w.batch]][w.rng.integers(3)]
    inputs = [w.floats(w.batch, w.time, w.heads, w.feat)] if w.time in dims else [w.floats(w.batch, w.heads, w.feat)]
    return lambda x: rf.merge_dims(x, dims=dims), inputs


@case("split_dims")
def _split_dims(w: World) -> Any:
    whole = w.heads * w.feat
    return lambda x: rf.split_dims(x, axis=whole, dims=[w.heads, w.feat]), [w.floats(w.batch, w.time, whole)]


@case("split")
def _split(w: World) -> Any:
    whole = w.heads + w.feat
    return lambda x: rf.split(x, axis=whole, out_dims=[w.heads, w.feat]), [w.floats(w.batch, w.time, whole)]


@case("expand_dim")
def _expand_dim(w: World) -> Any:
    dim = w.heads if w.rng.random() < 0.5 else w.time
    return lambda x: rf.expand_dim(x, dim), [w.floats(w.batch, w.feat)]


@case("expand_dims")
def _expand_dims(w: World) -> Any:
    return lambda x: rf.expand_dims(x, [w.time, w.heads]), [w.floats(w.batch, w.feat)]


@case("squeeze")
def _squeeze(w: World) -> Any:
    one = Dim(1, name="one")
    return lambda x: rf.squeeze(x, one), [w.floats(w.batch, w.time, one)]


@case("concat", "of static dims")
def _concat(w: World) -> Any:
    inputs = [w.floats(w.batch, w.time, w.feat), w.floats(w.batch, w.time, w.heads)]
    return lambda a, b: rf.concat((a, w.feat), (b, w.heads)), inputs


@case("concat", "of ragged dims")
def _concat_ragged(w: World) -> Any:
    inputs = [
        w.floats(w.batch, w.time, w.feat),
        w.floats(w.batch, w.source, w.feat),
        w.floats(w.batch, w.heads, w.feat),
    ]
    order = w.rng.permutation(3)
    axes = [w.time, w.source, w.heads]
    return lambda *xs: rf.concat(*((xs[i], axes[i]) for i in order)), inputs


@case("concat", "with broadcasting")
def _concat_broadcast(w: World) -> Any:
    inputs = [w.floats(w.batch, w.time, w.feat), w.floats(w.batch, w.heads)]
    return lambda a, b: rf.concat((a, w.feat), (b, w.heads), allow_broadcast=True), inputs


@case("concat_features")
def _concat_features(w: World) -> Any:
    def call(a: Tensor, b: Tensor) -> Any:
        a, b = rf.copy(a), rf.copy(b)
        a.feature_dim, b.feature_dim = w.feat, w.heads
        return rf.concat_features(a, b)

    return call, [w.floats(w.batch, w.time, w.feat), w.floats(w.batch, w.time, w.heads)]


@case("stack")
def _stack(w: World) -> Any:
    dims, out_dim = w.dims(), Dim(2, name="stack")
    return lambda a, b: rf.stack([a, b], out_dim=out_dim), [w.floats(*dims), w.floats(*dims)]


@case("unstack")
def _unstack(w: World) -> Any:
    return lambda x: rf.unstack(x, axis=w.heads), [w.floats(w.batch, w.time, w.heads)]


@case("gather")
def _gather(w: World) -> Any:
    source, indices, axis = [
        ((w.classes, w.feat), (w.batch, w.time), w.classes),
        ((w.batch, w.classes, w.feat), (w.batch, w.time), w.classes),
        ((w.batch, w.time, w.classes), (w.batch, w.time, w.heads), w.classes),
        ((w.feat, w.classes), (), w.classes),
        ((w.heads, w.classes, w.feat), (w.out,), w.classes),
        ((w.batch, w.heads, w.classes), (w.batch, w.heads), w.classes),
    ][w.rng.integers(6)]
    if w.rng.random() < 0.2:
        return lambda x: rf.gather(x, indices=-1, axis=axis), [w.floats(*source)]
    return lambda x, ids: rf.gather(x, indices=ids, axis=axis), [w.floats(*source), w.ints(*indices, sparse_dim=axis)]


@case("gather", "of frames")
def _gather_frames(w: World) -> Any:
    return lambda x, ids: rf.gather(x, indices=ids, axis=w.time, clip_to_valid=True), [
        w.floats(w.batch, w.time, w.feat),
        w.ints(w.batch, w.source, low=-2, high=9),
    ]


@case("slice")
def _slice(w: World) -> Any:
    start, end, out_dim = int(w.rng.integers(0, 3)), [None, 2, 3, -1, -2][w.rng.integers(5)], Dim(None, name="cut")
    axis = w.time if w.rng.random() < 0.7 else w.feat
    return lambda x: rf.slice(x, axis=axis, start=start, end=end, out_dim=out_dim), [w.floats(w.batch, w.time, w.feat)]


@case("slice", "with a start and an end for each sequence")
def _slice_each(w: World) -> Any:
    inputs = [w.floats(w.batch, w.time, w.feat), w.ints(w.batch, high=4), w.ints(w.batch, high=5)]
    size = Dim(2, name="size") if w.rng.random() < 0.5 else None
    cut = size or Dim(None, name="cut")

    def call(x: Tensor, start: Tensor, end: Tensor) -> Any:
        return rf.slice(x, axis=w.time, start=start, end=end if size is None else None, size=size, out_dim=cut)

    return call, inputs


@case("slice", "to a dim with lengths of its own")
def _slice_to_lengths(w: World) -> Any:
    first = rf.minimum(w.time.get_size_tensor(), int(w.rng.integers(0, 4)))
    size = Dim(rf.cast(w.time.get_size_tensor() - first, "int32"), name="some")
    return lambda x: rf.slice(x, axis=w.time, size=size), [w.floats(w.batch, w.time, w.feat)]


@case("slice", "in steps")
def _slice_steps(w: World) -> Any:
    start, step = int(w.rng.integers(0, 3)), int(w.rng.integers(2, 4))
    return lambda x: rf.slice(x, axis=w.time, start=start, step=step), [w.floats(w.batch, w.time, w.feat)]


@case("pad", "with a number of frames and a value for each sequence")
def _pad_each(w: World) -> Any:
    inputs = [w.floats(w.batch, w.time, w.feat), w.ints(w.batch, low=0, high=4), w.floats(w.batch, w.feat)]
    longer = [Dim(None, name="longer")]
    return lambda x, right, value: rf.pad(x, axes=[w.time], padding=[(1, right)], value=value, out_dims=longer), inputs


@case("pad", "by repeating")
def _pad_repeating(w: World) -> Any:
    mode = ["replicate", "circular"][w.rng.integers(2)]
    return lambda x: rf.pad(x, axes=[w.feat], padding=[(2, 1)], mode=mode), [w.floats(w.batch, w.time, w.feat)]


@case("pad")
def _pad(w: World) -> Any:
    padding = [(int(w.rng.integers(0, 3)), int(w.rng.integers(0, 3))) for _ in range(2)]
    axes = [w.time, w.feat]
    return lambda x: rf.pad(x, axes=axes, padding=padding, value=7.0), [w.floats(w.batch, w.time, w.feat)]


for _name in ("shift_right", "shift_left"):

    @case(_name)
    def _shift(w: World, name: str = _name) -> Any:
        axis, amount = (w.time if w.rng.random() < 0.7 else w.feat), int(w.rng.integers(0, 4))
        return lambda x: getattr(rf, name)(x, axis=axis, pad_value=9, amount=amount), [
            w.floats(w.batch, w.time, w.feat)
        ]


@case("reverse_sequence")
def _reverse_sequence(w: World) -> Any:
    axis = [w.time, w.feat, w.char][w.rng.integers(3)]
    dims = (w.batch, w.time, w.feat) if axis is w.time else (w.batch, w.time, w.char, w.feat)
    return lambda x: rf.reverse_sequence(x, axis=axis), [w.floats(*dims)]


@case("one_hot")
def _one_hot(w: World) -> Any:
    return rf.one_hot, [w.ints(w.batch, w.time, sparse_dim=w.classes)]


@case("sparse_to_dense")
def _sparse_to_dense(w: World) -> Any:
    return lambda x: rf.sparse_to_dense(x, label_value=0.9, other_value=-1.0), [
        w.ints(w.batch, w.time, sparse_dim=w.classes)
    ]


@case("masked_select", "all dims of the mask")
def _masked_select(w: World) -> Any:
    out_dim = Dim(None, name="selected")
    return lambda x, mask: rf.masked_select(x, mask=mask, dims=[w.batch, w.time], out_dim=out_dim), [
        w.floats(w.batch, w.time, w.feat),
        w.bools(w.batch, w.time),
    ]


@case("masked_select", "of frames")
def _masked_select_frames(w: World) -> Any:
    out_dim = Dim(None, name="selected")
    return lambda x, mask: rf.masked_select(x, mask=mask, dims=[w.time], out_dim=out_dim), [
        w.floats(w.batch, w.time, w.feat),
        w.bools(w.batch, w.time),
    ]


@case("masked_scatter")
def _masked_scatter(w: World) -> Any:
    dims = [w.time] if w.rng.random() < 0.5 else [w.batch, w.time]
    mask = w.bools(w.batch, w.time)
    packed, in_dim = rf.masked_select(w.floats(w.batch, w.time, w.feat), mask=mask, dims=dims)
    packed = packed.copy_masked(0)

    def call(x: Tensor, mask: Tensor, backup: Tensor) -> Any:
        return rf.masked_scatter(x, backup, mask=mask, dims=dims, in_dim=in_dim)

    return call, [packed, mask, w.floats(w.batch, w.feat)]


for _name in ("pack_padded", "pad_packed"):

    @case(_name)
    def _pack(w: World, name: str = _name) -> Any:
        dims = w.shuffled((w.batch, w.time)) if w.rng.random() < 0.7 else (w.batch, w.time, w.char)
        out_dim, x = Dim(None, name="packed"), w.floats(*dims, w.feat)
        if name == "pack_padded":
            return lambda x: rf.pack_padded(x, dims=dims, out_dim=out_dim), [x]
        packed, in_dim = rf.pack_padded(x, dims=dims)
        return lambda x: rf.pad_packed(x, in_dim=in_dim, dims=dims), [packed]


def _scatter_inputs(w: World) -> tuple[list[Tensor], Any]:
    source, indices, dim = [
        ((w.batch, w.time, w.feat), (w.batch, w.time), w.time),
        ((w.batch, w.time, w.feat), (w.batch, w.time), (w.batch, w.time)),
        ((w.batch, w.time, w.heads), (w.batch, w.time, w.heads), w.heads),
        ((w.heads, w.feat), (w.heads,), w.heads),
        ((w.feat,), (w.batch, w.time), w.time),
        ((w.batch, w.time), (w.time,), w.time),
        ((w.batch, w.time, w.source), (w.batch, w.time), w.time),
    ][w.rng.integers(7)]
    ids = w.ints(*indices, sparse_dim=w.classes)
    return [w.floats(*source), ids], dim


for _name in "sum max min mean logsumexp logmeanexp argmax".split():

    @case("scatter", f"mode {_name}")
    def _scatter(w: World, mode: str = _name) -> Any:
        inputs, dim = _scatter_inputs(w)
        if mode == "argmax" and not isinstance(dim, Dim):
            dim = w.time
        fill = [None, 3][w.rng.integers(2)]
        return (
            lambda x, ids: rf.scatter(x, indices=ids, indices_dim=dim, mode=mode, fill_value=fill),
            inputs,
        )


for _name in "mean argmax logsumexp logmeanexp".split():

    @case(f"scatter_{_name}")
    def _scatter_mode(w: World, name: str = _name) -> Any:
        inputs = [w.floats(w.batch, w.time, w.feat), w.ints(w.batch, w.time, sparse_dim=w.classes)]
        return lambda x, ids: getattr(rf, f"scatter_{name}")(x, indices=ids, indices_dim=w.time), inputs


@case("scatter_count")
def _scatter_count(w: World) -> Any:
    dim = w.time if w.rng.random() < 0.5 else (w.batch, w.time)
    return lambda ids: rf.scatter_count(indices=ids, indices_dim=dim), [w.ints(w.batch, w.time, sparse_dim=w.classes)]


@case("sort")
def _sort(w: World) -> Any:
    axis, descending = w.shuffled((w.heads, w.feat))[0], bool(w.rng.random() < 0.5)
    new = Dim(axis.extent, name="in order")

    def call(x: Tensor) -> Any:
        values, indices, dim = rf.sort(x, axis=axis, descending=descending)
        return [rf.replace_dim(y, in_dim=dim, out_dim=new) for y in (values, indices)]

    return call, [w.floats(w.batch, w.time, w.heads, w.feat)]


@case("search_sorted")
def _search_sorted(w: World) -> Any:
    dims = [(w.feat,), (w.batch, w.feat), (w.heads, w.feat)][w.rng.integers(3)]
    rows = w.floats(*dims).numpy()
    rows.sort(-1)
    side = str(w.rng.choice(["left", "right"]))
    return lambda seq, x: rf.search_sorted(seq, x, axis=w.feat, side=side), [
        rf.convert_to_tensor(rows, dims=dims),
        w.floats(w.batch, w.time),
    ]


@case("top_k_mask")
def _top_k_mask(w: World) -> Any:
    axis, k = (w.classes if w.rng.random() < 0.5 else w.time), int(w.rng.integers(1, 4))
    return lambda x: rf.top_k_mask(x, axis=axis, k=k), [w.floats(w.batch, w.time, w.classes)]


@case("top_p_mask")
def _top_p_mask(w: World) -> Any:
    axis, one_more = (w.classes if w.rng.random() < 0.5 else w.time), bool(w.rng.random() < 0.5)

    def call(x: Tensor) -> Any:
        return rf.top_p_mask(rf.softmax(x, axis=axis), axis=axis, p=0.61, one_more=one_more)

    return call, [w.floats(w.batch, w.time, w.classes)]


@case("reshape")
def _reshape(w: World) -> Any:
    in_dims, out_dims = [
        ([w.heads, w.feat], [w.heads * w.feat]),
        ([w.heads, w.feat], [Dim(w.feat.extent, name="a"), Dim(w.heads.extent, name="b")]),
        ([w.feat], [w.feat * Dim(1, name="one")]),
    ][w.rng.integers(3)]
    return lambda x: rf.reshape(x, in_dims, out_dims), [w.floats(w.batch, w.time, w.heads, w.feat)]


@case("window")
def _window(w: World) -> Any:
    width, stride = Dim(int(w.rng.integers(1, 5)), name="window"), int(w.rng.integers(1, 3))
    padding, axis = str(w.rng.choice(["same", "valid"])), w.shuffled((w.time, w.feat))[0]
    return lambda x: rf.window(x, spatial_dim=axis, window_dim=width, padding=padding, stride=stride, pad_value=-7), [
        w.floats(w.batch, w.time, w.feat)
    ]


@case("repeat")
def _repeat(w: World) -> Any:
    out_dim, x = Dim(None, name="repeated"), w.floats(w.batch, w.time, w.feat)
    if w.rng.random() < 0.3:
        return lambda x: rf.repeat(x, in_spatial_dim=w.time, repeats=2, out_spatial_dim=out_dim), [x]
    dims = (w.batch, w.time) if w.rng.random() < 0.7 else (w.time,)
    return lambda x, n: rf.repeat(x, in_spatial_dim=w.time, repeats=n, out_spatial_dim=out_dim), [
        x,
        w.ints(*dims, low=0, high=4),
    ]


@case("expand_make_non_empty")
def _expand_make_non_empty(w: World) -> Any:
    axis, out_dim = (w.time, None) if w.time.extent else (w.time, Dim(1, name="one"))
    axis, out_dim = (axis, out_dim) if w.rng.random() < 0.6 else (Dim(0, name="empty"), Dim(1, name="one"))
    return lambda x: rf.expand_make_non_empty(x, axis=axis, out_dim=out_dim), [w.floats(w.batch, axis, w.feat)]


@case("cum_concat_step")
def _cum_concat_step(w: World) -> Any:
    axis = w.shuffled((w.time, w.heads))[0]
    return lambda x, before: rf.cum_concat_step(x, prev_accum=before, axis=axis), [
        w.floats(w.batch, w.feat),
        w.floats(w.batch, axis, w.feat),
    ]
