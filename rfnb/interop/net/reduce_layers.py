"""Layers that remove dims: reduce, dot, softmax_over_spatial."""

from __future__ import annotations

from typing import Any

from rfnb.core.dim import Dim
from rfnb.core.errors import dim_error, value_error
from rfnb.core.tensor import Tensor
from rfnb.interop.net.call_dims import (
    axes_of,
    axis_of,
    marked,
    same_lengths,
    size_of,
    spatial_dims,
    time_dim,
    with_twins,
)
from rfnb.interop.net.layer import Layer, computes, layer_class
from rfnb.interop.net.scope import Scope
from rfnb.ops.cast import cast
from rfnb.ops.dims import range_over_dim, replace_dim, set_sparse_dim
from rfnb.ops.math import greater_equal, less, logical_and
from rfnb.ops.matmul import matmul
from rfnb.ops.reduce import reduce
from rfnb.ops.softmax import log_softmax, softmax
from rfnb.ops.where import where

_MODES = {"avg": "mean", "mean": "mean", "max": "max", "min": "min", "sum": "sum", "argmin": "argmin", "argmax": "argmax",
          "logsumexp": "logsumexp", "any": "any", "all": "all"}  # fmt: skip


@layer_class("reduce")
class ReduceLayer(Layer):
    """Mean, sum, max, ... over dims; only real frames count."""

    options = ("mode", "axis", "axes", "keep_dims", "use_time_mask", "enforce_batch_dim_axis")

    def begin(self) -> None:
        mode = self.opts.get("mode")
        if mode not in _MODES:
            raise value_error(
                f"{self.what}: unknown mode.",
                {"mode": repr(mode), "known": ", ".join(_MODES)},
                "mode determines how the values are reduced.",
            )

    def compute(self, env: Scope, sources: list[Tensor]) -> Tensor:
        x = self.concatenated(sources, env)
        axes = axes_of(x, self.opts.get("axis", self.opts.get("axes", "T")), env.dims, self.what)
        mode, use_mask = _MODES[str(self.opts["mode"])], self.opts.get("use_time_mask") is not False
        axis: Any = axes[0] if len(axes) == 1 else axes
        out = reduce(x, mode=mode, axis=axis, use_mask=use_mask)
        if mode.startswith("arg"):
            out = cast(out, "int32")
            out.sparse_dim = axis if isinstance(axis, Dim) else None
        return marked(out, x.feature_dim)


@computes("dot", options=("reduce", "red1", "red2", "var1", "var2", "add_var2_if_empty", "use_mask", "debug"))
def dot_layer(layer: Layer, env: Scope, sources: list[Tensor]) -> Tensor:
    """The product-sum of two sources over `reduce`; `var1` and `var2` are dims that only one has, all others are shared."""
    if len(sources) != 2:
        raise value_error(
            f"{layer.what}: two sources are needed.",
            {"from": ", ".join(layer.sources) or "nothing"},
            "A product has two factors.",
        )
    a, b = sources
    over = layer.opts.get("reduce")
    red1, red2 = (layer.opts.get("red1", -1), layer.opts.get("red2", -2)) if over is None else (over, over)
    first = axes_of(a, red1, env.dims, f"{layer.what}, first source")
    second = axes_of(b, red2, env.dims, f"{layer.what}, second source")
    pairs = zip(first, second)
    if len(first) != len(second) or any(p is not q and not same_lengths(p, q) for p, q in pairs):
        raise dim_error(
            f"{layer.what}: the dims to reduce differ.",
            {"first": a, "second": b, "reduce": f"{first} and {second}"},
            "Both sources need the dims to sum over.",
        )
    for own, other in zip(second, first, strict=True):
        if own is not other:
            if other in b.dims:  # the same dim has another role there
                b, _ = replace_dim(b, in_dim=other, out_dim=other.copy(match_priority=-1))
            b, _ = replace_dim(b, in_dim=own, out_dim=other)
    a, b = _shared(layer, a, b, first, env)
    a_feature, b_feature = sources[0].feature_dim, b.feature_dim if b.feature_dim in b.dims else None
    out = matmul(a, b, reduce=first[0] if len(first) == 1 else first)
    feature = b_feature if b_feature in out.dims else a_feature
    return marked(out, feature)


def _shared(layer: Layer, a: Tensor, b: Tensor, reduced: list[Dim], env: Scope) -> tuple[Tensor, Tensor]:
    """Both with the same shared dims: static ones of equal size, except those declared to belong to one only."""
    only = [*_only(layer, "var1", a, env), *_only(layer, "var2", b, env), *reduced]
    others = [dim for dim in a.dims if dim not in only and (dim is not a.feature_dim or "var1" in layer.opts)]
    own = [dim for dim in spatial_dims(b) if dim not in only]
    return a, with_twins(b, a, own, others, env.dims, layer.what)


def _only(layer: Layer, option: str, x: Tensor, env: Scope) -> list[Dim]:
    given = layer.opts.get(option)
    if given in (None, "auto", ""):
        return []
    return [dim for dim in axes_of(x, given, env.dims, f"{layer.what}, {option}") if size_of(dim) is not None]


@computes(
    "softmax_over_spatial",
    options=("axis", "energy_factor", "window_size", "use_time_mask", "log_space"),
    references=("start", "window_start"),
)
def softmax_over_spatial_layer(layer: Layer, env: Scope, sources: list[Tensor]) -> Tensor:
    """Softmax over time, or another dim; padding gets 0."""
    x = layer.concatenated(sources, env)
    given = layer.opts.get("axis")
    axis = time_dim(x, env.dims) if given is None else axis_of(x, given, env.dims, layer.what)
    if axis is None:
        raise dim_error(
            f"{layer.what}: the source has no time dim.",
            {"source": x},
            "The layer works along the time dim, or along axis.",
            '"axis": ...',
        )
    factor, feature = layer.opts.get("energy_factor"), x.feature_dim
    energy = x * factor if factor else x
    keep = _kept(layer, axis, env)
    if keep is not None:
        energy = where(keep, energy, float("-inf"), allow_broadcast_all_sources=True)
    fn = log_softmax if layer.opts.get("log_space") else softmax
    return marked(fn(energy, axis=axis, use_mask=layer.opts.get("use_time_mask") is not False), feature)


def _kept(layer: Layer, axis: Dim, env: Scope) -> Tensor | None:
    """The mask of frames selected by start and window."""
    positions = set_sparse_dim(range_over_dim(axis), None)
    keep = None
    if layer.opts.get("start") is not None:
        keep = greater_equal(positions, env.get(layer.opts["start"]))
    if layer.opts.get("window_start") is not None:
        begin = env.get(layer.opts["window_start"])
        inside = logical_and(greater_equal(positions, begin), less(positions, begin + int(layer.opts["window_size"])))
        keep = inside if keep is None else logical_and(keep, inside)
    return keep
