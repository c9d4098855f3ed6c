"""The processes of a training started by `torchrun`: the rank of this one, and their reductions."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import distributed

from rfnb.core.errors import value_error


@dataclass(frozen=True)
class Processes:
    """The processes that train one model together.

    Attributes:
        rank: The index of this process, from 0.
        count: The number of processes.
    """

    rank: int = 0
    count: int = 1

    def own(self, items: list[int]) -> list[int]:
        """The part of a batch that this process trains on."""
        return items[self.rank :: self.count]

    def sum_up(self, parameters: Sequence[torch.nn.Parameter], loss: torch.Tensor) -> torch.Tensor:
        """Sum the gradients of all processes, and their losses, which are returned summed; in one message."""
        if self.count == 1:
            return loss
        gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in parameters]
        flat = torch.cat([loss.reshape(1), *(gradient.flatten() for gradient in gradients)])
        distributed.all_reduce(flat)
        total, *summed = flat.split([1, *(p.numel() for p in parameters)])
        for parameter, gradient in zip(parameters, summed):
            parameter.grad = gradient.view_as(parameter)
        return total[0].clone()  # a view would keep all of them alive

    def gathered(self, value: torch.Tensor) -> list[torch.Tensor]:
        """The values of all processes by rank; they all have the same shape."""
        if self.count == 1:
            return [value]
        values = [torch.empty_like(value) for _ in range(self.count)]
        distributed.all_gather(values, value)
        return values

    def wait(self) -> None:
        """Wait until all processes are here."""
        if self.count > 1:
            distributed.barrier()


@contextmanager
def joined(device: str = "cpu") -> Iterator[Processes]:
    """The processes that torchrun started, for a with-block; else this one alone.

    Args:
        device: Where they train: tensors there are summed without a copy to the host, if torch supports it for such devices.
    """
    if not distributed.is_torchelastic_launched():
        yield Processes()
        return
    kind = torch.device(device).type
    # The CPU in any case, since generator states are there.
    own = "" if kind == "cpu" else f",{kind}:{distributed.get_default_backend_for_device(kind)}"
    distributed.init_process_group(f"cpu:gloo{own}")
    try:
        yield current()
        distributed.barrier()  # no process may leave a group in which another still communicates
    finally:
        distributed.destroy_process_group()


def device_of_process(device: str) -> str:
    """The device that this process trains on: with several GPUs, one per process of a machine.

    Raises:
        ValueError: If there are more processes than devices.
    """
    wanted = torch.device(device)
    if wanted.type == "cpu" or wanted.index is not None or not distributed.is_torchelastic_launched():
        return device
    own, there = int(os.environ["LOCAL_RANK"]), torch.get_device_module(wanted).device_count()
    if own >= there:
        raise value_error(
            "train_g2p: more processes than devices.",
            {"processes": f"{os.environ['LOCAL_WORLD_SIZE']} on this machine", "devices": f'{there} of "{device}"'},
            "Each process trains on a device of its own.",
            f"torchrun --nproc-per-node {there} -m rfnb.models.train_g2p --device {device}",
        )
    return f"{device}:{own}"


def current() -> Processes:
    """The processes of the current group, made by `joined` or by other code; else this one alone."""
    if not (distributed.is_available() and distributed.is_initialized()):
        return Processes()
    return Processes(distributed.get_rank(), distributed.get_world_size())
