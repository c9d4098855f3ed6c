"""Layers that change dims: split_dims, merge_dims, squeeze, expand_dims, slice, gather, shift_axis, concat, swap."""

from __future__ import annotations

from typing import Any

from rfnb.core.dim import Dim
from rfnb.core.errors import dim_error, not_implemented_error, value_error
from rfnb.core.tensor import Tensor
from rfnb.interop.net.call_dims import axes_of, axis_of, in_order, marked, size_of
from rfnb.interop.net.layer import Layer, computes, layer_class
from rfnb.interop.net.named_functions import compare
from rfnb.interop.net.scope import Scope
from rfnb.ops.concat import concat
from rfnb.ops.dims import range_over_dim, set_sparse_dim
from rfnb.ops.expand import expand_dim, squeeze
from rfnb.ops.gather import gather
from rfnb.ops.math import combine_bc
from rfnb.ops.merge import merge_dims, split_dims
from rfnb.ops.shift import shift_left, shift_right
from rfnb.ops.slice import slice
from rfnb.ops.where import where


@computes("split_dims", required=("axis", "dims"), options=("pad_to_multiples", "pad_value"), own_feature=False)
def split_dims_layer(layer: Layer, env: Scope, sources: list[Tensor]) -> Tensor:
    """Split one dim into several; -1 is the remaining size."""
    x = layer.concatenated(sources, env)
    axis = axis_of(x, layer.opts["axis"], env.dims, layer.what)
    given = list(layer.opts["dims"])
    known = 1
    for dim in given:
        known *= 1 if dim == -1 else dim.extent if isinstance(dim, Dim) else int(dim)
    if -1 in given and axis.size is None:
        return _ragged_split(layer, x, axis, given)
    is_feature = axis is x.feature_dim
    dims = []
    for index, dim in enumerate(given):
        if isinstance(dim, Dim):
            dims.append(env.dims(dim))
        else:
            size = axis.extent // known if dim == -1 else dim
            dims.append(layer.own_dim(index, size, "feature" if is_feature and index == len(given) - 1 else None))
    out = split_dims(x, axis=axis, dims=dims)
    return marked(out, dims[-1] if is_feature else x.feature_dim)


def _ragged_split(layer: Layer, x: Tensor, axis: Dim, given: list[Any]) -> Tensor:
    sizes = [(index, dim) for index, dim in enumerate(given) if dim != -1]
    parts = [dim if isinstance(dim, Dim) else layer.own_dim(index, dim) for index, dim in sizes]
    if len(parts) != 1 or given[0] != -1:
        raise dim_error(
            f"{layer.what}: a ragged dim in {len(given)} parts.",
            {"source": x, "dims": str(given)},
            "A ragged dim can only be split into blocks of a fixed size.",
            '"dims": (-1, 2)',
        )
    chunks, part = axis.ceildiv_right(parts[0]), parts[0]
    starts = range_over_dim(chunks, dtype="int32") * part.extent
    positions = set_sparse_dim(combine_bc(starts, "add", range_over_dim(part, dtype="int32")), None)
    frames = gather(x, indices=positions, axis=axis, clip_to_valid=True)
    real = compare(positions, "less", axis.get_size_tensor(device=x.device))
    out = where(real, frames, layer.opts.get("pad_value") or 0, allow_broadcast_all_sources=True)
    return marked(out, x.feature_dim)


@computes("merge_dims", required=("axes",), options=("keep_order", "n_out", "out_dim"), own_feature=False)
def merge_dims_layer(layer: Layer, env: Scope, sources: list[Tensor]) -> Tensor:
    """Merge several dims into one, in the order of the source unless `keep_order`."""
    x = layer.concatenated(sources, env)
    axes = axes_of(x, layer.opts["axes"], env.dims, layer.what)
    if not (layer.opts.get("keep_order") or any(isinstance(axis, Dim) for axis in layer.opts["axes"])):
        axes = [dim for dim in in_order(x) if dim in axes]
    if len(axes) == 1:
        return x
    out, merged = merge_dims(x, dims=axes, out_dim=layer.out_dim)
    return marked(out, merged if x.feature_dim in axes else x.feature_dim)


@computes("squeeze", required=("axis",), options=("enforce_batch_dim_axis", "allow_no_op"))
def squeeze_layer(layer: Layer, env: Scope, sources: list[Tensor]) -> Tensor:
    """The source without dims of size 1."""
    x = layer.concatenated(sources, env)
    feature, given = x.feature_dim, layer.opts["axis"]
    ones = [dim for dim in x.dims if size_of(dim) == 1]
    for dim in ones if given == "auto" else axes_of(x, given, env.dims, layer.what):
        x = squeeze(x, dim)
    return marked(x, feature)


