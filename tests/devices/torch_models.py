"""Models of torch that are recorded on two devices: the same small models, their inputs, and what a recording of them has."""

from __future__ import annotations

import copy

import torch
import torch.nn.functional as F
from simulated import values, watched
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

import rfnb as rf
from rfnb import Tensor

LENGTHS = torch.tensor([7, 4, 6])


class Packed(nn.Module):
    """An LSTM over packed sequences."""

    def __init__(self, **options):
        super().__init__()
        self.rnn = nn.LSTM(5, 4, num_layers=2, bidirectional=True, batch_first=True, **options)

    def forward(self, x):
        packed = pack_padded_sequence(x, LENGTHS, batch_first=True, enforce_sorted=False)
        return pad_packed_sequence(self.rnn(packed)[0], batch_first=True)[0]


class Cells(nn.Module):
    """A loop over cells."""

    def __init__(self, kind):
        super().__init__()
        self.cell = kind(5, 4)

    def forward(self, x):
        state, out = None, []
        for frame in x.transpose(0, 1):
            state = self.cell(frame, state)
            out.append(state[0] if isinstance(state, tuple) else state)
        return torch.stack(out, 1)


class WrittenAttention(nn.Module):
    """An attention whose softmax is written out."""

    def __init__(self):
        super().__init__()
        self.project = nn.Linear(5, 10)

    def forward(self, x):
        query, key = self.project(x).chunk(2, -1)
        return torch.softmax(query @ key.transpose(1, 2), -1) @ x


class Dotted(nn.Module):
    """`F.scaled_dot_product_attention`, over all or of one target over many sources."""

    def __init__(self, targets=None, **options):
        super().__init__()
        self.project, self.targets, self.options = nn.Linear(5, 64), targets, options

    def forward(self, x):
        heads = self.project(x).unflatten(-1, (2, 32)).transpose(1, 2)
        mask = x.new_ones(x.shape[1], x.shape[1], dtype=torch.bool).tril(2) if self.options.get("masked") else None
        queries = heads[:, :, -self.targets :] if self.targets else heads
        mask = None if mask is None else mask[-queries.shape[2] :]
        return F.scaled_dot_product_attention(
            queries, heads, heads, attn_mask=mask, is_causal=self.options.get("causal", False)
        )


class ConvFrontend(nn.Module):
    """Convolutions, a norm and a recurrent layer, as of speech."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Sequential(nn.Conv1d(5, 8, 3, stride=2), nn.BatchNorm1d(8), nn.GELU(), nn.Dropout(0.2))
        self.rnn = nn.GRU(8, 4, batch_first=True, bidirectional=True)
        self.head = nn.Linear(8, 11)

    def forward(self, x):
        return self.head(self.rnn(self.conv(x.transpose(1, 2)).transpose(1, 2))[0])


class Both(nn.Module):
    """An encoder and a decoder."""

    def __init__(self):
        super().__init__()
        self.both = nn.Transformer(5, 1, 1, 1, 8, batch_first=True)

    def forward(self, x):
        mask = self.both.generate_square_subsequent_mask(4, device=x.device)
        return self.both(x, x[:, :4].clone(), tgt_mask=mask)


def _encoder(**options):
    return nn.TransformerEncoder(nn.TransformerEncoderLayer(5, 1, 8, batch_first=True, **options), 2)


class PaddedInputs(nn.Module):
    """A module that gets a mask of padding."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x, padding_mask):
        return self.inner(x, src_key_padding_mask=padding_mask)


MODELS = {
    "LSTM": lambda: nn.LSTM(5, 4, batch_first=True),
    "LSTM of two layers with dropout": lambda: nn.LSTM(5, 4, 2, bidirectional=True, dropout=0.4),
    "LSTM with projection": lambda: nn.LSTM(5, 4, 2, proj_size=3, dropout=0.4),
    "GRU with dropout": lambda: nn.GRU(5, 4, 3, dropout=0.4, batch_first=True),
    "RNN": lambda: nn.RNN(5, 4, 2, nonlinearity="relu"),
    "packed": Packed,
    "packed with dropout": lambda: Packed(dropout=0.4),
    "LSTMCell": lambda: Cells(nn.LSTMCell),
    "GRUCell": lambda: Cells(nn.GRUCell),
    "RNNCell": lambda: Cells(nn.RNNCell),
    "TransformerEncoder": _encoder,
    "TransformerEncoder, norm first": lambda: _encoder(norm_first=True),
    "Transformer": Both,
    "written attention": WrittenAttention,
    "scaled dot product": Dotted,
    "scaled dot product, causal": lambda: Dotted(causal=True),
    "scaled dot product, masked": lambda: Dotted(masked=True),
    "one target": lambda: Dotted(targets=1),
    "one target, masked": lambda: Dotted(targets=1, masked=True),
    "convolutions": ConvFrontend,
    "lengths by a mask": lambda: PaddedInputs(_encoder()),
}


def made(name, training):
    """A model, and its inputs."""
    torch.manual_seed(1)
    model = MODELS[name]()
    x = torch.randn(3, 7, 5)
    mask = torch.arange(7)[None] >= LENGTHS[:, None]
    return model.train(training), (x, mask) if isinstance(model, PaddedInputs) else (x,)


def on(device, model, given):
    """Copies there."""
    return copy.deepcopy(model).to(device), tuple(each.to(device) for each in given)


def first(result):
    """The output of a model, in what it returns."""
    return result[0] if isinstance(result, tuple) else result


def run(model, given, *, recorded=False, seed=5):
    """One step of training, or one call: its output and gradients; the recording; the events of the device."""
    torch.manual_seed(seed)
    model.zero_grad()
    trace = None
    with watched() as seen:
        if recorded:
            with rf.record(model=model, values=True) as trace:
                out = first(model(*given))
        else:
            out = first(model(*given))
        if model.training:
            (out * out).sum().backward()
    return [out.detach(), *(each.grad for each in model.parameters() if each.grad is not None)], trace, seen


def raws_of(value):
    """The raw arrays in a value of an event."""
    if isinstance(value, Tensor):
        return [] if value.raw_tensor is None else [value.raw_tensor]
    if isinstance(value, dict):
        return [raw for each in value.values() for raw in raws_of(each)]
    return [raw for each in value for raw in raws_of(each)] if isinstance(value, list | tuple) else []


def content(trace):
    """All that a recording has, on the host: by event its kind, path and step, and by value its dims and numbers."""
    out = []
    for event in trace.events:
        given = {}
        for name, value in event.values.items():
            raws = [raw if raw.device.type == "cpu" else values(raw) for raw in raws_of(value)]
            dims = [dim.name for dim in value.dims] if isinstance(value, Tensor) else None
            given[name] = dims, [raw.detach().clone() for raw in raws]
        out.append(((event.kind, event.path, event.step), given))
    return out
