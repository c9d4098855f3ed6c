"""Gradients: asking for them, and stopping them."""

from __future__ import annotations

from typing import Any

from rfnb.backends import protocol
from rfnb.core.tensor import Tensor


def set_requires_gradient(source: Tensor) -> None:
    """Keep track of gradients with respect to `source`, in place."""
    source.backend.set_requires_gradient_raw(source._raw, True)


def gradient(y: Tensor, x: Tensor) -> Tensor:
    """dy/dx of a scalar y, with the dims of x; can itself be differentiated."""
    return x._like(x.backend.gradient_raw(y._raw, x._raw), x.dims)


def stop_gradient(source: Tensor) -> Tensor:
    """The same values, through which no gradient flows."""
    return source._like(source.backend.detach_raw(source._raw), source.dims)


def stop_gradient_scope() -> Any:
    """Context manager in which no gradients are tracked."""
    return protocol.selected().no_grad()