@computes("expand_dims", options=("axis", "dim"), own_feature=False)
def expand_dims_layer(layer: Layer, env: Scope, sources: list[Tensor]) -> Tensor:
    """The source with an additional dim `dim`."""
    x = layer.concatenated(sources, env)
    given = layer.opts.get("dim", 1)
    is_feature = str(layer.opts.get("axis", "")).lower() in ("f", "feature")
    dim = (
        env.dims(given)
        if isinstance(given, Dim)
        else layer.own_dim("expanded", given, "feature" if is_feature else None)
    )
    feature = dim if is_feature else x.feature_dim
    return marked(expand_dim(x, dim), feature)


@computes("slice", required=("axis",), options=("slice_start", "slice_end", "slice_step"), own_feature=False)
def slice_layer(layer: Layer, env: Scope, sources: list[Tensor]) -> Tensor:
    """Frames from slice_start to slice_end (exclusive)."""
    x = layer.concatenated(sources, env)
    axis = axis_of(x, layer.opts["axis"], env.dims, layer.what)
    start, end, step = (layer.opts.get(key) for key in ("slice_start", "slice_end", "slice_step"))
    if step not in (None, 1):
        raise not_implemented_error(
            f"{layer.what}: slice_step is not supported.",
            {"slice_step": step},
            "Only consecutive frames are supported.",
            '"slice_step": None',
        )
    is_feature = axis is x.feature_dim
    out_dim = layer.out_dim
    if out_dim is None and axis.size is not None:
        size = len(range(axis.size)[start:end])
        out_dim = layer.own_dim("slice", size, "feature" if is_feature else None)
    begin = start if start is None or start >= 0 or axis.size is None else max(axis.size + start, 0)
    stop = end if end is None or end >= 0 or axis.size is None else max(axis.size + end, 0)
    if axis.size is not None and stop is not None:
        stop = min(stop, axis.size)
    out, made = slice(x, axis=axis, start=begin, end=stop, out_dim=out_dim)
    return marked(out, made if is_feature else x.feature_dim)


@computes("gather", required=("axis", "position"), options=("clip_to_valid",), references=("position",))
def gather_layer(layer: Layer, env: Scope, sources: list[Tensor]) -> Tensor:
    """The frames at `position`, a number or a layer."""
    x = layer.concatenated(sources, env)
    axis, position = axis_of(x, layer.opts["axis"], env.dims, layer.what), layer.opts["position"]
    indices = env.get(position)
    if isinstance(indices, Tensor) and indices.sparse_dim not in (None, axis):
        indices = set_sparse_dim(indices, None)
    out = gather(x, indices=indices, axis=axis, clip_to_valid=bool(layer.opts.get("clip_to_valid")) or env.dry)
    if x.sparse_dim is not None:
        out.sparse_dim = x.sparse_dim
    return marked(out, x.feature_dim)


@computes("shift_axis", required=("axis", "amount"), options=("pad", "pad_value", "adjust_size_info"))
def shift_axis_layer(layer: Layer, env: Scope, sources: list[Tensor]) -> Tensor:
    """Frames shifted right by `amount`, or left if it is negative; the length is kept with adjust_size_info=False."""
    x = layer.concatenated(sources, env)
    axis, amount = axis_of(x, layer.opts["axis"], env.dims, layer.what), int(layer.opts["amount"])
    if layer.opts.get("adjust_size_info", True) or not layer.opts.get("pad", True):
        raise not_implemented_error(
            f"{layer.what}: adjust_size_info is not supported.",
            {"adjust_size_info": True},
            "Only shifts that keep the length are supported.",
            '"adjust_size_info": False',
        )
    fn = shift_right if amount >= 0 else shift_left
    return marked(fn(x, axis=axis, pad_value=layer.opts.get("pad_value") or 0, amount=abs(amount)), x.feature_dim)


@layer_class("concat")
class ConcatLayer(Layer):
    """(layer, axis) pairs, concatenated along these axes."""

    options = ("allow_broadcast",)

    def __init__(self, name: str, path: str, opts: Any):
        given = opts.get("from")
        if not isinstance(given, (list, tuple)) or not all(
            isinstance(each, (list, tuple)) and len(each) == 2 for each in given
        ):
            raise value_error(
                f'Layer "{path}" of class "concat": "from" is not a list of pairs.',
                {"from": repr(given)},
                "A pair (layer, axis) describes each source.",
                f'"{name}": {{..., "from": [("a", "F"), ("b", "F")]}}',
            )
        super().__init__(name, path, {**opts, "from": [ref for ref, _ in given]})
        self.axes = [axis for _, axis in given]

    def compute(self, env: Scope, sources: list[Tensor]) -> Tensor:
        pairs = [(x, axis_of(x, axis, env.dims, self.what)) for x, axis in zip(sources, self.axes, strict=True)]
        out, dim = concat(*pairs, allow_broadcast=bool(self.opts.get("allow_broadcast")), out_dim=self.out_dim)
        is_feature = pairs[0][1] is sources[0].feature_dim
        return marked(out, dim if is_feature else sources[0].feature_dim)
