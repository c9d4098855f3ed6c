"""rf.Rec over ragged sequences against torch.nn on packed input, packing and unpacking included, with the same weights."""

from __future__ import annotations

import pytest
import torch
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from training_step import training_step

import rfnb as rf
from rfnb import Dim
from rfnb.interop.torch_nn import import_params_torch_gru_to_rf, import_params_torch_lstm_to_rf

SIZES = {"small": (4, 10, 32), "large": (16, 50, 256)}  # batch, time, features
LIMIT = {"lstm": 1.05, "CudnnGRU": None}
OF_TORCH = {"lstm": torch.nn.LSTM, "CudnnGRU": torch.nn.GRU}
IMPORTS = {"lstm": import_params_torch_lstm_to_rf, "CudnnGRU": import_params_torch_gru_to_rf}


class Setup:
    """Both layers, and a batch in which the sequences have from half of the frames to all of them, time first."""

    def __init__(self, unit: str, size: str):
        batch_size, longest, features = SIZES[size]
        torch.manual_seed(0)
        self.lengths = torch.linspace(longest, longest // 2, batch_size).long()
        self.batch, feat, out = Dim(batch_size, name="batch"), Dim(features, name="feat"), Dim(features, name="out")
        self.time = rf.ragged_dim(self.lengths.tolist(), over=self.batch, name="time")
        self.x = rf.random_normal([self.time, self.batch, feat])
        self.ours = rf.Rec(unit, feat, out)
        self.raw = OF_TORCH[unit](features, features)
        if unit == "lstm":
            torch.nn.init.zeros_(self.raw.bias_hh_l0)
        IMPORTS[unit](self.raw, self.ours.unit)

    def forward_ours(self) -> list[torch.Tensor]:
        out, state = self.ours(self.x, axis=self.time)
        return [out.raw_tensor, *(state[part].raw_tensor for part in ("h", "c") if part in state)]

    def forward_raw(self) -> list[torch.Tensor]:
        packed, last = self.raw(pack_padded_sequence(self.x.raw_tensor, self.lengths))
        return [pad_packed_sequence(packed)[0], *(part[0] for part in (last if isinstance(last, tuple) else (last,)))]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("unit", LIMIT)
def test_forward(unit, size, overhead):
    setup = Setup(unit, size)
    with torch.no_grad():
        overhead(f"{unit} forward, {size}", setup.forward_ours, setup.forward_raw, limit=LIMIT[unit])


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("unit", LIMIT)
def test_training_step(unit, size, overhead):
    """Forward, backward and an update by SGD."""
    setup = Setup(unit, size)
    if unit == "lstm":  # torch has a second bias, of the same gradient as the first one; it is not updated
        setup.raw.bias_hh_l0.requires_grad_(False)
    ours = [parameter.raw_tensor for parameter in setup.ours.parameters()]
    raw = [parameter for parameter in setup.raw.parameters() if parameter.requires_grad]
    overhead(
        f"{unit} training step, {size}",
        training_step(setup.forward_ours, ours),
        training_step(setup.forward_raw, raw),
        limit=LIMIT[unit],
    )
