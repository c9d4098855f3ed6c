"""Parameters of torch, which change in place, and the gradient graph."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch

from rfnb.backends.torch_devices import brought, on_device, refuse_device
from rfnb.backends.torch_functions import DTYPES


def kept(raw: Any) -> Any:
    """See `Backend.kept_raw`. An optimizer changes leaves with gradient, and thereby their views."""
    base = raw._base
    if base is None and not raw.requires_grad:
        return raw
    owner = raw if base is None else base
    return raw.detach().clone() if owner.requires_grad and owner.is_leaf else raw.detach()


def parameter(raw: Any, trainable: bool) -> Any:
    """See `Backend.parameter_raw`."""
    if isinstance(raw, torch.nn.Parameter):  # an optimizer may hold this very object
        return raw.requires_grad_(trainable)
    return torch.nn.Parameter(raw, requires_grad=trainable)


def assign(param: Any, value: Any) -> None:
    """See `Backend.assign_raw`."""
    with torch.no_grad():
        param.copy_(_there(_apart(value, param), param))


def assign_at(param: Any, indices: tuple[Any, ...], value: Any, mask: np.ndarray | None) -> None:
    """See `Backend.assign_at_raw`."""
    if mask is not None:
        # Where they are is known on the host; to pick by a mask of the device is to wait for it.
        places = on_device(np.flatnonzero(mask), param.device)
        picked = [
            _there(part, param).expand(mask.shape).reshape(-1)[places] if isinstance(part, torch.Tensor) else part
            for part in (*indices, value)
        ]
        *rest, value = picked
        indices = tuple(rest)
    with torch.no_grad():
        param[indices] = _there(_apart(value, param), param).to(param.dtype)


def convert_parameter(param: Any, dtype: str | None, device: str | None) -> Any:
    """See `Backend.convert_parameter_raw`."""
    # The object stays, so that optimizers and other holders of it go on.
    gradient, moved = param.grad, _converted(param, dtype, device)
    if torch._has_compatible_shallow_copy_type(param, moved):
        param.data = moved
    else:  # a device of a plug-in, to which torch.nn.Module.to would make other parameters
        is_parameter = isinstance(param, torch.nn.Parameter)
        torch.utils.swap_tensors(param, torch.nn.Parameter(moved, param.requires_grad) if is_parameter else moved)
    if gradient is not None:
        param.grad = None  # torch compares it with the parameter
        moved = _converted(gradient, dtype, device)
        if torch._has_compatible_shallow_copy_type(gradient, moved):
            gradient.data = moved
        else:
            gradient = moved
        param.grad = gradient
    return param


def _converted(tensor: Any, dtype: str | None, device: str | None) -> Any:
    try:
        return tensor.data.to(device=device, dtype=None if dtype is None else DTYPES[dtype])
    except Exception as error:
        refuse_device(error, device)
        raise


def _there(value: torch.Tensor, param: torch.Tensor) -> torch.Tensor:
    """The value on the device of the parameter."""
    return brought(value, param.device) if value.is_cpu else value.to(param.device)


def _apart(value: torch.Tensor, param: torch.Tensor) -> torch.Tensor:
    """The value, copied if it is a view of the parameter to which it is written (a shift, a transposition)."""
    return value.clone() if value.untyped_storage().data_ptr() == param.untyped_storage().data_ptr() else value


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
    """An array in the graph: output `number` of a node, or (without node) an external array with the id `number`.

    The node is referenced, since its identity lasts only as long as Python holds it.
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
