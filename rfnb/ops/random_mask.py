"""Masking of frames at random places, in each sequence separately."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Never

from rfnb.core.dim import Dim
from rfnb.core.op import op
from rfnb.core.tensor import Tensor
from rfnb.core.tensor_checks import check_lengths_here, dims_of
from rfnb.ops import math
from rfnb.ops.cast import cast
from rfnb.ops.defaults import copy_to_device
from rfnb.ops.dims import range_over_dim, set_sparse_dim
from rfnb.ops.operands import need_tensors
from rfnb.ops.random import random_uniform
from rfnb.ops.reduce import reduce_any, top_k
from rfnb.ops.where import where


@op
def mask(x: Tensor, *, mask_axis: Dim, pos: Tensor, max_amount: int | Tensor, mask_value: float | int = 0.0) -> Tensor:
    """Set one run of frames for each entry of `pos` to `mask_value`.

    Args:
        x: {..., mask_axis}
        pos: int {...}: the first frame of the run.
        max_amount: The length of the run is drawn uniformly from 1 to this; frames beyond the end are ignored.

    Returns:
        {..., mask_axis}: the dims of x, and those of pos.

    Raises:
        DimError: If mask_axis is not in x.
    """
    x.axis_of(mask_axis, "mask")
    amount = _whole_numbers(pos.dims, 1, max_amount, x.device)
    return _replaced(x, _in_run(mask_axis, pos, amount, x.device), mask_value)


@op(draws=True)
def random_mask(
    x: Tensor,
    *extra: Never,
    mask_axis: Dim,
    broadcast_axis: Dim | Sequence[Dim],
    min_num: int | Tensor,
    max_num: int | Tensor,
    max_dims: int | Tensor,
    mask_value: float | int = 0.0,
    max_num_bound: int | None = None,
    **unknown: Never,
) -> Tensor:
    """Set some runs of frames, at random places of each sequence, to `mask_value`.

    Args:
        x: {..., mask_axis, broadcast_axis}
        mask_axis: The axis of the runs, within each sequence's length; they begin at different frames and may overlap.
        broadcast_axis: One dim or several that share the runs. The other dims of x have separate runs.
        min_num, max_num: The number of runs is drawn uniformly from these bounds; int, or int {...} over dims with separate runs.
        max_dims: The length of each run is drawn uniformly from 1 to this.
        max_num_bound: The largest value of max_num, if that is a Tensor on a GPU, so that the host need not wait for it.

    Returns:
        {..., mask_axis, broadcast_axis}, the dims of x.

    Raises:
        DimError: If mask_axis or one of broadcast_axis is not in x.
    """
    need_tensors("random_mask", x)
    shared = dims_of("random_mask", broadcast_axis)
    for dim in (mask_axis, *shared):
        x.axis_of(dim, "random_mask")
    check_lengths_here("random_mask", [("x", x.dims)], mask_axis)
    own = [dim for dim in x.dims if dim is not mask_axis and dim not in shared]
    if max_num_bound is None:
        max_num_bound = max_num if isinstance(max_num, int) else int(max_num.numpy().max(initial=0))
    count = min(max_num_bound, mask_axis.extent)
    if count <= 0 or 0 in (dim.extent for dim in own):
        return x
    # The largest of random numbers are at different places, those of the padding come last.
    places = mask_axis if set(mask_axis.length_dims) <= set(own) else Dim(mask_axis.extent, name=mask_axis.name)
    run = _run_dim(count)
    _, pos, _ = top_k(random_uniform([*own, places], device=x.device), axis=places, k_dim=run)
    assert isinstance(pos, Tensor)
    pos = set_sparse_dim(cast(pos, "int32"), None)
    number = _whole_numbers(own, min_num, max_num, x.device)
    drawn = math.compare_bc(set_sparse_dim(range_over_dim(run, device=x.device), None), "less", number)
    amount = _whole_numbers([*own, run], 1, max_dims, x.device)
    in_some = reduce_any(math.combine_bc(_in_run(mask_axis, pos, amount, x.device), "logical_and", drawn), axis=run)
    return _replaced(x, in_some, mask_value)


@lru_cache(maxsize=256)
def _run_dim(count: int) -> Dim:
    """A dim shared by all calls, so that cached plans are found again."""
    return Dim(count, name="run")


def _in_run(axis: Dim, pos: Tensor, amount: Tensor, device: str | None) -> Tensor:
    """bool {axis, dims of pos}: True for the `amount` frames from `pos` on."""
    frames = set_sparse_dim(range_over_dim(axis, device=device), None)
    begun = math.compare_bc(frames, "greater_equal", pos)
    return math.combine_bc(begun, "logical_and", math.compare_bc(frames, "less", pos + amount))


def _replaced(x: Tensor, masked: Tensor, value: float | int) -> Tensor:
    out = where(masked, value, x, allow_broadcast_all_sources=True)
    if set(out.dims) == set(x.dims):
        out = out.copy_transpose(x.dims)
    out._feature_dim = x._feature_dim
    return out


def _whole_numbers(dims: Sequence[Dim], low: Any, high: Any, device: str | None) -> Tensor:
    """int32 {dims}, uniform from low to high, both included; low where high is below it."""
    low, high = (copy_to_device(each, device) if isinstance(each, Tensor) else each for each in (low, high))
    if not isinstance(low, Tensor) and not isinstance(high, Tensor):
        return random_uniform(dims, dtype="int32", device=device, minval=low, maxval=max(low, high) + 1)
    span = math.maximum(high - low, 0)
    steps = math.floor(random_uniform(dims, dtype="float32", device=device) * (span + 1))
    return math.minimum(cast(steps, "int32"), span) + low  # the product may be rounded up to a whole number
