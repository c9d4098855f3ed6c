"""Checks that scores, scores of other models, and masks match."""

from __future__ import annotations

from typing import Any

import numpy as np

from rfnb.core.beam_dim import BeamDim
from rfnb.core.dim import Dim
from rfnb.core.errors import DimError, dim_error, type_error
from rfnb.core.tensor import Tensor
from rfnb.core.tensor_text import shape_of


def no_labels_dim(what: str, scores: Tensor) -> DimError:
    """The error for scores whose label dim is unknown."""
    return dim_error(
        f"{what}: which dim of scores has the labels?",
        {"scores": scores},
        "It has no feature_dim, so name the dim of the labels:",
        f"rf.{what}(..., axis=...)",
    )


def check_scores(scores: Any) -> None:
    """Check that scores are a Tensor.

    Raises:
        TypeError: If they are not.
    """
    if not isinstance(scores, Tensor):
        raise type_error(
            "choice: the scores are no Tensor.",
            {"scores": type(scores).__name__},
            "A choice has to know which dim has the labels.",
            "rf.convert_to_tensor(scores, dims=[batch, vocab])",
        )


def check_fused(name: str, entry: Any, scores: Tensor, axis: Dim) -> None:
    """Check that the scores of another model are over the labels of the choice.

    Raises:
        DimError: If they are over other labels.
        TypeError: If the entry is not a pair of a Tensor and a scale.
        ValueError: If the scale is not a finite number.
    """
    pair = isinstance(entry, (tuple, list)) and len(entry) == 2
    if not pair or not isinstance(entry[0], Tensor):
        raise type_error(
            f'choice: fusion "{name}" has no scores.',
            {name: type(entry[0] if pair else entry).__name__},
            "Each entry is the log probabilities of a model and their scale.",
            f'fusion={{"{name}": (log_prob, 0.5)}}',
        )
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
    raise dim_error(
        f'choice: fusion "{name}" is over other labels.',
        [("scores", scores), (name, other), ("labels", axis)],
        rule,
        fix,
    )


def check_mask(mask: Tensor, scores: Tensor, axis: Dim) -> None:
    """Check that a mask of banned labels is bool and over the labels.

    Raises:
        DimError: If it is over other dims.
        TypeError: If it is not bool.
    """
    if mask.dtype != "bool":
        raise type_error(
            "choice: the mask of banned labels is no bool.",
            {"banned": f"{shape_of(mask)} {mask.dtype}"},
            "It is True for labels that are not chosen.",
            "banned=mask > 0",
        )
    if axis not in mask.dims or any(dim not in scores.dims and not isinstance(dim, BeamDim) for dim in mask.dims):
        raise dim_error(
            "choice: the mask of banned labels is over other dims.",
            {"scores": scores, "banned": mask, "labels": axis},
            "It says of each label whether it is banned: {..., labels}.",
        )
