"""Masks of dropout that stay the same in all steps of a sequence.

Source: Gal and Ghahramani 2016, "A Theoretically Grounded Application of Dropout in Recurrent Neural Networks".
"""

from __future__ import annotations

from rfnb.core.errors import value_error
from rfnb.core.tensor import Tensor
from rfnb.nn.run import run_ctx
from rfnb.ops.const import ones_like
from rfnb.ops.random import drop
from rfnb.rec.state import State


def dropout_mask(name: str, like: Tensor, drop_prob: float, *, func: type) -> State:
    """In training of `func`: a State with one mask like `like`, scaled by 1 / (1 - drop_prob). Else none."""
    if not drop_prob or not run_ctx.get_run_ctx().is_train_flag_enabled(func=func):
        return State()
    return State({name: drop(ones_like(like), drop_prob)})


def check_drop_prob(what: str, option: str, drop_prob: float) -> None:
    """ValueError if it is no probability below 1."""
    if not 0 <= drop_prob < 1:
        raise value_error(
            f"{what}: no probability to drop.",
            [(option, drop_prob)],
            "A probability from 0 up to, not including, 1.",
            f"rf.{what}(..., {option}=0.1)",
        )
