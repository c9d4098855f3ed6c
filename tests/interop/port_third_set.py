"""Five originals and ports of them under other names and in other code; a port has one fault of its list, or none.

Written by somebody who had not seen the other sets, nor the causes that are tried.
"""

import math

import torch
import torch.nn.functional as F
from torch import nn


# --- 1: Falcon/NeoX-like parallel block, partial rotary, fused qkv; port: separate, einsum
def rot(x, base=10000.0, pairs=False):
    d, t = x.shape[-1], x.shape[-2]
    a = torch.outer(torch.arange(t, dtype=x.dtype), base ** (-torch.arange(0, d, 2, dtype=x.dtype) / d))
    if pairs:
        even, odd = x[..., ::2], x[..., 1::2]
        return torch.stack([even * a.cos() - odd * a.sin(), even * a.sin() + odd * a.cos()], -1).flatten(-2)
    lo, hi = x.chunk(2, -1)
    return torch.cat([lo * a.cos() - hi * a.sin(), hi * a.cos() + lo * a.sin()], -1)


class FusedAttention(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.heads = heads
        self.query_key_value = nn.Linear(d, 3 * d)
        self.dense = nn.Linear(d, d)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.query_key_value(x).view(b, t, self.heads, 3, -1).permute(3, 0, 2, 1, 4)
        q, k = (torch.cat([rot(y[..., :4]), y[..., 4:]], -1) for y in (q, k))
        return self.dense(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, t, d))


