"""Attention of a decoder step to an encoder: the documented classes, each with its own energy function.

    attention = rf.ConcatAttention(key_dim)
    out = attention(query, base=encoder, base_ctx=keys, axis=time)

A query with further dims (target positions) gives the same results as its single steps.
"""

from __future__ import annotations

from typing import Never

from rfnb.core.dim import Dim
from rfnb.core.errors import dim_error
from rfnb.core.op import op
from rfnb.core.tensor import Tensor
from rfnb.core.tensor_checks import check_dim
from rfnb.nn.attention.functions import (
    additive_attention,
    additive_attention_weights,
    dot_attention,
    dot_attention_weights,
)
from rfnb.nn.init import Glorot
from rfnb.nn.module.module import Module
from rfnb.nn.module.parameter import Parameter
from rfnb.ops.dims import last_frame_position_of_dim
from rfnb.ops.gather import gather
from rfnb.ops.operands import need_tensors
from rfnb.ops.pad import pad


class GlobalAttentionContextBase(Module):
    """The base of attention to a whole encoder sequence. Abstract: `DotAttention` and `ConcatAttention`.

    Args:
        key_dim: The features of query and base_ctx.
        out_dim: If given, base must have this dim as its features.

    Source: Luong et al. 2015, "Effective Approaches to Attention-based Neural Machine Translation", section 3.1.
    """

    def __init__(self, key_dim: Dim, *, out_dim: Dim | None = None):
        self.key_dim, self.out_dim = key_dim, out_dim

    def __call__(self, query: Tensor, *, base: Tensor, base_ctx: Tensor | None = None, axis: Dim) -> Tensor:
        """The weighted mean of base over `axis`.

        Args:
            query: {..., key_dim}, one step or several.
            base: {..., axis, features}
            base_ctx: {..., axis, key_dim}: the keys from which energies are computed. Default: base.
            axis: Padding gets weight exactly 0.

        Returns:
            {..., features}: the dims of base without axis, and the further dims of query.

        Raises:
            DimError: If query or base_ctx has no key_dim, base or base_ctx no axis, base not the features of out_dim.

        Probes:
            attention: weights {..., axis}, non-negative, sum to 1 over axis.
        """
        base_ctx = base if base_ctx is None else base_ctx
        self._check(query, base_ctx, axis)
        check_dim(type(self).__name__, base, axis, "base")
        if self.out_dim is not None and self.out_dim not in base.dims:
            raise dim_error(
                f"{type(self).__name__}: base does not have the requested features.",
                {"base": base, "out_dim": self.out_dim},
                "The result is a mean over frames of base, so it has the features of base.",
            )
        return self._attend(query, base, base_ctx, axis)

    def get_base_weights(self, query: Tensor, *, base_ctx: Tensor, axis: Dim) -> Tensor:
        """The weights alone: {..., axis}, 0 in the padding. Arguments and errors are those of the call."""
        self._check(query, base_ctx, axis)
        return self._weights(query, base_ctx, axis)

    def get_base_weight_last_frame(self, query: Tensor, *, base_ctx: Tensor, axis: Dim) -> Tensor:
        """The weight of the last frame of each sequence: {...}; 0 for an empty sequence."""
        return last_frame(self.get_base_weights(query, base_ctx=base_ctx, axis=axis), axis=axis)

    def _check(self, query: Tensor, base_ctx: Tensor, axis: Dim) -> None:
        name = type(self).__name__
        for label, tensor in (("query", query), ("base_ctx", base_ctx)):
            if self.key_dim not in tensor.dims:
                raise dim_error(
                    f"{name}: {label} has no dim {self.key_dim.short_repr()}.",
                    {"query": query, "base_ctx": base_ctx},
                    "Query and base_ctx have the same features, since each one of the query meets one of base_ctx.",
                    f"{label} = rf.Linear({label}_dim, {self.key_dim.name})({label})",
                )
        check_dim(name, base_ctx, axis, "base_ctx")

    def _attend(self, query: Tensor, base: Tensor, base_ctx: Tensor, axis: Dim) -> Tensor:
        raise NotImplementedError

    def _weights(self, query: Tensor, base_ctx: Tensor, axis: Dim) -> Tensor:
        raise NotImplementedError


class DotAttention(GlobalAttentionContextBase):
    """Energies are dot products: e = base_ctx · query, times `energy_factor`. No parameters; see `rf.dot_attention`.

    Args:
        energy_factor: None or 0: no factor (`rf.dot_attention` scales by 1/sqrt(key_dim) by default).
        key_dim, out_dim: See `GlobalAttentionContextBase`.

    Source: Luong et al. 2015, "Effective Approaches to Attention-based Neural Machine Translation", section 3.1.
    """

    def __init__(self, key_dim: Dim, *, out_dim: Dim | None = None, energy_factor: float | None = None):
        super().__init__(key_dim, out_dim=out_dim)
        self.energy_factor = energy_factor

    def _attend(self, query: Tensor, base: Tensor, base_ctx: Tensor, axis: Dim) -> Tensor:
        scale = self.energy_factor or 1.0
        return dot_attention(query, base_ctx, base, key_dim=self.key_dim, axis=axis, scale=scale)

    def _weights(self, query: Tensor, base_ctx: Tensor, axis: Dim) -> Tensor:
        scale = self.energy_factor or 1.0
        return dot_attention_weights(query, base_ctx, key_dim=self.key_dim, axis=axis, scale=scale)


class ConcatAttention(GlobalAttentionContextBase):
    """Energies are v · tanh(base_ctx + query): one layer on the concatenation of both; see `rf.additive_attention`.

    This module does not contain the projections to key_dim.

    Parameters:
        v: {key_dim}, Glorot uniform.

    Source: Bahdanau et al. 2015, appendix A.1.2; Luong et al. 2015, section 3.1 ("concat").
    """

    def __init__(self, key_dim: Dim, *, out_dim: Dim | None = None):
        super().__init__(key_dim, out_dim=out_dim)
        self.v = Parameter((key_dim,), initial=Glorot())

    def _attend(self, query: Tensor, base: Tensor, base_ctx: Tensor, axis: Dim) -> Tensor:
        return additive_attention(query, base_ctx, base, energy_weight=self.v, key_dim=self.key_dim, axis=axis)

    def _weights(self, query: Tensor, base_ctx: Tensor, axis: Dim) -> Tensor:
        return additive_attention_weights(query, base_ctx, energy_weight=self.v, key_dim=self.key_dim, axis=axis)


@op
def last_frame(source: Tensor, *extra: Never, axis: Dim, **unknown: Never) -> Tensor:
    """The last real frame of each sequence, e.g. of attention weights.

    {..., axis} -> {...}; 0 for an empty sequence.

    Raises:
        DimError: If axis is not a dim of source.
    """
    need_tensors("last_frame", source)
    source.axis_of(axis, "last_frame")
    source, of = source.copy_masked(0, dims=[axis]), axis
    if not axis.extent:
        source, (axis,) = pad(source, axes=[axis], padding=[(0, 1)], value=0)
    return gather(source, indices=last_frame_position_of_dim(of, device=source.device), axis=axis)
