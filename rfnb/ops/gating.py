"""Gating: one half of the features controls how much of the other half passes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Never

from rfnb.core.dim import Dim
from rfnb.core.errors import dim_error
from rfnb.core.op import op
from rfnb.core.tensor import Tensor
from rfnb.ops import math
from rfnb.ops.concat import split
from rfnb.ops.operands import need_tensors
from rfnb.ops.out_dim import settle_size


@op
def gating(
    x: Tensor,
    *extra: Never,
    axis: Dim | None = None,
    gate_func: Callable[[Tensor], Tensor] = math.sigmoid,
    act_func: Callable[[Tensor], Tensor] = math.identity,
    out_dim: Dim | None = None,
    **unknown: Never,
) -> tuple[Tensor, Dim]:
    """act_func(first half) * gate_func(second half); by default a gated linear unit.

    Args:
        x: {..., axis}
        axis: Default: the feature_dim of x.
        out_dim: Default: half of axis, from dim arithmetic (the half of 2 * d is d).

    Returns:
        {..., out_dim}, out_dim.

    Raises:
        DimError: Without axis and feature_dim, or if the size of axis is odd or not static.

    Source: Dauphin et al. 2017, "Language Modeling with Gated Convolutional Networks", section 2.
    """
    need_tensors("gating", x)
    axis = axis or x.feature_dim
    if axis is None:
        raise dim_error(
            "gating: which dim?",
            {"x": x},
            "It has no feature_dim, so name the dim to halve:",
            "rf.gating(x, axis=...)",
        )
    x.axis_of(axis, "gating")
    if axis.size is None or axis.size % 2:
        raise dim_error(
            "gating: the dim has no halves.",
            {"x": x, "axis": axis},
            "Its size is static and even.",
            "rf.Linear(in_dim, 2 * out_dim)",
        )
    half = axis.size // 2
    out_dim = axis.div_left(2) if out_dim is None else out_dim
    settle_size("gating", out_dim, half)
    passed, gate = split(x, axis=axis, out_dims=(out_dim, out_dim))
    return math.mul(act_func(passed), gate_func(gate)), out_dim