class NeoBlock(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.ln_a, self.ln_m = nn.LayerNorm(d), nn.LayerNorm(d)
        self.attention = FusedAttention(d, heads)
        self.up, self.down = nn.Linear(d, 3 * d), nn.Linear(3 * d, d)

    def forward(self, x):
        return x + self.attention(self.ln_a(x)) + self.down(F.gelu(self.up(self.ln_m(x))))


class Neo(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed_in = nn.Embedding(40, 16)
        self.layers = nn.ModuleList(NeoBlock(16, 2) for _ in range(2))
        self.final = nn.LayerNorm(16)
        self.embed_out = nn.Linear(16, 40, bias=False)

    def forward(self, ids):
        x = self.embed_in(ids)
        for layer in self.layers:
            x = layer(x)
        return self.embed_out(self.final(x))


class MyNeoAttention(nn.Module):
    def __init__(self, fault):
        super().__init__()
        self.fault = fault
        self.wq, self.wk, self.wv = nn.Linear(16, 16), nn.Linear(16, 16), nn.Linear(16, 16)
        self.wo = nn.Linear(16, 16, bias=fault != "bias")

    def forward(self, x):
        b, t, _ = x.shape
        q, k, v = (w(x).reshape(b, t, 2, 8).transpose(1, 2) for w in (self.wq, self.wk, self.wv))
        how = {"base": {"base": 500000.0}, "pairing": {"pairs": True}}.get(self.fault, {})
        q, k = (torch.cat([rot(y[..., :4], **how), y[..., 4:]], -1) for y in (q, k))
        e = torch.einsum("bhqd,bhkd->bhqk", q, k) / math.sqrt(8)
        e = e + torch.full((t, t), float("-inf")).triu(1)
        return self.wo(torch.einsum("bhqk,bhkd->bqhd", e.softmax(-1), v).reshape(b, t, 16))


class MyNeoBlock(nn.Module):
    def __init__(self, fault):
        super().__init__()
        self.norm1 = nn.LayerNorm(16)
        self.attn = MyNeoAttention(fault)
        self.norm2 = nn.LayerNorm(16)
        self.mlp = nn.Sequential(
            nn.Linear(16, 48), nn.GELU("tanh" if fault == "activation" else "none"), nn.Linear(48, 16)
        )

    def forward(self, x):
        return self.attn(self.norm1(x)) + self.mlp(self.norm2(x)) + x


class MyNeo(nn.Module):
    def __init__(self, fault):
        super().__init__()
        self.wte = nn.Embedding(40, 16)
        self.blocks = nn.Sequential(*[MyNeoBlock(fault) for _ in range(2)])
        self.norm = nn.LayerNorm(16)
        self.head = nn.Linear(16, 40, bias=False)

    def forward(self, tokens):
        return self.head(self.norm(self.blocks(self.wte(tokens))))


def neo(fault):
    theirs, mine = Neo(), MyNeo(fault)
    s, n = theirs.state_dict(), {}
    n["wte.weight"], n["head.weight"] = s["embed_in.weight"], s["embed_out.weight"]
    for k in ("weight", "bias"):
        n[f"norm.{k}"] = s[f"final.{k}"]
        for i in range(2):
            o, m = f"layers.{i}.", f"blocks.{i}."
            n[f"{m}norm1.{k}"], n[f"{m}norm2.{k}"] = s[f"{o}ln_a.{k}"], s[f"{o}ln_m.{k}"]
            n[f"{m}mlp.0.{k}"], n[f"{m}mlp.2.{k}"] = s[f"{o}up.{k}"], s[f"{o}down.{k}"]
            f = s[f"{o}attention.query_key_value.{k}"].reshape(2, 3, 8, -1)
            for j, w in enumerate(("wq", "wk", "wv")):
                n[f"{m}attn.{w}.{k}"] = f[:, j].reshape(16, -1) if k == "weight" else f[:, j].reshape(16)
            if not (k == "bias" and fault == "bias"):
                n[f"{m}attn.wo.{k}"] = s[f"{o}attention.dense.{k}"]
    mine.load_state_dict(n)
    return mine, theirs, torch.randint(0, 40, (2, 11))


# --- 2: grouped queries, RMS norm with offset, embedding scale, soft cap (gemma-like); port: functional style
class Rms(nn.Module):
    def __init__(self, d, eps=1e-6):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.randn(d) * 0.3), eps

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * (1 + self.weight)


class Grouped(nn.Module):
    def __init__(self):
        super().__init__()
        self.q_proj, self.k_proj, self.v_proj = (
            nn.Linear(24, 24, False),
            nn.Linear(24, 12, False),
            nn.Linear(24, 12, False),
        )
        self.o_proj = nn.Linear(24, 24, False)

    def forward(self, x):
        b, t, _ = x.shape
        q = rot(self.q_proj(x).view(b, t, 4, 6).transpose(1, 2))
        k = rot(self.k_proj(x).view(b, t, 2, 6).transpose(1, 2))
        v = self.v_proj(x).view(b, t, 2, 6).transpose(1, 2)
        k, v = k.repeat_interleave(2, 1), v.repeat_interleave(2, 1)
        e = 5 * torch.tanh(q @ k.transpose(-1, -2) / 6**0.5 / 5)
        e = e.masked_fill(torch.ones(t, t).bool().triu(1), -1e30)
        return self.o_proj((e.softmax(-1) @ v).transpose(1, 2).reshape(b, t, -1))


class Gem(nn.Module):
    def __init__(self):
        super().__init__()
        self.tok = nn.Embedding(50, 24)
        self.n1 = nn.ModuleList(Rms(24) for _ in range(2))
        self.at = nn.ModuleList(Grouped() for _ in range(2))
        self.n2 = nn.ModuleList(Rms(24) for _ in range(2))
        self.gate = nn.ModuleList(nn.Linear(24, 40, False) for _ in range(2))
        self.up = nn.ModuleList(nn.Linear(24, 40, False) for _ in range(2))
        self.down = nn.ModuleList(nn.Linear(40, 24, False) for _ in range(2))
        self.last = Rms(24)

    def forward(self, input_ids):
        x = self.tok(input_ids) * 24**0.5
        for i in range(2):
            x = x + self.at[i](self.n1[i](x))
            y = self.n2[i](x)
            x = x + self.down[i](F.silu(self.gate[i](y)) * self.up[i](y))
        return self.last(x) @ self.tok.weight.T


class MyNorm(nn.Module):
    def __init__(self, offset, eps):
        super().__init__()
        self.g, self.offset, self.eps = nn.Parameter(torch.zeros(24)), offset, eps

    def forward(self, h):
        return F.rms_norm(h, (24,), eps=self.eps) * (self.g + self.offset)


class MyGemLayer(nn.Module):
    def __init__(self, fault):
        super().__init__()
        self.fault = fault
        off, eps = (0.0 if fault == "offset" else 1.0), (1e-3 if fault == "eps" else 1e-6)
        self.before, self.middle = MyNorm(off, eps), MyNorm(off, eps)
        self.qkv = nn.Linear(24, 48, bias=False)
        self.proj = nn.Linear(24, 24, bias=False)
        self.glu = nn.Linear(24, 80, bias=False)
        self.out = nn.Linear(40, 24, bias=False)

    def forward(self, h):
        b, t, _ = h.shape
        q, k, v = self.qkv(self.before(h)).split([24, 12, 12], -1)
        q, k, v = (y.reshape(b, t, -1, 6).transpose(1, 2) for y in (q, k, v))
        q, k = rot(q), rot(k)
        if self.fault == "groups":
            k, v = k.repeat(1, 2, 1, 1), v.repeat(1, 2, 1, 1)
        else:
            k, v = (y[:, :, None].expand(b, 2, 2, t, 6).reshape(b, 4, t, 6) for y in (k, v))
        s = torch.matmul(q, k.mT) * 6**-0.5
        if self.fault != "softcap":
            s = torch.tanh(s / 5) * 5
        i = torch.arange(t)
        keep = i[None] <= i[:, None]
        if self.fault == "mask":
            keep = keep & (i[None] > i[:, None] - 4)
        a = torch.softmax(torch.where(keep, s, torch.finfo(s.dtype).min), dim=-1)
        h = h + self.proj((a @ v).permute(0, 2, 1, 3).flatten(2))
        one, two = self.glu(self.middle(h)).chunk(2, dim=-1)
        return h + self.out(F.silu(one) * two)


class MyGem(nn.Module):
    def __init__(self, fault):
        super().__init__()
        self.fault = fault
        self.table = nn.Embedding(50, 24)
        self.stack = nn.ModuleList(MyGemLayer(fault) for _ in range(2))
        self.final = MyNorm(1.0, 1e-6)

    def forward(self, tokens):
        h = self.table(tokens)
        h = h if self.fault == "scale" else h * math.sqrt(24)
        for layer in self.stack:
            h = layer(h)
        return F.linear(self.final(h), self.table.weight)


def gem(fault):
    theirs, mine = Gem(), MyGem(fault)
    s = theirs.state_dict()
    n = {"table.weight": s["tok.weight"], "final.g": s["last.weight"]}
    for i in range(2):
        m = f"stack.{i}."
        n[m + "before.g"], n[m + "middle.g"] = s[f"n1.{i}.weight"], s[f"n2.{i}.weight"]
        n[m + "qkv.weight"] = torch.cat([s[f"at.{i}.{k}_proj.weight"] for k in "qkv"])
        n[m + "proj.weight"] = s[f"at.{i}.o_proj.weight"]
        n[m + "glu.weight"] = torch.cat([s[f"gate.{i}.weight"], s[f"up.{i}.weight"]])
        n[m + "out.weight"] = s[f"down.{i}.weight"]
    mine.load_state_dict(n)
    return mine, theirs, torch.randint(0, 50, (2, 9))


# --- 3: an LSTM language model with a projection; port: a cell by hand
class Awd(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Embedding(30, 12)
        self.rnn = nn.LSTM(12, 14, num_layers=2, batch_first=True)
        self.decoder = nn.Linear(14, 30)

    def forward(self, ids):
        return self.decoder(self.rnn(self.encoder(ids))[0])


class HandLstm(nn.Module):
    def __init__(self, n_in, n, order):
        super().__init__()
        self.kernel = nn.Parameter(torch.zeros(n_in, 4 * n))
        self.recurrent, self.b = nn.Parameter(torch.zeros(n, 4 * n)), nn.Parameter(torch.zeros(4 * n))
        self.order, self.n = order, n

    def forward(self, x):
        h = c = x.new_zeros(len(x), self.n)
        outs = []
        for t in range(x.shape[1]):
            g = dict(zip(self.order, (x[:, t] @ self.kernel + h @ self.recurrent + self.b).chunk(4, -1)))
            c = g["f"].sigmoid() * c + g["i"].sigmoid() * g["g"].tanh()
            h = g["o"].sigmoid() * c.tanh()
            outs.append(h)
        return torch.stack(outs, 1)


class MyAwd(nn.Module):
    def __init__(self, fault):
        super().__init__()
        self.lookup = nn.Embedding(30, 12)
        order = "igfo" if fault == "gates" else "ifgo"
        self.lower, self.upper = HandLstm(12, 14, "ifgo"), HandLstm(14, 14, order)
        self.drop = nn.Dropout(0.3)
        self.soft = nn.Linear(14, 30)

    def forward(self, ids):
        return self.soft(self.drop(self.upper(self.lower(self.lookup(ids)))))


def awd(fault):
    theirs, mine = Awd(), MyAwd(fault)
    s = theirs.state_dict()
    n = {"lookup.weight": s["encoder.weight"], "soft.weight": s["decoder.weight"], "soft.bias": s["decoder.bias"]}
    for i, name in enumerate(("lower", "upper")):
        n[name + ".kernel"], n[name + ".recurrent"] = s[f"rnn.weight_ih_l{i}"].T, s[f"rnn.weight_hh_l{i}"].T
        n[name + ".b"] = s[f"rnn.bias_ih_l{i}"] + s[f"rnn.bias_hh_l{i}"]
    mine.load_state_dict(n)
    if fault == "dropout":
        mine.drop.train()
    return mine, theirs, torch.randint(0, 30, (3, 7))


# --- 4: a patch classifier, post-norm, Conv1D (in x out) weights; port: nn.Linear
class Conv1D(nn.Module):
    def __init__(self, n_in, n_out):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.randn(n_in, n_out) * 0.2), nn.Parameter(torch.randn(n_out) * 0.1)

    def forward(self, x):
        return torch.addmm(self.bias, x.reshape(-1, x.shape[-1]), self.weight).view(*x.shape[:-1], -1)


class Patches(nn.Module):
    def __init__(self):
        super().__init__()
        self.patch = nn.Conv2d(3, 16, 4, 4)
        self.cls, self.pos = nn.Parameter(torch.randn(1, 1, 16)), nn.Parameter(torch.randn(1, 5, 16))
        self.c_attn, self.c_proj, self.c_fc, self.c_out = Conv1D(16, 48), Conv1D(16, 16), Conv1D(16, 32), Conv1D(32, 16)
        self.post1, self.post2 = nn.LayerNorm(16, eps=1e-12), nn.LayerNorm(16, eps=1e-12)
        self.classifier = Conv1D(16, 7)

    def forward(self, pixels):
        x = self.patch(pixels).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls.expand(len(x), -1, -1), x], 1) + self.pos
        b, t, _ = x.shape
        q, k, v = (y.view(b, t, 4, 4).transpose(1, 2) for y in self.c_attn(x).chunk(3, -1))
        a = ((q @ k.transpose(2, 3)) * 0.5).softmax(-1) @ v
        x = self.post1(x + self.c_proj(a.transpose(1, 2).reshape(b, t, 16)))
        x = self.post2(x + self.c_out(F.relu(self.c_fc(x))))
        return self.classifier(x[:, 0])


