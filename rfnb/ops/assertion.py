"""A check of values that does not make a GPU wait."""

from __future__ import annotations

from typing import Never

from rfnb.core.errors import type_error
from rfnb.core.op import op
from rfnb.core.place import warn_user
from rfnb.core.tensor import Tensor
from rfnb.core.tensor_text import shape_of
from rfnb.ops.reduce import reduce_all


@op
def assert_(condition: Tensor | bool, message: str, *extra: Never, stop: bool = True, **unknown: Never) -> None:
    """Check that `condition` holds in all its real frames.

    Args:
        condition: A bool, or bool {...}. On a GPU the check does not wait: the error is raised by a later call, and the process can
            no longer use that GPU.
        message: The error message.
        stop: False only warns. This reads the value, so it waits for a GPU.

    Raises:
        AssertionError: If it does not hold.
        TypeError: If the condition is a Tensor of another dtype.
    """
    if isinstance(condition, Tensor):
        if condition.dtype != "bool":
            rows = [("condition", f"{shape_of(condition)} {condition.dtype}")]
            rule = "The condition states for each frame whether it is valid."
            raise type_error("assert_: the condition is not bool.", rows, rule, "rf.assert_(x > 0, ...)")
        if condition.dims:
            condition = reduce_all(condition, axis=condition.dims)
        if stop:
            condition.backend.assert_raw(condition._raw, message)
            return
        condition = bool(condition._raw)
    if condition:
        return
    if stop:
        raise AssertionError(message)
    warn_user(message, RuntimeWarning)
