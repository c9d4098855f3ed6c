"""What a batch costs whose dims are new: in training every batch has its own lengths, and so its own ragged dim.

Raw torch gets new lengths too, and makes its mask of them.

The goal for the small encoder is 1.25 (now 1.28 to 1.4; 1.07 with dims seen before). Its pass makes 460 calls of Python functions, of
which 125 are for the new dims: two dims, 10; the ids, 10; the forms of the dims and 14 plans, all built at the first op, 60; two masks
from the lengths, 40. Warm they take 60 us; in a pass, where each of them runs once after a millisecond of other code, 340 of 1,050. No
single function is slow.
"""

from __future__ import annotations

import itertools

import pytest
import torch
from test_decoder_loop import BATCH, SOURCE, World
from test_transformer import Setup

import rfnb as rf
from rfnb import Dim

LIMITS = {"small": 1.6, "large": 1.15}
LOOPS = {"stepped": 1.3, "scanned": 1.3, "recorded": 0.7}


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


class Decoders(World):
    """The model of `test_decoder_loop.py`, with batches of which each has dims of its own."""

    def __init__(self):
        super().__init__()
        self.arrays = self.inputs.raw_tensor, self.targets.raw_tensor, self.encoder.raw_tensor.detach()
        self.longest = itertools.cycle(range(3)), itertools.cycle(range(3))

    def new_lengths(self, side: int) -> list[int]:
        """Those of the next batch; both sides get the same ones in turn."""
        longest = SOURCE - next(self.longest[side])
        return [longest - row % 5 for row in range(BATCH)]

    def renewed(self, face: str) -> torch.Tensor:
        """The loss by one face of the loop; the dims are new."""
        lengths, (inputs, targets, encoder) = self.new_lengths(0), self.arrays
        self.batch, self.time = Dim(BATCH, name="batch"), Dim(inputs.shape[1], name="time")
        self.source = rf.ragged_dim(lengths, over=self.batch, name="source")
        self.inputs, self.targets = (
            rf.convert_to_tensor(raw, dims=[self.batch, self.time], sparse_dim=self.labels) for raw in (inputs, targets)
        )
        dims = [self.batch, self.source, self.model.ctx_dim]
        self.encoder = rf.convert_to_tensor(encoder[:, : lengths[0]], dims=dims)
        return getattr(self, face)()

    def raw_renewed(self) -> torch.Tensor:
        """The loss by raw torch, step by step, with a mask of its own."""
        inputs, targets, encoder = self.arrays
        lengths = torch.tensor(self.new_lengths(1))
        mask = torch.arange(int(lengths.max())) < lengths[:, None]
        bias = torch.zeros(mask.shape).masked_fill(~mask, -torch.inf)
        encoder = encoder[:, : mask.shape[1]]
        zero, no_bias, losses = torch.zeros(BATCH, encoder.shape[-1]), torch.zeros(4 * encoder.shape[-1]), []
        h = c = context = zero
        for label, target in zip(inputs.unbind(1), targets.unbind(1), strict=True):
            x = torch.nn.functional.embedding(label, self.model.embedding.weight.raw_tensor)
            h, c, context = self._raw_step(x, h, c, context, self._raw_keys(encoder), encoder, bias, no_bias)
            logits = self._raw_logits(torch.cat([h, context], -1))
            losses.append(torch.nn.functional.cross_entropy(logits, target, reduction="none"))
        return torch.stack(losses).mean()


@pytest.mark.parametrize("face", LOOPS)
def test_decoder_with_new_dims(face, overhead):
    decoders = Decoders()
    ours = decoders.training_step(lambda: decoders.renewed(face))
    raw = decoders.training_step(decoders.raw_renewed)
    overhead(f"decoder, new dims, {face}", ours, raw, limit=LOOPS[face], turns=15, warmup=3)


def _update(optimizer: torch.optim.Optimizer, loss: torch.Tensor) -> torch.Tensor:
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    return loss.detach()
