"""Models of plain torch code in the engine of a page: the same values and views as in Python, for texts of any length."""

from __future__ import annotations

import ast
import inspect
import math
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from viz.runnable import run_in_node, told_in_node, views_in_node

import rfnb as rf
from rfnb.core.errors import parts_of as parts_of_error
from rfnb.interop import torch_page_calls
from rfnb.interop.tape import tensors_in
from rfnb.interop.torch_page_calls import READ, ROWS
from rfnb.viz import trace_page
from rfnb.viz.distribution.spec import spec as distribution_spec
from rfnb.viz.group.spec import parts_of
from rfnb.viz.runnable.output_views import dims_of
from rfnb.viz.runnable.page import page_of
from rfnb.viz.runnable.program import PageProgram

LETTERS = "abcdefgh"
TEXTS = ["abcd", "h", "gfedcbaabcdd", "bbbb", "ab"]


def ids_of(text):
    return torch.tensor([[LETTERS.index(letter) for letter in text]])


# -- models, as people write them ------------------------------------------------------------------------------------------


class Block(nn.Module):
    def __init__(self, width, heads, size):
        super().__init__()
        self.heads = heads
        self.ln1, self.ln2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width), nn.Dropout(0.1))
        self.register_buffer("mask", torch.tril(torch.ones(size, size)).view(1, 1, size, size))

    def forward(self, x):
        B, T, C = x.shape
        q, k, v = self.qkv(self.ln1(x)).split(C, dim=2)
        q, k, v = (each.view(B, T, self.heads, C // self.heads).transpose(1, 2) for each in (q, k, v))
        att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        att = att.masked_fill(self.mask[:, :, :T, :T] == 0, float("-inf"))
        y = F.softmax(att, dim=-1) @ v
        x = x + self.proj(y.transpose(1, 2).contiguous().view(B, T, C))
        return x + self.mlp(self.ln2(x))


class GPT(nn.Module):
    def __init__(self, width=16, heads=4, layers=2, size=32):
        super().__init__()
        self.size = size
        self.tok, self.pos = nn.Embedding(8, width), nn.Embedding(size, width)
        self.blocks = nn.ModuleList(Block(width, heads, size) for _ in range(layers))
        self.ln, self.head = nn.LayerNorm(width), nn.Linear(width, 8, bias=False)
        self.head.weight = self.tok.weight

    def forward(self, ids):
        B, T = ids.size()
        assert T <= self.size
        x = self.tok(ids) + self.pos(torch.arange(T, device=ids.device))
        for block in self.blocks:
            x = block(x)
        return self.head(self.ln(x))


class Fused(nn.Module):
    """`scaled_dot_product_attention`, a learned table of positions, a key and value history."""

    def __init__(self, width=16, heads=2):
        super().__init__()
        self.heads = heads
        self.emb, self.pos = nn.Embedding(8, width), nn.Parameter(torch.randn(1, 64, width))
        self.q, self.k, self.v = (nn.Linear(width, width) for _ in range(3))
        self.out = nn.Linear(width, 8)

    def forward(self, ids):
        x = self.emb(ids) + self.pos[:, : ids.shape[1]]
        b, t, d = x.shape
        q, k, v = (each(x).reshape(b, t, self.heads, -1).permute(0, 2, 1, 3) for each in (self.q, self.k, self.v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.permute(0, 2, 1, 3).flatten(2)).log_softmax(-1)

    def step(self, labels, past):
        """The next log probabilities of labels (n,), given keys and values (n, time, width) of what was before."""
        x = self.emb(labels)[:, None] + self.pos[:, :1]
        keys, values = (torch.cat([old, make(x)], dim=1) for old, make in zip(past, (self.k, self.v)))
        weights = torch.softmax(self.q(x) @ keys.transpose(1, 2) / math.sqrt(x.size(-1)), dim=-1)
        return self.out((weights @ values).squeeze(1)).log_softmax(-1), (keys, values)


class LanguageModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb, self.rnn = nn.Embedding(8, 6), nn.LSTM(6, 8, num_layers=2, batch_first=True)
        self.cell, self.out = nn.LSTMCell(6, 8), nn.Linear(8, 8)

    def forward(self, ids):
        y, (h, c) = self.rnn(self.emb(ids))
        return self.out(y), h, c

    def step(self, labels, state):
        h, c = self.cell(self.emb(labels), state)
        return (self.out(h) * 5).log_softmax(-1), (h, c)


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb, self.rnn = nn.Embedding(8, 6), nn.GRU(6, 8, bidirectional=True, batch_first=True)
        self.score, self.out = nn.Linear(16, 1), nn.Linear(16, 3)

    def forward(self, ids):
        h, _ = self.rnn(self.emb(ids))
        weights = torch.softmax(self.score(torch.tanh(h)).squeeze(-1), dim=1)
        return self.out(torch.bmm(weights.unsqueeze(1), h).squeeze(1))


class Convolutions(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(8, 6)
        self.one, self.two = nn.Conv1d(6, 10, 3, padding=1), nn.Conv1d(10, 10, 3, padding=2, dilation=2)
        self.norm, self.out = nn.BatchNorm1d(10), nn.Linear(20, 4)

    def forward(self, ids):
        x = F.relu(self.norm(self.one(self.emb(ids).transpose(1, 2))))
        x = torch.relu_(self.two(x))
        return self.out(torch.cat([x.max(dim=-1).values, x.mean(2)], dim=-1))


class Bag(nn.Module):
    """An MLP over the mean and the last three letters."""

    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(8, 6)
        self.net = nn.Sequential(nn.Linear(12, 16), nn.ReLU(inplace=True), nn.Linear(16, 5))

    def forward(self, ids):
        x = self.emb(ids)
        return F.log_softmax(self.net(torch.cat((x.sum(1) / x.shape[1], x[:, -1]), dim=1)), dim=1)


class ByHand(nn.Module):
    """An LSTM as a loop over the text."""

    def __init__(self, width=6, size=4):
        super().__init__()
        self.emb, self.out, self.size = nn.Embedding(8, width), nn.Linear(size, 8), size
        self.w, self.u = nn.Linear(width, 4 * size), nn.Linear(size, 4 * size, bias=False)

    def forward(self, ids):
        x, outputs = self.emb(ids), []
        h = c = torch.zeros(x.size(0), self.size)
        for t in range(x.size(1)):
            i, f, g, o = (self.w(x[:, t]) + self.u(h)).chunk(4, dim=-1)
            c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
            h = torch.sigmoid(o) * torch.tanh(c)
            outputs.append(self.out(h))
        return torch.stack(outputs, dim=1)


class Attention(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.w, self.v = nn.Linear(2 * size, size), nn.Linear(size, 1, bias=False)

    def forward(self, h, encoded):
        energy = torch.tanh(self.w(torch.cat([h.unsqueeze(1).expand(-1, encoded.size(1), -1), encoded], dim=-1)))
        return F.softmax(self.v(energy).squeeze(2), dim=1)


class Decoder(nn.Module):
    """An encoder, and a decoder in a loop that attends to it and reads what it has said."""

    def __init__(self, size=8):
        super().__init__()
        self.emb, self.encoder, self.attention = (
            nn.Embedding(8, size),
            nn.GRU(size, size, batch_first=True),
            Attention(size),
        )
        self.cell, self.out = nn.GRUCell(2 * size, size), nn.Linear(2 * size, 8)

    def forward(self, ids):
        encoded, h = self.encoder(self.emb(ids))
        h, label, result = h[0], torch.zeros(ids.size(0), dtype=torch.long), torch.zeros(ids.size(0), ids.size(1), 8)
        for t in range(ids.size(1)):
            weights = self.attention(h, encoded)
            context = torch.bmm(weights.unsqueeze(1), encoded).squeeze(1)
            h = self.cell(torch.cat([self.emb(label), context], dim=1), h)
            result[:, t] = self.out(torch.cat([h, context], dim=1))
            label = result[:, t].argmax(dim=1)
        return result


# -- the same in other styles ----------------------------------------------------------------------------------------------


class Positions(nn.Module):
    def __init__(self, width, size=100):
        super().__init__()
        place, rate = torch.arange(size).unsqueeze(1), torch.exp(torch.arange(0, width, 2) * (-math.log(1e4) / width))
        table = torch.zeros(size, 1, width)
        table[:, 0, 0::2], table[:, 0, 1::2] = torch.sin(place * rate), torch.cos(place * rate)
        self.register_buffer("table", table.transpose(0, 1))
        self.dropout = nn.Dropout(0.1)

    def forward(self, x):
        return self.dropout(x + self.table[:, : x.size(1)])


class Encoder(nn.Module):
    """nn.TransformerEncoder with batch_first."""

    def __init__(self, width=16):
        super().__init__()
        self.width = width
        self.emb, self.positions, self.out = nn.Embedding(8, width), Positions(width), nn.Linear(width, 8)
        layer = nn.TransformerEncoderLayer(width, 4, 32, batch_first=True, activation="gelu")
        self.encoder = nn.TransformerEncoder(layer, num_layers=2)

    def forward(self, ids):
        mask = nn.Transformer.generate_square_subsequent_mask(ids.size(1))
        x = self.positions(self.emb(ids) * math.sqrt(self.width))
        return self.out(self.encoder(x, mask=mask, is_causal=True))


def turned(x):
    a, b = x.chunk(2, dim=-1)
    return torch.cat((-b, a), dim=-1)


class Einsum(nn.Module):
    """Attention by einsum, rotary positions, a norm by hand and a gated MLP."""

    def __init__(self, width=16, heads=2):
        super().__init__()
        self.size = width // heads
        self.emb = nn.Parameter(torch.randn(8, width) * 0.5)
        self.wq, self.wk, self.wv = (nn.Parameter(torch.randn(width, heads, self.size) * 0.3) for _ in range(3))
        self.wo = nn.Parameter(torch.randn(heads, self.size, width) * 0.3)
        self.w1, self.w2, self.w3 = nn.Linear(width, 32), nn.Linear(32, width), nn.Linear(width, 32)

    def norm(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)

    def forward(self, ids):
        x = self.emb[ids]
        n = x.shape[1]
        rates = 1.0 / (10000 ** (torch.arange(0, self.size, 2).float() / self.size))
        angles = torch.einsum("i,j->ij", torch.arange(n).float(), rates)
        angles = torch.cat((angles, angles), -1)
        cos, sin = angles.cos()[None, :, None], angles.sin()[None, :, None]
        q, k, v = (torch.einsum("bnd,dhk->bnhk", self.norm(x), w) for w in (self.wq, self.wk, self.wv))
        q, k = q * cos + turned(q) * sin, k * cos + turned(k) * sin
        sim = torch.einsum("bihk,bjhk->bhij", q, k) * self.size**-0.5
        ahead = torch.ones((n, n), dtype=torch.bool).triu(1)
        weights = sim.masked_fill(ahead, -torch.finfo(sim.dtype).max).softmax(dim=-1)
        x = x + torch.einsum("bhij,bjhk,hkd->bid", weights, v, self.wo)
        y = self.norm(x)
        return (x + self.w2(F.silu(self.w1(y)) * self.w3(y))) @ self.emb.t()


class Functions:
    """Functions of weights in a dict: chunk, view, transpose, contiguous, masks that are added."""

    def __init__(self, width=12, heads=3):
        made = torch.Generator().manual_seed(1)
        shapes = {
            "wte": (8, width),
            "wpe": (40, width),
            "w": (3 * width, width),
            "b": (3 * width,),
            "o": (width, width),
        }
        shapes |= {"f1": (4 * width, width), "f2": (width, 4 * width), "g": (width,)}
        self.p = {name: torch.randn(*shape, generator=made) * 0.3 for name, shape in shapes.items()}
        self.heads = heads

    def split(self, t):
        size = t.size(-1) // self.heads
        t = t.contiguous().view(t.size(0), -1, self.heads, size).transpose(1, 2)
        return t.contiguous().view(-1, t.size(2), size)

    def __call__(self, ids):
        p, seq = self.p, ids.size(-1)
        places = torch.arange(0, seq, dtype=torch.long).unsqueeze(0)
        x = F.embedding(ids, p["wte"]) + F.embedding(places, p["wpe"])
        y = F.layer_norm(x, x.shape[-1:], p["g"])
        q, k, v = map(self.split, F.linear(y, p["w"], p["b"]).chunk(3, -1))
        w = torch.bmm(q, k.transpose(1, 2)) / (q.size(-1) ** 0.5)
        w += torch.triu(torch.full((seq, seq), float("-inf")), diagonal=1)
        a = torch.bmm(F.softmax(w.float(), dim=-1).type_as(q), v)
        a = a.view(ids.size(0), self.heads, seq, -1).transpose(1, 2).reshape(ids.size(0), seq, -1)
        x = x + F.linear(a, p["o"])
        x = x + F.linear(F.gelu(F.linear(F.layer_norm(x, (x.size(-1),)), p["f1"]), approximate="tanh"), p["f2"])
        return F.log_softmax(x.matmul(p["wte"].T), -1)


torch.manual_seed(3)
MODELS = {
    "GPT": GPT(), "fused attention": Fused(), "LSTM": LanguageModel(), "GRU with attention": Classifier(), "convolutions": Convolutions(),
    "MLP": Bag(), "nn.TransformerEncoder": Encoder(), "einsum": Einsum(), "functions": Functions(),
    "a loop by hand": ByHand(), "a decoder in a loop": Decoder(),
}  # fmt: skip
for model in MODELS.values():
    if isinstance(model, nn.Module):
        model.eval()


def of_model(model):
    return lambda text: model(ids_of(text))


def searched(step, state, **options):
    return rf.beam_search(step, batch=1, state=state, beam_size=3, max_seq_len=7, vocab=list(LETTERS), **options)


def by_cell(text):
    model = MODELS["LSTM"]
    _, h, c = model(ids_of(text))
    return searched(model.step, (h[-1], c[-1]), start_label=3)


def by_whole_texts(text):
    def step(labels, tokens):
        tokens = torch.cat([tokens, labels[:, None]], 1)
        return F.log_softmax(MODELS["GPT"](tokens)[:, -1] * 3, dim=-1), tokens

    return searched(step, ids_of(text), start_label=1, no_repeat_ngram=1)


def by_history(text):
    model = MODELS["fused attention"]
    x = model.emb(ids_of(text))
    return searched(model.step, (model.k(x), model.v(x)), start_label=2)


SEARCHES = {"a cell": by_cell, "the whole text in each step": by_whole_texts, "keys and values": by_history}
CALLS = {**{name: of_model(model) for name, model in MODELS.items()}, **SEARCHES}


# -- single calls ----------------------------------------------------------------------------------------------------------


def packed(rnn, x, sort):
    lengths = torch.tensor([x.size(1)] * len(x))
    out, state = rnn(nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=sort))
    y, lengths = nn.utils.rnn.pad_packed_sequence(out, batch_first=True)
    return y, lengths, *(state if isinstance(state, tuple) else [state])


def conv(kind, *sizes, **options):
    made = getattr(nn, f"Conv{kind}d")(*sizes, **options)
    if kind == 1:
        return lambda x, ids: made(x.transpose(1, 2))
    return lambda x, ids: made(torch.stack([x, F.one_hot(ids, 8)[..., :6].float()], 1))


ALONE = nn.Conv1d(6, 4, 1)
PAIR = torch.tensor([[0, 1], [1, -1]])
KEPT = torch.tensor([True, False, True, True, False, True])
CELLS = {
    "LSTM": nn.LSTM(6, 4, num_layers=2, bidirectional=True, batch_first=True),
    "GRU": nn.GRU(6, 4, batch_first=True),
}
BAGS = {
    mode: nn.EmbeddingBag(8, 5, mode=mode, padding_idx=None if mode == "max" else 1) for mode in ("sum", "mean", "max")
}
ONE_CALL = {
    "erf": lambda x, ids: torch.erf(torch.cat([x, x * 1e-4, x * 40, x * float("inf")], -1)),
    "GELU by hand": lambda x, ids: x * 0.5 * (1.0 + torch.erf(x / math.sqrt(2.0))),
    "topk": lambda x, ids: x.topk(3),
    "the smallest of the text": lambda x, ids: torch.topk(x, 1, dim=1, largest=False)[0],
    "topk of whole numbers": lambda x, ids: (ids[..., None] * torch.arange(1, 5)).topk(2)[0],
    "argmin and min": lambda x, ids: (x.argmin(-1), x.min(1), x.min(2, keepdim=True).indices),
    "a sort of one": lambda x, ids: torch.sort(x[:, 0, :1], 1).values,
    "pairs of arrays": lambda x, ids: x[..., PAIR][:, :, PAIR % 2, PAIR],
    "arrays of the text": lambda x, ids: x[0, torch.arange(ids.size(1)), ids[0] % 6],
    "an array and a number": lambda x, ids: x[:, 0, PAIR],
    "an array before an axis": lambda x, ids: x[0, ids % 1],
    "known bools": lambda x, ids: (x[..., KEPT], x[:, :, KEPT.tolist()]),
    "known bools of two axes": lambda x, ids: x.flatten(1)[:, :6].view(1, 2, 3)[:, KEPT.view(2, 3)],
    "convolution": conv(1, 6, 4, 3, padding=1, stride=2, bias=False),
    "convolution in groups": conv(1, 6, 9, 3, padding="same", groups=3),
    "convolution of each channel": conv(1, 6, 6, 2, padding=1, groups=6, dilation=2),
    "convolution without a batch": lambda x, ids: ALONE(x[0].T),
    "convolution of pictures": conv(2, 2, 3, (3, 5), padding=(1, 2)),
    "convolution of pictures with steps": conv(2, 2, 4, (1, 3), stride=(2, 1), groups=2, dilation=(1, 2)),
    "pooling": lambda x, ids: (F.max_pool1d(x, 2), F.avg_pool1d(x.transpose(1, 2), 3, 2)),
    "pooling of the text": lambda x, ids: F.max_pool1d(x.transpose(1, 2), 3, stride=2, padding=1),
    "pooling of pictures": lambda x, ids: (F.max_pool2d(x, (1, 2)), F.adaptive_avg_pool2d(x, 1), F.adaptive_max_pool2d(x, (1, 1))),
    "each second letter": lambda x, ids: (x[:, ::2], x[:, 1:].sum(1)),
    "a packed LSTM": lambda x, ids: packed(CELLS["LSTM"], x, True),
    "a packed GRU": lambda x, ids: packed(CELLS["GRU"], x, False),
    "frames repeated": lambda x, ids: x.repeat_interleave(2, dim=1),
    "a padded list": lambda x, ids: nn.utils.rnn.pad_sequence([x[0]], batch_first=True),
    **{f"a bag by {mode}": lambda x, ids, bag=bag: (bag(ids), bag(ids[0], torch.tensor([0]))) for mode, bag in BAGS.items()},
    "a weighted bag": lambda x, ids: F.embedding_bag(ids, BAGS["sum"].weight, mode="sum", per_sample_weights=x[..., 0]),
}  # fmt: skip


# -- loops of Python over the text -----------------------------------------------------------------------------------------


class Loops(nn.Module):
    """Loops as people write them."""

    def __init__(self):
        super().__init__()
        self.emb, self.cell, self.gru = (
            nn.Embedding(8, 6),
            nn.LSTMCell(6, 4),
            nn.GRU(6, 4, num_layers=2, batch_first=True),
        )
        self.w, self.u, self.out = nn.Linear(6, 4), nn.Linear(4, 4, bias=False), nn.Linear(4, 8)
        self.attn, self.both = nn.Linear(8, 1), nn.GRUCell(10, 4)

    def a_cell(self, ids):
        x, outputs = self.emb(ids), []
        h, c = torch.zeros(x.size(0), 4), torch.zeros(x.size(0), 4)
        for t in range(x.size(1)):
            h, c = self.cell(x[:, t, :], (h, c))
            outputs.append(self.out(h))
        return torch.stack(outputs, dim=1), h

    def a_cell_that_begins_by_itself(self, ids):
        state, outputs = None, []
        for x in self.emb(ids).unbind(1):
            state = self.cell(x, state)
            outputs += [state[0]]
        return torch.stack(outputs), state[1]

    def by_hand(self, ids):
        h = torch.zeros(1, 4)
        for t in range(ids.shape[1]):
            h = torch.tanh(self.w(self.emb(ids[:, t])) + self.u(h))
        return h

    def backwards(self, ids):
        x, h, found = self.w(self.emb(ids)), torch.zeros(1, 4), []
        for t in range(ids.size(1) - 1, -1, -1):
            h = torch.relu(x[:, t] + self.u(h))
            found.insert(0, h)
        return torch.cat(found).unsqueeze(0)

    def a_module_for_each_letter(self, ids):
        x, h, outputs = self.emb(ids), None, []
        for t in range(x.shape[1]):
            y, h = self.gru(x[:, t : t + 1], h)
            outputs.append(y)
        return torch.cat(outputs, dim=1)

    def what_was_read_is_fed_back(self, ids):
        x, hidden = self.emb(ids), torch.zeros(2, 1, 4)
        _, hidden = self.gru(x, hidden)
        result, label = torch.zeros(1, ids.size(1), 8), torch.zeros(1, 1, dtype=torch.long)
        for t in range(ids.size(1)):
            y, hidden = self.gru(self.emb(label), hidden)
            result[:, t] = self.out(y)[:, 0]
            label = result[:, t].argmax(-1, keepdim=True)
        return result

    def with_attention(self, ids):
        x = self.emb(ids)
        keys, h, outputs, maps = self.w(x), torch.zeros(1, 4), [], []
        for t in range(x.size(1)):
            scores = self.attn(torch.cat([keys, h.unsqueeze(1).expand(-1, keys.size(1), -1)], -1)).squeeze(-1)
            weights = F.softmax(scores, dim=1)
            context = torch.bmm(weights.unsqueeze(1), keys).squeeze(1)
            h = self.both(torch.cat([x[:, t], context], 1), h)
            outputs.append(h)
            maps.append(weights)
        return self.out(torch.stack(outputs, 1)), torch.stack(maps, 1)

    def two_loops(self, ids):
        x = self.w(self.emb(ids))
        one, two, total, seen = torch.zeros(1, 4), torch.zeros(1, 4), 0.0, []
        for t in range(ids.size(1)):
            one = torch.tanh(x[:, t] * (t + 1) + self.u(one))
            seen.append(one)
        for t in range(ids.size(1)):
            two = torch.sigmoid(seen[t] - self.u(two))
            total = total + two * t
        return total / ids.size(1), two

    def from_the_second_on(self, ids):
        x = self.w(self.emb(ids))
        found = [x[:, 0]]
        for t in range(1, ids.size(1)):
            found.append(x[:, t] - 0.5 * found[-1])
        return torch.stack(found, 1)


torch.manual_seed(4)
LOOPS = Loops().eval()
BEFORE = ("backwards", "two_loops")  # their first turn is not like the others
LOOPED = [name for name in vars(Loops) if name[0] != "_"]


def of_loop(name):
    return lambda text: getattr(LOOPS, name)(ids_of(text))


@pytest.fixture(scope="module")
def loops(tmp_path_factory):
    programs = {name: PageProgram.of(of_loop(name), "abcd") for name in LOOPED}
    return programs, run_in_node(programs, TEXTS, tmp_path_factory.mktemp("loops"))


@pytest.mark.parametrize("name", LOOPED)
def test_a_loop_of_python_over_the_text_is_one_loop_in_a_page(name, loops):
    programs, told = loops
    assert any("loop" in block for block in programs[name].spec["blocks"])
    for text, answer in zip(TEXTS, told[name]["answers"], strict=True):
        with torch.no_grad():
            found = of_loop(name)(text)
        if len(text) == 1 and name in BEFORE:
            assert "a loop of it has no step" in answer["error"]
            continue
        assert "error" not in answer, answer
        for (got, value), ref, own in zip(
            numbers(answer), programs[name].spec["result"], found if isinstance(found, tuple) else (found,), strict=True
        ):
            order = [value["dims"].index(dim) for dim in dims_of(programs[name], ref)]
            np.testing.assert_allclose(got.reshape(value["shape"]).transpose(order), own.numpy(), atol=1e-4)


def of_call(name):
    def fn(text):
        ids = ids_of(text)
        return ONE_CALL[name](MODELS["MLP"].emb(ids), ids)

    return fn


@pytest.fixture(scope="module")
def single(tmp_path_factory):
    programs = {name: PageProgram.of(of_call(name), "abcd") for name in ONE_CALL}
    return programs, run_in_node(programs, TEXTS, tmp_path_factory.mktemp("single"))


@pytest.mark.parametrize("name", ONE_CALL)
def test_a_call_of_torch_computes_in_a_page_what_torch_computes(name, single):
    programs, told = single
    for text, answer in zip(TEXTS, told[name]["answers"], strict=True):
        try:
            with torch.no_grad():
                wanted = list(tensors_in(of_call(name)(text)))
        except RuntimeError:
            assert "too short for the model" in answer["error"]
            continue
        assert "error" not in answer, answer
        for (got, value), ref, own in zip(numbers(answer), programs[name].spec["result"], wanted, strict=True):
            order = [value["dims"].index(dim) for dim in dims_of(programs[name], ref)]
            got = got.reshape(value["shape"]).transpose(order)
            np.testing.assert_allclose(got, own.numpy(), atol=1e-4, rtol=1e-4)


def numbers(answer):
    for value in answer["values"]:
        yield np.array([float(each.replace("Infinity", "inf")) for each in value["values"]]), value


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    """By name the program, and what the engine says of the texts."""
    programs = {name: PageProgram.of(fn, "abcd") for name, fn in CALLS.items()}
    told = run_in_node(programs, TEXTS, tmp_path_factory.mktemp("torch"))
    return {name: (program, told[name]) for name, program in programs.items()}


@pytest.mark.parametrize("name", MODELS)
def test_a_model_of_torch_computes_in_a_page_what_torch_computes(name, answers):
    program, told = answers[name]
    assert told["missing"] == []
    for text, answer in zip(TEXTS, told["answers"], strict=True):
        assert "error" not in answer, answer
        with torch.no_grad():
            found = CALLS[name](text)
        for (got, value), ref, wanted in zip(
            numbers(answer), program.spec["result"], found if isinstance(found, tuple) else (found,), strict=True
        ):
            order = [value["dims"].index(dim) for dim in dims_of(program, ref)]
            got = got.reshape(value["shape"]).transpose(order)
            np.testing.assert_allclose(got, wanted.numpy(), atol=1e-4)


@pytest.mark.parametrize("name", SEARCHES)
def test_a_step_function_of_torch_searches_in_a_page_as_here(name, answers):
    for text, answer in zip(TEXTS, answers[name][1]["answers"], strict=True):
        assert "error" not in answer, answer
        with torch.no_grad():
            wanted = CALLS[name](text).history.nbest(0)
        for found, own in zip(answer["nbest"][-1], wanted, strict=True):
            labels = [int(label) for label in own.tokens[: len(own.tokens) - own.ended]]
            assert (found["labels"], found["ended"]) == (labels, own.ended)
            assert found["score"] == pytest.approx(own.score, abs=1e-4)


SEEN = {"GPT": "attention", "fused attention": "attention", "GRU with attention": "states", "LSTM": "states",
        "nn.TransformerEncoder": "attention", "a loop by hand": "states", "a decoder in a loop": "attention"}  # fmt: skip


@pytest.mark.parametrize("name", SEEN)
def test_the_views_of_a_model_of_torch_have_the_values_that_python_draws(name, tmp_path):
    record = {"model": MODELS[name], "labels": list(LETTERS)}
    page = page_of(CALLS[name], ("text", "abcd"), {}, {}, record=record, weights="float32")[0]
    kinds = []
    for text, group in zip(TEXTS, views_in_node(page, [(text, {}) for text in TEXTS], tmp_path), strict=True):
        run = rf.run(CALLS[name], text=text, record=record)
        run.wait()
        recorded = trace_page.spec(run.trace)
        own = {
            str(part.head.get("key")): part for part in (parts_of(recorded) if recorded.kind == "group" else [recorded])
        }
        for part in parts_of(group):
            kinds.append(part.kind)
            if part.kind == "distribution":  # see below
                continue
            wanted, entries = own.get(str(part.head["key"])), "maps" if part.kind == "attention" else "tracks"
            if len(text) == 1:
                continue  # Python has other labels for a single step
            by_label = {entry["label"]: entry for entry in wanted.head[entries]}
            for entry in part.head[entries]:
                shown = wanted.blocks[by_label[entry["label"]]["block"]]
                np.testing.assert_allclose(part.blocks[entry["block"]], shown, atol=1e-4)
            (seq,), (shown,) = part.head["seqs"], wanted.head["seqs"]
            names = [name for name in ("rows", "cols", "steps") if name in shown]
            assert {name: list(seq[name]) for name in names} == {name: list(shown[name]) for name in names}
    assert SEEN[name] in kinds


# -- outputs ---------------------------------------------------------------------------------------------------------------

TAGS = ["noun", "verb", "other", "none"]
OUTPUTS = {"GPT": "logits", "fused attention": "log-probs", "GRU with attention": "logits", "convolutions": "logits", "MLP": "log-probs",
           "a distribution": "probs"}  # fmt: skip
SHOWN = {**CALLS, "a distribution": lambda text: (MODELS["convolutions"](ids_of(text)) * 3).softmax(-1)}


@pytest.mark.parametrize("name", OUTPUTS)
def test_a_page_shows_the_classes_that_a_model_of_torch_scores(name, tmp_path):
    record = {"model": MODELS.get(name), "labels": TAGS} if name == "a distribution" else {"model": MODELS[name]}
    page, _, picture = page_of(SHOWN[name], ("text", "abcd"), {}, {}, record=record, weights="float32")
    assert "distribution" in [part.kind for part in parts_of(picture.spec)]
    for text, group in zip(TEXTS, views_in_node(page, [(text, {}) for text in TEXTS], tmp_path), strict=True):
        (part,) = [part for part in parts_of(group) if part.kind == "distribution"]
        with torch.no_grad():
            found = SHOWN[name](text)
        array = (found[0] if isinstance(found, tuple) else found).numpy()[0]
        labels = {4: TAGS if name == "a distribution" else None}.get(array.shape[-1])
        given = {"labels": labels, "estimated_type": OUTPUTS[name]}
        wanted = distribution_spec(array, dims=["letter", "class"][2 - array.ndim :], **given)
        assert part.head["estimated_type"] == OUTPUTS[name]
        for block, values in wanted.blocks.items():
            np.testing.assert_allclose(part.blocks[block], values, atol=1e-4, err_msg=block)
        (seq,) = part.head["seqs"]
        assert seq["len"] == wanted.head["seqs"][0]["len"]
        assert seq["steps"] == (list(text) if array.ndim == 2 else ["0"])
        assert part.head["tokens"] == wanted.head["tokens"]


def test_the_first_text_of_a_page_may_be_short(tmp_path):
    page, _, picture = page_of(CALLS["GPT"], ("text", "a"), {}, {}, record={"model": MODELS["GPT"]}, weights="float32")
    own, *_ = parts_of(picture.spec)
    assert own.kind == "distribution" and own.head["seqs"][0]["steps"] == ["a"]
    (part, *_) = parts_of(views_in_node(page, [("a", {})], tmp_path)[0])
    np.testing.assert_allclose(part.blocks["top_log_probs"], own.blocks["top_log_probs"], atol=1e-4)


def test_scores_without_a_batch_are_shown(tmp_path):
    def fn(text):
        return MODELS["convolutions"](ids_of(text))[0]

    page, *_ = page_of(fn, ("text", "abc"), {}, {}, weights="float32")
    (part, *_) = parts_of(views_in_node(page, [("hgf", {})], tmp_path)[0])
    np.testing.assert_allclose(
        np.exp(part.blocks["top_log_probs"][0, 0]), sorted(fn("hgf").softmax(-1).tolist())[::-1], atol=1e-4
    )


SIGMOIDS = {
    "of a text": lambda text: torch.sigmoid(MODELS["convolutions"](ids_of(text))),
    "of each letter": lambda text: torch.sigmoid(MODELS["GPT"](ids_of(text))[0, :, :4]),
    "one of each letter": lambda text: MODELS["GPT"](ids_of(text))[..., 0].sigmoid(),
    "one": lambda text: MODELS["convolutions"](ids_of(text))[:, 0].sigmoid(),
}


@pytest.mark.parametrize("name", SIGMOIDS)
def test_what_a_sigmoid_makes_is_shown_as_it_is(name, tmp_path):
    fn = SIGMOIDS[name]
    page, _, picture = page_of(fn, ("text", "abcd"), {}, {}, record={"labels": TAGS}, weights="float32")
    assert [part.kind for part in parts_of(picture.spec)][:1] == ["attention"]
    (part, *_) = parts_of(views_in_node(page, [("hgfab", {})], tmp_path)[0])
    found = fn("hgfab").detach().numpy()
    rows, cols = (list("hgfab") if name.endswith("letter") else ["all"]), TAGS if "one" not in name else ["0"]
    np.testing.assert_allclose(part.blocks["map0"][0], found.reshape(len(rows), len(cols)), atol=1e-4)
    (seq,) = part.head["seqs"]
    assert (list(seq["rows"]), list(seq["cols"]), part.head["range"]) == (rows, cols, [0, 1])


NO_OUTPUT = {
    "what a tanh makes": lambda text: torch.tanh(MODELS["convolutions"](ids_of(text))),
    "one number": lambda text: MODELS["convolutions"](ids_of(text))[:, :1],
    "features": lambda text: MODELS["MLP"].emb(ids_of(text)),
    "labels": lambda text: MODELS["convolutions"](ids_of(text)).argmax(-1),
}


@pytest.mark.parametrize("name", NO_OUTPUT)
def test_what_is_no_distribution_is_not_shown_as_one(name):
    with pytest.raises(ValueError, match="would show nothing") as refused:
        page_of(NO_OUTPUT[name], ("text", "abcd"), {}, {}, weights="float32")
    assert "probabilities" in parts_of_error(refused.value)[2]


def test_a_text_longer_than_all_in_which_a_loop_of_python_was_seen_is_said(tmp_path):
    page = page_of(CALLS["a loop by hand"], ("text", "abcd"), {}, {}, record={"model": MODELS["a loop by hand"]})[0]
    asked = [{"rfnb": "typed", "text": text, "inputs": {}} for text in ("abcdhgfe", "abcdhgf")]
    (longer,), (typed,) = told_in_node(page, asked, tmp_path)
    assert "longer than any text that the page was made from (7 letters)" in longer["said"]
    assert typed["said"] == ""


# -- letters, lengths, refusals --------------------------------------------------------------------------------------------


def test_letters_that_are_not_in_the_text_are_found_by_calling_the_function(answers):
    value = answers["GPT"][0].spec["blocks"][0]["given"]["value"]
    assert value["letters"] == {letter: label for label, letter in enumerate(LETTERS)}


@pytest.mark.parametrize("name", ["GPT", "the whole text in each step"])
def test_the_effect_of_fewer_bits_is_that_on_the_weights_of_torch_which_are_as_before(name):
    model = MODELS["GPT"]
    before = {key: value.clone() for key, value in model.state_dict().items()}
    about = page_of(CALLS[name], ("text", "abcd"), {}, {}, record={"model": model}, weights="int8")[1]
    assert "changes numbers by at most" in about["said"] or "changes labels" in about["said"]
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())


def test_a_model_of_torch_reads_words(tmp_path):
    words = ["the", "cat", "sat", "on", "a", "mat"]

    def fn(text):
        return MODELS["GPT"](torch.tensor([[words.index(word) for word in text.split()]]))

    program = PageProgram.of(fn, "the cat sat on a mat")
    (answer,) = run_in_node({"it": program}, ["a cat sat"], tmp_path)["it"]["answers"]
    ((got, _),) = numbers(answer)
    np.testing.assert_allclose(got, fn("a cat sat").detach().numpy().ravel(), atol=1e-4)


def net_of(text, change=lambda x: x):
    return change(MODELS["MLP"].emb(ids_of(text)))


def read_with(labels):
    """A function that reads a text by Python code of its own."""
    return lambda text: MODELS["MLP"].emb(torch.tensor([labels(text)]))


def read_words(words):
    return lambda text: MODELS["MLP"].emb(
        torch.tensor([[words.index(each) if each in words else 0 for each in text.split()]])
    )


def masked(text):
    return net_of(text) * torch.tensor([[1] * len(text)])[..., None]


def flagged(text):
    return net_of(text) * torch.tensor([[int(letter in "ae") for letter in text]])[..., None]


BY_LENGTH = {  # what Python does by the length of the text is in no record: the page reads lengths for which it is the same
    "the first ten": (lambda text: net_of(text[:10]), 1, 10),
    "short ones get longer": (lambda text: net_of(text + "ab" * (len(text) < 3)), 3, None),
    "long ones are scaled": (lambda text: net_of(text) * (1 + (len(text) > 12)), 1, 12),
    "a mask of ones": (masked, 1, None),
    "flags of letters": (flagged, 1, None),
    "a label before the text": (read_with(lambda text: [7, *map(LETTERS.index, text)]), 1, None),
    "one label for several letters": (read_with(lambda text: [max(0, LETTERS.find(each.lower())) for each in text]), 1, None),
}  # fmt: skip


def test_a_page_computes_what_python_does_or_says_which_lengths_it_reads(tmp_path):
    programs = {
        name: PageProgram.of(fn, "abAd" if "several" in name else "abcd") for name, (fn, *_) in BY_LENGTH.items()
    }
    texts = [("hgfedcba" * 5)[:length] for length in (2, 3, 4, 9, 10, 11, 12, 13, 14, 34)]
    found = run_in_node(programs, texts, tmp_path)
    for name, (fn, least, most) in BY_LENGTH.items():
        limit = programs[name].spec["limit"]
        assert (max(1, limit["least"]), limit["most"]) == (least, most), name
        for text, answer in zip(texts, found[name]["answers"], strict=True):
            if least <= len(text) <= (most or 500):
                ((got, _),) = numbers(answer)
                np.testing.assert_allclose(got, fn(text).detach().numpy().ravel(), atol=1e-5, err_msg=f"{name} {text}")
            else:
                assert answer["error"].startswith("This is too"), (name, text)


def test_a_function_that_does_something_else_for_other_letters_is_refused():
    with pytest.raises(ValueError, match="depends on the text"):
        PageProgram.of(lambda text: net_of(text) * (1 + ("g" in text)), "abcd")


def test_several_words_have_one_label_and_names_of_javascript_are_words(tmp_path):
    words = ["<unk>", "the", "cat", "sat"]
    fn = read_words(words)
    program = PageProgram.of(fn, "the yak sat on cat")
    told, refused = run_in_node({"it": program}, ["yak on the cat", "the constructor sat"], tmp_path)["it"]["answers"]
    ((got, _),) = numbers(told)
    np.testing.assert_allclose(got, fn("yak on the cat").detach().numpy().ravel(), atol=1e-5)
    assert "“constructor” is not one of the words" in refused["error"]


NUMBERS = {
    "below a bound": lambda x, k: x * min(k, 6),
    "above a bound": lambda x, k: x * max(k, 3),
    "a branch": lambda x, k: x * k + 1 if k > 8 else x * k,
    "another type": lambda x, k: x * (k if k < 8 else 2.0),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_a_number_that_python_decides_by_is_refused(name):
    fn = lambda text, k: NUMBERS[name](net_of(text), k).softmax(-1)  # noqa: E731
    with pytest.raises(ValueError, match="depends on the text or a number"):
        page_of(fn, ("text", "abcd"), {"k": (5, (1, 12, 1))}, {})


def test_a_text_that_the_code_asserts_to_be_too_long_is_said(answers, tmp_path):
    (answer,) = run_in_node({"GPT": answers["GPT"][0]}, ["a" * 33], tmp_path)["GPT"]["answers"]
    assert "at most 32" in answer["error"]


def in_training(model):
    return lambda text: model.train()(ids_of(text))


def by_turns(turn):
    def fn(text):
        x = MODELS["MLP"].emb(ids_of(text))
        h, all = torch.zeros(1, 6), []
        for t in range(x.size(1)):
            all.append(h)
            h = turn(h, x, t, all)
        return h

    return fn


def shared_memory(x):
    flat = x.view(-1)
    flat.add_(1.0)
    return x * 2.0


REFUSED = {
    "an op without a row": (lambda text: net_of(text, lambda x: x.kthvalue(2)[0]), "cannot run kthvalue of torch"),
    "a sort": (lambda text: net_of(text, lambda x: torch.sort(x, 1)[0]), "cannot run sort of torch"),
    "dropout in training": (in_training(GPT()), "dropout of torch in training"),
    "batch norm in training": (in_training(Convolutions()), "batch_norm of torch in training"),
    "a decision by values": (lambda text: net_of(text, lambda x: x if x.sum() > 0 else -x), "turns into numbers"),
    "a number from values": (lambda text: net_of(text, lambda x: x * x.max().item()), "turns into numbers"),
    "NumPy": (lambda text: net_of(text, lambda x: torch.from_numpy(x.detach().numpy() * 2)), "turns into numbers"),
    "a loop of other turns": (by_turns(lambda h, x, t, all: h + x[:, t] if t % 2 else h * x[:, t]), "number of ops depends"),
    "a loop that reads two turns back": (by_turns(lambda h, x, t, all: h + x[:, t] + (all[-2] if t > 1 else 0)), "number of ops depends"),
    "a loop over all so far": (by_turns(lambda h, x, t, all: h + x[:, : t + 1].sum(1)), "number of ops depends"),
    "a size that is no line": (lambda text: net_of(text, lambda x: x * float(x.size(1) ** 2)), "depends on the text"),
    "a square root of a size": (lambda text: net_of(text, lambda x: x / math.sqrt(x.size(1))), "depends on the text"),
    "another branch for other lengths": (lambda text: net_of(text, lambda x: x if x.size(1) > 4 else -x), "depends on the text"),
    "noise": (lambda text: net_of(text, lambda x: x + torch.randn_like(x)), "cannot run randn_like of torch"),
    "a part changed in place": (lambda text: net_of(text, shared_memory), "while another shares its memory"),
    "an index by bools": (lambda text: net_of(text, lambda x: x[x > 0]), "an index of bools"),
    "arrays apart": (lambda text: net_of(text, lambda x: x[PAIR % 1, :, PAIR]), "with other axes between"),
    "several packed": (lambda text: packed(CELLS["GRU"], net_of(text).expand(2, -1, -1), True), "over several sequences"),
    "16 bits": (lambda text: net_of(text, lambda x: x.half() * 2), "float16"),
    "a batch of two": (lambda text: rf.beam_search(lambda labels, state: (torch.zeros(len(labels), 8) + net_of(text).sum(), state), batch=2,
                                                   max_seq_len=3), "a search of several sequences"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_a_page_cannot_run_of_torch_is_refused_with_the_rule(name):
    fn, words = REFUSED[name]
    with pytest.raises((TypeError, ValueError), match=words) as refused:
        PageProgram.of(fn, "abcd")
    assert str(refused.value).startswith("A page cannot run")
    assert parts_of_error(refused.value)[2]


def test_each_refusal_of_a_known_call_names_what_works():
    """A refusal without it gives the list of calls alone."""
    calls = [node for node in ast.walk(ast.parse(inspect.getsource(torch_page_calls))) if isinstance(node, ast.Call)]
    refusals = [call for call in calls if getattr(call.func, "attr", "") == "refuse"]
    assert len(refusals) > 15 and [call.lineno for call in refusals if len(call.args) != 2] == []
    assert not READ.keys() & ROWS.keys()


INSTEAD_OF = {  # what refusals advise, with what it replaces
    "view_as_complex": (lambda x: torch.view_as_complex(x.unflatten(-1, (-1, 2)).contiguous()), "cos"),
    "polar": (lambda x: torch.polar(x, x), "cos"),
    "nonzero": (lambda x: x.nonzero(), "torch.where"),
    "argsort": (lambda x: x.argsort(1), "topk"),
    "bernoulli": (lambda x: torch.bernoulli(torch.sigmoid(x)), "argmax"),
}


@pytest.mark.parametrize("name", INSTEAD_OF)
def test_a_refused_call_names_what_would_work(name):
    fn, instead = INSTEAD_OF[name]
    with pytest.raises(TypeError, match=f"cannot run {name} of torch") as refused:
        PageProgram.of(lambda text: net_of(text, fn), "abcd")
    assert instead in parts_of_error(refused.value)[2].split("A page runs these calls")[0]


def test_what_refusals_advise_can_be_run():
    def fn(text):
        x = MODELS["MLP"].emb(ids_of(text))
        a, b = x[..., 0::2], x[..., 1::2]
        n = x.shape[1] - 1
        return [
            torch.stack([a * b.cos() - b * b.sin(), a * b.sin() + b * b.cos()], -1), torch.floor(a / (b.abs() + 1.0)),
            torch.cat([x, x], 1), x.repeat_interleave(2, 1), x.movedim(2, 1)[PAIR % 1, PAIR], x[:, :n][:, ::2],
            torch.cat([x, x[..., -3:].flip(-1)], -1), (x.abs() ** 3).sum(1) ** (1 / 3), x.flatten(1)[:, :2],
            torch.where(x > 0, x, 0.0),
        ]  # fmt: skip

    PageProgram.of(fn, "abcd")  # which compares each call with torch


def test_a_refused_call_of_torch_has_its_line_and_the_list_of_calls():
    def fn(text):
        x = MODELS["MLP"].emb(ids_of(text))
        return x.kthvalue(2)[0]

    with pytest.raises(TypeError) as refused:
        PageProgram.of(fn, "abcd")
    what, rows, rule, _ = parts_of_error(refused.value)
    assert dict(rows) == {"called in": f"test_runnable_torch.py:{fn.__code__.co_firstlineno + 2}"}
    assert "scaled_dot_product_attention" in rule and "kthvalue" not in rule


def test_the_docs_count_the_calls():
    text = (Path(__file__).parents[2] / "docs" / "pages.md").read_text()
    assert f"{len(ROWS)} calls in all" in text
