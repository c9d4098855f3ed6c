"""Connectionist temporal classification: the loss over all alignments of labels to frames, and the best alignment.

An alignment (path) has one label or blank per frame. It stands for the labels that are left when repetitions are merged and
then blanks dropped: `a a - a b b` stands for `a a b`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Never

import numpy as np

from rfnb.core.dim import Dim, Dims
from rfnb.core.errors import dim_error, index_error, message
from rfnb.core.layout import full_shape
from rfnb.core.op import op
from rfnb.core.place import warn_user
from rfnb.core.tensor import Tensor, new_tensor
from rfnb.core.tensor_checks import check_dim
from rfnb.core.tensor_text import operand_rows, shape_of
from rfnb.ops.defaults import is_float_dtype
from rfnb.ops.index_range import on_host
from rfnb.ops.loss import warn_below_zero
from rfnb.ops.operands import check_dtypes, common_backend, need_tensors
from rfnb.ops.sequence_pairs import common_batch, flat_batch, flat_lengths


@op
def ctc_loss(
    *extra: Never,
    logits: Tensor,
    logits_normalized: bool = False,
    targets: Tensor,
    input_spatial_dim: Dim,
    targets_spatial_dim: Dim,
    blank_index: int,
    max_approx: bool = False,
    use_native_op: bool | None = None,
    label_loop: bool = True,
    zero_infinity: bool | None = None,
    **unknown: Never,
) -> Tensor:
    """-log of the summed probability of all alignments of `targets` to the frames, in nats, per sequence.

    Args:
        logits: {..., input_spatial_dim, classes}. The classes (with blank) are its feature_dim; without one the sparse_dim of
            targets, or else the only dim that it does not share with targets.
        logits_normalized: The logits are log probabilities already. Their gradient is then that of the loss as it is, while
            `torch.nn.functional.ctc_loss` always gives the one of a log_softmax. Only then (or with max_approx, or without
            label_loop) is there a gradient of the gradient.
        targets: int {..., targets_spatial_dim}, without blanks; indices into the classes. Batch dims that only one of logits
            and targets has are broadcast.
        blank_index: Any index into the classes; from the end if negative, -1 is the last one.
        max_approx: The best alignment instead of the sum over all.
        use_native_op: Accepted; there is one implementation.
        label_loop: False: a label takes exactly one frame, all others are blank, and equal neighbours need no blank between
            them (the alignments of Sak et al. 2017). True: as described above.
        zero_infinity: What a sequence without any alignment costs, i.e. with fewer frames than labels (and blanks between equal ones).
            True: 0. False: infinity, as in torch. None: 0, with a warning if there is one. The gradient is 0 in any case.

    Returns:
        {...}: the batch dims. An empty target costs all blanks; without frames that is 0.

    Warns:
        UserWarning: For sequences that are too short for their labels, without zero_infinity. On a GPU only the lengths are compared,
            since the host would have to wait for the labels. Elsewhere also for blanks among the targets, and if normalized logits
            are no log probabilities, so that a loss is below 0.

    Raises:
        DimError: Unknown classes, batch dims that do not match, or labels that may not be indices into the classes.
        IndexError: A blank_index that is not one of the classes.

    Source: Graves et al. 2006, "Connectionist Temporal Classification", equations (3), (6)-(8) and (14); Sak et al. 2017,
    "Recurrent Neural Aligner", section 3, for label_loop=False.
    """
    need_tensors("ctc_loss", logits, targets)
    batch, out = _compute(
        "ctc_loss", logits, targets, input_spatial_dim, targets_spatial_dim, blank_index,
        normalized=logits_normalized, max_approx=max_approx, label_loop=label_loop, zero_infinity=zero_infinity,
    )  # fmt: skip
    return new_tensor(logits.backend.reshape_raw(out, full_shape(batch)), batch)


@op
def ctc_best_path(
    *extra: Never,
    logits: Tensor,
    logits_normalized: bool = False,
    targets: Tensor,
    input_spatial_dim: Dim,
    targets_spatial_dim: Dim,
    blank_index: int,
    label_loop: bool = True,
    **unknown: Never,
) -> Tensor:
    """The most probable alignment of `targets` to the frames (Viterbi).

    Arguments as for `ctc_loss`, which with max_approx returns its score.

    Returns:
        {..., input_spatial_dim}, the dtype of targets, sparse over the classes: label or blank of each frame. Of equally good paths,
            the one that advances later. All blank if there is no alignment.

    Raises:
        DimError, IndexError: As for `ctc_loss`.

    Warns:
        UserWarning: For sequences that are too short for their labels, as in `ctc_loss`.

    Source: Graves et al. 2006, with max instead of the sum in equation (6).
    """
    need_tensors("ctc_best_path", logits, targets)
    batch, out = _compute(
        "ctc_best_path", logits, targets, input_spatial_dim, targets_spatial_dim, blank_index,
        normalized=logits_normalized, label_loop=label_loop,
    )  # fmt: skip
    dims = (*batch, input_spatial_dim)
    path = new_tensor(logits.backend.reshape_raw(out, full_shape(dims)), dims)
    path.sparse_dim = _classes("ctc_best_path", logits, targets, input_spatial_dim)
    return path


def _compute(
    what: str, logits: Tensor, targets: Tensor, time: Dim, label: Dim, blank_index: int, **options: Any
) -> tuple[Dims, Any]:
    """The batch dims of the result, and the raw result [batch, ...]."""
    backend = common_backend(what, logits, targets)
    for name, tensor, dim in (("logits", logits, time), ("targets", targets, label)):
        check_dim(what, tensor, dim, name)
    classes = _classes(what, logits, targets, time)
    blank = blank_of(what, classes, blank_index)
    _check_labels(what, targets, classes, blank)
    batch = common_batch(what, ("logits", logits, (time, classes)), ("targets", targets, (label,)))
    kernel = backend.ctc_loss_raw if what == "ctc_loss" else backend.ctc_best_path_raw
    labels, lengths = flat_batch(targets, batch, (label,)), flat_lengths(what, time, batch)
    label_lengths = flat_lengths(what, label, batch)
    _warn_of_blanks(what, labels, label_lengths, blank, targets, label)
    if options.get("zero_infinity") is None:
        needed = label_lengths + _equal_neighbours(labels, label_lengths, backend, options["label_loop"])
        if (lengths < needed).any():
            _warn_of_short(
                what, operand_rows([("logits", logits), ("targets", targets)]), lengths, needed, label_lengths
            )
    if "zero_infinity" in options:
        options["zero_infinity"] = options["zero_infinity"] is not False
    if not is_float_dtype(logits.dtype):
        check_dtypes(what, logits=logits)
    out = kernel(flat_batch(logits, batch, (time, classes)), labels, lengths, label_lengths, blank=blank, **options)
    if what == "ctc_loss" and options["normalized"]:
        rows = lambda: [("logits", f"{shape_of(logits)}, logits_normalized"), ("targets", shape_of(targets))]  # noqa: E731
        fix = "rf.ctc_loss(..., logits_normalized=False)    # any numbers\nlogits = rf.safe_log(logits)                 # of probabilities"
        warn_below_zero(what, out, logits, rows, fix)
    return batch, out


def _warn_of_blanks(what: str, labels: Any, lengths: np.ndarray, blank: int, targets: Tensor, label: Dim) -> None:
    """Warn about blanks among the labels, on a host: an alignment inserts blanks between labels, and labels are never blanks."""
    if not on_host(targets.device):
        return
    host = targets.backend.raw_to_numpy(labels)
    bad = (host == blank) & (np.arange(host.shape[1]) < lengths[:, None])
    if not bad.any():
        return
    sequence, place = (int(index) for index in np.argwhere(bad)[0])
    name = label.name if label.name.isidentifier() else "labels"
    warn_user(
        message(
            f"{what}: {int(bad.sum())} of the targets {'is' if bad.sum() == 1 else 'are'} the blank.",
            {"targets": targets, "blank": blank, "first": f"sequence {sequence}, {label.name} {place}"},
            "Targets are labels alone; blanks come between them in an alignment. Say which class is the blank, or take them out:",
            f"blank_index=...\ntargets, {name} = rf.masked_select(targets, mask=targets != {blank}, dims=[{name}])",
        )
    )


def _equal_neighbours(labels: Any, lengths: np.ndarray, backend: Any, label_loop: bool) -> np.ndarray | int:
    """The number of blanks that a sequence needs between equal labels; 0 if that is unknown without waiting for a GPU."""
    if not label_loop or not lengths.size or not backend.is_on_host_raw(labels):
        return 0
    host = backend.raw_to_numpy(labels)
    inside = np.arange(1, host.shape[1]) < lengths[:, None]
    return ((host[:, 1:] == host[:, :-1]) & inside).sum(1)


def _warn_of_short(
    what: str, operands: Sequence[tuple[str, str]], frames: np.ndarray, needed: np.ndarray, labels: np.ndarray
) -> None:
    short = np.flatnonzero(frames < needed)
    first = short[0]
    many = lambda count, name: f"{count} {name}" + ("" if count == 1 else "s")  # noqa: E731
    row = f"sequence {first}: {many(frames[first], 'frame')} for {many(labels[first], 'label')}"
    if needed[first] != labels[first]:
        row += f" and {many(needed[first] - labels[first], 'blank')} between equal ones"
    count = f"{len(short)} of {len(frames)} sequences {'is' if len(short) == 1 else 'are'}"
    if what == "ctc_loss":
        rule = "They have no alignment, so they cost 0 and nothing is learned from them. State the intention to silence this warning:"
        fix = "rf.ctc_loss(..., zero_infinity=True)     # False: they cost infinity, with gradient 0"
    else:
        rule, fix = "They have no alignment, so their path is all blank.", None
    warn_user(message(f"{what}: {count} too short for the labels.", [*operands, ("first", row)], rule, fix))


def _classes(what: str, logits: Tensor, targets: Tensor, time: Dim) -> Dim:
    """The dim of the classes, see `ctc_loss`."""
    if logits.feature_dim is not None and logits.feature_dim is not time:
        return logits.feature_dim
    if targets.sparse_dim is not None and targets.sparse_dim in logits.dims:
        return targets.sparse_dim
    rest = [dim for dim in logits.dims if dim not in (time, *time.length_dims, *targets.dims)]
    if len(rest) == 1:
        return rest[0]
    raise dim_error(
        f"{what}: which dim of logits has the classes?",
        operand_rows([("logits", logits), ("targets", targets)]),
        "It is the feature_dim. Mark it:",
        "logits.feature_dim = ...",
    )


def blank_of(what: str, classes: Dim, blank_index: int) -> int:
    """blank_index as a non-negative index.

    Raises:
        IndexError: If it is not an index into `classes`.
    """
    if not -classes.extent <= blank_index < classes.extent:
        raise index_error(
            f"{what}: blank_index {blank_index} is not one of the classes.",
            {"classes": classes},
            "The blank is one of the classes; -1 is the last one.",
        )
    return blank_index % classes.extent


def _check_labels(what: str, targets: Tensor, classes: Dim, blank: int) -> None:
    """Check that labels without a sparse dim that includes the blank are indices into the classes, which holds only if the blank comes
    after them.
    """
    labels = targets.sparse_dim
    if labels is None or labels is classes or labels.extent == classes.extent:
        return
    if labels.extent > classes.extent or (labels.extent == classes.extent - 1 and blank < labels.extent):
        raise dim_error(
            f"{what}: the labels may not be indices into the classes.",
            {
                "targets": f"{shape_of(targets)} over {labels.short_repr()}",
                "classes": classes,
                "blank": blank,
            },
            f"Labels without a blank are only the same in {classes.name} if the blank is the last of it.\n"
            "If the targets count the blank, say what they are over:",
            f"targets = rf.set_sparse_dim(targets, {classes.name})",
        )
