"""Labels as vectors over the classes."""

from __future__ import annotations

from typing import Any, Never

from rfnb.core.dim import Dim
from rfnb.core.errors import dim_error
from rfnb.core.fill_values import plain_number
from rfnb.core.layout import full_shape
from rfnb.core.op import op
from rfnb.core.tensor import Tensor, new_tensor
from rfnb.ops.cast import cast
from rfnb.ops.const import convert_to_tensor
from rfnb.ops.defaults import get_default_float_dtype
from rfnb.ops.index_range import check_integers, mended, on_host
from rfnb.ops.operands import need_tensors
from rfnb.ops.where import where


@op
def one_hot(source: Tensor, *extra: Never, **unknown: Never) -> Tensor:
    """1.0 at the index, 0.0 elsewhere; {dims of source, sparse_dim}, feature_dim is the sparse dim."""
    need_tensors("one_hot", source)
    return sparse_to_dense(source, label_value=1.0, other_value=0.0)


@op
def sparse_to_dense(
    labels: Tensor | int | Any,
    *extra: Never,
    label_value: Any,
    other_value: Any,
    axis: Dim | None = None,
    **unknown: Never,
) -> Tensor:
    """`label_value` at the index, `other_value` elsewhere, in the default float dtype.

    Args:
        labels: int {...}, or one label as a number.
        label_value, other_value: Python numbers, raw scalars, or Tensors, whose dims are added to the result.
        axis: Default: the sparse_dim.

    Returns:
        {..., axis}, with feature_dim axis.

    Raises:
        DimError: Without axis and sparse_dim.
    """
    if not isinstance(labels, Tensor):
        labels = convert_to_tensor(labels, dims=(), sparse_dim=axis)
    axis = axis or labels.sparse_dim
    if axis is None:
        raise dim_error(
            "sparse_to_dense: into which dim?",
            {"labels": labels},
            "The labels have no sparse_dim.",
            "rf.set_sparse_dim(labels, vocab)",
        )
    check_integers("sparse_to_dense", "labels", labels)
    dtype, values = get_default_float_dtype(), [plain_number(value) for value in (label_value, other_value)]
    of_tensors = any(isinstance(value, Tensor) for value in values)
    on, off = (1.0, 0.0) if of_tensors else values
    fn, labels = labels.backend.one_hot_raw, labels if on_host(labels.device) else labels.copy_masked(0)
    try:
        raw = fn(labels._raw, axis.extent, on, off, dtype)
    except (IndexError, RuntimeError) as error:
        if axis.extent == 0:  # no entries are wrong: a sequence without frames, which has none in a batch either
            raw = labels.backend.full_raw((*full_shape(labels.dims), 0), off, dtype=dtype, device=labels.device)
        else:
            labels = mended(error, "sparse_to_dense", "labels", labels, axis)
            raw = fn(labels._raw, axis.extent, on, off, dtype)
    out = new_tensor(raw, (*labels.dims, axis))
    if of_tensors:
        out = cast(where(out != 0.0, *values, allow_broadcast_all_sources=True), dtype)
    out.feature_dim = axis
    return out


@op
def smooth_one_hot(source: Tensor, *extra: Never, label_prob: float | Tensor, **unknown: Never) -> Tensor:
    """`label_prob` at the index, the remainder spread evenly over the other classes; {dims of source, sparse_dim}.

    Raises:
        DimError: If source has no sparse_dim.
    """
    need_tensors("smooth_one_hot", source)
    others = 1 if source.sparse_dim is None else max(source.sparse_dim.extent - 1, 1)
    return sparse_to_dense(source, label_value=label_prob, other_value=(1.0 - label_prob) / others)
