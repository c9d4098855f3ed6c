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


def finite_for_gradient(x: Tensor, factor: Tensor) -> Tensor:
    """x with 0 in its padding if the gradient of `factor`, which all frames share, is asked for.

    That gradient is a sum over the frames. The gradient that arrives from the padding is 0, but 0 * NaN is NaN.
    """
    return x.copy_masked(0) if x.backend.tracks_gradient_raw(factor._raw) else x


def stop_gradient_scope() -> Any:
    """Context manager in which no gradients are tracked."""
    return protocol.selected().no_grad()
