"""Self-attention with rotary position embedding, bidirectional or causal: pairs of features are rotated by an angle
proportional to the position.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from rfnb.backends.constants import kept
from rfnb.core.dim import Dim
from rfnb.core.errors import dim_error
from rfnb.core.op import op
from rfnb.core.tensor import Tensor, new_tensor
from rfnb.core.tensor_checks import check_dim
from rfnb.nn.attention.causal import CausalSelfAttention, CausalSelfAttentionState
from rfnb.nn.attention.causal_mask import query_offset
from rfnb.nn.attention.self_attention import SelfAttention
from rfnb.ops import dims as dim_ops
from rfnb.ops.cast import cast
from rfnb.ops.concat import unstack
from rfnb.ops.const import convert_to_tensor
from rfnb.ops.math import combine_bc, cos, sin
from rfnb.ops.merge import merge_dims, split_dims


class RotaryPosSelfAttention(SelfAttention):
    """`SelfAttention` whose queries and keys are rotated by their positions, so that energies depend on distances.

    Args:
        base: The slowest pair of features rotates by about 1 / base radians per position.
        The other arguments are those of `SelfAttentionBase`. The size of a head must be even.

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
        check_dim(type(self).__name__, source, axis, "source")
        q, k, v = self.forward_qkv(source)
        q, k = (rotate(x, spatial_dim=axis, feat_dim=self.key_dim_per_head, base=self.base) for x in (q, k))
        return self.attention(q, k, v, kv_axis=axis)


class RotaryPosCausalSelfAttention(CausalSelfAttention):
    """`CausalSelfAttention` whose queries and keys are rotated by their positions, so that energies depend on distances.

    The state holds unrotated keys: each call rotates all of them.

    Args:
        base: The slowest pair of features rotates by about 1 / base radians per position.
        The other arguments are those of `SelfAttentionBase`. The size of a head must be even.

    Source: Su et al. 2021, "RoFormer", section 3.2.
    """

    def __init__(self, *args: Any, base: float = 1e4, **options: Any):
        super().__init__(*args, **options)
        self.base = base

    def _attend(self, q: Tensor, state: CausalSelfAttentionState, axis: Dim | None) -> Tensor:
        keys, feat = state.k_accum, self.key_dim_per_head
        assert keys is not None and state.accum_axis is not None  # set just above
        first = query_offset(axis, state.accum_axis, keys)
        q = rotate(q, spatial_dim=axis, feat_dim=feat, offset=first, base=self.base)
        k = rotate(keys, spatial_dim=state.accum_axis, feat_dim=feat, base=self.base)
        return self.attention(q, k, state.v_accum, kv_axis=state.accum_axis, causal_query_spatial_dim=axis)


_pair = Dim(2, name="pair")


@op
def rotate(x: Tensor, *, spatial_dim: Dim | None, feat_dim: Dim, offset: int | Tensor = 0, base: float = 1e4) -> Tensor:
    """The features 2m and 2m + 1 rotated by the angle position * base ** (-2m / feat).

    Dot products of rotated vectors depend only on the distance between their positions; the norms do not change.

    Args:
        x: {..., spatial_dim, feat}
        spatial_dim: The positions are 0, 1, ... along it. None: x is at the one position `offset`.
        offset: Added to every position; int {...}.

    Returns:
        {..., spatial_dim, feat}.

    Raises:
        DimError: If the size of feat_dim is odd.

    Source: Su et al. 2021, "RoFormer", section 3.2.2, equation (15), in the form of equation (34).
    """
    if feat_dim.extent % 2:
        raise dim_error(
            "Rotary attention: an odd number of features.",
            {"x": x, "features": feat_dim},
            "Features are turned in pairs, so each head has an even number of them.",
        )
    half = _half(feat_dim.extent)
    sine, cosine = angles_of(x, spatial_dim, half, offset, base)
    first, second = unstack(split_dims(x, axis=feat_dim, dims=(half, _pair)), axis=_pair)
    low = combine_bc(first, "mul", cosine) - combine_bc(second, "mul", sine)
    high = combine_bc(first, "mul", sine) + combine_bc(second, "mul", cosine)
    place = low.dims.index(half) + 1  # interleaved again, so that merging them copies nothing
    raw = low.backend.stack_raw([low._raw, high._raw], place)
    out, _ = merge_dims(
        new_tensor(raw, (*low.dims[:place], _pair, *low.dims[place:])), dims=(half, _pair), out_dim=feat_dim
    )
    return out


def angles_of(
    x: Tensor, spatial_dim: Dim | None, half: Dim, offset: int | Tensor, base: float
) -> tuple[Tensor, Tensor]:
    """Sines and cosines, {offset dims, spatial_dim, half}."""
    if isinstance(offset, Tensor):
        frames: Any = 0 if spatial_dim is None else dim_ops.range_over_dim(spatial_dim, device=offset.device)
        wide = "float64" if x.dtype == "float64" else "float32"  # positions need more than 16 bits
        rates = convert_to_tensor(_rates(half.extent, base), dims=[half], dtype=wide, device=offset.device)
        position = cast(combine_bc(offset, "add", frames), wide)
        angles = combine_bc(position, "mul", rates)
        return cast(sin(angles), x.dtype), cast(cos(angles), x.dtype)
    backend, count = x.backend, 1 if spatial_dim is None else spatial_dim.extent
    # The table size is rounded up: a growing history would otherwise need a new table for each length.
    size = 1 << max(offset + count - 1, 63).bit_length()
    dims = (half,) if spatial_dim is None else (spatial_dim, half)
    parts = []
    for table in _tables(size, half.extent, base, x.dtype, x.device, backend):
        raw = backend.slice_raw(table, 0, offset, offset + count)
        parts.append(new_tensor(backend.select_raw(raw, 0, 0) if spatial_dim is None else raw, dims))
    return parts[0], parts[1]


@kept(64)
def _tables(count: int, half: int, base: float, dtype: str, device: str | None, backend: Any) -> tuple[Any, Any]:
    """Raw sines and cosines [count, half]."""
    angles = np.arange(count)[:, None] * _rates(half, base)
    sine, cosine = (backend.from_numpy(fn(angles), dtype=dtype, device=device) for fn in (np.sin, np.cos))
    return sine, cosine


def _rates(half: int, base: float) -> np.ndarray:
    return base ** (-np.arange(half) / max(half, 1))


@lru_cache(maxsize=256)
def _half(size: int) -> Dim:
    return Dim(size // 2, name="half")
