"""Gradients changed on their way back, for torch."""

from __future__ import annotations

from typing import Any

import torch


class _ScaledGradient(torch.autograd.Function):
    """The same values; the gradient times `scale` plus `shift`."""

    @staticmethod
    def forward(ctx: Any, raw: Any, scale: Any, shift: Any, axis: int | None, mask: Any | None, absolute: bool) -> Any:
        ctx.options = scale, shift, axis, mask, absolute
        return raw.view_as(raw)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        (gradient,) = gradients
        scale, shift, axis, mask, absolute = ctx.options
        out = gradient if mask is None else torch.where(mask, gradient, 0)
        if shift is not None and axis is not None:
            shift = shift * (out.abs() if absolute else out).sum(axis, keepdim=True)
        out = out * scale
        if shift is not None:
            out = out + shift
            out = out if mask is None else torch.where(mask, out, 0)
        return out.to(gradient.dtype), None, None, None, None, None


def scaled_gradient(raw: Any, scale: Any, shift: Any | None, axis: int | None, mask: Any | None, absolute: bool) -> Any:
    """See `Backend.scaled_gradient_raw`."""
    scale, shift = (value.detach() if isinstance(value, torch.Tensor) else value for value in (scale, shift))
    return _ScaledGradient.apply(raw, scale, shift, axis, mask, absolute)