class MyPatches(nn.Module):
    def __init__(self, fault):
        super().__init__()
        self.fault = fault
        self.to_patch = nn.Linear(48, 16)
        self.token, self.place = nn.Parameter(torch.zeros(16)), nn.Parameter(torch.zeros(5, 16))
        self.mha = nn.MultiheadAttention(16, 4, batch_first=True)
        self.ln1, self.ln2 = nn.LayerNorm(16, eps=1e-12), nn.LayerNorm(16, eps=1e-12)
        self.ff = nn.Sequential(
            nn.Linear(16, 32), nn.ReLU() if fault != "activation" else nn.LeakyReLU(0.1), nn.Linear(32, 16)
        )
        self.head = nn.Linear(16, 7)

    def forward(self, image):
        b = len(image)
        p = image.reshape(b, 3, 2, 4, 2, 4).permute(0, 2, 4, 1, 3, 5).reshape(b, 4, 48)
        h = torch.cat([self.token.expand(b, 1, 16), self.to_patch(p)], 1) + self.place
        h = self.ln1(h + self.mha(h, h, h, need_weights=False)[0])
        return self.head(self.ln2(h + self.ff(h))[:, 0])


def patches(fault):
    theirs, mine = Patches(), MyPatches(fault)
    s = theirs.state_dict()
    n = {
        "to_patch.weight": s["patch.weight"].reshape(16, 48),
        "to_patch.bias": s["patch.bias"],
        "token": s["cls"][0, 0],
        "place": s["pos"][0],
        "mha.in_proj_weight": s["c_attn.weight"].T,
        "mha.in_proj_bias": s["c_attn.bias"],
        "mha.out_proj.weight": s["c_proj.weight"] if fault == "transposed" else s["c_proj.weight"].T,
        "mha.out_proj.bias": s["c_proj.bias"],
        "ff.0.weight": s["c_fc.weight"].T,
        "ff.0.bias": s["c_fc.bias"],
        "ff.2.weight": s["c_out.weight"].T,
        "ff.2.bias": s["c_out.bias"],
        "head.weight": s["classifier.weight"].T,
        "head.bias": s["classifier.bias"],
    }
    for i in "12":
        for k in ("weight", "bias"):
            n[f"ln{i}.{k}"] = s[f"post{i}.{k}"]
    mine.load_state_dict(n)
    return mine, theirs, torch.randn(2, 3, 8, 8)


