"""A step of training, to be compared between rfnb and raw torch."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch


def training_step(
    forward: Callable[[], list[torch.Tensor]], parameters: Iterable[torch.Tensor]
) -> Callable[[], torch.Tensor]:
    """A function that does forward, backward and an update by SGD, and gives the loss: the mean square of the first result."""
    optimizer = torch.optim.SGD(parameters, lr=1e-3)

    def step() -> torch.Tensor:
        optimizer.zero_grad(set_to_none=True)
        loss = forward()[0].square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step
