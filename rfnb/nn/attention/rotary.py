"""Self-attention with rotary position embedding: of a whole sequence, and without looking ahead."""

from __future__ import annotations

from typing import Any

from rfnb.core.dim import Dim
from rfnb.core.tensor import Tensor
from rfnb.core.tensor_text import missing_dim
from rfnb.nn.attention.causal import CausalSelfAttention, CausalSelfAttentionState
from rfnb.nn.attention.query_offset import query_offset
from rfnb.nn.attention.rotate import rotate
from rfnb.nn.attention.self_attention import SelfAttention


class RotaryPosSelfAttention(SelfAttention):
    """`SelfAttention` in which queries and keys are turned by their positions, so that energies depend on distances.

    Args:
        base: The slowest pair of features turns by 1 / base per position.
        The others: as of `SelfAttentionBase`. The size of a head is even.

    Source: Su et al. 2021, "RoFormer", section 3.2.
    """

    def __init__(self, *args: Any, base: float = 1e4, **options: Any):
        super().__init__(*args, **options)
        self.base = base

    def __call__(self, source: Tensor, *, axis: Dim) -> Tensor:
        """{..., axis, in} -> {..., axis, out}.

        Raises:
            DimError: If source has no in_dim or no axis, or a head has an odd number of features.

        Probes:
            attention: weights {..., heads, axis, twin of axis}.
        """
        if axis not in source.dims:
            raise missing_dim(type(self).__name__, source, axis, "source")
        q, k, v = self.forward_qkv(source)
        q, k = (rotate(x, spatial_dim=axis, feat_dim=self.key_dim_per_head, base=self.base) for x in (q, k))
        return self.attention(q, k, v, kv_axis=axis)


class RotaryPosCausalSelfAttention(CausalSelfAttention):
    """`CausalSelfAttention` in which queries and keys are turned by their positions, so that energies depend on distances.

    The state has the keys as they were before: all are turned in every call.

    Args:
        base: The slowest pair of features turns by 1 / base per position.
        The others: as of `SelfAttentionBase`. The size of a head is even.

    Source: Su et al. 2021, "RoFormer", section 3.2.
    """

    def __init__(self, *args: Any, base: float = 1e4, **options: Any):
        super().__init__(*args, **options)
        self.base = base

    def _attend(self, q: Tensor, state: CausalSelfAttentionState, axis: Dim | None) -> Tensor:
        keys, feat = state.k_accum, self.key_dim_per_head
        assert keys is not None and state.accum_axis is not None  # just made
        first = query_offset(axis, state.accum_axis, keys)
        q = rotate(q, spatial_dim=axis, feat_dim=feat, offset=first, base=self.base)
        k = rotate(keys, spatial_dim=state.accum_axis, feat_dim=feat, base=self.base)
        return self.attention(q, k, state.v_accum, kv_axis=state.accum_axis, causal_query_spatial_dim=axis)
