"""What a batch costs whose dims are new: in training every batch has its own lengths, and so its own ragged dim.

Raw torch gets new lengths too, and makes its mask of them.
"""

from __future__ import annotations

import itertools

import pytest
import torch
from test_transformer import Setup

import rfnb as rf
from rfnb import Dim

LIMITS = {"small": 1.6, "large": 1.15}


class Batches(Setup):
    """The models and the sizes of `Setup`, with other lengths in each call; the longest is what it is there or up to two less."""

    def __init__(self, size: str, new_batch_dim: bool):
        super().__init__(size)
        self.batch, self.vocab = self.ids.dims[0], self.ids.sparse_dim
        self.new_batch_dim, self.longest = new_batch_dim, self.time.extent
        self.raw_ids = self.ids.raw_tensor
        self.turns = itertools.cycle(range(3)), itertools.cycle(range(3))

    def lengths(self, side: int) -> list[int]:
        """Those of the next batch; both sides get the same ones in turn."""
        longest = self.longest - next(self.turns[side])
        return [max(1, longest - 2 * row) for row in range(self.raw_ids.shape[0])]

    def ours_next(self) -> tuple[rf.Tensor, Dim]:
        lengths = self.lengths(0)
        batch = Dim(len(lengths), name="batch") if self.new_batch_dim else self.batch
        time = rf.ragged_dim(lengths, over=batch, name="time")
        raw = self.raw_ids[:, : lengths[0]]
        ids = rf.convert_to_tensor(raw, dims=[batch, time], sparse_dim=self.vocab)
        return self.ours(ids, spatial_dim=time), time

    def raw_next(self) -> tuple[torch.Tensor, torch.Tensor]:
        lengths = torch.tensor(self.lengths(1))
        real = torch.arange(int(lengths.max())) < lengths[:, None]
        return self.raw(self.raw_ids[:, : real.shape[1]], real[:, None, None, :]), real


@pytest.mark.parametrize("new_batch_dim", [False, True], ids=["one batch dim", "new batch dim"])
@pytest.mark.parametrize("size", LIMITS)
def test_forward_with_new_dims(size, new_batch_dim, overhead):
    batches = Batches(size, new_batch_dim)

    def ours():
        out, time = batches.ours_next()
        return out.copy_masked(0).raw_tensor.sum()

    def raw():
        out, real = batches.raw_next()
        return torch.where(real.unsqueeze(-1), out, 0).sum()

    with torch.no_grad():
        overhead(f"encoder forward, new dims, {size}", ours, raw, limit=LIMITS[size])


@pytest.mark.parametrize("size", LIMITS)
def test_training_step_with_new_dims(size, overhead):
    batches = Batches(size, True)
    parameters = [parameter.raw_tensor for parameter in batches.ours.parameters()]
    optimizers = [torch.optim.Adam(group, lr=1e-4) for group in (parameters, list(batches.raw.parameters()))]

    def ours():
        out, _ = batches.ours_next()
        return _update(optimizers[0], rf.reduce_mean(rf.square(out), axis=out.dims).raw_tensor)

    def raw():
        out, real = batches.raw_next()
        count = real.sum() * out.shape[-1]
        return _update(optimizers[1], torch.where(real.unsqueeze(-1), out.square(), 0).sum() / count)

    overhead(f"encoder training step, new dims, {size}", ours, raw, limit=LIMITS[size])


def _update(optimizer: torch.optim.Optimizer, loss: torch.Tensor) -> torch.Tensor:
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    return loss.detach()
