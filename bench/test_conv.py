"""What convolution, pooling and features of audio cost over the same masked computation in raw torch, at small sizes."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

import rfnb as rf
from rfnb import Dim

batch, feat, out_dim = Dim(3, name="batch"), Dim(16, name="feat"), Dim(16, name="out")
time = rf.ragged_dim([7, 5, 3], over=batch, name="time")
samples = rf.ragged_dim([400, 300, 200], over=batch, name="samples")

torch.manual_seed(0)
x, audio = rf.random_normal([batch, time, feat]), rf.random_normal([batch, samples])
conv, strided = rf.Conv1d(feat, out_dim, 3, padding="same"), rf.Conv1d(feat, out_dim, 3, padding="valid", strides=2)
depthwise = rf.Conv1d(feat, feat, 3, padding="same", groups=16)
X, AUDIO = x.raw_tensor, audio.raw_tensor
MASK = torch.arange(7) < torch.tensor([7, 5, 3])[:, None]
MASK_F = MASK.unsqueeze(-1)
MASK_AUDIO = torch.arange(400) < torch.tensor([400, 300, 200])[:, None]
HALF = (torch.arange(4) < torch.tensor([4, 3, 2])[:, None]).unsqueeze(1)
HANN = torch.hann_window(64)
inf = float("inf")


def _masked(value=0.0):
    return torch.where(MASK_F, X, value).transpose(1, 2)


def _conv(module, **options):
    return lambda: F.conv1d(_masked(), module.filter.raw_tensor, module.bias.raw_tensor, **options)


def _max_pool():
    return torch.where(HALF, F.max_pool1d(F.pad(_masked(-inf), (0, 1), value=-inf), 2), 0)


SIZES = torch.tensor([[2.0, 2, 2, 1], [2, 2, 1, 1], [2, 1, 1, 1]]).unsqueeze(1)


def _mean_pool():
    return F.avg_pool1d(F.pad(_masked(), (0, 1)), 2) * 2 / SIZES


def _stft():
    return torch.fft.rfft(torch.where(MASK_AUDIO, AUDIO, 0).unfold(1, 64, 16) * HANN, 64)


OPS = {
    "Conv1d": (lambda: conv(x, in_spatial_dim=time)[0], _conv(conv, padding=1)),
    "Conv1d, stride 2": (lambda: strided(x, in_spatial_dim=time)[0], _conv(strided, stride=2)),
    "Conv1d, depthwise": (lambda: depthwise(x, in_spatial_dim=time)[0], _conv(depthwise, padding=1, groups=16)),
    "max_pool1d": (lambda: rf.max_pool1d(x, pool_size=2, padding="same", in_spatial_dim=time)[0], _max_pool),
    "pool1d, avg": (lambda: rf.pool1d(x, mode="avg", pool_size=2, padding="same", in_spatial_dim=time)[0], _mean_pool),
    "stft": (lambda: rf.stft(audio, in_spatial_dim=samples, frame_step=16, frame_length=64)[0], _stft),
}


@pytest.mark.parametrize("name", OPS)
def test_conv_overhead(name, overhead):
    rfnb_op, raw_op = OPS[name]
    with torch.no_grad():
        overhead(name, rfnb_op, raw_op)
