"""Ranges: numbers along dims."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Never

from rfnb.core.dim import Dim
from rfnb.core.errors import value_error
from rfnb.core.op import op
from rfnb.core.tensor import Tensor
from rfnb.ops import math
from rfnb.ops.cast import cast
from rfnb.ops.defaults import get_default_float_dtype
from rfnb.ops.dims import range_over_dim
from rfnb.ops.out_dim import settle_size


@op
def range_over_dim_strided(
    dim: Dim,
    *extra: Never,
    stride: int | Tensor,
    out_dim: Dim | None = None,
    dtype: str | None = None,
    device: str | None = None,
    **unknown: Never,
) -> tuple[Tensor, Dim]:
    """0, stride, 2 * stride, ... below the size of `dim`. A Tensor as stride is read on the host.

    Returns:
        {out_dim}, sparse over dim if integers; out_dim, by default dim / stride rounded up.

    Raises:
        DimError: If out_dim has another size.
    """
    stride = int(stride)
    strided = dim.ceildiv_right(stride)
    out_dim = strided if out_dim is None else out_dim
    settle_size("range_over_dim_strided", out_dim, strided)
    out = range_over_dim(out_dim, dtype=dtype, device=device) * stride
    out.sparse_dim = None if out.dtype.startswith("float") else dim
    return out, out_dim


@op
def range_over_merged_dims(
    dims: Sequence[Dim], *extra: Never, dtype: str | None = None, device: str | None = None, **unknown: Never
) -> Tensor:
    """For each position over `dims` (first is major) its index in the merged dim; {dims}, int32 by default.

    Indices include the padding, like the raw array made by `merge_dims`.

    Raises:
        ValueError: Without dims.
    """
    if not dims:
        raise value_error(
            "range_over_merged_dims: no dims.",
            {"dims": "none"},
            "An index needs at least one dim.",
            "rf.range_over_merged_dims([a, b])",
        )
    out = range_over_dim(dims[0], dtype=dtype, device=device)
    for dim in dims[1:]:
        out = math.combine_bc(out * dim.extent, "add", range_over_dim(dim, dtype=dtype, device=device))
    out = out.copy_transpose(list(dims))
    out.sparse_dim = dims[0] if len(dims) == 1 else None
    return out


@op
def linspace_over_dim(
    dim: Dim,
    start: float | Tensor = 0.0,
    end: float | Tensor = 1.0,
    *extra: Never,
    dtype: str | None = None,
    device: str | None = None,
    **unknown: Never,
) -> Tensor:
    """Even steps from `start` towards `end`, which is excluded; {dim}, for a ragged dim {length dims, dim}: the steps of each sequence
    depend on its own length, so that the batch does not matter.

    Args:
        start, end: Numbers, or Tensors without dim.
        device: Device of the result; by default that of start and end, or else the default device.
    """
    dtype = dtype or get_default_float_dtype()
    device = device or next((end.device for end in (start, end) if isinstance(end, Tensor)), None)
    steps = range_over_dim(dim, dtype=dtype, device=device)
    if dim.need_masking():
        lengths = cast(dim.get_size_tensor(device=steps.device), dtype)
        fraction = math.combine_bc(steps, "truediv", math.maximum(lengths, 1))
    else:
        fraction = steps / max(dim.extent, 1)
    if not isinstance(start, Tensor) and not isinstance(end, Tensor):
        return fraction * (end - start) + start
    return math.combine_bc(math.combine_bc(fraction, "mul", end - start), "add", start)
