"""Which values the options of a choice may have."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from rfnb.core.beam_dim import BeamDim
from rfnb.core.dim import Dim
from rfnb.core.errors import DimError, message
from rfnb.core.tensor import Tensor
from rfnb.core.tensor_text import shape_of


def whole_beam_size(beam_size: Any) -> int:
    """The number of hypotheses.

    Raises:
        ValueError: If it is no whole number, or none at all.
    """
    size = _whole(beam_size)
    if size is None or size < 1:
        raise ValueError(
            f"choice: {'no beam_size' if beam_size is None else f'beam_size {beam_size!r}'}.\n"
            "At least one hypothesis goes on.\n    rf.choice(scores, beam_size=5)"
        )
    return size


def no_labels_dim(what: str, scores: Tensor) -> DimError:
    """The error for scores of which nobody has said which dim has the labels."""
    return DimError(
        message(f"{what}: which dim of scores has the labels?", [("scores", shape_of(scores))],
                "It has no feature_dim, so name the dim of the labels:", f"rf.{what}(..., axis=...)")
    )  # fmt: skip


def check_limits(
    *,
    threshold: float | None,
    no_repeat_ngram: Any,
    keep_candidates: Any,
    length_exponent: float | None,
    end_label: Any,
) -> None:
    """Limits are numbers that mean something.

    Raises:
        ValueError: For one that does not.
    """
    if threshold is not None and not threshold >= 0:
        raise ValueError(
            f"choice: threshold {threshold}.\nIt is how much worse than the best hypothesis another one may be, 0 or more.\n"
            "    rf.choice(scores, beam_size=8, threshold=5.0)"
        )
    for length in no_repeat_ngram if isinstance(no_repeat_ngram, (list, tuple)) else [no_repeat_ngram]:
        if length is not None and (_whole(length) is None or length < 0):
            raise ValueError(
                f"choice: no_repeat_ngram {length}.\nIt is a number of labels in a row, or 0.\n"
                "    rf.choice(scores, no_repeat_ngram=3, ...)"
            )
    if keep_candidates is not None and (_whole(keep_candidates) is None or keep_candidates < 0):
        raise ValueError(f"choice: keep_candidates {keep_candidates}.\nIt is a number of candidates, 0 or more.")
    if not isinstance(end_label, (list, tuple)) and _whole(end_label) is None:
        raise ValueError(
            f"choice: end_label {end_label!r}.\nIt is the index of a label.\n    rf.choice(scores, end_label=0, ...)"
        )
    if length_exponent is not None and not np.isfinite(length_exponent):
        raise ValueError(f"choice: length_normalization_exponent={length_exponent}.\nAn exponent is a finite number.")


def _whole(number: Any) -> int | None:
    if isinstance(number, (bool, Tensor)):
        return None
    try:
        return operator.index(number)
    except TypeError:
        return None


def check_scores(scores: Any) -> None:
    """Scores are a Tensor.

    Raises:
        TypeError: If they are not.
    """
    if not isinstance(scores, Tensor):
        raise TypeError(
            message("choice: the scores are no Tensor.", [("scores", type(scores).__name__)],
                    "A choice has to know which dim has the labels.", "rf.convert_to_tensor(scores, dims=[batch, vocab])")
        )  # fmt: skip


def check_fused(name: str, entry: Any, scores: Tensor, axis: Dim) -> None:
    """The scores of another model are over the labels of the choice.

    Raises:
        DimError: If they are over others.
        TypeError: If the entry is no pair of a Tensor and a scale.
        ValueError: If the scale is no finite number.
    """
    pair = isinstance(entry, (tuple, list)) and len(entry) == 2
    if not pair or not isinstance(entry[0], Tensor):
        raise TypeError(
            message(f'choice: fusion "{name}" has no scores.', [(name, type(entry[0] if pair else entry).__name__)],
                    "Each entry is the log probabilities of a model and their scale.", f'fusion={{"{name}": (log_prob, 0.5)}}')
        )  # fmt: skip
    other, scale = entry
    if not np.isfinite(scale):
        raise ValueError(f'choice: fusion "{name}" has the scale {scale}.\nA scale is a finite number.')
    further = [dim for dim in other.dims if dim not in scores.dims and not isinstance(dim, BeamDim)]
    if axis in other.dims and not further:
        return
    labels = next((dim for dim in further if dim.extent == axis.extent), None)
    rule = "The model has to have the labels of the choice, in the same order: they are the same dim."
    fix = None
    if labels is not None:
        rule += "\nIf they are the same labels, replace one dim by the other:"
        fix = f"log_prob, _ = rf.replace_dim(log_prob, in_dim={labels.name}, out_dim={axis.name})"
    raise DimError(
        message(f'choice: fusion "{name}" is over other labels.',
                [("scores", shape_of(scores)), (name, shape_of(other)), ("labels", axis.short_repr())], rule, fix)
    )  # fmt: skip


def check_mask(mask: Tensor, scores: Tensor, axis: Dim) -> None:
    """A mask of banned labels is a bool over them.

    Raises:
        DimError: If it is over other dims.
        TypeError: If it is no bool.
    """
    if mask.dtype != "bool":
        raise TypeError(
            message("choice: the mask of banned labels is no bool.", [("banned", f"{shape_of(mask)} {mask.dtype}")],
                    "It is True for labels that are not chosen.", "banned=mask > 0")
        )  # fmt: skip
    if axis not in mask.dims or any(dim not in scores.dims and not isinstance(dim, BeamDim) for dim in mask.dims):
        raise DimError(
            message("choice: the mask of banned labels is over other dims.",
                    [("scores", shape_of(scores)), ("banned", shape_of(mask)), ("labels", axis.short_repr())],
                    "It says of each label whether it is banned: {..., labels}.")
        )  # fmt: skip
