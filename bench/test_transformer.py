"""The Transformer encoder against a hand-written one in raw torch with the same weights: forward and training step.

The raw one is what a good torch user writes for padded batches: one projection for queries, keys and values, the fused
attention with a mask that is made once per batch, fused norms.
"""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from device import device, quick

import rfnb as rf
from rfnb import Dim

LAYERS, VOCAB = 4, 100
# On a GPU the others only show what the host does.
WIDE = (2, 5, 8, 2, None) if quick() else (32, 200, 1024, 16, None)
SIZES = {"small": (2, 10, 64, 4, 1.3), "large": (8, 50, 256, 8, 1.05)}  # batch, time, model, heads, largest ratio


class RawLayer(torch.nn.Module):
    def __init__(self, ours: rf.TransformerEncoderLayer, heads: int):
        super().__init__()
        model = ours.out_dim.extent
        self.heads = heads
        self.att_norm, self.ff_norm = torch.nn.LayerNorm(model, eps=1e-6), torch.nn.LayerNorm(model, eps=1e-6)
        self.qkv, self.proj = _linear(ours.self_att.qkv), _linear(ours.self_att.proj)
        self.up, self.down = _linear(ours.ff.linear_ff), _linear(ours.ff.linear_out)

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        batch, time, model = x.shape
        qkv = self.qkv(self.att_norm(x)).view(batch, time, self.heads, -1).transpose(1, 2)
        query, key, value = qkv.chunk(3, -1)
        attended = F.scaled_dot_product_attention(query, key, value, attn_mask=mask)
        x = x + self.proj(attended.transpose(1, 2).reshape(batch, time, model))
        return x + self.down(torch.relu(self.up(self.ff_norm(x))))


class RawEncoder(torch.nn.Module):
    def __init__(self, ours: rf.TransformerEncoder, heads: int, positions: torch.Tensor):
        super().__init__()
        self.embedding = torch.nn.Embedding.from_pretrained(
            ours.input_embedding.weight.raw_tensor.detach().clone(), freeze=False
        )
        self.scale, self.positions = ours.model_dim.extent**0.5, positions
        self.layers = torch.nn.ModuleList(RawLayer(layer, heads) for layer in ours.layers)
        self.norm = torch.nn.LayerNorm(ours.model_dim.extent, eps=1e-6)

    def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        x = self.embedding(ids) * self.scale + self.positions[: ids.shape[1]]
        for layer in self.layers:
            x = layer(x, mask)
        return self.norm(x)


def _linear(ours: rf.Linear) -> torch.nn.Linear:
    weight, bias = ours.weight.raw_tensor.detach(), ours.bias.raw_tensor.detach()
    linear = torch.nn.Linear(*weight.shape)
    linear.weight = torch.nn.Parameter(weight.t().contiguous())
    linear.bias = torch.nn.Parameter(bias.clone())
    return linear


class Setup:
    """Both models, and a batch in which the sequences have from half of the frames to all of them."""

    def __init__(self, size: str):
        batch_size, longest, model_size, heads, self.limit = WIDE if size == "wide" else SIZES[size]
        torch.manual_seed(0)
        lengths = torch.linspace(longest, longest // 2, batch_size).long().tolist()
        batch, vocab, model = Dim(batch_size, name="batch"), Dim(VOCAB, name="vocab"), Dim(model_size, name="model")
        self.time = rf.ragged_dim(lengths, over=batch, name="time")
        self.ids = rf.random_uniform([batch, self.time], dtype="int64", minval=0, maxval=VOCAB, sparse_dim=vocab)
        self.ours = rf.TransformerEncoder(
            vocab, model, num_layers=LAYERS, num_heads=heads, dropout=0.0, att_dropout=0.0
        )
        positions = rf.sinusoidal_positional_encoding(spatial_dim=Dim(longest), feat_dim=model).raw_tensor
        self.raw = RawEncoder(self.ours, heads, positions).to(device())
        self.real = (torch.arange(longest) < torch.tensor(lengths)[:, None]).to(device())
        self.mask = self.real[:, None, None, :]
        self.padded = self.real.unsqueeze(-1)

    def forward_ours(self):
        out = self.ours(self.ids, spatial_dim=self.time)
        return out.raw_tensor if out.dims[1] is self.time else None

    def forward_raw(self):
        return self.raw(self.ids.raw_tensor, self.mask)


@pytest.mark.parametrize("size", SIZES)
def test_forward(size, overhead):
    setup = Setup(size)
    real = setup.real
    with torch.no_grad():
        torch.testing.assert_close(setup.forward_ours()[real], setup.forward_raw()[real], rtol=1e-4, atol=1e-4)
        overhead(f"encoder forward, {size}", *_in_frames(setup), limit=setup.limit)


def _in_frames(setup: Setup):
    """Both sides with zeros in the padding, which is what the harness may compare."""
    return (
        lambda: torch.where(setup.padded, setup.forward_ours(), 0),
        lambda: torch.where(setup.padded, setup.forward_raw(), 0),
    )


@pytest.mark.parametrize("size", SIZES)
def test_training_step(size, overhead):
    """Forward, backward and an update by Adam; the loss is the mean square over the real frames."""
    setup = Setup(size)
    parameters = [parameter.raw_tensor for parameter in setup.ours.parameters()]
    optimizers = [torch.optim.Adam(group, lr=1e-4) for group in (parameters, list(setup.raw.parameters()))]
    count = int(setup.real.sum())

    def ours():
        out = setup.ours(setup.ids, spatial_dim=setup.time)
        loss = rf.reduce_mean(rf.square(out), axis=out.dims).raw_tensor
        return _update(optimizers[0], loss)

    def raw():
        out = setup.forward_raw()
        loss = torch.where(setup.padded, out.square(), 0).sum() / (count * out.shape[-1])
        return _update(optimizers[1], loss)

    overhead(f"encoder training step, {size}", ours, raw, limit=setup.limit)


def _update(optimizer: torch.optim.Optimizer, loss: torch.Tensor) -> torch.Tensor:
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    return loss.detach()
