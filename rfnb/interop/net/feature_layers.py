"""Layers that change the features: linear, softmax, activation, copy, dropout, cast, reinterpret_data, constant, variable, range."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from rfnb.core.dim import Dim
from rfnb.core.tensor import Tensor
from rfnb.interop.net.call_dims import axis_of, marked, time_dim, with_feature
from rfnb.interop.net.layer import Layer, computes, layer_class
from rfnb.interop.net.named_functions import activation
from rfnb.interop.net.scope import Scope
from rfnb.nn.init import Glorot
from rfnb.nn.module.parameter import Parameter
from rfnb.ops.cast import cast
from rfnb.ops.const import constant, convert_to_tensor, zeros
from rfnb.ops.dims import range_over_dim, replace_dim
from rfnb.ops.gather import gather
from rfnb.ops.linear import linear
from rfnb.ops.softmax import log_softmax


def set_initial(parameter: Parameter, given: Any, default: Any) -> None:
    """Set the initial value of a parameter: a number or "zeros", "ones"; other texts (names of initializers) mean the default."""
    numbers = {"zeros": 0.0, "ones": 1.0}
    value = numbers.get(given) if isinstance(given, str) else given
    parameter.initial = default if value is None else value


@layer_class("linear")
class LinearLayer(Layer):
    """W {in, out}, b {out}: x W + b, then the activation. For labels: rows of W."""

    options = tuple("activation with_bias forward_weights_init bias_init use_transposed_weights safe_embedding".split())
    framewise = True

    def begin(self) -> None:
        self.activation = activation(self.opts.get("activation"), self.what)
        self.transposed = bool(self.opts.get("use_transposed_weights"))

    def infer(self, env: Scope, sources: list[Tensor]) -> Tensor:
        return self._over_sources(env, sources)

    def template(self, env: Scope) -> Tensor:
        self._set_out_dim(env)
        return super().template(env)

    def _set_out_dim(self, env: Scope) -> None:
        """Take the out_dim from the target if there is no n_out."""
        if self.out_dim is not None:
            return
        target = self.opts.get("target")
        target = target[0] if isinstance(target, (list, tuple)) else target
        found = None if not target else env.target(target)
        size = None if found is None else found.sparse_dim or found.feature_dim
        if size is None:
            raise self.features_unknown({"target": target}, "n_out, out_dim or the labels of the target determine it.")
        self.out_dim = Dim(size.size, name=f"{self.name}:feature", kind="feature", vocab=size.vocab)

    def make(self, env: Scope, sources: list[Tensor]) -> None:
        self._set_out_dim(env)
        assert self.out_dim is not None
        x = self.concatenated(sources, env)
        given = self.in_dim_of(x)
        self._rows = given.copy(match_priority=1) if given is self.out_dim else given
        dims = (self.out_dim, self._rows) if self.transposed else (self._rows, self.out_dim)
        self.W = Parameter(dims)
        set_initial(self.W, self.opts.get("forward_weights_init"), Glorot())
        if self.opts.get("with_bias", True):
            self.b = Parameter((self.out_dim,))
            set_initial(self.b, self.opts.get("bias_init"), 0.0)

    def linear(self, x: Tensor) -> Tensor:
        """The value before the activation."""
        bias: Tensor | None = getattr(self, "b", None)
        x = self.as_made(x, self._rows)
        if x.sparse_dim is not None:
            out = gather(self.W, indices=x, axis=self._rows)
            out = out if bias is None else out + bias
        else:
            out = linear(x, self.W, bias, reduce=self._rows)
        return marked(out, self.out_dim)

    def logits(self, sources: list[Tensor], env: Scope) -> Tensor:
        """The value before the activation, computed from the sources."""
        return self.linear(self.concatenated(sources, env))

    def compute(self, env: Scope, sources: list[Tensor]) -> Tensor:
        return marked(self.activation(self.logits(sources, env)), self.out_dim)

    def log_probabilities(self, env: Scope) -> Tensor | None:
        """log_softmax of the logits, if the activation is softmax."""
        if self.opts.get("activation") != "softmax" or self.out_dim is None:
            return None
        logits = self.logits(env.sources(self), env)
        return marked(log_softmax(logits, axis=self.out_dim), self.out_dim)


@layer_class("softmax")
def softmax_layer(name: str, path: str, opts: Mapping[str, Any]) -> LinearLayer:
    """Linear, then softmax over the features. A choice uses the log softmax of the logits."""
    return LinearLayer(name, path, {"activation": "softmax", **opts})


def copy_layer(layer: Layer, env: Scope, sources: list[Tensor]) -> Tensor:
    """The source, or the concatenated features of several sources; a dropout layer has its dropout, as any layer may."""
    out = layer.concatenated(sources, env)
    return with_feature(out, layer.out_dim, layer.what) if layer.out_dim is not None else out


computes("copy", "concat_features", framewise=True)(copy_layer)
computes("dropout", framewise=True, options=("dropout_axis", "dropout_noise_shape", "dropout_on_forward"))(copy_layer)


@layer_class("activation")
class ActivationLayer(Layer):
    """A function applied elementwise, or over the features."""

    options = ("activation", "opts")
    elementwise = True

    def begin(self) -> None:
        self.activation = activation(self.opts.get("activation"), self.what)

    def compute(self, env: Scope, sources: list[Tensor]) -> Tensor:
        x = self.concatenated(sources, env)
        return marked(self.activation(x), x.feature_dim)


@computes("cast", required=("dtype",), options=("output",), elementwise=True)
def cast_layer(layer: Layer, env: Scope, sources: list[Tensor]) -> Tensor:
    """The source with another dtype."""
    x = layer.concatenated(sources, env)
    out = cast(x, layer.opts["dtype"])
    if out.dtype.startswith(("float", "bfloat", "complex")) and out.sparse_dim is not None:
        out = out if out is not x else out + 0
        out.sparse_dim = None
    return marked(out, x.feature_dim)


@computes(
    "reinterpret_data",
    options=(
        "set_sparse",
        "set_sparse_dim",
        "increase_sparse_dim",
        "set_dim_tags",
        "size_base",
        "set_axes",
        "switch_axes",
        "batch_dim_base",
        "enforce_batch_major",
        "enforce_time_major",
        "use_sparse_dim_as_out_dim",
    ),
    references=("size_base",),
)
def reinterpret_data_layer(layer: Layer, env: Scope, sources: list[Tensor]) -> Tensor:
    """The source with other metadata: labels, features, replaced dims."""
    x = layer.concatenated(sources, env)
    out, feature = x + 0 if x.dtype != "bool" else cast(cast(x, "int32"), "bool"), x.feature_dim
    labels = x.sparse_dim
    for axis, dim in (layer.opts.get("set_dim_tags") or {}).items():
        old, new = axis_of(x, axis, env.dims, layer.what), dim
        if not env.dims.is_known(new):
            env.dims.bind(new, old)
        new = env.dims(new)
        if new is not old:
            out, _ = replace_dim(out, in_dim=old, out_dim=new)
        feature = new if feature is old else feature
    if layer.opts.get("size_base"):
        base = env.get(layer.opts["size_base"])
        before, after = time_dim(x, env.dims), time_dim(base, env.dims)
        if before is not None and after is not None and before is not after:
            out, _ = replace_dim(out, in_dim=before, out_dim=after)
    for name, axis in (layer.opts.get("set_axes") or {}).items():
        if str(name).upper() == "F":
            feature = axis_of(out, axis, env.dims, layer.what) if axis is not None else None
    given = layer.opts.get("set_sparse_dim")
    if given is not None:
        labels = given if isinstance(given, Dim) else layer.own_dim("labels", given)
    elif layer.opts.get("increase_sparse_dim") and labels is not None:
        labels = layer.own_dim("labels", (labels.size or 0) + int(layer.opts["increase_sparse_dim"]))
    if layer.opts.get("set_sparse") is False:
        labels = None
    out.sparse_dim = labels
    return marked(out, feature)


@computes(
    "constant",
    options=tuple("value shape dtype sparse_dim feature_dim with_batch_dim value_is_relative_to_extern_data".split()),
    needs_source=False,
    own_feature=False,
)
def constant_layer(layer: Layer, env: Scope, sources: list[Tensor]) -> Tensor:
    """A number or an array with the dims `shape`."""
    value = layer.opts.get("value", 0.0)
    dims = [env.dims(dim) for dim in layer.opts.get("shape") or ()]
    if isinstance(value, Tensor):
        return value
    array = np.asarray(value)
    dtype = layer.opts.get("dtype") or {"f": "float32", "i": "int32", "u": "int32", "b": "bool"}[array.dtype.kind]
    if array.ndim and not dims:
        dims = [layer.own_dim(index, count) for index, count in enumerate(array.shape)]
    if layer.opts.get("with_batch_dim"):
        dims = [*env.batch_dims(), *dims]
    if array.ndim == 0:
        out = constant(array.item(), dims=dims, dtype=dtype)
    else:
        out = convert_to_tensor(array.astype(dtype), dims=[dim for dim in dims if not dim.is_batch_dim()])
    if layer.opts.get("sparse_dim") is not None:
        out.sparse_dim = layer.opts["sparse_dim"]
    last = out.dims[-1] if out.dims and out.dims[-1].kind == "feature" else None
    return marked(out, layer.opts.get("feature_dim") or last)


@layer_class("variable")
class VariableLayer(Layer):
    """A parameter "variable" with the dims `shape`."""

    options = ("shape", "dtype", "add_batch_axis", "add_time_axis", "init", "init_by_layer")
    needs_source = False
    own_feature = False
    made_to_infer = True

    def make(self, env: Scope, sources: list[Tensor]) -> None:
        shape = self.opts.get("shape") or ()
        named = ((dim, f"{self.name}:{index}") for index, dim in enumerate(shape))
        dims = [dim if isinstance(dim, Dim) else Dim(dim, name=name) for dim, name in named]
        self.variable = Parameter(dims, dtype=self.opts.get("dtype", "float32"))
        set_initial(self.variable, self.opts.get("init"), 0.0)

    def compute(self, env: Scope, sources: list[Tensor]) -> Tensor:
        out = self.variable + 0
        return marked(out, out.dims[-1] if out.dims else None)


@computes(
    "range_in_axis",
    "range_from_axis",
    options=("axis", "dtype", "unbroadcast", "keepdims", "sparse"),
    own_feature=False,
)
def range_in_axis_layer(layer: Layer, env: Scope, sources: list[Tensor]) -> Tensor:
    """0, 1, 2, ... over a dim of the source."""
    dim = axis_of(layer.concatenated(sources, env), layer.opts.get("axis", "T"), env.dims, layer.what)
    out = range_over_dim(dim, dtype=layer.opts.get("dtype", "int32"))
    out.sparse_dim = dim if layer.opts.get("sparse") else None
    return out


@computes(
    "range",
    required=("limit",),
    options=("start", "delta", "dtype", "sparse", "out_spatial_dim"),
    needs_source=False,
    own_feature=False,
)
def range_layer(layer: Layer, env: Scope, sources: list[Tensor]) -> Tensor:
    """start, start + delta, ... below limit, over its own dim."""
    values = np.arange(layer.opts.get("start", 0), layer.opts["limit"], layer.opts.get("delta", 1))
    dtype = layer.opts.get("dtype") or ("float32" if values.dtype.kind == "f" else "int32")
    given: Any = layer.opts.get("out_spatial_dim")
    is_dim = isinstance(given, Dim)
    own = given if is_dim and given.size is not None else layer.own_dim("range", len(values))
    if is_dim and given.size is None:
        env.dims.bind(given, own)
    return convert_to_tensor(values.astype(dtype), dims=[own])


@computes("length", options=("axis", "add_time_axis", "dtype", "sparse"), own_feature=False)
def length_layer(layer: Layer, env: Scope, sources: list[Tensor]) -> Tensor:
    """The lengths of a dim of the source, int32 {batch}."""
    dim = axis_of(layer.concatenated(sources, env), layer.opts.get("axis", "T"), env.dims, layer.what)
    dtype = layer.opts.get("dtype", "int32")
    if dim.lengths is None:
        return constant(dim.extent, dims=(), dtype=dtype)
    return cast(dim.get_size_tensor(), dtype) + zeros((), dtype=dtype)