# --- 5: attention encoder-decoder over GRU (Luong); port: gates by hand, other order; fault: reset before the product
class Luong(nn.Module):
    def __init__(self):
        super().__init__()
        self.src, self.trg = nn.Embedding(20, 10), nn.Embedding(22, 10)
        self.enc, self.dec = nn.GRU(10, 12, batch_first=True), nn.GRU(10, 12, batch_first=True)
        self.general, self.combine, self.out = nn.Linear(12, 12, bias=False), nn.Linear(24, 12), nn.Linear(12, 22)

    def forward(self, src, trg):
        m, last = self.enc(self.src(src))
        s, _ = self.dec(self.trg(trg), last)
        c = (s @ self.general(m).transpose(1, 2)).softmax(-1) @ m
        return self.out(torch.tanh(self.combine(torch.cat([c, s], -1))))


class HandGru(nn.Module):
    def __init__(self, fault):
        super().__init__()
        self.fault = fault
        self.x, self.h = nn.Linear(10, 36), nn.Linear(12, 36)

    def forward(self, e, h):
        out = []
        for t in range(e.shape[1]):
            r, z, n = self.x(e[:, t]).split(12, -1)
            hr, hz, hn = self.h(h).split(12, -1)
            r, z = (r + hr).sigmoid(), (z + hz).sigmoid()
            if self.fault:
                r, z = z, r
            h = (1 - z) * torch.tanh(n + r * hn) + z * h
            out.append(h)
        return torch.stack(out, 1), h


