"""Dropout, in training only."""

from __future__ import annotations

from collections.abc import Sequence

from rfnb.core.dim import Dim
from rfnb.core.tensor import Tensor
from rfnb.nn import run_ctx
from rfnb.ops.random import drop


def dropout(
    source: Tensor, drop_prob: float, *, axis: Dim | Sequence[Dim] | None = None, on_forward: bool = False
) -> Tensor:
    """In training: zero with probability `drop_prob`, scale the rest by 1 / (1 - drop_prob). Else: source itself.

    Args:
        axis: The dims with independent choices; the others share them. None: all are independent.
        on_forward: Also outside of training.

    Raises:
        ValueError: If drop_prob is not in [0, 1).

    Source: Srivastava et al. 2014, section 4.
    """
    if not 0 <= drop_prob < 1:
        raise ValueError(
            f"dropout: drop_prob {drop_prob}.\nA probability from 0 up to, not including, 1.\n    rf.dropout(x, 0.1)"
        )
    if drop_prob == 0 or not (on_forward or run_ctx.get_run_ctx().is_train_flag_enabled(func=dropout)):
        return source
    return drop(source, drop_prob, axis=axis)
