"""Ops that change the lengths of sequences, and chains of them: in a batch, each sequence is what it is alone.

Every op takes {batch, time, FEAT} and the time dim, and gives the same with other frames. What a sequence holds depends on its length
only, so what a chain makes of a sequence alone is computed once for all batches.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from asserting import ragged

import rfnb as rf
from rfnb import Dim, Tensor

FEAT = Dim(2, name="feat")
_WIDTH = {size: Dim(size, name="width") for size in (1, 2, 3, 4)}
_TWIN = FEAT.copy(match_priority=1)
Op = Callable[[Tensor, Dim], tuple[Tensor, Dim]]
OPS: dict[str, Op] = {}


def _op(name: str) -> Callable[[Op], Op]:
    def register(op: Op) -> Op:
        OPS[name] = op
        return op

    return register


def _weights(*dims: Dim) -> Tensor:
    shape = [dim.extent for dim in dims]
    return rf.convert_to_tensor(np.cos(1.0 + np.arange(math.prod(shape))).reshape(shape), dims=dims)


def _per_sequence(x: Tensor, time: Dim, number: Callable[[int], int]) -> Tensor:
    """int {batch}: a number by the length of each sequence."""
    (batch,) = (dim for dim in x.dims if dim not in (time, FEAT))
    lengths = np.broadcast_to(time.extent if time.lengths is None else time.lengths, (batch.extent,))
    return rf.convert_to_tensor(np.asarray([number(int(n)) for n in lengths], np.int32), dims=[batch])


_SLICES: dict[str, dict[str, Any]] = {
    "end=-1": {"end": -1}, "end=-3": {"end": -3}, "end=1": {"end": 1}, "end=4": {"end": 4}, "start=1": {"start": 1},
    "start=3": {"start": 3}, "start=-2": {"start": -2}, "start=1, end=3": {"start": 1, "end": 3},
    "start=2, end=-1": {"start": 2, "end": -1}, "start=-3, end=-1": {"start": -3, "end": -1}, "start=-1, end=2": {"start": -1, "end": 2},
    "step=2": {"step": 2}, "start=1, step=2": {"start": 1, "step": 2}, "end=-2, step=3": {"end": -2, "step": 3},
    "start=1, size=2": {"start": 1, "size": 2}, "start=-3, size=2": {"start": -3, "size": 2},
}  # fmt: skip
for _name, _options in _SLICES.items():

    @_op(f"slice {_name}")
    def _slice(x: Tensor, time: Dim, options: dict[str, Any] = _options) -> Any:
        return rf.slice(x, axis=time, **options)


@_op("slice from a start per sequence")
def _slice_from(x: Tensor, time: Dim) -> Any:
    return rf.slice(x, axis=time, start=_per_sequence(x, time, lambda n: n % 3))


@_op("slice to an end per sequence")
def _slice_to(x: Tensor, time: Dim) -> Any:
    return rf.slice(x, axis=time, end=_per_sequence(x, time, lambda n: 2 - n % 2))


@_op("slice of a size per sequence")
def _slice_size(x: Tensor, time: Dim) -> Any:
    return rf.slice(x, axis=time, start=1, size=_per_sequence(x, time, lambda n: max(n - 2, 0)))


for _left, _right in ((1, 0), (0, 2), (2, 1), (-1, 0), (0, -2), (-2, -1), (-3, 2), (2, -4)):

    @_op(f"pad {_left}, {_right}")
    def _pad(x: Tensor, time: Dim, left: int = _left, right: int = _right) -> Any:
        out, (dim,) = rf.pad(x, axes=[time], padding=[(left, right)], value=0.5)
        return out, dim


@_op("pad by numbers per sequence")
def _pad_by(x: Tensor, time: Dim) -> Any:
    out, (dim,) = rf.pad(x, axes=[time], padding=[(1, _per_sequence(x, time, lambda n: n % 2))], value=0.5)
    return out, dim


@_op("concat with itself")
def _concat_self(x: Tensor, time: Dim) -> Any:
    return rf.concat((x, time), (x * 2, time))


@_op("concat with what was cut off")
def _concat_cut(x: Tensor, time: Dim) -> Any:
    head, head_dim = rf.slice(x, axis=time, end=-2)
    tail, tail_dim = rf.slice(x, axis=time, start=2)
    return rf.concat((tail, tail_dim), (x, time), (head, head_dim))


@_op("concat a frame in front")
def _concat_frame(x: Tensor, time: Dim) -> Any:
    frame = _weights(_WIDTH[1], FEAT)
    return rf.concat((frame, _WIDTH[1]), (x, time), allow_broadcast=True)


_CONV: dict[str, dict[str, Any]] = {
    "valid": {"padding": "valid"}, "valid, strides=2": {"padding": "valid", "strides": 2}, "same": {"padding": "same"},
    "same, strides=2": {"padding": "same", "strides": 2}, "padding=1": {"padding": 1},
}  # fmt: skip
_SIZES = {"valid": 3, "valid, strides=2": 2, "same": 2, "same, strides=2": 3, "padding=1": 4}
for _name, _options in _CONV.items():
    _size = _SIZES[_name]

    @_op(f"conv {_name}")
    def _conv(x: Tensor, time: Dim, width: Dim = _WIDTH[_size], options: dict[str, Any] = _options) -> Any:
        options = {**options, "filter": _weights(width, _TWIN, FEAT), "filter_size": [width], "bias": _weights(FEAT)}
        out, (dim,) = rf.conv(x, in_dim=FEAT, out_dim=FEAT, in_spatial_dims=[time], **options)
        return out, dim

    for _mode in ("max", "avg"):

        @_op(f"pool {_mode} {_name}")
        def _pool(
            x: Tensor, time: Dim, size: int = _size, mode: str = _mode, options: dict[str, Any] = _options
        ) -> Any:
            strides = options.get("strides", 1)
            out, (dim,) = rf.pool(
                x, mode=mode, pool_size=size, in_spatial_dims=[time], padding=options["padding"], strides=strides
            )
            return rf.where(rf.is_finite(out), out, 0.25), dim  # a window without frames has the maximum -inf


@_op("conv dilated")
def _conv_dilated(x: Tensor, time: Dim) -> Any:
    options: dict[str, Any] = {
        "filter": _weights(_WIDTH[2], _TWIN, FEAT),
        "filter_size": [_WIDTH[2]],
        "dilation_rate": 2,
    }
    out, (dim,) = rf.conv(x, in_dim=FEAT, out_dim=FEAT, in_spatial_dims=[time], padding="valid", **options)
    return out, dim


_TRANSPOSED: dict[str, tuple[int, dict[str, Any]]] = {
    "valid": (3, {"padding": "valid", "strides": 1}), "valid, strides=2": (3, {"padding": "valid", "strides": 2}),
    "same": (3, {"padding": "same", "strides": 1}), "same, strides=2": (2, {"padding": "same", "strides": 2}),
    "padding=2": (3, {"padding": 2, "strides": 1}), "remove_padding=1": (3, {"padding": "same", "strides": 2, "remove_padding": 1}),
    "stride over the size": (2, {"padding": "valid", "strides": 3}),
    "output_padding": (2, {"padding": "same", "strides": 2, "output_padding": 1}),
}  # fmt: skip
for _name, (_size, _options) in _TRANSPOSED.items():

    @_op(f"transposed_conv {_name}")
    def _transposed(x: Tensor, time: Dim, width: Dim = _WIDTH[_size], options: dict[str, Any] = _options) -> Any:
        options = {**options, "filter": _weights(_TWIN, FEAT, width), "filter_size": [width], "bias": _weights(FEAT)}
        out, (dim,) = rf.transposed_conv(x, in_dim=FEAT, out_dim=FEAT, in_spatial_dims=[time], **options)
        return out, dim


for _padding, _stride in (("same", 1), ("same", 2), ("valid", 1), ("valid", 2)):

    @_op(f"window {_padding}, stride={_stride}")
    def _window(x: Tensor, time: Dim, padding: str = _padding, stride: int = _stride) -> Any:
        width = _WIDTH[3]
        out, dim = rf.window(x, spatial_dim=time, window_dim=width, padding=padding, stride=stride, pad_value=0.5)
        return rf.matmul(out, _weights(width), reduce=width), dim


for _by_frame in (True, False):

    @_op(f"stft window_use_frame_length={_by_frame}")
    def _stft(x: Tensor, time: Dim, by_frame: bool = _by_frame) -> Any:
        options: dict[str, Any] = {
            "frame_step": 1,
            "frame_length": 2,
            "fft_length": 4,
            "window_use_frame_length": by_frame,
        }
        out, dim, frequency = rf.stft(x, in_spatial_dim=time, **options)
        real, parts = rf.complex_as_real(out)
        return rf.matmul(real, _weights(frequency, parts), reduce=[frequency, parts]), dim


@_op("shift_right")
def _shift_right(x: Tensor, time: Dim) -> Any:
    return rf.shift_right(x, axis=time, pad_value=0.5, amount=2), time


@_op("shift_left")
def _shift_left(x: Tensor, time: Dim) -> Any:
    return rf.shift_left(x, axis=time, pad_value=0.5, amount=2), time


@_op("reverse_sequence")
def _reverse(x: Tensor, time: Dim) -> Any:
    return rf.reverse_sequence(x, axis=time), time


@_op("repeat a number of times")
def _repeat(x: Tensor, time: Dim) -> Any:
    return rf.repeat(x, in_spatial_dim=time, repeats=2)


@_op("repeat by counts")
def _repeat_by(x: Tensor, time: Dim) -> Any:
    return rf.repeat(x, in_spatial_dim=time, repeats=rf.range_over_dim(time) % 3)


@_op("masked_select")
def _masked_select(x: Tensor, time: Dim) -> Any:
    (batch,) = (dim for dim in x.dims if dim not in (time, FEAT))
    mask = rf.expand_dim(rf.range_over_dim(time) % 2 == 0, batch)
    return rf.masked_select(x, mask=mask, dims=[time])


@_op("masked_select none of the first")
def _masked_none(x: Tensor, time: Dim) -> Any:
    (batch,) = (dim for dim in x.dims if dim not in (time, FEAT))
    return rf.masked_select(x, mask=rf.expand_dim(rf.range_over_dim(time) >= 2, batch), dims=[time])


@_op("frames times two, merged")
def _merge(x: Tensor, time: Dim) -> Any:
    return rf.merge_dims(rf.combine_bc(x, "mul", _weights(_WIDTH[2])), dims=[time, _WIDTH[2]])


@_op("frames padded, split and merged")
def _split(x: Tensor, time: Dim) -> Any:
    pairs = Dim(None, name="pairs")
    doubled, dim = _merge(x, time)
    split = rf.split_dims(doubled, axis=dim, dims=[pairs, _WIDTH[2]])
    return rf.matmul(split, _weights(_WIDTH[2]), reduce=_WIDTH[2]), pairs


@_op("every second frame gathered")
def _strided(x: Tensor, time: Dim) -> Any:
    indices, dim = rf.range_over_dim_strided(time, stride=2)
    return rf.gather(x, indices=indices, axis=time), dim


@_op("scattered to pairs")
def _scattered(x: Tensor, time: Dim) -> Any:
    pairs = time.ceildiv_right(2)
    indices = rf.cast(rf.range_over_dim(time), "int32") // 2
    return rf.scatter(x, indices=indices, indices_dim=time, out_dim=pairs), pairs


@_op("scattered, the largest of each pair")
def _scattered_max(x: Tensor, time: Dim) -> Any:
    pairs = time.ceildiv_right(2)
    indices = rf.cast(rf.range_over_dim(time), "int32") // 2
    return rf.scatter(x, indices=indices, indices_dim=time, out_dim=pairs, mode="max"), pairs


@_op("marks at the largest frame")
def _marked(x: Tensor, time: Dim) -> Any:
    best = rf.reduce_argmax(rf.gather(x, indices=0, axis=FEAT), axis=time)
    return rf.combine_bc(x, "add", rf.one_hot(best)), time


@_op("cum_concat_step")
def _cum_concat(x: Tensor, time: Dim) -> Any:
    return rf.cum_concat_step(_weights(FEAT), prev_accum=x, axis=time)


@_op("frames of a loop")
def _loop(x: Tensor, time: Dim) -> Any:
    initial = rf.zeros([dim for dim in x.dims if dim is not time], dtype=x.dtype, feature_dim=FEAT)

    def step(frame: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        state = state * 0.5 + frame
        return state, state

    out, _, dim = rf.scan(spatial_dim=time, xs=x, initial=initial, ys=initial, body=step)
    return out, dim


@_op("cumsum")
def _cumsum(x: Tensor, time: Dim) -> Any:
    return rf.cumsum(x, spatial_dim=time), time


@_op("replace_dim_v2 with the dim two shorter")
def _replaced(x: Tensor, time: Dim) -> Any:
    shorter = time - 2
    return rf.replace_dim_v2(x, in_dim=time, out_dim=shorter), shorter


class Made(NamedTuple):
    """The result of a chain for a batch: the frames of each sequence, and the gradient of a weighted sum of squares."""

    frames: list[np.ndarray]
    gradients: list[np.ndarray]


def of_length(length: int) -> np.ndarray:
    """The frames of a sequence of this length; (length, feat)."""
    return np.random.default_rng(length).uniform(0.5, 1.5, (length, FEAT.extent)) * (-1) ** np.arange(FEAT.extent)


def made(
    ops: Sequence[Op],
    lengths: Sequence[int],
    *,
    static: bool = False,
    numpy: bool = False,
    fresh: bool = False,
    padding: float = np.nan,
) -> Made:
    """Run a chain on a batch of sequences of these lengths.

    Args:
        static: Over a dim of one size; all lengths are the same.
        numpy: On NumPy, without gradients.
        fresh: Each op gets a dim that knows its lengths only, not what it was made of.
    """
    batch = Dim(len(lengths), name="batch")
    time = Dim(lengths[0], name="time") if static else ragged(lengths, batch)
    raw = np.full((len(lengths), max(lengths), FEAT.extent), padding)
    for row, length in zip(raw, lengths):
        row[:length] = of_length(length)
    rf.select_backend("numpy" if numpy else "torch")
    try:
        out, dim = x, time = rf.convert_to_tensor(raw, dims=[batch, time, FEAT]), time
        if not numpy:
            x.raw_tensor.requires_grad_()
        for op in ops:
            out, dim = op(out, dim)
            if fresh:
                out, dim = rf.replace_dim(out, in_dim=dim, out_dim=_fresh(dim, batch))
        return Made(_of_sequences(out, batch, dim), [] if numpy else _gradients(x, time, out, batch, dim))
    finally:
        rf.select_backend("torch")


def _fresh(dim: Dim, batch: Dim) -> Dim:
    return Dim(dim.extent, name="fresh") if dim.lengths is None else ragged(dim.lengths, batch, "fresh")


def _of_sequences(x: Tensor, batch: Dim, time: Dim) -> list[np.ndarray]:
    x = x.copy_transpose([batch, time, FEAT])
    values = x.numpy()
    assert values.shape == tuple(dim.extent for dim in x.dims), f"raw shape {values.shape} of {x}"
    lengths = np.broadcast_to(time.extent if time.lengths is None else time.lengths, (batch.extent,))
    return [row[:length] for row, length in zip(values, lengths)]


def _gradients(x: Tensor, time: Dim, out: Tensor, batch: Dim, dim: Dim) -> list[np.ndarray]:
    weight = rf.cos(rf.cast(rf.range_over_dim(dim), out.dtype)) + 2
    total = rf.reduce_sum(rf.square(out) * weight, axis=list(out.dims)).raw_tensor
    if total.requires_grad:
        total.backward()
    got = np.zeros(x.raw_tensor.shape) if x.raw_tensor.grad is None else x.raw_tensor.grad.numpy()
    return _of_sequences(rf.convert_to_tensor(got, dims=[batch, time, FEAT]), batch, time)


def compare(chain: Sequence[str], batches: Sequence[Sequence[int]]) -> int:
    """Compare each sequence in these batches with itself alone; how many comparisons there were.

    Raises:
        AssertionError: If one differs.
    """
    ops, alone, compared = [OPS[name] for name in chain], dict[int, Made](), 0
    for length in sorted({length for lengths in batches for length in lengths}):
        alone[length] = made(ops, [length], fresh=True)
        others = {
            "ragged": made(ops, [length]),
            "static": made(ops, [length, length], static=True),
            "NumPy": made(ops, [length], numpy=True),
        }
        others["static, NumPy"] = made(ops, [length], static=True, numpy=True)
        for name, other in others.items():
            compared += _same(f"{' | '.join(chain)}: {name}, length {length}", other, [alone[length]] * 2)
    for lengths in batches:
        for numpy in (False, True):
            what = f"{' | '.join(chain)}: lengths {lengths}{', NumPy' if numpy else ''}"
            compared += _same(what, made(ops, lengths, numpy=numpy), [alone[length] for length in lengths])
    return compared


def _same(what: str, got: Made, alone: Sequence[Made]) -> int:
    for sequence, (frames, own) in enumerate(zip(got.frames, alone)):
        where = f"{what}, sequence {sequence}"
        assert frames.shape == own.frames[0].shape, f"{where}: {len(frames)} frames, alone {len(own.frames[0])}"
        np.testing.assert_allclose(frames, own.frames[0], rtol=1e-6, atol=1e-9, err_msg=where)
    for sequence, (gradient, own) in enumerate(zip(got.gradients, alone)):
        np.testing.assert_allclose(
            gradient, own.gradients[0], rtol=1e-6, atol=1e-9, err_msg=f"{what}, gradient of sequence {sequence}"
        )
    return len(got.frames) + len(got.gradients)
