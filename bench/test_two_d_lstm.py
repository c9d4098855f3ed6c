"""The LSTM over a grid against raw torch cell by cell, as the equations say it, with the same weights."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

import rfnb as rf
from rfnb import Dim

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from plain_two_d_lstm import grid

SIZES = {"small": (4, 10, 8, 32), "large": (8, 20, 15, 64)}  # batch, width, height, features
LIMIT = 0.6


class Setup:
    """The layer, and a batch in which the sources have from half of the frames to all of them."""

    def __init__(self, size: str):
        count, width, height, features = SIZES[size]
        torch.manual_seed(0)
        self.lengths = torch.linspace(width, width // 2, count).long()
        self.batch, feat, out = Dim(count, name="batch"), Dim(features, name="feat"), Dim(features, name="out")
        self.source = rf.ragged_dim(self.lengths.tolist(), over=self.batch, name="source")
        self.target = Dim(height, name="target")
        self.x, self.y = (rf.random_normal([self.batch, dim, feat]) for dim in (self.source, self.target))
        self.lstm = rf.TwoDLSTM(feat, feat, out, pooling="average")
        self.dims = [self.batch, self.target, out]

    def ours(self) -> torch.Tensor:
        out, _ = self.lstm(self.x, self.y, x_axis=self.source, y_axis=self.target)
        return out.copy_transpose(self.dims).raw_tensor

    def raw(self) -> torch.Tensor:
        weights = (parameter.raw_tensor for parameter in (self.lstm.W_re, self.lstm.Vh_re, self.lstm.Vv_re))
        h = grid(self.x.raw_tensor, self.y.raw_tensor, self.lengths, *weights)
        return h.sum(2) / self.lengths[:, None, None]

    def step(self, forward) -> list[torch.Tensor]:
        """The gradients of the parameters."""
        parameters = [parameter.raw_tensor for parameter in self.lstm.parameters()]
        return list(torch.autograd.grad(forward().square().mean(), parameters))


@pytest.mark.parametrize("size", SIZES)
def test_forward(size, overhead):
    setup = Setup(size)
    with torch.no_grad():
        overhead(f"TwoDLSTM forward, {size}", setup.ours, setup.raw, limit=LIMIT)


@pytest.mark.parametrize("size", SIZES)
def test_gradients(size, overhead):
    setup = Setup(size)
    overhead(f"TwoDLSTM gradients, {size}", lambda: setup.step(setup.ours), lambda: setup.step(setup.raw), limit=LIMIT)