class MyLuong(nn.Module):
    def __init__(self, fault):
        super().__init__()
        self.fault = fault
        self.e1, self.e2 = nn.Embedding(20, 10), nn.Embedding(22, 10)
        self.reader, self.writer = HandGru(False), HandGru(fault == "gates")
        self.score, self.mix, self.vocab = (
            nn.Linear(12, 12, bias=False),
            nn.Linear(24, 12, bias=fault != "bias"),
            nn.Linear(12, 22),
        )

    def forward(self, src, trg):
        m, h = self.reader(self.e1(src), torch.zeros(len(src), 12))
        s, _ = self.writer(self.e2(trg), h)
        e = torch.bmm(s, self.score(m).mT)
        if self.fault == "temperature":
            e = e / 12**0.5
        return self.vocab(self.mix(torch.cat([torch.softmax(e, 2).bmm(m), s], 2)).tanh())


def luong(fault):
    theirs, mine = Luong(), MyLuong(fault)
    s = theirs.state_dict()
    n = {
        "e1.weight": s["src.weight"],
        "e2.weight": s["trg.weight"],
        "score.weight": s["general.weight"],
        "mix.weight": s["combine.weight"],
        "vocab.weight": s["out.weight"],
        "vocab.bias": s["out.bias"],
    }
    if fault != "bias":
        n["mix.bias"] = s["combine.bias"]
    for a, b in (("reader", "enc"), ("writer", "dec")):
        for k in ("weight", "bias"):
            n[f"{a}.x.{k}"], n[f"{a}.h.{k}"] = s[f"{b}.{k}_ih_l0"], s[f"{b}.{k}_hh_l0"]
    mine.load_state_dict(n)
    return mine, theirs, (torch.randint(0, 20, (2, 6)), torch.randint(0, 22, (2, 5)))


# The pair, the fault, the module of mine in which they part, the cause.
CASES = [
    (neo, "bias", "blocks.0.attn.wo", "missing bias"),
    (neo, "base", "blocks.0.attn", "rotary base"),
    (neo, "pairing", "blocks.0.attn", "rotary pairing"),
    (neo, "activation", "blocks.0.mlp.1", "activation"),
    (gem, "scale", "", "embedding scale"),
    (gem, "offset", "stack.0.before", "norm offset"),
    (gem, "eps", "stack.0.before", "norm epsilon"),
    (gem, "groups", "stack.0", "grouped heads"),
    (gem, "softcap", "stack.0", "soft cap"),
    (gem, "mask", "stack.0", "mask"),
    (awd, "gates", "upper", "gate order"),
    (awd, "dropout", "drop", "dropout"),
    (patches, "transposed", "mha", "transposed weight"),
    (patches, "activation", "ff.1", "activation"),
    (luong, "gates", "writer", "gate order"),
    (luong, "bias", "mix", "missing bias"),
    (luong, "temperature", "", "scale"),
]


def case(make, fault):
    """Mine, theirs, and what both get."""
    torch.manual_seed(0)
    mine, theirs, inputs = make(fault)
    mine.eval()
    if fault == "dropout":
        mine.drop.train()
    return mine, theirs.eval(), inputs
