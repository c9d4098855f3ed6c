"""Five models and ports of them in another style, with other names, sound or with one of the usual mistakes."""

import copy
import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn

VOCAB, WIDTH, HEADS, GROUPS, HEAD = 17, 16, 4, 2, 4


@dataclass
class Config:
    layers: int = 2
    norm: str = "rms"  # rms, offset, layer
    act: str = "silu"
    causal: bool = True
    window: int | None = None
    cap: float | None = None
    base: float = 100.0
    scale: bool = True
    bias: bool = True
    lstm: bool = False
    complex: bool = False
    parallel: bool = False


CONFIGS = {
    "plain": Config(),
    "gemma": Config(norm="offset", act="tanh", cap=1.5, complex=True),
    "encoder": Config(norm="layer", act="gelu", causal=False, layers=1, cap=2.0),
    "window": Config(window=3, parallel=True, layers=3, act="relu", base=50.0, complex=True),
    "recurrent": Config(lstm=True, layers=1, norm="layer", base=1000.0),
}
ACT = {"silu": F.silu, "tanh": lambda x: F.gelu(x, approximate="tanh"), "gelu": F.gelu, "relu": F.relu}


# -- theirs: fused products, scaled_dot_product_attention or complex tables ------------------------------------------------
class TheirNorm(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.weight, self.kind, self.eps = nn.Parameter(torch.ones(WIDTH)), c.norm, 1e-5
        self.bias = nn.Parameter(torch.zeros(WIDTH)) if c.norm == "layer" else None

    def forward(self, x):
        if self.kind == "layer":
            return F.layer_norm(x, (WIDTH,), self.weight, self.bias, self.eps)
        return F.rms_norm(x, (WIDTH,), self.weight + 1 if self.kind == "offset" else self.weight, self.eps)


class TheirAttention(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.qkv = nn.Linear(WIDTH, (HEADS + 2 * GROUPS) * HEAD, bias=c.bias)
        self.proj, self.c = nn.Linear(HEADS * HEAD, WIDTH, bias=c.bias), c
        frequencies = 1.0 / c.base ** (torch.arange(0, HEAD, 2) / HEAD)
        self.register_buffer("frequencies", frequencies, persistent=False)

    def turn(self, x):
        angle = torch.outer(torch.arange(x.shape[2], device=x.device).to(x.dtype), self.frequencies)
        if self.c.complex:
            turned = torch.view_as_complex(x.unflatten(-1, (-1, 2)).contiguous()) * torch.polar(
                torch.ones_like(angle), angle
            )
            return torch.view_as_real(turned).flatten(-2)
        even, odd = x[..., ::2], x[..., 1::2]
        return torch.stack(
            [even * angle.cos() - odd * angle.sin(), odd * angle.cos() + even * angle.sin()], -1
        ).flatten(-2)

    def forward(self, x, mask):
        q, k, v = self.qkv(x).split([HEADS * HEAD, GROUPS * HEAD, GROUPS * HEAD], -1)
        q, k, v = (each.unflatten(-1, (-1, HEAD)).transpose(1, 2) for each in (q, k, v))
        q, k = self.turn(q), self.turn(k)
        if self.c.cap is None:
            y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=True)
        else:
            k, v = (each.repeat_interleave(HEADS // GROUPS, 1) for each in (k, v))
            scores = torch.tanh(q @ k.mT / math.sqrt(HEAD) / self.c.cap) * self.c.cap
            y = scores.masked_fill(~mask, -math.inf).softmax(-1) @ v
        return self.proj(y.transpose(1, 2).flatten(2))


class TheirBlock(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.n1, self.n2, self.attention, self.c = TheirNorm(c), TheirNorm(c), TheirAttention(c), c
        self.gate_up, self.down, self.drop = (
            nn.Linear(WIDTH, 48, bias=c.bias),
            nn.Linear(24, WIDTH, bias=c.bias),
            nn.Dropout(0.1),
        )

    def mlp(self, x):
        gate, up = self.gate_up(x).chunk(2, -1)
        return self.down(ACT[self.c.act](gate) * up)

    def forward(self, x, mask):
        if self.c.parallel:
            return x + self.drop(self.attention(self.n1(x), mask)) + self.mlp(self.n2(x))
        x = x + self.drop(self.attention(self.n1(x), mask))
        return x + self.mlp(self.n2(x))


def mask_of(c, size, device):
    seen = torch.ones(size, size, dtype=torch.bool, device=device)
    seen = seen.tril() if c.causal else seen
    return seen if c.window is None else seen.triu(1 - c.window)


class Theirs(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.tok, self.blocks, self.norm = (
            nn.Embedding(VOCAB, WIDTH),
            nn.ModuleList(TheirBlock(c) for _ in range(c.layers)),
            TheirNorm(c),
        )
        self.rnn = nn.LSTM(WIDTH, WIDTH, batch_first=True) if c.lstm else None
        self.head, self.c = nn.Linear(WIDTH, VOCAB, bias=False), c

    def forward(self, ids):
        x = self.tok(ids) * (WIDTH**0.5 if self.c.scale else 1.0)
        mask = mask_of(self.c, ids.shape[1], ids.device)
        for block in self.blocks:
            x = block(x, mask)
        if self.rnn is not None:
            x = self.rnn(x)[0]
        return self.head(self.norm(x))


# -- mine: separate products, written softmax, halves, a written cell -------------------------------------------------------
class Norm(nn.Module):
    def __init__(self, c, fault):
        super().__init__()
        self.g, self.kind, self.eps, self.fault = nn.Parameter(torch.ones(WIDTH)), c.norm, 1e-5, fault
        self.b = nn.Parameter(torch.zeros(WIDTH)) if c.norm == "layer" else None
        if fault == "norm epsilon":
            self.eps = 1e-3

    def forward(self, h):
        centred = h - h.mean(-1, keepdim=True) if self.kind == "layer" else h
        h = centred * torch.rsqrt(centred.pow(2).mean(-1, keepdim=True) + self.eps)
        scale = 1 + self.g if (self.kind == "offset") != (self.fault == "norm offset") else self.g
        h = h * scale
        return h if self.b is None else h + self.b


class SelfAttention(nn.Module):
    def __init__(self, c, fault):
        super().__init__()
        bias = c.bias and fault != "missing bias"
        self.wq, self.wk, self.wv = (
            nn.Linear(WIDTH, 16, bias=bias),
            nn.Linear(WIDTH, 8, bias=bias),
            nn.Linear(WIDTH, 8, bias=bias),
        )
        self.wo, self.c, self.fault = nn.Linear(16, WIDTH, bias=c.bias), c, fault

    def rotate(self, x):
        base = 10000.0 if self.fault == "rotary base" else self.c.base
        angle = torch.arange(x.shape[1], device=x.device)[:, None] * base ** -(
            torch.arange(0, HEAD // 2, device=x.device) * 2.0 / HEAD
        )
        cos, sin = (torch.cat([each, each], -1)[None, :, None] for each in (angle.cos(), angle.sin()))
        if self.fault == "rotary pairing":  # of weights whose halves were not brought together
            x = x.unflatten(-1, (2, -1)).mT.flatten(-2)
        left, right = x.chunk(2, -1)
        return x * cos + torch.cat([-right, left], -1) * sin

    def forward(self, x, seen):
        b, t, _ = x.shape
        q, k, v = (
            self.wq(x).view(b, t, HEADS, HEAD),
            self.wk(x).view(b, t, GROUPS, HEAD),
            self.wv(x).view(b, t, GROUPS, HEAD),
        )
        q, k = self.rotate(q), self.rotate(k)
        if self.fault == "grouped heads":
            k, v = k.repeat(1, 1, HEADS // GROUPS, 1), v.repeat(1, 1, HEADS // GROUPS, 1)
        else:
            k, v = (each[:, :, :, None].expand(-1, -1, -1, 2, -1).reshape(b, t, HEADS, HEAD) for each in (k, v))
        scores = torch.einsum("bqhd,bkhd->bhqk", q, k) * HEAD**-0.5
        if self.c.cap and self.fault != "soft cap":
            scores = self.c.cap * torch.tanh(scores / self.c.cap)
        if self.fault == "soft cap" and not self.c.cap:
            scores = 3.0 * torch.tanh(scores / 3.0)
        scores = scores + torch.zeros_like(scores).masked_fill(~seen, -1e30)
        return self.wo(torch.einsum("bhqk,bkhd->bqhd", torch.softmax(scores, -1), v).reshape(b, t, -1))


class MLP(nn.Module):
    def __init__(self, c, fault):
        super().__init__()
        self.w1, self.w2, self.w3 = (
            nn.Linear(WIDTH, 24, bias=c.bias),
            nn.Linear(24, WIDTH, bias=c.bias),
            nn.Linear(WIDTH, 24, bias=c.bias),
        )
        self.joined = nn.Linear(WIDTH, 48, bias=c.bias)
        self.c, self.fault = c, fault

    def forward(self, x):
        gate, up = self.joined(x).chunk(2, -1)
        if self.fault == "gate order":
            gate, up = up, gate
        act = (
            {"silu": "gelu", "tanh": "silu", "gelu": "relu", "relu": "silu"}[self.c.act]
            if self.fault == "activation"
            else self.c.act
        )
        return self.w2(ACT[act](gate) * up)


class Decoder(nn.Module):
    def __init__(self, c, fault):
        super().__init__()
        self.ln_a, self.ln_m, self.attn, self.ffn = (
            Norm(c, fault),
            Norm(c, fault),
            SelfAttention(c, fault),
            MLP(c, fault),
        )
        self.dropout, self.c = nn.Dropout(0.1), c

    def forward(self, h, seen):
        a = self.dropout(self.attn(self.ln_a(h), seen))
        return h + self.ffn(self.ln_m(h)) + a if self.c.parallel else (h + a) + self.ffn(self.ln_m(h + a))


class WrittenLSTM(nn.Module):
    def __init__(self):
        super().__init__()
        self.wx, self.wh = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(WIDTH, 4 * WIDTH)

    def forward(self, x):
        h = c = x.new_zeros(len(x), WIDTH)
        steps = []
        for t in range(x.shape[1]):
            i, f, g, o = (self.wx(x[:, t]) + self.wh(h)).chunk(4, -1)
            c = f.sigmoid() * c + i.sigmoid() * g.tanh()
            h = o.sigmoid() * c.tanh()
            steps.append(h)
        return torch.stack(steps, 1)


class Mine(nn.Module):
    def __init__(self, c, fault=None):
        super().__init__()
        self.embed, self.layers = nn.Embedding(VOCAB, WIDTH), nn.ModuleList(Decoder(c, fault) for _ in range(c.layers))
        self.cell, self.last = (WrittenLSTM() if c.lstm else None), Norm(c, fault)
        self.out, self.c, self.fault = nn.Linear(WIDTH, VOCAB, bias=False), c, fault

    def forward(self, tokens):
        h = self.embed(tokens)
        h = h if self.fault == "embedding scale" else h * math.sqrt(WIDTH)
        c = copy.copy(self.c)
        if self.fault == "mask":
            c.causal, c.window = not c.causal, None
        seen = mask_of(c, tokens.shape[1], tokens.device)
        for layer in self.layers:
            h = layer(h, seen)
        h = h if self.cell is None else self.cell(h)
        return self.out(self.last(h))


def halves(weight, heads):
    """Rows of neighbours brought to both halves, head by head."""
    return (
        weight.unflatten(0, (heads, HEAD // 2, 2)).transpose(1, 2).flatten(0, 2)
        if weight.ndim == 2
        else weight.unflatten(0, (heads, HEAD // 2, 2)).mT.flatten()
    )


def ported(theirs, fault=None):
    """A port with the weights of theirs."""
    mine = Mine(theirs.c, fault)
    with torch.no_grad():
        mine.embed.weight.copy_(theirs.tok.weight)
        mine.out.weight.copy_(theirs.head.weight)
        for own, other in [(mine.last, theirs.norm)] + [
            pair for a, b in zip(mine.layers, theirs.blocks) for pair in ((a.ln_a, b.n1), (a.ln_m, b.n2))
        ]:
            own.g.copy_(other.weight)
            if own.b is not None:
                own.b.copy_(other.bias)
        for own, other in zip(mine.layers, theirs.blocks):
            for name in ("weight", "bias") if theirs.c.bias else ("weight",):
                q, k, v = getattr(other.attention.qkv, name).split([16, 8, 8])
                parts = {"wq": halves(q, HEADS), "wk": halves(k, GROUPS), "wv": v}
                for part, value in parts.items():
                    if getattr(getattr(own.attn, part), name) is not None:
                        getattr(getattr(own.attn, part), name).copy_(value)
                getattr(own.attn.wo, name).copy_(getattr(other.attention.proj, name))
                getattr(own.ffn.joined, name).copy_(getattr(other.gate_up, name))
                getattr(own.ffn.w2, name).copy_(getattr(other.down, name))
            if fault == "transposed weight":
                own.attn.wo.weight.copy_(other.attention.proj.weight.T)
        if mine.cell is not None:
            r = theirs.rnn
            for linear, end in ((mine.cell.wx, "ih"), (mine.cell.wh, "hh")):
                linear.weight.copy_(getattr(r, f"weight_{end}_l0"))
                linear.bias.copy_(getattr(r, f"bias_{end}_l0"))
    return mine.train(fault == "dropout")


# cause: where it begins in mine
CAUSES = {
    "rotary base": "layers.0.attn", "rotary pairing": "layers.0.attn", "grouped heads": "layers.0.attn", "embedding scale": "",
    "norm epsilon": "layers.0.ln_a", "norm offset": "layers.0.ln_a", "soft cap": "layers.0.attn", "gate order": "layers.0.ffn",
    "missing bias": "layers.0.attn.wq", "mask": "layers.0.attn", "transposed weight": "layers.0.attn.wo", "activation": "layers.0.ffn",
    "dropout": "layers.0.dropout",
}  # fmt: skip


def theirs_of(name, seed=0):
    torch.manual_seed(seed)
    model = Theirs(CONFIGS[name])
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.4)
    return model.eval()


IDS = torch.tensor([[3, 9, 1, 4, 16, 2, 7], [5, 5, 0, 8, 11, 13, 6]])
