"""Ops that a page lacks, written with ops that it supports; results are equal up to rounding.

Values that are computed on the host from sizes (a table of positions, a mask) are computed with `range_over_dim` here,
so that sizes stay free.
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable, Sequence
from typing import Any

from rfnb.core.dim import Dim, single_step_dim
from rfnb.core.tensor import Tensor
from rfnb.nn.attention import positional_encoding, rotary
from rfnb.nn.attention.functions import dot_attention
from rfnb.nn.attention.relative import relative_shift
from rfnb.nn.attention.weight_hook import attended, attending_dim
from rfnb.nn.normalization import LayerNorm, RMSNorm, affine
from rfnb.nn.recurrent.unit_parts import layer_norm
from rfnb.ops import reduce as reductions
from rfnb.ops.cast import cast
from rfnb.ops.concat import concat, stack, unstack
from rfnb.ops.const import convert_to_tensor, full, ones
from rfnb.ops.conv import conv
from rfnb.ops.conv_dims import Window, make_windows, settle_out_dims
from rfnb.ops.conv_filter import filter_in_dim
from rfnb.ops.dims import last_frame_position_of_dim, range_over_dim, replace_dim, sequence_mask, set_sparse_dim
from rfnb.ops.expand import expand_dim, expand_dims
from rfnb.ops.gather import gather
from rfnb.ops.loss import cross_entropy
from rfnb.ops.math import (
    clip_by_value,
    combine,
    combine_bc,
    compare_bc,
    elu,
    expm1,
    logical_and,
    rsqrt,
    square,
    squared_difference,
)  # fmt: skip
from rfnb.ops.matmul import matmul
from rfnb.ops.merge import merge_dims, split_dims
from rfnb.ops.one_hot import sparse_to_dense
from rfnb.ops.pad import pad
from rfnb.ops.pool import pool
from rfnb.ops.reduce import reduce, reduce_argmax, reduce_argmin, reduce_max, reduce_mean, reduce_min, reduce_sum
from rfnb.ops.shift import shift_left, shift_right
from rfnb.ops.slice import slice as sliced
from rfnb.ops.softmax import log_softmax, softmax
from rfnb.ops.where import where


def _layer_norm(x: Tensor, axis: Dim, eps: float, scale: Tensor | None, bias: Tensor | None) -> Tensor:
    mean = reduce_mean(x, axis=axis)
    variance = reduce_mean(squared_difference(x, mean), axis=axis)
    return affine((x - mean) * rsqrt(variance + eps), scale, bias)


def _rms_norm(self: RMSNorm, x: Tensor) -> Tensor:
    return affine(x * rsqrt(reduce_mean(square(x), axis=self.in_dim) + self.eps), self.scale, self.bias)


def _positions(
    *, spatial_dim: Dim, feat_dim: Dim, offset: Any = None, base: float = 1e4, dtype: str | None = None, device: Any = None
) -> Tensor:  # fmt: skip
    frames = convert_to_tensor(0) if spatial_dim is single_step_dim else _places(spatial_dim)
    places = frames if offset is None else combine_bc(frames, "add", offset)
    return positional_encoding.sinusoidal_encoding(places, feat_dim=feat_dim, base=base, dtype=dtype)


def _places(dim: Dim) -> Tensor:
    return set_sparse_dim(range_over_dim(dim), None)


def _shifted(source: Tensor, axis: Dim, pad_value: Any, by: int) -> Tensor:
    """Shift each frame by `by` positions."""
    places = _places(axis) + by
    last = reduce_max(_places(axis), axis=axis)
    inside = logical_and(places >= 0, places <= last)
    found = gather(source, indices=where(inside, places, 0), axis=axis)
    shifted = where(inside, found, pad_value)
    return set_sparse_dim(shifted if shifted.dtype == source.dtype else cast(shifted, source.dtype), source.sparse_dim)


def _pad(
    source: Tensor, *, axes: Sequence[Dim], padding: Any, out_dims: Sequence[Dim] | None = None, mode: str = "constant",
    value: Any = None, handle_dynamic_dims: bool | None = None,
) -> tuple[Tensor, list[Dim]] | None:  # fmt: skip
    """Padding with a constant by a known number of frames."""
    if (
        mode != "constant"
        or isinstance(value, Tensor)
        or not all(type(n) is int and n >= 0 for pair in padding for n in pair)
    ):
        return None
    made = []
    for at, (axis, (left, right)) in enumerate(zip(axes, padding, strict=True)):
        made.append(out_dims[at] if out_dims is not None else left + axis + right)
        before, after = [Dim(count, name="padding") for count in (left, right)]
        parts = [
            (_of_number(source, axis, before, value or 0), before),
            (source, axis),
            (_of_number(source, axis, after, value or 0), after),
        ]
        features = made[-1] if source.feature_dim is axis else source.feature_dim
        source = concat(*parts, out_dim=made[-1])[0]
        source.feature_dim = features
    return source, made


def _of_number(like: Tensor, axis: Dim, dim: Dim, value: float) -> Tensor:
    dims = [dim if each is axis else each for each in like.dims]
    return full(dims=dims, fill_value=value, dtype=like.dtype, sparse_dim=like.sparse_dim)


def _attention(
    query: Tensor, keys: Tensor, values: Tensor, *, key_dim: Dim, axis: Dim, causal_query_spatial_dim: Dim | None = None,
    scale: float | None = None, **others: Any,
) -> Tensor | None:  # fmt: skip
    """Self-attention of a sequence; the page supports other attention directly."""
    causal = causal_query_spatial_dim
    if causal is None and axis not in query.dims:
        return None
    if axis in query.dims:
        twin = axis.copy(match_priority=axis.match_priority - 1)
        keys, values = [replace_dim(each, in_dim=axis, out_dim=twin)[0] for each in (keys, values)]
        axis = twin
    energy = matmul(query * (max(key_dim.extent, 1) ** -0.5 if scale is None else scale), keys, reduce=key_dim)
    if causal is not None:  # the last query is aligned with the last key
        behind = [place - reduce_max(place, axis=dim) for dim in (axis, causal) for place in [_places(dim)]]
        energy = where(compare_bc(behind[0], "<=", behind[1]), energy, -1e30)
    weights = softmax(energy, axis=axis)
    out = matmul(attended(weights, axis=axis, target=attending_dim(weights, values, axis)), values, reduce=axis)
    if values.feature_dim in out.dims:
        out.feature_dim = values.feature_dim
    return out


def _stack(sources: Sequence[Tensor], *, out_dim: Dim | None = None) -> tuple[Tensor, Dim]:
    one, out_dim = Dim(1, name="one"), out_dim or Dim(len(sources), name="stack")
    return concat(*((expand_dim(each, one), one) for each in sources), out_dim=out_dim)


def _unstack(source: Tensor, *, axis: Dim) -> tuple[Tensor, ...]:
    return tuple([gather(source, indices=at, axis=axis) for at in range(axis.extent)])


def _windowed(source: Tensor, axis: Dim, window: Window, taps: Dim, made: Dim, filling: float) -> Tensor:
    """The frames under a window that moves along an axis: {..., made, taps}."""
    longer = axis
    if any(window.pads):
        source, (longer,) = pad(source, axes=[axis], padding=[window.pads], value=filling)
    begins = _places(axis)
    if made is not axis:
        begins, _ = sliced(_places(longer), axis=longer, end=-window.reach or None, step=window.stride, out_dim=made)
    return gather(source, indices=combine_bc(begins, "add", _places(taps) * window.dilation), axis=longer)


def _conv(
    source: Tensor, *, in_dim: Dim, out_dim: Dim, in_spatial_dims: Sequence[Dim], filter: Tensor, filter_size: Any, padding: Any,
    out_spatial_dims: Any = None, strides: Any = None, dilation_rate: Any = None, groups: int | None = None,
    bias: Tensor | None = None, **others: Any,
) -> tuple[Tensor, Sequence[Dim]]:  # fmt: skip
    count = groups or 1
    sizes = [filter_size] if isinstance(filter_size, Dim) else [*filter_size]
    windows = make_windows("conv", tuple(in_spatial_dims), sizes, padding, strides or 1, dilation_rate or 1)
    made = settle_out_dims("conv", tuple(map(Window.out_length, windows, in_spatial_dims)), out_spatial_dims)
    for window, axis, size, own in zip(windows, in_spatial_dims, sizes, made, strict=True):
        source = _windowed(source, axis, window, size, own, 0.0)
    group, each = Dim(count, name="group"), Dim(out_dim.extent // count, name="each")
    side = filter_in_dim(in_dim, out_dim, count)
    source = split_dims(source, axis=in_dim, dims=[group, side])
    out = matmul(source, split_dims(filter, axis=out_dim, dims=[group, each]), reduce=[side, *sizes])
    out = merge_dims(out, dims=[group, each], out_dim=out_dim)[0]
    return affine(out, None, bias), made


def _pool(
    source: Tensor, *, mode: str, pool_size: Any, in_spatial_dims: Any, padding: Any = "valid", dilation_rate: Any = 1,
    strides: Any = None, out_spatial_dims: Any = None, **others: Any,
) -> tuple[Tensor, Sequence[Dim]]:  # fmt: skip
    axes = (in_spatial_dims,) if isinstance(in_spatial_dims, Dim) else tuple(in_spatial_dims)
    windows = make_windows("pool", axes, pool_size, padding, strides, dilation_rate)
    made = settle_out_dims("pool", tuple(map(Window.out_length, windows, axes)), out_spatial_dims)
    taps = [Dim(window.size, name="taps") for window in windows]

    def moved(value: Tensor, filling: float) -> Tensor:
        for window, axis, size, own in zip(windows, axes, taps, made, strict=True):
            value = _windowed(value, axis, window, size, own, filling)
        return value

    if mode == "max":
        return reduce_max(moved(source, -math.inf), axis=taps), made
    total, number = (reduce_sum(moved(each, 0.0), axis=taps) for each in (source, ones(axes)))
    return combine_bc(total, "truediv", number), made


def _rotated(x: Tensor, *, spatial_dim: Dim | None, feat_dim: Dim, offset: Any = 0, base: float = 1e4) -> Tensor:
    half, pair = Dim(feat_dim.extent // 2, name="half"), Dim(2, name="pair")
    sine, cosine = rotary.angles_of(x, spatial_dim, half, convert_to_tensor(offset), base)
    one, two = _unstack(split_dims(x, axis=feat_dim, dims=[half, pair]), axis=pair)
    turned = (
        combine_bc(one, "mul", cosine) - combine_bc(two, "mul", sine),
        combine_bc(one, "mul", sine) + combine_bc(two, "mul", cosine),
    )
    return merge_dims(_stack(turned, out_dim=pair)[0], dims=[half, pair], out_dim=feat_dim)[0]


def _relative_shift(x: Tensor, *, query_dim: Dim | None, key_dim: Dim, distance_dim: Dim) -> Tensor:
    if query_dim is None:
        return replace_dim(x, in_dim=distance_dim, out_dim=key_dim)[0]
    behind = reduce_max(_places(query_dim), axis=query_dim) - _places(query_dim)
    return gather(x, indices=combine_bc(_places(key_dim), "add", behind), axis=distance_dim)


def _distances(*, query_offset: Any = 0, key_value_spatial_dim: Dim, **given: Any) -> tuple[Tensor, Dim] | None:
    keys = key_value_spatial_dim
    if isinstance(query_offset, Tensor):
        return None
    begin = reduce_min(_places(keys), axis=keys) + query_offset  # not a constant
    return positional_encoding.relative_positional_encoding(query_offset=begin, key_value_spatial_dim=keys, **given)


def _dense(labels: Any, *, label_value: Any, other_value: Any, axis: Dim | None = None) -> Tensor | None:
    axis = axis or labels.sparse_dim
    if axis is None or isinstance(labels, int):
        return None
    is_there = compare_bc(set_sparse_dim(labels, None), "==", _places(axis))
    here, other = (cast(convert_to_tensor(each), "float32") for each in (label_value, other_value))
    out = where(is_there, here, other, allow_broadcast_all_sources=True)
    out.feature_dim = axis
    return out


def _loss(*, estimated: Tensor, estimated_type: str, axis: Dim, **given: Any) -> Tensor | None:
    if estimated_type != "logits":
        return None
    return cross_entropy(estimated=log_softmax(estimated, axis=axis), estimated_type="log-probs", axis=axis, **given)


def _clipped(x: Tensor, clip_value_min: Any = None, clip_value_max: Any = None, **others: Any) -> Tensor:
    x = x if clip_value_min is None else combine(x, "maximum", clip_value_min, **others)
    return x if clip_value_max is None else combine(x, "minimum", clip_value_max, **others)


def _last(dim: Dim, **others: Any) -> Tensor:
    return set_sparse_dim(reduce_max(_places(dim), axis=dim), dim)


WRITTEN: dict[Any, Callable[..., Any]] = {
    inspect.unwrap(LayerNorm.__call__): lambda self, x: (
        _rms_norm(self, x)
        if isinstance(self, RMSNorm)
        else _layer_norm(x, self.in_dim, self.eps, self.scale, self.bias)
    ),
    layer_norm: lambda x, gain, shift, *, eps: _layer_norm(x, gain.dims[0], eps, gain, shift),
    positional_encoding.sinusoidal_positional_encoding: _positions,
    shift_right: lambda source, *, axis, pad_value, amount=1: _shifted(source, axis, pad_value, -amount),
    shift_left: lambda source, *, axis, pad_value, amount=1: _shifted(source, axis, pad_value, amount),
    pad: _pad,
    dot_attention: _attention,
    stack: _stack,
    unstack: _unstack,
    last_frame_position_of_dim: _last,
    conv: _conv,
    pool: _pool,
    rotary.rotate: _rotated,
    relative_shift: _relative_shift,
    positional_encoding.relative_positional_encoding: _distances,
    reduce: lambda source, *, mode, **given: getattr(reductions, f"reduce_{mode}")(source, **given),
    expand_dims: lambda source, dims: functools.reduce(expand_dim, dims, source),
    sparse_to_dense: _dense,
    clip_by_value: _clipped,
    cross_entropy: _loss,
    elu: lambda a: where(a > 0, a, expm1(a)),
    reduce_argmin: lambda source, **given: reduce_argmax(-source, **given),
    sequence_mask: lambda dims, **_: ones([dims] if isinstance(dims, Dim) else dims, dtype="bool"),
}
"""By op what does the same; None of it: the op itself, as it is called here."""
