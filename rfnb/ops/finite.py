"""Padding with finite values, for gradients that sum over it."""

from __future__ import annotations

from rfnb.core.tensor import Tensor


def finite_for_gradient(x: Tensor, factor: Tensor) -> Tensor:
    """x with 0 in its padding if the gradient of `factor`, which all frames share, is asked for.

    That gradient is a sum over the frames. The gradient that arrives from the padding is 0, but 0 * NaN is NaN.
    """
    if x._finite or not x.backend.tracks_gradient_raw(factor._raw):
        return x
    out = x.copy_masked(0)
    out._finite = True
    return out
