"""Dropout."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Never

from rfnb.core.dim import Dim
from rfnb.core.errors import type_error, value_error
from rfnb.core.tensor import Tensor
from rfnb.core.type_errors import not_a_tensor
from rfnb.nn.run import run_ctx
from rfnb.ops.random import drop


def dropout(
    source: Tensor,
    drop_prob: float | Tensor,
    *extra: Never,
    axis: Dim | Sequence[Dim] | bool | None = None,
    on_forward: bool = False,
    **unknown: Never,
) -> Tensor:
    """In training, zero entries with probability `drop_prob` and scale the rest by 1 / (1 - drop_prob); otherwise return source itself.

    {...} -> {...}.

    Args:
        drop_prob: A number, or a Tensor {some of the dims}, e.g. from a schedule.
        axis: The dims with independent draws; the other dims share them. None or False: all entries are independent. So
            `axis=broadcast and feature_dim` drops whole features if broadcast is set.
        on_forward: Apply dropout outside of training too.

    Raises:
        ValueError: If drop_prob is not in [0, 1).
        TypeError: If axis is True.

    Source: Srivastava et al. 2014, section 4.
    """
    if not isinstance(source, Tensor):
        raise not_a_tensor("dropout", source)
    is_number = not isinstance(drop_prob, Tensor)
    if is_number and not 0 <= drop_prob < 1:
        raise value_error(
            "dropout: drop_prob is no probability.",
            {"source": source, "drop_prob": drop_prob},
            "A probability from 0 up to, not including, 1:",
            f"rf.dropout(source, {drop_prob / 100 if 1 < drop_prob < 100 else 0.1})",
        )
    if is_number and drop_prob == 0:
        return source
    if not (on_forward or run_ctx.get_run_ctx().is_train_flag_enabled(func=dropout)):
        return source
    if isinstance(axis, bool):
        if axis:
            raise type_error(
                "dropout: axis is True.",
                {"source": source, "axis": axis},
                "The axis is the dim or dims with independent choices.",
                "rf.dropout(x, 0.1, axis=feature_dim)",
            )
        axis = None
    return drop(source, drop_prob, axis=axis)


def dropout_broadcast_default(*extra: Never, **unknown: Never) -> bool:
    """Whether modules drop a feature in all frames and sequences alike: always True.

    rfnb has no global configuration. Modules that offer the choice have an option, e.g. `att_dropout_broadcast` of
    attention; `dropout` itself draws independently unless `axis` is given.
    """
    return True
