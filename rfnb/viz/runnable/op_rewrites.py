"""Ops that a page lacks, written with ops that it supports; results are equal up to rounding.

Values that are computed on the host from sizes (a table of positions, a mask) are computed with `range_over_dim` here,
so that sizes stay free.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from rfnb.core.dim import Dim, single_step_dim
from rfnb.core.tensor import Tensor
from rfnb.nn.attention import positional_encoding
from rfnb.nn.attention.functions import dot_attention
from rfnb.nn.attention.weight_hook import attended, attending_dim
from rfnb.nn.normalization import LayerNorm, RMSNorm, affine
from rfnb.ops.cast import cast
from rfnb.ops.concat import concat, stack, unstack
from rfnb.ops.const import convert_to_tensor, full, ones
from rfnb.ops.dims import last_frame_position_of_dim, range_over_dim, replace_dim, sequence_mask, set_sparse_dim
from rfnb.ops.expand import expand_dim
from rfnb.ops.gather import gather
from rfnb.ops.math import combine_bc, compare_bc, logical_and, rsqrt, square, squared_difference
from rfnb.ops.matmul import matmul
from rfnb.ops.pad import pad
from rfnb.ops.reduce import reduce_max, reduce_mean
from rfnb.ops.shift import shift_left, shift_right
from rfnb.ops.softmax import softmax
from rfnb.ops.where import where


def _layer_norm(self: LayerNorm, x: Tensor) -> Tensor:
    mean = reduce_mean(x, axis=self.in_dim)
    variance = reduce_mean(squared_difference(x, mean), axis=self.in_dim)
    return affine((x - mean) * rsqrt(variance + self.eps), self.scale, self.bias)


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


def _last(dim: Dim, **others: Any) -> Tensor:
    return set_sparse_dim(reduce_max(_places(dim), axis=dim), dim)


WRITTEN: dict[Any, Callable[..., Any]] = {
    inspect.unwrap(LayerNorm.__call__): lambda self, x: (_rms_norm if isinstance(self, RMSNorm) else _layer_norm)(
        self, x
    ),
    positional_encoding.sinusoidal_positional_encoding: _positions,
    shift_right: lambda source, *, axis, pad_value, amount=1: _shifted(source, axis, pad_value, -amount),
    shift_left: lambda source, *, axis, pad_value, amount=1: _shifted(source, axis, pad_value, amount),
    pad: _pad,
    dot_attention: _attention,
    stack: _stack,
    unstack: _unstack,
    last_frame_position_of_dim: _last,
    sequence_mask: lambda dims, **_: ones([dims] if isinstance(dims, Dim) else dims, dtype="bool"),
}
"""By op what does the same; None of it: the op itself, as it is called here."""
