"""Sliding windows over the frames of each sequence."""

from __future__ import annotations

from typing import Never

from rfnb.core.dim import Dim
from rfnb.core.errors import not_one_of, value_error
from rfnb.core.fill_values import number_to_fill
from rfnb.core.op import op
from rfnb.core.tensor import Tensor
from rfnb.core.tensor_checks import check_lengths_here, check_unique
from rfnb.ops import math
from rfnb.ops.cast import cast
from rfnb.ops.dims import range_over_dim
from rfnb.ops.gather import gather
from rfnb.ops.operands import need_tensors
from rfnb.ops.out_dim import check_movable
from rfnb.ops.where import where


@op
def window(
    source: Tensor,
    *extra: Never,
    spatial_dim: Dim,
    window_dim: Dim,
    window_right: int | Dim | None = None,
    window_left: int | Dim | None = None,
    padding: str = "same",
    pad_value: float | int | None = None,
    stride: int = 1,
    use_mask: bool | None = None,
    **unknown: Never,
) -> tuple[Tensor, Dim]:
    """For each frame, the frames around it.

    Args:
        source: {..., spatial_dim}
        window_dim: A dim whose size is the width of a window.
        window_left, window_right: Frames of "same" windows before and after the frame itself; together with the frame they make up
            the width. Default: centred; for an even width, one more after the frame.
        padding: "same": a window at every frame, `pad_value` beyond the ends. "valid": only windows inside of the sequence.
        pad_value: Default 0.
        stride: Frames from one window to the next.
        use_mask: End a sequence at its length (the default), not at the end of its padding.

    Returns:
        {..., out, window_dim}, out: spatial_dim itself if "same" with stride 1, else made by dim arithmetic.

    Raises:
        DimError: If spatial_dim is not in source, or the lengths of another dim are over it.
        ValueError: For another padding, or if left and right do not add up to the width.
    """
    need_tensors("window", source)
    source.axis_of(spatial_dim, "window")
    check_movable("window", source, spatial_dim)
    check_unique((*source.dims, window_dim), "window")
    before, after = (side.extent if isinstance(side, Dim) else side for side in (window_left, window_right))
    left = _left(window_dim.extent, before, after, padding)
    out_dim = spatial_dim if padding == "same" else spatial_dim - (window_dim.extent - 1)
    out_dim = out_dim.ceildiv_right(stride) if stride != 1 else out_dim
    starts = range_over_dim(out_dim, dtype="int64", device=source.device) * stride - left
    offsets = range_over_dim(window_dim, dtype="int64", device=source.device)
    positions = math.combine_bc(starts, "add", offsets)
    out = gather(source, indices=math.clip_by_value(positions, 0, spatial_dim.extent - 1), axis=spatial_dim)
    if padding == "valid":
        return out, out_dim
    end = spatial_dim.extent
    inside = math.logical_and(positions >= 0, positions < end)
    if use_mask is not False and spatial_dim.has_padding():
        check_lengths_here("window", [("source", source.dims)], spatial_dim, "source")
        lengths = cast(spatial_dim.get_size_tensor(device=source.device), "int64")
        inside = math.combine_bc(inside, "logical_and", math.compare_bc(positions, "less", lengths))
    fill = number_to_fill("window", source, 0 if pad_value is None else pad_value, "pad_value")
    return where(inside, out, fill).copy_transpose(out.dims), out_dim


def _left(width: int, left: int | None, right: int | None, padding: str) -> int:
    """The number of frames of a window before the frame itself."""
    if padding == "valid":
        return 0
    if padding != "same":
        raise not_one_of(f'window: padding "{padding}".', "padding", padding, ("same", "valid"))
    if left is None:
        left = (width - 1) // 2 if right is None else width - 1 - right
    if left < 0 or (right is not None and left + 1 + right != width):
        raise value_error(
            "window: left and right do not make up the width.",
            {"left": left, "right": right, "width": width},
            "The width is left + 1 + right. Give one of them:",
            "rf.window(..., window_left=...)",
        )
    return left
