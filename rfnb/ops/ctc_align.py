"""Forced alignment with CTC: which frames each label of a known sequence takes, and how probable it is there."""

from __future__ import annotations

from typing import NamedTuple, Never

from rfnb.core.dim import Dim
from rfnb.core.op import op
from rfnb.core.tensor import Tensor
from rfnb.ops.cast import cast
from rfnb.ops.ctc import ctc_best_path
from rfnb.ops.ctc_decode import _blank_in, _starts, _sum_at
from rfnb.ops.cumsum import cumsum
from rfnb.ops.default import copy_to_device
from rfnb.ops.dims import range_over_dim, set_sparse_dim
from rfnb.ops.gather import gather
from rfnb.ops.math import compare
from rfnb.ops.operands import need_tensors
from rfnb.ops.softmax import log_softmax
from rfnb.ops.where import where


class CtcAlignment(NamedTuple):
    """A forced alignment.

    Attributes:
        path: {..., input_spatial_dim}: label or blank of each frame.
        starts, ends: int32 {..., targets_spatial_dim}: first frame of each label, and the one after its last.
        scores: {..., targets_spatial_dim}: natural-log probability of each label, summed over its frames.
    """

    path: Tensor
    starts: Tensor
    ends: Tensor
    scores: Tensor


@op
def ctc_forced_align(
    *extra: Never,
    logits: Tensor,
    logits_normalized: bool = False,
    targets: Tensor,
    input_spatial_dim: Dim,
    targets_spatial_dim: Dim,
    blank_index: int,
    **unknown: Never,
) -> CtcAlignment:
    """The most probable alignment of `targets` to the frames, with the frames and the score of each label.

    Args:
        logits: {..., input_spatial_dim, classes}
        others: As of `ctc_best_path`.

    Returns:
        The path, starts, ends and scores, see `CtcAlignment`. A sequence that has no alignment has a path of blanks; its labels begin
        and end at 0 with the score 0.

    Raises:
        DimError, IndexError: As of `ctc_best_path`.

    Source: Graves et al. 2006, with max instead of the sum in equation (6); Kuerzinger et al. 2020, "CTC-Segmentation".
    """
    need_tensors("ctc_forced_align", logits, targets)
    path = ctc_best_path(
        logits=logits, logits_normalized=logits_normalized, targets=targets, input_spatial_dim=input_spatial_dim,
        targets_spatial_dim=targets_spatial_dim, blank_index=blank_index,
    )  # fmt: skip
    what, time, classes = "ctc_forced_align", input_spatial_dim, path.sparse_dim
    assert classes is not None
    blank = _blank_in(what, path, time, blank_index)
    path = path if path.device == logits.device else copy_to_device(path, logits.device)
    log_probs = logits if logits_normalized else log_softmax(logits, axis=classes)
    is_label, begins = compare(path, "not_equal", blank), cast(_starts(path, time, blank), "int32")
    place = set_sparse_dim(cumsum(begins, spatial_dim=time), None)
    frame = set_sparse_dim(range_over_dim(time, device=path.device), None)

    # The frames before the first label have a place of their own, which is dropped.
    with_first = 1 + targets_spatial_dim
    index = range_over_dim(targets_spatial_dim, device=path.device) + 1

    def per_label(values: Tensor) -> Tensor:
        summed, _ = _sum_at(what, values, set_sparse_dim(place, None), time, with_first, with_first)
        return gather(summed, indices=set_sparse_dim(index, with_first), axis=with_first)

    starts = per_label(frame * set_sparse_dim(begins, None))
    lengths = per_label(set_sparse_dim(cast(is_label, "int32"), None))
    scores = per_label(where(is_label, gather(log_probs, indices=path, axis=classes), 0.0))
    return CtcAlignment(path, starts, starts + lengths, scores)
