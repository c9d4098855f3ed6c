"""Label smoothing through the gradient, for any loss on log probabilities."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Never

import numpy as np

from rfnb.core.dim import Dim
from rfnb.core.errors import dim_error, index_error
from rfnb.core.op import op
from rfnb.core.tensor import Tensor
from rfnb.core.tensor_checks import check_dim
from rfnb.ops.const import convert_to_tensor
from rfnb.ops.gradient import shifted_gradient
from rfnb.ops.math import combine_bc
from rfnb.ops.operands import need_tensors
from rfnb.ops.where import where


@op
def label_smoothed_log_prob_gradient(
    log_prob: Tensor,
    smoothing: float | Tensor,
    *extra: Never,
    axis: Dim | None = None,
    exclude_labels: Sequence[int] | None = None,
    **unknown: Never,
) -> Tensor:
    """The same log probabilities, with the gradient that smoothed labels would produce.

    The gradient of a cross entropy with respect to log_prob is -target. So the gradient of any other loss, e.g. of `ctc_loss` with
    logits_normalized=True, is also minus a distribution over the labels, and it is smoothed here as in `label_smoothing`: each label
    keeps 1 - smoothing and receives smoothing / (n - 1) from each other one.

    Args:
        log_prob: {..., axis}
        smoothing: Fraction of the mass that a label gives away; a Tensor has some of the other dims of log_prob.
        axis: The dim of the n labels. Default: feature_dim.
        exclude_labels: Indices that neither give nor receive mass, e.g. blank or end of sequence; n is the number of the others.

    Returns:
        {..., axis}. The sum of the gradient over axis stays the same.

    Raises:
        DimError: If the dim of the labels is unknown, or log_prob lacks it.
        IndexError: If an excluded label is out of range.
    """
    need_tensors("label_smoothed_log_prob_gradient", log_prob)
    axis = axis or log_prob.feature_dim
    if axis is None:
        raise dim_error(
            "label_smoothed_log_prob_gradient: over which dim?",
            {"log_prob": log_prob},
            "It has no feature_dim, so name the labels:",
            "rf.label_smoothed_log_prob_gradient(..., axis=...)",
        )
    check_dim("label_smoothed_log_prob_gradient", log_prob, axis, "log_prob")
    excluded = np.zeros(axis.extent, bool)
    for label in exclude_labels or ():
        if not -axis.extent <= label < axis.extent:
            raise index_error(
                f"label_smoothed_log_prob_gradient: no label {label} to exclude.",
                {"axis": axis},
                "The excluded labels are indices into the axis.",
            )
        excluded[label] = True
    count = int((~excluded).sum())
    if count < 2 or not isinstance(smoothing, Tensor) and smoothing == 0:  # nobody to give to
        return log_prob
    other = smoothing / (count - 1)
    scale = 1 - smoothing - other
    if not excluded.any():
        return shifted_gradient(log_prob, scale, other, axis, absolute=False)
    # By `where` the gradient of excluded labels goes past the smoothing, so that its sum is over the others only.
    kept = convert_to_tensor(~excluded, dims=[axis], dtype=log_prob.dtype, device=log_prob.device)
    shift = combine_bc(kept, "mul", other)
    smoothed = shifted_gradient(log_prob, scale, shift, axis, absolute=False)
    mask = convert_to_tensor(excluded, dims=[axis], device=log_prob.device)
    return where(mask, log_prob, smoothed)
