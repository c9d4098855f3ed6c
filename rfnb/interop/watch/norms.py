"""Norms of gradients, of updates and of parameters: of all in a few calls, on their device."""

from __future__ import annotations

from collections.abc import Sequence

import torch

ROOM = (
    256 << 20
)  # bytes that the parameters of before an update may take; of a larger model a part is looked at each time


def norms_of(tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """The 2-norm of each, a scalar on its device; half precision is summed in float32."""
    out: list[torch.Tensor | None] = [None] * len(tensors)
    groups: dict[tuple[torch.device, torch.dtype], list[int]] = {}
    for index, tensor in enumerate(tensors):
        groups.setdefault((tensor.device, tensor.dtype), []).append(index)
    for (_, dtype), members in groups.items():
        half = dtype in (torch.float16, torch.bfloat16)
        found = torch._foreach_norm([tensors[index] for index in members], 2, dtype=torch.float32 if half else None)
        for index, norm in zip(members, found):
            out[index] = norm
    return [norm for norm in out if norm is not None]


def gradient_of(parameter: torch.Tensor) -> torch.Tensor | None:
    """The gradient as a dense tensor of the same norm."""
    gradient = parameter.grad
    if gradient is None:
        return None
    gradient = gradient.detach()
    if gradient.layout == torch.sparse_coo:  # the same row may occur several times, and counts with its sum
        return gradient.coalesce().values()
    if gradient.layout != torch.strided:
        return gradient.values()
    return gradient


def turns(parameters: Sequence[torch.Tensor]) -> list[list[int]]:
    """The parameters that are looked at together, such that copies of them fit into `ROOM`."""
    out: list[list[int]] = [[]]
    room = ROOM
    for index, parameter in enumerate(parameters):
        size = parameter.numel() * parameter.element_size()
        if size > room and out[-1]:
            out.append([])
            room = ROOM
        out[-1].append(index)
        room -= size
    return out
