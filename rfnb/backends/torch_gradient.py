"""The graph of autograd: how an array was computed, and gradients changed on their way back."""

from __future__ import annotations

from typing import Any, NamedTuple

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


class GraphPlace(NamedTuple):
    """One array in the graph: output `number` of a node, or (without node) the array with the id `number`, which came from outside.

    The node is held, since its identity is only kept as long as Python knows it.
    """

    node: Any
    number: int


def graph_place(raw: Any) -> GraphPlace | None:
    """See `Backend.graph_place_raw`."""
    if not raw.requires_grad:
        return None
    return GraphPlace(None, id(raw)) if raw.grad_fn is None else GraphPlace(raw.grad_fn, raw.output_nr)


def graph_inputs(place: GraphPlace) -> list[GraphPlace]:
    """See `Backend.graph_inputs_raw`."""
    found = []
    for node, number in () if place.node is None else place.node.next_functions:
        if node is not None:
            # Of a node that only collects the gradient of an array from outside.
            variable = getattr(node, "variable", None)
            found.append(GraphPlace(node, number) if variable is None else GraphPlace(None, id(variable)))
    return found


def graph_order(place: GraphPlace) -> int:
    """See `Backend.graph_order_raw`."""
    return -1 if place.node is None else place.node._sequence_nr()
