"""A branch on a value that may be a Tensor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Never

from rfnb.core.call_errors import no_keyword
from rfnb.core.errors import type_error
from rfnb.core.tensor import Tensor
from rfnb.core.tensor_text import shape_of


def cond(
    pred: bool | Tensor, true_fn: Callable[[], Any], false_fn: Callable[[], Any], *extra: Never, **unknown: Never
) -> Any:
    """true_fn() if pred, else false_fn(); only one of them runs.

    Args:
        pred: A bool, or a scalar bool Tensor, which is read by the host.

    Raises:
        TypeError: If pred is a Tensor with dims, or not bool.
    """
    if extra or unknown:
        raise no_keyword(unknown)
    return true_fn() if truth("cond", pred) else false_fn()


def truth(what: str, pred: bool | Tensor) -> bool:
    """A scalar bool Tensor as Python bool."""
    if not isinstance(pred, Tensor):
        return bool(pred)
    if pred.dims or pred.dtype != "bool":
        raise type_error(
            f"{what}: not one bool.",
            [("pred", f"{shape_of(pred)} {pred.dtype}")],
            "A branch is taken for all sequences at once. To choose for each of them:",
            "rf.where(pred, a, b)",
        )
    return bool(pred.numpy())
