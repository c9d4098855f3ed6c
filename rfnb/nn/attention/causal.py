"""Causal self-attention: over a whole sequence, or step by step with the previous keys and values in a state."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rfnb.core.dim import Dim, single_step_dim
from rfnb.core.op import op
from rfnb.core.tensor import Tensor
from rfnb.core.tensor_checks import check_dim
from rfnb.nn.attention.self_attention import SelfAttentionBase
from rfnb.ops.concat import concat
from rfnb.ops.const import zeros
from rfnb.ops.expand import expand_dim
from rfnb.rec.cum_concat import history_and, history_dim
from rfnb.rec.state import State


class CausalSelfAttentionState(State):
    """k_accum {..., accum_axis, heads, key} and v_accum {..., accum_axis, heads, value} of all frames so far, and their dim."""

    def __init__(
        self, *args: Any, k_accum: Tensor | None = None, v_accum: Tensor | None = None, accum_axis: Dim | None = None
    ):
        super().__init__(*args)
        if not args:
            self["k_accum"], self["v_accum"], self["accum_axis"] = k_accum, v_accum, accum_axis


class CausalSelfAttention(SelfAttentionBase):
    """Each frame attends to itself and to the frames before it. See `SelfAttentionBase` for arguments and parameters."""

    @op
    def __call__(
        self, source: Tensor, axis: Dim, *, state: CausalSelfAttentionState | None = None
    ) -> tuple[Tensor, CausalSelfAttentionState]:
        """A whole sequence (or the next part of it), or one step with `single_step_dim`.

        Args:
            source: {..., axis, in}; for one step {..., in}.
            state: The state of the previous frames; None at the beginning.

        Returns:
            {..., axis, out}, and the state with the frames of source appended. Results do not depend on how a sequence is split into calls.

        Raises:
            DimError: If source has no in_dim or no axis.

        Probes:
            attention: weights {..., heads, axis, accum_axis}.
        """
        single = axis is single_step_dim
        if not single:
            check_dim(type(self).__name__, source, axis, "source")
        q, k, v = self.forward_qkv(source)
        if single:
            k, v = expand_dim(k, history_dim(1)), expand_dim(v, history_dim(1))
        new = appended(state, k, v, history_dim(1) if single else axis)
        return self._attend(q, new, None if single else axis), new

    def _attend(self, q: Tensor, state: CausalSelfAttentionState, axis: Dim | None) -> Tensor:
        """Attend to all frames so far; axis None: one step."""
        return self.attention(q, state.k_accum, state.v_accum, kv_axis=state.accum_axis, causal_query_spatial_dim=axis)

    def default_initial_state(self, *, batch_dims: Sequence[Dim]) -> CausalSelfAttentionState:
        """The empty state: {*batch_dims, accum_axis=0, heads, ...}."""
        return empty_history(self, batch_dims)


def empty_history(attention: SelfAttentionBase, batch_dims: Sequence[Dim]) -> CausalSelfAttentionState:
    """The empty state: {*batch_dims, accum_axis=0, heads, ...}."""
    axis, weight = history_dim(0), attention.qkv.weight
    k, v = (
        zeros((*batch_dims, axis, attention.num_heads, dim), dtype=weight.dtype, device=weight.device)
        for dim in (attention.key_dim_per_head, attention.value_dim_per_head)
    )
    return CausalSelfAttentionState(k_accum=k, v_accum=v, accum_axis=axis)


def appended(state: CausalSelfAttentionState | None, k: Tensor, v: Tensor, axis: Dim) -> CausalSelfAttentionState:
    """The state with the frames k and v {..., axis, heads, ...} appended."""
    before = None if state is None else state.accum_axis
    both = history_and(before, axis)
    if state is None or before is None or (axis is not history_dim(1) and before.is_static() and before.extent == 0):
        k, v = (  # the query has the axis itself
            part if both is axis else part._like(part._raw, tuple(both if dim is axis else dim for dim in part.dims))
            for part in (k, v)
        )
        return CausalSelfAttentionState(k_accum=k, v_accum=v, accum_axis=both)
    k, v = (
        concat((old, before), (new, axis), out_dim=both, allow_broadcast=True)[0]
        for old, new in ((state.k_accum, k), (state.v_accum, v))
    )
    return CausalSelfAttentionState(k_accum=k, v_accum=v, accum_axis=both)
