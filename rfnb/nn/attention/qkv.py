"""Self-attention with one matrix QKV, over a whole sequence or step by step, optionally with keys shifted by distance."""

from __future__ import annotations

from collections.abc import Sequence

from rfnb.core.dim import Dim, single_step_dim
from rfnb.core.errors import dim_error, value_error
from rfnb.core.op import op
from rfnb.core.tensor import Tensor
from rfnb.core.tensor_checks import check_dim
from rfnb.nn.attention.causal import CausalSelfAttentionState, appended, empty_history
from rfnb.nn.attention.functions import _attend, _energy
from rfnb.nn.attention.self_attention import SelfAttentionBase
from rfnb.ops import dims as dim_ops
from rfnb.ops.defaults import copy_to_device
from rfnb.ops.expand import expand_dim
from rfnb.ops.gather import gather
from rfnb.ops.math import combine_bc
from rfnb.rec.cum_concat import history_and, history_dim


class QKVSelfAttention(SelfAttentionBase):
    """Multi-head self-attention without biases and without an output projection; the documented SelfAttentionLayer.

    Args:
        in_dim: Features of the source, or the sparse dim of its labels.
        key_dim_total, value_dim_total: Summed over all heads (total_key_dim and n_out in the documentation).
        num_heads: int, or a Dim.
        attention_left_only: Causal: no frame sees a later one. Required for a state and for single steps.
        att_dropout: Dropout on the weights, in training.
        att_dropout_broadcast: True drops the same weights in the whole batch.
        restrict_state_to_last_seq: The new state has only the frames of this call, not those of the previous state.

    Parameters:
        QKV: {in, qkv}, Glorot uniform: head by head, in each query, key, value side by side.

    Raises:
        DimError: If num_heads does not divide key_dim_total and value_dim_total.

    Source: Vaswani et al. 2017, section 3.2.2; key_shift: Shaw et al. 2018, equation (4).
    """

    def __init__(
        self,
        in_dim: Dim,
        *,
        key_dim_total: Dim,
        value_dim_total: Dim,
        num_heads: int | Dim,
        attention_left_only: bool = False,
        att_dropout: float = 0.0,
        att_dropout_broadcast: bool = False,
        restrict_state_to_last_seq: bool = False,
    ):
        super().__init__(
            in_dim, None, key_dim_total=key_dim_total, value_dim_total=value_dim_total, num_heads=num_heads,
            with_bias=False, att_dropout=att_dropout, att_dropout_broadcast=att_dropout_broadcast,
        )  # fmt: skip
        self.attention_left_only = attention_left_only
        self.restrict_state_to_last_seq = restrict_state_to_last_seq
        self.QKV = self.qkv.weight  # the documented name of the parameter

    @op
    def __call__(
        self,
        source: Tensor,
        axis: Dim,
        *,
        state: CausalSelfAttentionState | None = None,
        key_shift: Tensor | None = None,
        state_var_lengths: Tensor | None = None,
    ) -> tuple[Tensor, CausalSelfAttentionState | None]:
        """A whole sequence (or the next part of it), or one step with `single_step_dim`.

        Args:
            source: {..., axis, in}; for one step {..., in}.
            state: The state of the previous frames, which all frames of source see; None at the beginning.
            key_shift: Added to the keys, {axis, keys, key_per_head}; for one step {keys, key_per_head}, as from
                `RelativePositionalEncoding`. The dim keys is `keys_dim(axis, state)`.
            state_var_lengths: int {...}: number of valid frames in the state, counted from its end. The new state keeps
                only the valid frames of each sequence.

        Returns:
            {..., axis, value_dim_total}, and the state with the frames of source; None without attention_left_only.

        Raises:
            ValueError: For a single step or a state without attention_left_only.
            DimError: If source has no in_dim or no axis, or key_shift has other dims.

        Probes:
            attention: weights {..., heads, axis, keys}.
        """
        single = axis is single_step_dim
        if (single or state is not None) and not self.attention_left_only:
            raise value_error(
                "QKVSelfAttention: a " + ("single step" if single else "state") + " without attention_left_only.",
                {"source": source, "axis": "single_step_dim" if single else axis},
                "Step by step, no frame can see later ones; a whole sequence has to give the same.",
                "rf.QKVSelfAttention(..., attention_left_only=True)",
            )
        if not single:
            check_dim("QKVSelfAttention", source, axis, "source")
        q, k, v = self.forward_qkv(source)
        if state is not None and state_var_lengths is not None:
            state = _valid_frames(state, state_var_lengths)
        frames = history_dim(1) if single else axis
        if single:
            k, v = expand_dim(k, frames), expand_dim(v, frames)
        seen = appended(state, k, v, frames)
        out = self._shifted(q, seen, None if single else axis, key_shift)
        if not self.attention_left_only:
            return out, None
        return out, appended(None, k, v, frames) if self.restrict_state_to_last_seq else seen

    def keys_dim(self, axis: Dim, state: CausalSelfAttentionState | None = None) -> Dim:
        """The dim of the keys in a call with this axis and state, without state_var_lengths."""
        return history_and(None if state is None else state.accum_axis, axis)

    def forward_qkv(self, source: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """{..., in}, or labels {...} sparse over in -> query {..., heads, key}, key {..., heads, key}, value {..., heads, value}."""
        if source.sparse_dim is not self.in_dim:
            return super().forward_qkv(source)
        return self._per_head(gather(self.QKV, indices=source, axis=self.QKV.dims[0]))

    def default_initial_state(self, *, batch_dims: Sequence[Dim]) -> CausalSelfAttentionState:
        """The empty state: {*batch_dims, accum_axis=0, heads, ...}."""
        return empty_history(self, batch_dims)

    def _shifted(self, q: Tensor, seen: CausalSelfAttentionState, axis: Dim | None, key_shift: Tensor | None) -> Tensor:
        k, v, keys = seen.k_accum, seen.v_accum, seen.accum_axis
        assert k is not None and v is not None and keys is not None
        causal_dim = axis if self.attention_left_only else None
        if key_shift is None:
            return self.attention(q, k, v, kv_axis=keys, causal_query_spatial_dim=causal_dim)
        key_shift = self._of_head(key_shift, axis, keys)
        # All sequences share the shifts, so the padding of any sequence would enter their gradient.
        q, key_dim = q.copy_masked(0), self.key_dim_per_head
        scale = max(key_dim.extent, 1) ** -0.5
        energy = combine_bc(_energy(q, k, key_dim, scale), "add", _energy(q, key_shift, key_dim, scale))
        return self._joined(_attend(energy, v, keys, self.att_dropout, self.att_dropout_broadcast, causal_dim))

    @op(of="QKVSelfAttention")
    def _of_head(self, key_shift: Tensor, axis: Dim | None, keys: Dim) -> Tensor:
        """The shift with key_dim_per_head as its feature dim.

        Raises:
            DimError: If its dims are not those of the queries, the keys, and features of that size.
        """
        queries = () if axis is None else (axis,)
        over = {other for dim in (*queries, keys) for other in dim.length_dims}
        features = [dim for dim in key_shift.dims if dim is not axis and dim is not keys and dim not in over]
        size = self.key_dim_per_head.extent
        if {*queries, keys} <= set(key_shift.dims) and [dim.size for dim in features] == [size]:
            dims = tuple(self.key_dim_per_head if dim is features[0] else dim for dim in key_shift.dims)
            return key_shift._like(key_shift._raw, dims)
        needed = ", ".join(dim.short_repr() for dim in (*queries, keys, self.key_dim_per_head))
        raise dim_error(
            "QKVSelfAttention: key_shift has other dims than query and keys.",
            {"key_shift": key_shift, "needs": f"[{needed}]"},
            "It has a vector for each pair of a query and a key, shared by the batch and the heads.",
            "keys = attention.keys_dim(axis, state)\n"
            "key_shift = rf.RelativePositionalEncoding(attention.key_dim_per_head)(\n"
            "    query_spatial_dim=axis, key_value_spatial_dim=keys)",
        )


def _valid_frames(state: CausalSelfAttentionState, lengths: Tensor) -> CausalSelfAttentionState:
    """The last frames of the state for each sequence, as a ragged history."""
    k, v, old = state.k_accum, state.v_accum, state.accum_axis
    assert k is not None and v is not None and old is not None
    if not old.extent:
        return state
    host = copy_to_device(lengths, "cpu")
    new = Dim(host, name="history", kind="spatial")
    start = combine_bc(old.get_size_tensor(), "sub", host)
    index = dim_ops.range_over_dim(new, dtype="int32", device="cpu")
    index.sparse_dim = None
    index = copy_to_device(combine_bc(index, "add", start), k.device)
    k, v = (gather(part, indices=index, axis=old, clip_to_valid=True) for part in (k, v))
    return CausalSelfAttentionState(k_accum=k, v_accum=v, accum_axis=new)
