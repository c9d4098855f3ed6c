"""Forced alignment with a transducer: the frame in which each label of a known sequence is emitted."""

from __future__ import annotations

import numpy as np

from rfnb.core.dim import Dim
from rfnb.core.layout import full_shape
from rfnb.core.tensor import Tensor, new_tensor
from rfnb.core.tensor_checks import check_dim
from rfnb.ops.cast import cast
from rfnb.ops.ctc import blank_of
from rfnb.ops.operands import need_tensors
from rfnb.ops.sequence_pairs import common_batch, flat_batch, flat_lengths
from rfnb.ops.softmax import log_softmax


def transducer_forced_align(
    logits: Tensor,
    targets: Tensor,
    *,
    in_spatial_dim: Dim,
    targets_spatial_dim: Dim,
    wb_target_dim: Dim,
    blank_index: int,
    logits_normalized: bool = False,
) -> tuple[Tensor, Tensor]:
    """The most probable alignment of `targets`: the frame of each label, and the score of the alignment.

    It runs on the host and has no gradient.

    Args:
        logits: {..., in_spatial_dim, targets_spatial_dim + 1, wb_target_dim}: scores of the next step, in each frame and after each
            number of labels.
        targets: int {..., targets_spatial_dim}, indices into wb_target_dim, without blanks.
        wb_target_dim: The dim of the labels, including the blank.
        blank_index: Index of the blank; negative values count from the end.
        logits_normalized: The logits are log probabilities already.

    Returns:
        int32 {..., targets_spatial_dim}: frames, non-decreasing, the latest of equally good ones; float32 {...}: natural log, -inf
            for
        a sequence with labels and without frames.

    Raises:
        DimError: If logits or targets lack a dim, or their batch dims do not match.
        IndexError: If blank_index is out of range.

    Source: Graves 2012, "Sequence Transduction with Recurrent Neural Networks", section 2.4, with max instead of the sum.
    """
    need_tensors("transducer_forced_align", logits, targets)
    what, time, label, place = "transducer_forced_align", in_spatial_dim, targets_spatial_dim, targets_spatial_dim + 1
    for dim in (time, place, wb_target_dim):
        check_dim(what, logits, dim, "logits")
    check_dim(what, targets, label, "targets")
    blank = blank_of(what, wb_target_dim, blank_index)
    scores = cast(logits, "float32")
    if not logits_normalized:
        scores = log_softmax(scores, axis=wb_target_dim)
    batch = common_batch(what, ("logits", logits, (time, place, wb_target_dim)), ("targets", targets, (label,)))
    to_host = logits.backend.raw_to_numpy
    values = to_host(flat_batch(scores, batch, (time, place, wb_target_dim))).astype(np.float64)
    labels = to_host(flat_batch(targets, batch, (label,)))
    frame_counts, label_counts = flat_lengths(what, time, batch), flat_lengths(what, label, batch)
    frames, total = np.zeros(labels.shape, np.int32), np.zeros(len(values), np.float32)
    for seq, (num_frames, num_labels) in enumerate(zip(frame_counts, label_counts)):
        own = values[seq, :num_frames, : num_labels + 1]
        wanted = labels[seq, :num_labels]
        frames[seq, :num_labels], total[seq] = frames_of_labels(own[:, :, blank], own[:, np.arange(num_labels), wanted])
    make, device = logits.backend.from_numpy, logits.device
    shapes = full_shape((*batch, label)), full_shape(batch)
    return (
        new_tensor(make(frames.reshape(shapes[0]), dtype="int32", device=device), (*batch, label)),
        new_tensor(make(total.reshape(shapes[1]), dtype="float32", device=device), batch),
    )


def frames_of_labels(blank: np.ndarray, label: np.ndarray) -> tuple[np.ndarray, float]:
    """The frames [labels] and score of the best alignment, from scores of the blank [frame, labels + 1] and of the next label [frame,
    labels].
    """
    num_frames, num_labels = label.shape
    frames = np.zeros(num_labels, np.int32)
    if not num_frames:
        return frames, -np.inf if num_labels else 0.0
    best = np.full((num_frames, num_labels + 1), -np.inf)
    best[0, 0] = 0
    for frame in range(num_frames):
        row = (best[frame - 1] + blank[frame - 1] if frame else best[0]).tolist()
        for count, score in enumerate(label[frame].tolist(), 1):
            row[count] = max(row[count], row[count - 1] + score)
        best[frame] = row
    frame, count = num_frames - 1, num_labels
    while count:
        by_label = best[frame, count - 1] + label[frame, count - 1]
        by_blank = best[frame - 1, count] + blank[frame - 1, count] if frame else -np.inf
        if by_label >= by_blank:
            count -= 1
            frames[count] = frame
        else:
            frame -= 1
    return frames, float(best[-1, -1] + blank[-1, -1])
