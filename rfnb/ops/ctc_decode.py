"""CTC alignments: the best one of known labels, the labels of an alignment, and the duration of each label and blank."""

from __future__ import annotations

from typing import NamedTuple, Never

from rfnb.core.dim import Dim
from rfnb.core.errors import dim_error, index_error, message
from rfnb.core.layout import full_shape
from rfnb.core.op import op
from rfnb.core.tensor import Tensor
from rfnb.core.tensor_checks import check_dim
from rfnb.ops.assertion import assert_
from rfnb.ops.cast import cast
from rfnb.ops.ctc import blank_of, ctc_best_path
from rfnb.ops.cumsum import cumsum
from rfnb.ops.defaults import copy_to_device
from rfnb.ops.dims import range_over_dim, set_sparse_dim
from rfnb.ops.gather import gather
from rfnb.ops.mask_packing import masked_select
from rfnb.ops.math import clip_by_value, compare, logical_and
from rfnb.ops.operands import need_tensors
from rfnb.ops.reduce import reduce_all, reduce_argmax, reduce_sum
from rfnb.ops.scatter import scatter
from rfnb.ops.shift import shift_right
from rfnb.ops.softmax import log_softmax
from rfnb.ops.where import where


@op
def ctc_greedy_decode(
    logits: Tensor,
    *extra: Never,
    in_spatial_dim: Dim,
    blank_index: int,
    out_spatial_dim: Dim | None = None,
    target_dim: Dim | None = None,
    wb_target_dim: Dim | None = None,
    **unknown: Never,
) -> tuple[Tensor, Dim]:
    """The labels of the frame-by-frame best alignment: repetitions merged, blanks dropped.

    Args:
        logits: {..., in_spatial_dim, wb_target_dim}
        blank_index: Index of the blank; negative values count from the end.
        out_spatial_dim: The dim of the labels in time. Default: a new dim.
        target_dim: The sparse dim of the result. Default: wb_target_dim. Without the blank it has one class less, and the blank must
            be the last class.
        wb_target_dim: The classes with blank. Default: the feature_dim of logits.

    Returns:
        int64 {..., out_spatial_dim}, out_spatial_dim, ragged over the batch dims. The host reads the lengths.

    Raises:
        DimError: If the dim of the classes is unknown, or target_dim does not match it.
        IndexError: If blank_index is out of range.

    Source: Graves et al. 2006, section 3.2, "best path decoding".
    """
    need_tensors("ctc_greedy_decode", logits)
    classes = wb_target_dim or logits.feature_dim
    if classes is None:
        raise dim_error(
            "ctc_greedy_decode: which dim of logits has the classes?",
            {"logits": logits},
            "It has no feature_dim, so name the classes:",
            "rf.ctc_greedy_decode(..., wb_target_dim=...)",
        )
    for dim in (in_spatial_dim, classes):
        check_dim("ctc_greedy_decode", logits, dim, "logits")
    blank = blank_of("ctc_greedy_decode", classes, blank_index)
    if (
        target_dim is not None
        and target_dim.extent != classes.extent
        and (blank, classes.extent - 1) != (target_dim.extent,) * 2
    ):
        raise dim_error(
            "ctc_greedy_decode: target_dim does not fit the classes.",
            {"target_dim": target_dim, "classes": classes, "blank": blank},
            "Without the blank there is one class less, and the others only keep their index if the blank is the last one.",
            f"rf.ctc_greedy_decode(..., target_dim={classes.name})",
        )
    path = reduce_argmax(logits, axis=classes)
    starts = _starts(path, in_spatial_dim, blank)
    labels, out_spatial_dim = masked_select(path, mask=starts, dims=[in_spatial_dim], out_dim=out_spatial_dim)
    return set_sparse_dim(labels, target_dim or classes), out_spatial_dim


@op
def ctc_durations_from_path(
    *extra: Never,
    path: Tensor,
    path_spatial_dim: Dim,
    blank_index: int,
    targets_spatial_dim: Dim | None = None,
    out_spatial_dim: Dim | None = None,
    check_dims: bool = True,
    stop_on_failed_check: bool = True,
    **unknown: Never,
) -> tuple[Tensor, Dim]:
    """The number of frames for blank, label 1, blank, label 2, ..., blank in an alignment.

    Args:
        path: int {..., path_spatial_dim}, e.g. from `ctc_best_path`. Equal neighbours are one label.
        blank_index: Index of the blank; negative values count from the end, which requires the sparse_dim of path.
        targets_spatial_dim: The dim of the labels. By default, or without size, the host counts the labels.
        out_spatial_dim: Dim of the result. Default: 2 * targets_spatial_dim + 1, from dim arithmetic.
        check_dims: Check that the paths have as many labels as targets_spatial_dim.
        stop_on_failed_check: False only warns. See `assert_`.

    Returns:
        int32 {..., out_spatial_dim}, out_spatial_dim. The durations of a sequence sum to its number of frames; those of labels are
            at least 1, those of blanks may be 0.

    Raises:
        DimError: If path lacks path_spatial_dim, or out_spatial_dim has another size.
        AssertionError: If the check fails.
    """
    need_tensors("ctc_durations_from_path", path)
    what = "ctc_durations_from_path"
    blank = _blank_in(what, path, path_spatial_dim, blank_index)
    starts, is_label = _starts(path, path_spatial_dim, blank), compare(path, "not_equal", blank)
    count = cast(starts, "int32")
    targets_spatial_dim = _labels_dim(
        what, count, path_spatial_dim, targets_spatial_dim, check_dims, stop_on_failed_check
    )
    # After n starts: the n-th label is at 2n - 1, the blank after it at 2n.
    place = cumsum(count, spatial_dim=path_spatial_dim) * 2 - cast(is_label, "int32")
    ones = cast(compare(path, "equal", path), "int32")
    return _sum_at(what, ones, place, path_spatial_dim, out_spatial_dim, 2 * targets_spatial_dim + 1)


