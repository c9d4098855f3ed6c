"""The processes of a training that `torchrun` has started: who this one is, and what they sum up."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import distributed


@dataclass(frozen=True)
class Processes:
    """The processes that train one model together.

    Attributes:
        rank: This one, from 0.
        count: All.
    """

    rank: int = 0
    count: int = 1

    def own(self, items: list[int]) -> list[int]:
        """The part of a batch that this process trains on."""
        return items[self.rank :: self.count]

    def total(self, value: float) -> float:
        """The sum over all processes, which all have to ask for."""
        if self.count == 1:
            return value
        summed = torch.tensor(value, dtype=torch.float64)
        distributed.all_reduce(summed)
        return summed.item()

    def sum_gradients(self, parameters: Sequence[torch.nn.Parameter]) -> None:
        """Add up the gradients of all processes, in one message."""
        if self.count == 1:
            return
        gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in parameters]
        flat = torch.cat([gradient.flatten() for gradient in gradients])
        distributed.all_reduce(flat)
        for parameter, summed in zip(parameters, flat.split([p.numel() for p in parameters])):
            parameter.grad = summed.view_as(parameter)

    def gathered(self, value: torch.Tensor) -> list[torch.Tensor]:
        """The values of all processes by rank, all of one shape."""
        if self.count == 1:
            return [value]
        values = [torch.empty_like(value) for _ in range(self.count)]
        distributed.all_gather(values, value)
        return values

    def wait(self) -> None:
        """Go on when all processes are here."""
        if self.count > 1:
            distributed.barrier()


@contextmanager
def joined() -> Iterator[Processes]:
    """The processes that torchrun has started, for a with-block; else this one alone."""
    if not distributed.is_torchelastic_launched():
        yield Processes()
        return
    distributed.init_process_group("gloo")
    try:
        yield current()
        distributed.barrier()  # nobody leaves a group that another one still talks in
    finally:
        distributed.destroy_process_group()


def current() -> Processes:
    """The processes of the group that has been made, by `joined` or by somebody else; else this one alone."""
    if not (distributed.is_available() and distributed.is_initialized()):
        return Processes()
    return Processes(distributed.get_rank(), distributed.get_world_size())
