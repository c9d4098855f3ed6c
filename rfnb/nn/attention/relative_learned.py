"""Learned vectors for distances between positions."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from rfnb.core.dim import Dim, single_step_dim
from rfnb.core.op import op
from rfnb.core.tensor import Tensor, new_tensor
from rfnb.nn.attention.positional_encoding import distances
from rfnb.nn.init import Glorot
from rfnb.nn.module.module import Module
from rfnb.nn.module.parameter import Parameter
from rfnb.ops import dims as dim_ops
from rfnb.ops.gather import gather
from rfnb.ops.math import clip_by_value, combine_bc


class LearnedRelativePositionalEncoding(Module):
    """One vector per distance from a query to a key; distances beyond `clipping` share the last vector.

    Args:
        clipping: The largest distance with a vector of its own.
        causal: Keys after the query have no vectors of their own and get that of distance 0.

    Parameters:
        pos_emb: {distance, feat}, Glorot uniform; for the distances key - query from -clipping to clipping, or to 0 if causal.

    Source: Shaw et al. 2018, "Self-Attention with Relative Position Representations", section 3.2.
    """

    def __init__(self, feat_dim: Dim, *, clipping: int = 16, dtype: str | None = None, causal: bool = False):
        self.feat_dim, self.clipping, self.causal = feat_dim, clipping, causal
        self.clipped_dim = Dim((1 if causal else 2) * clipping + 1, name="clipped_distance")
        self.pos_emb = Parameter((self.clipped_dim, feat_dim), dtype)
        self.pos_emb.initial = Glorot()

    def __call__(
        self, *, query_spatial_dim: Dim, key_value_spatial_dim: Dim, query_offset: int | Tensor | None = None
    ) -> tuple[Tensor, Dim]:
        """The vectors of all distances from a query to a key, in increasing order; see `relative_positional_encoding`.

        Args:
            query_spatial_dim: `single_step_dim` means a single query.
            query_offset: Position of the first query, int {...}; keys begin at 0. None: 0.

        Returns:
            {offset dims, distance, feat}, and the static dim distance of size queries + keys - 1. Entry r is for the distance
            key - query = r - (queries - 1) - query_offset.
        """
        distance, first = distances(query_spatial_dim, key_value_spatial_dim)
        if isinstance(query_offset, Tensor):
            steps = dim_ops.range_over_dim(distance, device=query_offset.device) + first
            return self._of(combine_bc(steps, "sub", query_offset)), distance
        weight = self.pos_emb
        first -= query_offset or 0
        top = 0 if self.causal else self.clipping
        rows = _rows(first, distance.extent, -self.clipping, top, weight.device, weight.backend)
        return self._gathered(new_tensor(rows, (distance,))), distance

    def full_matrix(
        self, *, query_spatial_dim: Dim, key_value_spatial_dim: Dim, query_offset: int | Tensor | None = None
    ) -> Tensor:
        """The vector from each query to each key.

        Args:
            query_spatial_dim: `single_step_dim` means a single query.
            query_offset: Position of the first query, int {...}; keys begin at 0. None: 0.

        Returns:
            {offset dims, query_spatial_dim, key_value_spatial_dim, feat}; without query_spatial_dim for a single step.
        """
        device, offset = self.pos_emb.device, 0 if query_offset is None else query_offset
        return self._of(steps_to_keys(query_spatial_dim, key_value_spatial_dim, offset, device))

    def _of(self, steps: Tensor) -> Tensor:
        """The vectors {..., feat} of the distances key - query, int {...}."""
        steps = clip_by_value(_plain(steps), -self.clipping, 0 if self.causal else self.clipping)
        return self._gathered(steps + self.clipping)

    def _gathered(self, rows: Tensor) -> Tensor:
        out = gather(self.pos_emb, indices=rows, axis=self.clipped_dim)
        out.feature_dim = self.feat_dim
        return out


def steps_to_keys(query_dim: Dim, key_dim: Dim, offset: int | Tensor, device: str | None) -> Tensor:
    """The distances key - (query + offset), int {offset dims, query_dim, key_dim}; without query_dim for `single_step_dim`."""
    steps = _plain(dim_ops.range_over_dim(key_dim, device=device))
    if query_dim is not single_step_dim:
        steps = combine_bc(_plain(dim_ops.range_over_dim(query_dim, device=device)) * -1, "add", steps)
    return combine_bc(steps, "sub", offset)


@lru_cache(maxsize=256)
def _rows(first: int, count: int, low: int, high: int, device: str | None, backend: Any) -> Any:
    """Raw [count]: the row indices for distance `first` and the following distances."""
    rows = np.clip(np.arange(first, first + count), low, high) - low
    return backend.from_numpy(rows.astype(np.int32), dtype="int32", device=device)


@op(of="LearnedRelativePositionalEncoding")
def _plain(steps: Tensor) -> Tensor:
    return new_tensor(steps._raw, steps.dims)  # a difference of positions is no longer an index