@op
def ctc_no_label_loop_blank_durations_from_path(
    *extra: Never,
    path: Tensor,
    path_spatial_dim: Dim,
    blank_index: int,
    targets_spatial_dim: Dim | None = None,
    out_spatial_dim: Dim | None = None,
    check_dims: bool = True,
    stop_on_failed_check: bool = True,
    **unknown: Never,
) -> tuple[Tensor, Dim]:
    """The number of blanks before each label and after the last one, in an alignment in which each label takes one frame.

    Arguments and errors as for `ctc_durations_from_path`, except that equal neighbours are two labels, and out_spatial_dim defaults to
    targets_spatial_dim + 1.

    Returns:
        int32 {..., out_spatial_dim}, out_spatial_dim. The sum over a sequence is its number of frames minus its number of labels.
    """
    need_tensors("ctc_no_label_loop_blank_durations_from_path", path)
    what = "ctc_no_label_loop_blank_durations_from_path"
    blank = _blank_in(what, path, path_spatial_dim, blank_index)
    count = cast(compare(path, "not_equal", blank), "int32")
    targets_spatial_dim = _labels_dim(
        what, count, path_spatial_dim, targets_spatial_dim, check_dims, stop_on_failed_check
    )
    place = cumsum(count, spatial_dim=path_spatial_dim)
    return _sum_at(what, 1 - count, place, path_spatial_dim, out_spatial_dim, targets_spatial_dim + 1)


def _starts(path: Tensor, time: Dim, blank: int) -> Tensor:
    """bool {..., time}: True where a label starts."""
    before = shift_right(path, axis=time, pad_value=blank)
    return logical_and(compare(path, "not_equal", before), compare(path, "not_equal", blank))


def _blank_in(what: str, path: Tensor, time: Dim, blank_index: int) -> int:
    check_dim(what, path, time, "path")
    if path.sparse_dim is not None:
        return blank_of(what, path.sparse_dim, blank_index)
    if blank_index < 0:
        raise index_error(
            f"{what}: blank_index {blank_index} counts from the end.",
            {"path": path},
            "The path has no sparse_dim, so the number of classes is unknown:",
            "path = rf.set_sparse_dim(path, ...)",
        )
    return blank_index


def _labels_dim(what: str, count: Tensor, time: Dim, dim: Dim | None, check: bool, stop: bool) -> Dim:
    """The dim of the labels, from the number of labels that start in each frame; a given one is checked."""
    total = reduce_sum(count, axis=time)
    total.sparse_dim = None
    dim = Dim(None, name="labels") if dim is None else dim
    if not dim.is_dim_known():
        dim.dyn_size_ext = total.copy_masked(0)
    elif check:
        sizes = dim.get_size_tensor(device=total.device)
        same = compare(total, "equal", sizes, allow_broadcast_all_sources=True)
        text = message(
            f"{what}: the paths have other numbers of labels than targets_spatial_dim.",
            {"path": f"over {time.short_repr()}", "targets_spatial_dim": dim},
            "A path of these targets has each of them once.",
            f"rf.{what}(..., check_dims=False)",
        )
        assert_(reduce_all(same, axis=same.dims), text, stop=stop)
    return dim


def _sum_at(
    what: str, values: Tensor, place: Tensor, time: Dim, out_dim: Dim | None, needed: Dim
) -> tuple[Tensor, Dim]:
    """The values of the frames summed by their place."""
    out_dim = needed if out_dim is None else out_dim
    if not out_dim.is_dim_known():
        out_dim.dyn_size_ext = needed.get_size_tensor()
    elif out_dim.extent != needed.extent and 0 not in full_shape(needed.length_dims):  # any size fits no sequence
        raise dim_error(
            f"{what}: out_spatial_dim has another size.",
            {"out_spatial_dim": out_dim, "needed": needed},
            "An out_spatial_dim fits, or has no size yet and takes it over.",
            f'Dim(None, name="{out_dim.name}")',
        )
    values.sparse_dim = place.sparse_dim = None
    place = clip_by_value(where(compare(place, "less", 0), 0, place), 0, out_dim.extent - 1)
    return scatter(values, indices=place, indices_dim=time, out_dim=out_dim), out_dim


class CtcAlignment(NamedTuple):
    """A forced alignment.

    Attributes:
        path: {..., input_spatial_dim}: label or blank of each frame.
        starts, ends: int32 {..., targets_spatial_dim}: the first frame of each label, and the frame after its last one.
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
        others: As for `ctc_best_path`.

    Returns:
        The path, starts, ends and scores, see `CtcAlignment`. A sequence without an alignment has a path of blanks; its labels begin
            and end at 0 with score 0.

    Raises:
        DimError, IndexError: As for `ctc_best_path`.

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
