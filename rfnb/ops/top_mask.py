"""Masks of the largest entries: by number, or by total probability."""

from __future__ import annotations

import functools
from typing import Never

from rfnb.core.dim import Dim
from rfnb.core.op import op
from rfnb.core.tensor import Tensor, new_tensor
from rfnb.ops import math
from rfnb.ops.cumsum import cumsum
from rfnb.ops.defaults import copy_to_device
from rfnb.ops.dims import range_over_dim
from rfnb.ops.gather import gather
from rfnb.ops.operands import need_tensors
from rfnb.ops.reduce import top_k
from rfnb.ops.scatter import scatter, scatter_count


@op
def top_k_mask(values: Tensor, *extra: Never, axis: Dim, k: int | Tensor, **unknown: Never) -> Tensor:
    """True for the k largest entries of `axis` (all, if there are fewer); {..., axis} bool. Padding is never chosen before a real
    frame. A Tensor k gives a number for each of its entries.

    Raises:
        DimError: If axis is not a dim of values.
    """
    need_tensors("top_k_mask", values)
    values.axis_of(axis, "top_k_mask")
    if isinstance(k, Tensor) and k.dims:
        k_dim = Dim(copy_to_device(math.minimum(k, axis.extent), "cpu"), name="top_k")
    else:
        k_dim = _numbered(min(int(k), axis.extent), "top_k")
    _, indices, _ = top_k(values, axis=[axis], k_dim=k_dim, sorted=False)
    return scatter_count(indices=indices[0], indices_dim=k_dim, out_dim=axis) > 0


@op
def top_p_mask(
    probs: Tensor,
    *extra: Never,
    axis: Dim,
    p: float | Tensor,
    one_more: bool = True,
    min_tokens_to_keep: int = 1,
    **unknown: Never,
) -> Tensor:
    """True for the most probable entries with a total probability of `p`; {..., axis} bool.

    Args:
        probs: {..., axis}, summing to 1 over axis. Padding counts as 0.
        p: 0 to 1; a number, or a Tensor with dims of probs.
        one_more: Include the entry that reaches p, so that at least p is covered; else at most p.
        min_tokens_to_keep: The minimum number of True entries.

    Raises:
        DimError: If axis is not a dim of probs.

    Source: Holtzman et al. 2020, "The Curious Case of Neural Text Degeneration", section 3.1.
    """
    need_tensors("top_p_mask", probs)
    index = probs.axis_of(axis, "top_p_mask")
    probs = probs.copy_masked(0, dims=[axis])
    rank_dim = _numbered(axis.extent, "rank")
    dims = (*probs.dims[:index], rank_dim, *probs.dims[index + 1 :])
    raw, raw_order = probs.backend.sort_raw(probs._raw, index, True, True)
    ranked, order = new_tensor(raw, dims), new_tensor(raw_order, dims)
    covered = cumsum(ranked, spatial_dim=rank_dim)
    keep = math.compare(covered - ranked, "less", p) if one_more else math.compare(covered, "less_equal", p)
    ranks = range_over_dim(rank_dim, device=probs.device)
    keep = math.logical_or(keep, math.compare(ranks, "less", min_tokens_to_keep))
    ranks.sparse_dim = None
    rank = scatter(ranks, indices=order, indices_dim=rank_dim, out_dim=axis)
    rank = math.clip_by_value(rank, 0, axis.extent - 1)  # in the padding of other dims it may be anything
    return gather(keep, indices=rank, axis=rank_dim).copy_transpose(probs.dims)


@functools.lru_cache(maxsize=64)
def _numbered(size: int, name: str) -> Dim:
    """A fixed dim for each size, so that cached plans are found again."""
    return Dim(size, name=name)
