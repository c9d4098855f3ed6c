"""The LSTM over ragged sequences against `torch.nn.LSTM` on packed input, packing and unpacking included, with the same weights."""

from __future__ import annotations

import pytest
import torch
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from training_step import training_step

import rfnb as rf
from rfnb import Dim

SIZES = {"small": (4, 10, 32), "large": (16, 50, 256)}  # batch, time, features
LIMIT = 1.05


class Setup:
    """Both layers, and a batch in which the sequences have from half of the frames to all of them, time first."""

    def __init__(self, size: str):
        batch_size, longest, features = SIZES[size]
        torch.manual_seed(0)
        self.lengths = torch.linspace(longest, longest // 2, batch_size).long()
        self.batch, feat, out = Dim(batch_size, name="batch"), Dim(features, name="feat"), Dim(features, name="out")
        self.time = rf.ragged_dim(self.lengths.tolist(), over=self.batch, name="time")
        self.x = rf.random_normal([self.time, self.batch, feat])
        self.ours = rf.LSTM(feat, out)
        self.state = self.ours.default_initial_state(batch_dims=[self.batch])
        self.raw = torch.nn.LSTM(features, features)
        with torch.no_grad():
            self.raw.weight_ih_l0.copy_(self.ours.ff_weight.raw_tensor)
            self.raw.weight_hh_l0.copy_(self.ours.rec_weight.raw_tensor)
            self.raw.bias_ih_l0.zero_()
            self.raw.bias_hh_l0.zero_()

    def forward_ours(self) -> list[torch.Tensor]:
        out, state = self.ours(self.x, state=self.state, spatial_dim=self.time)
        return [out.raw_tensor, state.h.raw_tensor, state.c.raw_tensor]

    def forward_raw(self) -> list[torch.Tensor]:
        packed, (h, c) = self.raw(pack_padded_sequence(self.x.raw_tensor, self.lengths))
        return [pad_packed_sequence(packed)[0], h[0], c[0]]


@pytest.mark.parametrize("size", SIZES)
def test_forward(size, overhead):
    setup = Setup(size)
    with torch.no_grad():
        overhead(f"LSTM forward, {size}", setup.forward_ours, setup.forward_raw, limit=LIMIT)


@pytest.mark.parametrize("size", SIZES)
def test_training_step(size, overhead):
    """Forward, backward and an update by SGD."""
    setup = Setup(size)
    # torch.nn.LSTM has a second bias, of the same gradient as the first one; it is not updated.
    ours = [parameter.raw_tensor for parameter in setup.ours.parameters()]
    raw = [setup.raw.weight_ih_l0, setup.raw.weight_hh_l0, setup.raw.bias_ih_l0]
    setup.raw.bias_hh_l0.requires_grad_(False)
    overhead(
        f"LSTM training step, {size}",
        training_step(setup.forward_ours, ours),
        training_step(setup.forward_raw, raw),
        limit=LIMIT,
    )
