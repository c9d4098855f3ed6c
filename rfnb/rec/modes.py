"""Modes that code may run under (a dtype, no gradients, training), saved for a recorded loop: its ops run later, outside of the
with-blocks around the calls in the body.

    keep_mode(get_amp_policy, set_amp_policy_ctx)       # what it is now; a with-block in which it is that again
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

from rfnb.backends import registry
from rfnb.ops.amp import get_amp_policy, set_amp_policy_ctx
from rfnb.ops.defaults import (
    get_default_device,
    get_default_float_dtype,
    set_default_device_ctx,
    set_default_float_dtype_ctx,
)

Values = tuple[Any, ...]
_modes: list[tuple[Callable[[], Any], Callable[[Any], Any]]] = []


def keep_mode(now: Callable[[], Any], again: Callable[[Any], Any]) -> None:
    """Register a mode, so that a recorded op runs under the mode of its call.

    Args:
        now: Gives the value of the mode; equal values are the same mode.
        again: Context manager for a value.
    """
    _modes.append((now, again))


def modes_now() -> Values:
    """The value of every mode."""
    return tuple([now() for now, _ in _modes])


def modes_again(values: Values | None) -> Any:
    """A context manager that restores these modes; None if they are unchanged."""
    if values is None:
        return contextlib.nullcontext()
    stack = contextlib.ExitStack()
    for value, (now, again) in zip(values, _modes):
        if now() != value:
            stack.enter_context(again(value))
    return stack


def _gradients(on: bool) -> Any:
    return contextlib.nullcontext() if on else registry.selected().no_grad()


keep_mode(lambda: registry.selected().grad_enabled(), _gradients)
keep_mode(get_amp_policy, set_amp_policy_ctx)
keep_mode(get_default_device, set_default_device_ctx)
keep_mode(get_default_float_dtype, set_default_float_dtype_ctx)
