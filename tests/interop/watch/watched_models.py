"""Models that are watched in tests, their batches, and a plain training loop."""

from __future__ import annotations

import copy

import torch


class Tagger(torch.nn.Module):
    """Embedding, LSTM, batch norm, dropout, linear: all that an observer might change."""

    def __init__(self):
        super().__init__()
        self.embedding = torch.nn.Embedding(11, 6)
        self.lstm = torch.nn.LSTM(6, 8, batch_first=True)
        self.norm = torch.nn.BatchNorm1d(8)
        self.dropout = torch.nn.Dropout(0.3)
        self.out = torch.nn.Linear(8, 11)

    def forward(self, ids):
        hidden, _ = self.lstm(self.embedding(ids))
        hidden = self.norm(hidden.transpose(1, 2)).transpose(1, 2)
        return self.out(self.dropout(hidden))


class Encoder(torch.nn.Module):
    """A transformer with dropout; its layers have a fast path in eval mode."""

    def __init__(self):
        super().__init__()
        self.embedding = torch.nn.Embedding(11, 12)
        layer = torch.nn.TransformerEncoderLayer(12, 2, 20, batch_first=True)
        self.layers = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.out = torch.nn.Linear(12, 11)

    def forward(self, ids):
        return self.out(self.layers(self.embedding(ids)))


def batches(count, seed=3):
    """Batches of ids: 3 sequences of 7."""
    generator = torch.Generator().manual_seed(seed)
    return [torch.randint(0, 11, (3, 7), generator=generator) for _ in range(count)]


def loss_of(model, ids):
    """The loss of giving back what came in."""
    return torch.nn.functional.cross_entropy(model(ids).flatten(0, 1), ids.flatten())


def made(kind, seed=5):
    """A model with parameters of a seed."""
    torch.manual_seed(seed)
    return kind()


def train(model, optimizer, data, *, clip=None, after=lambda loss: None):
    """A plain loop; gives the losses."""
    losses = []
    for ids in data:
        optimizer.zero_grad()
        loss = loss_of(model, ids)
        loss.backward()
        if clip is not None:
            torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
        losses.append(loss.detach())
        after(loss)
    return losses


def state_of(model):
    """A copy of all parameters and buffers."""
    return copy.deepcopy(model.state_dict())


def assert_equal_states(one, other):
    """Bit by bit."""
    assert one.keys() == other.keys()
    for name in one:
        assert torch.equal(one[name], other[name]), name
