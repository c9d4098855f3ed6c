"""Attention layers, implemented by the modules of rfnb."""

from __future__ import annotations

import functools
from typing import Any

from rfnb.core.dim import Dim
from rfnb.core.errors import dim_error, value_error
from rfnb.core.tensor import Tensor
from rfnb.core.tensor_text import shape_of
from rfnb.interop.net.call_dims import attended_dim, inner_dims, is_batch_like, marked, with_feature, with_twins
from rfnb.interop.net.layer import Layer, LayerOfModule, computes, layer_class
from rfnb.interop.net.scope import Scope
from rfnb.nn.attention.encoder_decoder import ConcatAttention, DotAttention, GlobalAttentionContextBase
from rfnb.nn.attention.functions import generic_attention
from rfnb.nn.attention.gauss_window import gauss_window_attention
from rfnb.ops.const import zeros


class _Attention(Layer):
    references: tuple[str, ...] = ("base",)
    own_feature = False

    def base(self, env: Scope, query: Tensor) -> tuple[Tensor, Dim]:
        """The attended value, and its dim."""
        base = env.get(self.opts["base"])
        axis = attended_dim(base, query, env.dims)
        if axis is None:
            raise dim_error(
                f"{self.what}: base has no time dim.",
                {"base": base},
                "The layer attends over the time dim of base.",
            )
        size = None if base.feature_dim is None else base.feature_dim.size
        if self.n_out is not None and self.n_out != size:
            raise value_error(
                f"{self.what}: n_out differs from the number of features of base.",
                {"n_out": self.n_out, "base": f"{shape_of(base)}, {size} features"},
                "The result is a weighted sum of the frames of base.",
                f'"n_out": {size}',
            )
        return base, axis

    def finished(self, out: Tensor, base: Tensor) -> Tensor:
        """The result with the features of the base, or out_dim."""
        out = marked(out, base.feature_dim)
        return with_feature(out, self.out_dim, self.what) if self.out_dim is not None else out


class _ContextAttention(_Attention, LayerOfModule):
    references = ("base", "base_ctx")

    def make_attention(self, key_dim: Dim) -> GlobalAttentionContextBase:
        raise NotImplementedError

    def make(self, env: Scope, sources: list[Tensor]) -> None:
        query = self.concatenated(sources, env)
        if query.feature_dim is None:
            raise dim_error(
                f"{self.what}: the query has no feature dim.",
                {"query": query},
                "The features of the query are multiplied with those of base_ctx.",
            )
        self.module = self.make_attention(query.feature_dim)

    def compute(self, env: Scope, sources: list[Tensor]) -> Tensor:
        query, keys = self.concatenated(sources, env), env.get(self.opts["base_ctx"])
        base, axis = self.base(env, query)
        key_dim = self.module.key_dim
        if query.feature_dim is None or keys.feature_dim is None or query.feature_dim.size != keys.feature_dim.size:
            raise value_error(
                f"{self.what}: query and base_ctx have different features.",
                {"query": query, "base_ctx": keys},
                "The energy is a product over the features, so both have the same number of them.",
            )
        query, keys = with_feature(query, key_dim, self.what), with_feature(keys, key_dim, self.what)
        if not env.in_loop:
            weights = functools.partial(self.module.get_base_weights, query, base_ctx=keys, axis=axis)
            env.call.weights[self.path] = weights, axis
        return self.finished(self.module(query, base=base, base_ctx=keys, axis=axis), base)


@layer_class("dot_attention")
class DotAttentionLayer(_ContextAttention):
    """Attention with dot products of query and base_ctx as energies."""

    required = ("base", "base_ctx")
    options = ("energy_factor",)

    def make_attention(self, key_dim: Dim) -> DotAttention:
        return DotAttention(key_dim, energy_factor=self.opts.get("energy_factor"))


@layer_class("concat_attention")
class ConcatAttentionLayer(_ContextAttention):
    """Attention with energies v · tanh(base_ctx + query)."""

    required = ("base", "base_ctx")

    def make_attention(self, key_dim: Dim) -> ConcatAttention:
        return ConcatAttention(key_dim)


@layer_class("generic_attention")
class GenericAttentionLayer(_Attention):
    """The weighted sum of the frames of base, with given weights."""

    required = ("base", "weights")
    options = ("auto_squeeze",)
    references = ("base", "weights")
    needs_source = False

    def begin(self) -> None:
        if self.sources:
            raise value_error(
                f'{self.what}: "from" is not allowed.',
                {"from": ", ".join(self.sources)},
                'The layer only reads "weights" and "base".',
                f'"{self.name}": {{"class": "generic_attention", "weights": ..., "base": ...}}',
            )

    def compute(self, env: Scope, sources: list[Tensor]) -> Tensor:
        weights = env.get(self.opts["weights"])
        base, axis = self.base(env, zeros(()))
        weights = self._of_base(weights, base, env)
        if not env.in_loop:
            env.call.weights[self.path] = (lambda: weights), axis
        out = generic_attention(weights, base, axis=axis, auto_squeeze=self.opts.get("auto_squeeze", True))
        return self.finished(out, base)

    def _of_base(self, weights: Tensor, base: Tensor, env: Scope) -> Tensor:
        """The weights with the dims of the base in place of their own, e.g. if heads are the features of the energies."""
        own = [dim for dim in weights.dims if not is_batch_like(dim)]
        others = [dim for dim in inner_dims(base) if dim is not base.feature_dim]
        return with_twins(weights, base, own, others, env.dims, self.what)


@computes(
    "gauss_window_attention",
    of=_Attention,
    required=("base", "window_size"),
    options=("std", "inner_size", "inner_size_step"),
)
def gauss_window_attention_layer(layer: _Attention, env: Scope, sources: list[Tensor]) -> Tensor:
    """A window of base around a position, with Gaussian weights."""
    position = layer.concatenated(sources, env)
    base, axis = layer.base(env, position)
    names = ("std", "inner_size_step")
    given: dict[str, Any] = {name: layer.opts[name] for name in names if layer.opts.get(name) is not None}
    inner = layer.opts.get("inner_size")
    if inner is not None:
        given["inner_size"] = layer.own_dim("inner", inner)
    out = gauss_window_attention(position, base, axis=axis, window_size=layer.opts["window_size"], **given)
    return layer.finished(out, base)
