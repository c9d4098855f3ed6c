"""Attention to a window around a position, with Gaussian weights."""

from __future__ import annotations

import math
from typing import Never

from rfnb.core.dim import Dim
from rfnb.core.errors import type_error, value_error
from rfnb.core.op import op
from rfnb.core.tensor import Tensor
from rfnb.core.tensor_checks import check_dim
from rfnb.core.tensor_text import shape_of
from rfnb.nn.attention.weight_hook import are_edited, attended, note_fused
from rfnb.ops import dims as dim_ops
from rfnb.ops.cast import cast
from rfnb.ops.gather import gather
from rfnb.ops.math import clip_by_value, combine_bc, compare_bc, exp, round, square
from rfnb.ops.matmul import matmul
from rfnb.ops.operands import need_tensors
from rfnb.ops.pad import pad
from rfnb.trace.probe import listening


@op
def gauss_window_attention(
    position: Tensor,
    base: Tensor,
    *extra: Never,
    axis: Dim,
    window_size: int,
    std: float = 1.0,
    inner_size: int | Dim | None = None,
    inner_size_step: float = 0.5,
    **unknown: Never,
) -> Tensor:
    """The sum of the frames of `base` in a window around `position`, weighted by a Gaussian density.

        r = round(p);  i_k = r - window_size // 2 + k;  w_k = N(i_k; p, std);  out = sum_k w_k base[clip(i_k, 0, length - 1)]

    The weights do not sum to 1. Positions beyond the border are clipped to the border frame.

    Args:
        position: p, float {...}, in frames. A feature dim of size 1 is dropped. Its gradient flows through the weights only.
        base: {..., axis, features}
        window_size: In frames. If even, there is one more frame before the position than after it.
        std: Standard deviation of the Gaussian, in frames.
        inner_size: Number of positions around p (or their dim): p + (j - (inner_size - 1) / 2) * inner_size_step, all with the
            window of p.
        inner_size_step: In frames.

    Returns:
        {..., features}, with inner_size {..., inner, features}; 0 for an empty sequence.

    Raises:
        DimError: If base has no axis.
        ValueError: If window_size, std or inner_size is not above 0.
        TypeError: If position is not a float.

    Probes:
        attention: weights {..., axis}: for each frame, the sum over all window positions that map to it.

    Source: Tjandra et al. 2017, "Local Monotonic Attention Mechanism for End-to-End Speech and Language Processing",
    section 3, for the idea.
    """
    need_tensors("gauss_window_attention", position, base)
    _check(position, base, axis, window_size, std, inner_size)
    position = position.copy_masked(0)
    if position.feature_dim is not None and position.feature_dim.size == 1:
        position = gather(position, indices=0, axis=position.feature_dim)
    window = Dim(window_size, name="window")
    steps = dim_ops.range_over_dim(window, dtype="int32", device=base.device)
    steps.sparse_dim = None
    center = cast(round(position), "int32")
    frames = combine_bc(center, "add", steps - window_size // 2)
    if inner_size is not None:
        inner = inner_size if isinstance(inner_size, Dim) else Dim(inner_size, name="inner")
        offsets = dim_ops.range_over_dim(inner, dtype=position.dtype, device=base.device)
        position = combine_bc(position, "add", (offsets - (inner.extent - 1) / 2) * inner_size_step)
    distance = combine_bc(position, "sub", cast(frames, position.dtype)) / std
    weights = exp(square(distance) * -0.5) / (std * math.sqrt(2 * math.pi))
    # An empty sequence has no frame to clip to, so use a frame of zeros.
    base = base.copy_masked(0, dims=[axis])
    frames_dim = axis
    if not axis.extent:
        base, (frames_dim,) = pad(base, axes=[axis], padding=[(0, 1)])
    last = clip_by_value(axis.get_size_tensor(device=base.device) - 1, 0, frames_dim.extent - 1)
    index = combine_bc(clip_by_value(frames, 0, frames_dim.extent - 1), "minimum", last)
    by_frame = of_frames = None
    if are_edited() or listening("attention"):
        by_frame = _by_frame(weights, index, window, frames_dim)
        of_frames = attended(by_frame, axis=frames_dim)
    else:
        note_fused(weights, window, frames_dim)
    if of_frames is not by_frame and of_frames is not None:
        out = matmul(of_frames, base, reduce=frames_dim)
    else:
        out = matmul(weights, gather(base, indices=index, axis=frames_dim), reduce=window)
    if base.feature_dim is not None and base.feature_dim in out.dims:
        out._feature_dim = base.feature_dim
    return out


def _by_frame(weights: Tensor, index: Tensor, window: Dim, axis: Dim) -> Tensor:
    """The weight of each frame, summed over all window positions that map to it."""
    frames = dim_ops.range_over_dim(axis, dtype="int32", device=weights.device)
    frames.sparse_dim = None
    hits = cast(compare_bc(index, "equal", frames), weights.dtype)
    return matmul(weights, hits, reduce=window)


def _check(
    position: Tensor, base: Tensor, axis: Dim, window_size: int, std: float, inner_size: int | Dim | None
) -> None:
    check_dim("gauss_window_attention", base, axis, "base")
    inner = inner_size.extent if isinstance(inner_size, Dim) else inner_size
    for name, value in (("window_size", window_size), ("std", std), ("inner_size", inner)):
        if value is not None and value <= 0:
            raise value_error(
                f"gauss_window_attention: {name} is not above 0.",
                {name: value},
                "The window has at least one frame, the Gaussian some width.",
                "rf.gauss_window_attention(position, base, axis=time, window_size=5, std=1.0)",
            )
    if not position.dtype.startswith(("float", "bfloat")):
        raise type_error(
            "gauss_window_attention: the position is not a float.",
            {"position": f"{shape_of(position)} {position.dtype}"},
            "The weights depend on its position between two frames.",
            'position = rf.cast(position, "float32")',
        )
