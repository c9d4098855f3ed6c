"""Repetition of frames by counts."""

from __future__ import annotations

from typing import Never

import numpy as np

from rfnb.core.dim import Dim
from rfnb.core.errors import value_error
from rfnb.core.layout import full_shape
from rfnb.core.op import op
from rfnb.core.tensor import Tensor, new_tensor
from rfnb.core.tensor_checks import check_lengths_here
from rfnb.ops.const import full
from rfnb.ops.expand import expand_dims
from rfnb.ops.gather import gather
from rfnb.ops.operands import need_tensors
from rfnb.ops.out_dim import check_movable, settle_size


@op
def repeat(
    values: Tensor,
    *extra: Never,
    in_spatial_dim: Dim,
    repeats: Tensor | int,
    out_spatial_dim: Dim | None = None,
    **unknown: Never,
) -> tuple[Tensor, Dim]:
    """Repeat each frame as often as `repeats` says, 0 times removes it; for duration models.

    Args:
        values: {..., in_spatial_dim}
        repeats: int {..., in_spatial_dim}, or one number. Read by the host, which needs the new lengths.
        out_spatial_dim: Default: a new dim; its lengths are the sums of the repeats.

    Returns:
        {..., out_spatial_dim}, out_spatial_dim.

    Raises:
        DimError: If in_spatial_dim is not in values, or out_spatial_dim has another size.
        ValueError: For negative repeats.
    """
    need_tensors("repeat", values)
    values.axis_of(in_spatial_dim, "repeat")
    check_movable("repeat", values, in_spatial_dim)
    operands = [("values", values.dims), *([("repeats", repeats.dims)] if isinstance(repeats, Tensor) else [])]
    check_lengths_here("repeat", operands, in_spatial_dim, "values")
    own = (*in_spatial_dim.length_dims, in_spatial_dim)
    if isinstance(repeats, int):
        repeats = full(dims=own, fill_value=repeats, dtype="int32", device="cpu")
    repeats = expand_dims(repeats, [dim for dim in own if dim not in repeats.dims])
    rest = tuple(dim for dim in repeats.dims if dim is not in_spatial_dim)
    counts = repeats.copy_masked(0).copy_transpose((*rest, in_spatial_dim)).numpy()
    if (counts < 0).any():
        raise value_error(
            "repeat: a negative count.",
            {"repeats": repeats},
            "A frame is repeated 0 times or more.",
            "rf.maximum(repeats, 0)",
        )
    lengths = counts.sum(-1).astype(np.int32)
    raw = values.backend.from_numpy(lengths, dtype="int32", device="cpu")
    needed = Dim(new_tensor(raw, rest), name=f"{in_spatial_dim.name}:repeated")
    out_spatial_dim = needed if out_spatial_dim is None else out_spatial_dim
    settle_size("repeat", out_spatial_dim, needed)
    positions = np.zeros((*full_shape(rest), out_spatial_dim.extent), np.int64)
    frames = np.arange(in_spatial_dim.extent)
    for row in np.ndindex(*full_shape(rest)):
        positions[row][: lengths[row]] = np.repeat(frames, counts[row])
    indices = values.backend.from_numpy(positions, dtype="int64", device=values.device)
    return gather(values, indices=new_tensor(indices, (*rest, out_spatial_dim)), axis=in_spatial_dim), out_spatial_dim
