"""A third set of models, in the styles of public code: attention and recurrences, and code beside them that is neither.

Its author had not read the rules by which these are found. Each model keeps its own weights (`seen`) and states (`stepped`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import nn

MAPS: list[torch.Tensor] = []  # the weights of each call, by hand
STATES: dict[str, list[torch.Tensor]] = {}  # the states of each step, by hand


def seen(weights: torch.Tensor) -> torch.Tensor:
    MAPS.append(weights)
    return weights


def stepped(name: str, state: torch.Tensor) -> torch.Tensor:
    STATES.setdefault(name, []).append(state)
    return state


MODELS: dict[str, Callable[[], tuple[nn.Module, tuple[Any, ...]]]] = {}
NEGATIVES: dict[str, Callable[[], tuple[nn.Module, tuple[Any, ...]]]] = {}


def model(*inputs: Any, **options: Any) -> Callable[[type], type]:
    def add(cls: type) -> type:
        MODELS[cls.__name__] = lambda: (cls(**options), tuple(one() for one in inputs))
        return cls

    return add


def negative(*inputs: Any, **options: Any) -> Callable[[type], type]:
    def add(cls: type) -> type:
        NEGATIVES[cls.__name__] = lambda: (cls(**options), tuple(one() for one in inputs))
        return cls

    return add


def ids(*shape: int, high: int = 20) -> Callable[[], torch.Tensor]:
    return lambda: torch.randint(high, shape)


def floats(*shape: int) -> Callable[[], torch.Tensor]:
    return lambda: torch.randn(shape)


# ---- attention


class CausalSelfAttention(nn.Module):
    def __init__(self, n_embd, n_head, block_size, dropout=0.1):
        super().__init__()
        self.c_attn = nn.Linear(n_embd, 3 * n_embd)
        self.c_proj = nn.Linear(n_embd, n_embd)
        self.attn_dropout, self.resid_dropout = nn.Dropout(dropout), nn.Dropout(dropout)
        self.n_head, self.n_embd = n_head, n_embd
        self.register_buffer("bias", torch.tril(torch.ones(block_size, block_size)).view(1, 1, block_size, block_size))

    def forward(self, x):
        B, T, C = x.size()
        q, k, v = self.c_attn(x).split(self.n_embd, dim=2)
        k = k.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        q = q.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        v = v.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        att = att.masked_fill(self.bias[:, :, :T, :T] == 0, float("-inf"))
        att = F.softmax(att, dim=-1)
        seen(att)
        att = self.attn_dropout(att)
        y = att @ v
        y = y.transpose(1, 2).contiguous().view(B, T, C)
        return self.resid_dropout(self.c_proj(y))


@model(ids(2, 6))
class LittleGPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.transformer = nn.ModuleDict(
            {
                "wte": nn.Embedding(20, 12),
                "wpe": nn.Embedding(8, 12),
                "h": nn.ModuleList([CausalSelfAttention(12, 3, 8) for _ in range(2)]),
                "ln_f": nn.LayerNorm(12),
            }
        )
        self.lm_head = nn.Linear(12, 20, bias=False)

    def forward(self, idx):
        pos = torch.arange(0, idx.size(1))
        x = self.transformer.wte(idx) + self.transformer.wpe(pos)
        for block in self.transformer.h:
            x = x + block(x)
        return self.lm_head(self.transformer.ln_f(x))


@model(floats(2, 3, 8, 8))
class VisionTransformer(nn.Module):
    def __init__(self, dim=12, heads=2):
        super().__init__()
        self.patch = nn.Conv2d(3, dim, 4, 4)
        self.cls_token = nn.Parameter(torch.randn(1, 1, dim))
        self.qkv, self.proj, self.heads = nn.Linear(dim, dim * 3), nn.Linear(dim, dim), heads
        self.scale = (dim // heads) ** -0.5

    def forward(self, x):
        x = self.patch(x).flatten(2).transpose(1, 2)
        x = torch.cat((self.cls_token.expand(x.shape[0], -1, -1), x), dim=1)
        B, N, C = x.shape
        qkv = self.qkv(x).reshape(B, N, 3, self.heads, C // self.heads).permute(2, 0, 3, 1, 4)
        q, k, v = qkv.unbind(0)
        q = q * self.scale
        attn = q @ k.transpose(-2, -1)
        attn = attn.softmax(dim=-1)
        seen(attn)
        x = (attn @ v).transpose(1, 2).reshape(B, N, C)
        return self.proj(x)[:, 0]


@model(floats(2, 9, 10), lambda: torch.arange(9) < torch.tensor([[9], [6]]))
class Perceiver(nn.Module):
    """Latents of a Parameter look at the input; heads in the batch."""

    def __init__(self, dim=8, heads=2):
        super().__init__()
        self.latents = nn.Parameter(torch.randn(5, dim))
        self.to_q, self.to_kv = nn.Linear(dim, dim, bias=False), nn.Linear(10, 2 * dim, bias=False)
        self.to_out, self.heads = nn.Linear(dim, dim), heads

    def split(self, t):
        b, n, d = t.shape
        return t.reshape(b, n, self.heads, d // self.heads).permute(0, 2, 1, 3).reshape(b * self.heads, n, -1)

    def forward(self, data, mask):
        b, h = data.shape[0], self.heads
        x = self.latents.unsqueeze(0).repeat(b, 1, 1)
        q = self.to_q(x)
        k, v = self.to_kv(data).chunk(2, dim=-1)
        q, k, v = map(self.split, (q, k, v))
        sim = torch.einsum("b i d, b j d -> b i j", q, k) * q.shape[-1] ** -0.5
        max_neg_value = -torch.finfo(sim.dtype).max
        sim.masked_fill_(~mask.repeat_interleave(h, 0).unsqueeze(1), max_neg_value)
        attn = seen(sim.softmax(dim=-1))
        out = torch.einsum("b i j, b j d -> b i d", attn, v)
        out = out.reshape(b, h, out.shape[1], -1).permute(0, 2, 1, 3).flatten(2)
        return x + self.to_out(out)


class MAB(nn.Module):
    def __init__(self, dim_Q, dim_K, dim_V, num_heads):
        super().__init__()
        self.dim_V, self.num_heads = dim_V, num_heads
        self.fc_q, self.fc_k, self.fc_v = nn.Linear(dim_Q, dim_V), nn.Linear(dim_K, dim_V), nn.Linear(dim_K, dim_V)
        self.fc_o = nn.Linear(dim_V, dim_V)

    def forward(self, Q, K):
        Q = self.fc_q(Q)
        K, V = self.fc_k(K), self.fc_v(K)
        dim_split = self.dim_V // self.num_heads
        Q_ = torch.cat(Q.split(dim_split, 2), 0)
        K_ = torch.cat(K.split(dim_split, 2), 0)
        V_ = torch.cat(V.split(dim_split, 2), 0)
        A = torch.softmax(Q_.bmm(K_.transpose(1, 2)) / math.sqrt(self.dim_V), 2)
        seen(A)
        out = torch.cat((Q_ + A.bmm(V_)).split(Q.size(0), 0), 2)
        return out + F.relu(self.fc_o(out))


@model(floats(3, 7, 4))
class SetTransformer(nn.Module):
    def __init__(self, dim=8, inducing=5, outputs=1):
        super().__init__()
        self.inducing = nn.Parameter(torch.randn(1, inducing, dim))
        self.seed = nn.Parameter(torch.randn(1, outputs, dim))
        self.mab0, self.mab1, self.pma = MAB(dim, 4, dim, 2), MAB(4, dim, dim, 2), MAB(dim, dim, dim, 2)

    def forward(self, X):
        H = self.mab0(self.inducing.repeat(X.size(0), 1, 1), X)
        X = self.mab1(X, H)
        return self.pma(self.seed.repeat(X.size(0), 1, 1), X).squeeze(1)


@model(floats(2, 5, 12))
class TalkingHeads(nn.Module):
    def __init__(self, dim=12, heads=3):
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(dim, 3 * dim, bias=False), nn.Linear(dim, dim)
        self.mix_pre, self.mix_post = nn.Parameter(torch.randn(heads, heads)), nn.Parameter(torch.randn(heads, heads))

    def forward(self, x):
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in self.qkv(x).chunk(3, dim=-1))
        dots = torch.einsum("bhid,bhjd->bhij", q, k) * q.shape[-1] ** -0.5
        dots = torch.einsum("bhij,hk->bkij", dots, self.mix_pre)
        attn = seen(dots.softmax(dim=-1))
        attn = torch.einsum("bhij,hk->bkij", attn, self.mix_post)
        out = torch.einsum("bhij,bhjd->bhid", attn, v)
        return self.out(out.transpose(1, 2).flatten(2))


@model(floats(2, 6, 16))
class GroupedRotaryAttention(nn.Module):
    """As Llama is written out: rotary, repeated keys, float32 softmax of a bfloat16 model."""

    def __init__(self, dim=16, heads=4, kv_heads=2):
        super().__init__()
        self.heads, self.kv_heads, self.head_dim = heads, kv_heads, dim // heads
        self.wq, self.wo = nn.Linear(dim, dim, bias=False), nn.Linear(dim, dim, bias=False)
        self.wk = nn.Linear(dim, kv_heads * self.head_dim, bias=False)
        self.wv = nn.Linear(dim, kv_heads * self.head_dim, bias=False)
        self.bfloat16()

    def rotate(self, x, freqs):
        pairs = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
        return torch.view_as_real(pairs * freqs[None, :, None]).flatten(3).type_as(x)

    def forward(self, x):
        x = x.bfloat16()
        bsz, seqlen, _ = x.shape
        theta = 1.0 / (10000.0 ** (torch.arange(0, self.head_dim, 2).float() / self.head_dim))
        angles = torch.outer(torch.arange(seqlen).float(), theta)
        freqs = torch.polar(torch.ones_like(angles), angles)
        xq = self.rotate(self.wq(x).view(bsz, seqlen, self.heads, self.head_dim), freqs)
        xk = self.rotate(self.wk(x).view(bsz, seqlen, self.kv_heads, self.head_dim), freqs)
        xv = self.wv(x).view(bsz, seqlen, self.kv_heads, self.head_dim)
        n_rep = self.heads // self.kv_heads
        keys = xk[:, :, :, None, :].expand(-1, -1, -1, n_rep, -1).reshape(bsz, seqlen, self.heads, self.head_dim)
        values = xv[:, :, :, None, :].expand(-1, -1, -1, n_rep, -1).reshape(bsz, seqlen, self.heads, self.head_dim)
        xq, keys, values = xq.transpose(1, 2), keys.transpose(1, 2), values.transpose(1, 2)
        scores = torch.matmul(xq, keys.transpose(2, 3)) / math.sqrt(self.head_dim)
        mask = torch.full((seqlen, seqlen), float("-inf")).triu(diagonal=1)
        scores = scores + mask
        scores = F.softmax(scores.float(), dim=-1).type_as(xq)
        seen(scores)
        output = torch.matmul(scores, values)
        return self.wo(output.transpose(1, 2).contiguous().view(bsz, seqlen, -1))


@model(floats(2, 6, 12))
class AlibiMultiQuery(nn.Module):
    def __init__(self, dim=12, heads=4):
        super().__init__()
        self.heads, self.d = heads, dim // heads
        self.q, self.kv, self.o = nn.Linear(dim, dim), nn.Linear(dim, 2 * self.d), nn.Linear(dim, dim)
        self.register_buffer("slopes", torch.tensor([2 ** (-8 * (i + 1) / heads) for i in range(heads)]))

    def forward(self, x):
        b, n, _ = x.shape
        q = self.q(x).view(b, n, self.heads, self.d)
        k, v = self.kv(x).split(self.d, -1)
        distance = torch.arange(n)[None, :] - torch.arange(n)[:, None]
        logits = torch.einsum("bnhk,bmk->bhnm", q, k) / self.d**0.5
        logits = logits + self.slopes[:, None, None] * distance.clamp(max=0)
        logits = logits.masked_fill(distance > 0, -1e9)
        w = seen(torch.softmax(logits, dim=-1))
        return self.o(torch.einsum("bhnm,bmv->bnhv", w, v).reshape(b, n, -1))


@model(floats(2, 8, 8, 6))
class SwinBlock(nn.Module):
    """Windows in the batch, relative bias, a mask for shifted windows."""

    def __init__(self, dim=6, window=4, shift=2, heads=2):
        super().__init__()
        self.window, self.shift, self.heads = window, shift, heads
        self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.table = nn.Parameter(torch.randn((2 * window - 1) ** 2, heads))
        grid = torch.stack(torch.meshgrid(torch.arange(window), torch.arange(window), indexing="ij")).flatten(1)
        offset = (grid[:, :, None] - grid[:, None, :]).permute(1, 2, 0) + window - 1
        self.register_buffer("index", offset[..., 0] * (2 * window - 1) + offset[..., 1])
        img = torch.zeros(1, 8, 8, 1)
        for i, rows in enumerate((slice(0, -window), slice(-window, -shift), slice(-shift, None))):
            for j, cols in enumerate((slice(0, -window), slice(-window, -shift), slice(-shift, None))):
                img[:, rows, cols] = 3 * i + j
        regions = self.partition(img).squeeze(-1)
        different = regions[:, None, :] != regions[:, :, None]
        self.register_buffer("attn_mask", torch.zeros(different.shape).masked_fill(different, -100.0))

    def partition(self, x):
        B, H, W, C = x.shape
        x = x.view(B, H // self.window, self.window, W // self.window, self.window, C)
        return x.permute(0, 1, 3, 2, 4, 5).contiguous().view(-1, self.window**2, C)

    def forward(self, x):
        B, H, W, C = x.shape
        windows = self.partition(torch.roll(x, (-self.shift, -self.shift), (1, 2)))
        B_, N, C = windows.shape
        qkv = self.qkv(windows).reshape(B_, N, 3, self.heads, C // self.heads).permute(2, 0, 3, 1, 4)
        q, k, v = qkv[0], qkv[1], qkv[2]
        attn = (q * (C // self.heads) ** -0.5) @ k.transpose(-2, -1)
        attn = attn + self.table[self.index.view(-1)].view(N, N, -1).permute(2, 0, 1).unsqueeze(0)
        nW = self.attn_mask.shape[0]
        attn = attn.view(B_ // nW, nW, self.heads, N, N) + self.attn_mask.unsqueeze(1).unsqueeze(0)
        attn = attn.view(-1, self.heads, N, N)
        attn = nn.Softmax(dim=-1)(attn)
        seen(attn)
        return self.proj((attn @ v).transpose(1, 2).reshape(B_, N, C))


@model(floats(11, 10))
class GatedInstancePooling(nn.Module):
    """Gated attention over the instances of one bag: no batch."""

    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Linear(10, 8), nn.ReLU())
        self.attention_V = nn.Sequential(nn.Linear(8, 6), nn.Tanh())
        self.attention_U = nn.Sequential(nn.Linear(8, 6), nn.Sigmoid())
        self.attention_weights, self.classifier = nn.Linear(6, 1), nn.Sequential(nn.Linear(8, 1), nn.Sigmoid())

    def forward(self, x):
        H = self.features(x)
        A = self.attention_weights(self.attention_V(H) * self.attention_U(H))
        A = torch.transpose(A, 1, 0)
        A = F.softmax(A, dim=1)
        seen(A)
        M = torch.mm(A, H)
        return self.classifier(M)


@model(ids(3, 7))
class SentencePooling(nn.Module):
    """A learnt context vector over the outputs of a GRU."""

    def __init__(self):
        super().__init__()
        self.embed, self.gru = nn.Embedding(20, 6), nn.GRU(6, 4, bidirectional=True, batch_first=True)
        self.attn = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 1, bias=False), nn.Softmax(dim=1))

    def forward(self, words):
        h, _ = self.gru(self.embed(words))
        alpha = seen(self.attn(h))
        return (alpha * h).sum(dim=1)


@model(ids(7, 2), ids(5, 2))
class Seq2Seq(nn.Module):
    """Additive attention at each step of a decoder that a for loop drives; time first."""

    def __init__(self, dim=6):
        super().__init__()
        self.source, self.target = nn.Embedding(20, dim), nn.Embedding(20, dim)
        self.encoder, self.rnn = nn.GRU(dim, dim), nn.GRU(2 * dim, dim)
        self.attn, self.v, self.fc_out = nn.Linear(2 * dim, dim), nn.Linear(dim, 1, bias=False), nn.Linear(2 * dim, 20)

    def forward(self, src, trg):
        encoder_outputs, hidden = self.encoder(self.source(src))
        hidden = hidden.squeeze(0)
        outputs = []
        for t in range(trg.shape[0]):
            embedded = self.target(trg[t].unsqueeze(0))
            repeated = hidden.unsqueeze(1).repeat(1, src.shape[0], 1)
            energy = torch.tanh(self.attn(torch.cat((repeated, encoder_outputs.permute(1, 0, 2)), dim=2)))
            a = F.softmax(self.v(energy).squeeze(2), dim=1)
            seen(a)
            weighted = torch.bmm(a.unsqueeze(1), encoder_outputs.permute(1, 0, 2)).permute(1, 0, 2)
            output, hidden = self.rnn(torch.cat((embedded, weighted), dim=2), hidden.unsqueeze(0))
            hidden = hidden.squeeze(0)
            outputs.append(self.fc_out(torch.cat((output, weighted), 2).squeeze(0)))
        return torch.stack(outputs)


@model(floats(2, 6, 5, 4))
class SelfAttentionGAN(nn.Module):
    """Channels first, values on the left, the map transposed."""

    def __init__(self, in_dim=6):
        super().__init__()
        self.query_conv, self.key_conv = nn.Conv2d(in_dim, 3, 1), nn.Conv2d(in_dim, 3, 1)
        self.value_conv, self.gamma = nn.Conv2d(in_dim, in_dim, 1), nn.Parameter(torch.ones(1))
        self.softmax = nn.Softmax(dim=-1)

    def forward(self, x):
        b, C, width, height = x.size()
        proj_query = self.query_conv(x).view(b, -1, width * height).permute(0, 2, 1)
        proj_key = self.key_conv(x).view(b, -1, width * height)
        attention = self.softmax(torch.bmm(proj_query, proj_key))
        seen(attention)
        proj_value = self.value_conv(x).view(b, -1, width * height)
        out = torch.bmm(proj_value, attention.permute(0, 2, 1))
        return self.gamma * out.view(b, C, width, height) + x


@model(ids(2, 6, 4), ids(2, 4))
class MemoryNetwork(nn.Module):
    """End-to-end memory network: a sum of products over the sentences of a story, in three hops."""

    def __init__(self, dim=8, hops=3):
        super().__init__()
        self.embeddings = nn.ModuleList(nn.Embedding(20, dim) for _ in range(hops + 1))
        self.hops = hops

    def forward(self, story, query):
        u = self.embeddings[0](query).sum(1)
        for hop in range(self.hops):
            m = self.embeddings[hop](story).sum(2)
            c = self.embeddings[hop + 1](story).sum(2)
            p = F.softmax(torch.sum(m * u.unsqueeze(1), 2), dim=1)
            seen(p)
            o = torch.sum(c * p.unsqueeze(2).expand_as(c), 1)
            u = u + o
        return u


@model(floats(7, 5))
class GraphAttention(nn.Module):
    """Dense graph attention of one graph: no batch, the softmax over the second of two equal axes."""

    def __init__(self, dim=4, heads=2):
        super().__init__()
        self.W = nn.ParameterList([nn.Parameter(torch.randn(5, dim)) for _ in range(heads)])
        self.a = nn.ParameterList([nn.Parameter(torch.randn(2 * dim, 1)) for _ in range(heads)])
        self.dim = dim

    def head(self, h, W, a):
        Wh = torch.mm(h, W)
        e = F.leaky_relu(torch.matmul(Wh, a[: self.dim]) + torch.matmul(Wh, a[self.dim :]).T, 0.2)
        adj = (torch.arange(7)[:, None] - torch.arange(7)).abs() < 3
        attention = torch.where(adj, e, -9e15 * torch.ones_like(e))
        attention = F.softmax(attention, dim=1)
        seen(attention)
        attention = F.dropout(attention, 0.5, training=self.training)
        return F.elu(torch.matmul(attention, Wh))

    def forward(self, x):
        return torch.cat([self.head(x, W, a) for W, a in zip(self.W, self.a, strict=True)], dim=1)


@model(floats(2, 6, 8))
class Linformer(nn.Module):
    """Keys and values are projected along time."""

    def __init__(self, dim=8, heads=2, k=4):
        super().__init__()
        self.heads = heads
        self.to_q, self.to_k, self.to_v = (nn.Linear(dim, dim, bias=False) for _ in range(3))
        self.proj_k, self.proj_v = nn.Parameter(torch.randn(6, k)), nn.Parameter(torch.randn(6, k))

    def forward(self, x):
        b, n, d = x.shape
        keys = torch.einsum("bnd,nk->bkd", self.to_k(x), self.proj_k)
        values = torch.einsum("bnd,nk->bkd", self.to_v(x), self.proj_v)
        q, k, v = (t.reshape(b, -1, self.heads, d // self.heads).transpose(1, 2) for t in (self.to_q(x), keys, values))
        dots = torch.einsum("bhnd,bhkd->bhnk", q, k) * (d // self.heads) ** -0.5
        attn = seen(dots.softmax(dim=-1))
        return torch.einsum("bhnk,bhkd->bhnd", attn, v).transpose(1, 2).reshape(b, n, -1)


@model(floats(6, 2, 8))
class SinkAttention(nn.Module):
    """A learnt logit takes part in the softmax and is cut away; time first, heads merged with the batch."""

    def __init__(self, dim=8, heads=2):
        super().__init__()
        self.in_proj, self.heads = nn.Linear(dim, 3 * dim), heads
        self.sinks = nn.Parameter(torch.randn(heads))

    def forward(self, x):
        T, B, C = x.shape
        q, k, v = self.in_proj(x).chunk(3, dim=-1)
        q, k, v = (t.contiguous().view(T, B * self.heads, C // self.heads).transpose(0, 1) for t in (q, k, v))
        QK = torch.bmm(q, k.transpose(1, 2)) * (C // self.heads) ** -0.5
        QK = QK + torch.triu(QK.new_full((T, T), -float("inf")), diagonal=1)
        S = self.sinks.repeat(B).reshape(-1, 1, 1).expand(-1, T, -1)
        QK = torch.cat([QK, S], dim=-1)
        W = torch.softmax(QK, dim=-1)
        seen(W)  # with the sink as a source
        W = W[..., :-1]
        return torch.bmm(W, v).transpose(0, 1).contiguous().view(T, B, C)


@model(floats(2, 6, 8))
class DifferentialAttention(nn.Module):
    """The difference of two maps is multiplied with the values."""

    def __init__(self, dim=8, heads=2):
        super().__init__()
        self.heads, self.d = heads, dim // heads // 2
        self.q, self.k, self.v = nn.Linear(dim, dim), nn.Linear(dim, dim), nn.Linear(dim, dim)
        self.lam = nn.Parameter(torch.tensor(0.5))

    def forward(self, x):
        b, t, _ = x.shape
        q = self.q(x).view(b, t, 2 * self.heads, self.d).transpose(1, 2)
        k = self.k(x).view(b, t, 2 * self.heads, self.d).transpose(1, 2)
        v = self.v(x).view(b, t, self.heads, 2 * self.d).transpose(1, 2)
        w = torch.matmul(q, k.transpose(-1, -2)) * self.d**-0.5
        w = w + torch.triu(torch.full((t, t), float("-inf")), 1)
        w = F.softmax(w, dim=-1, dtype=torch.float32).type_as(w)
        seen(w)  # both maps of each head
        w = w.view(b, self.heads, 2, t, t)
        w = w[:, :, 0] - self.lam * w[:, :, 1]
        return torch.matmul(w, v).transpose(1, 2).reshape(b, t, -1)


@model(floats(2, 9, 8))
class ChunkedAttention(nn.Module):
    """Queries in chunks; a numerically stable softmax by hand."""

    def __init__(self, dim=8, chunk=3):
        super().__init__()
        self.qkv, self.chunk = nn.Linear(dim, 3 * dim), chunk

    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, -1)
        out = []
        for part in q.split(self.chunk, dim=1):
            s = part @ k.transpose(1, 2) / q.shape[-1] ** 0.5
            s = s - s.amax(dim=-1, keepdim=True)
            p = s.exp()
            p = p / p.sum(dim=-1, keepdim=True)
            seen(p)
            out.append(p @ v)
        return torch.cat(out, dim=1)


@model(floats(2, 9, 8))
class SlotAttention(nn.Module):
    """Softmax over the slots, normalised again over the inputs; a GRU cell in each of three rounds."""

    def __init__(self, dim=8, slots=4):
        super().__init__()
        self.slots_mu = nn.Parameter(torch.randn(1, slots, dim))
        self.to_q, self.to_k, self.to_v = (nn.Linear(dim, dim, bias=False) for _ in range(3))
        self.gru = nn.GRUCell(dim, dim)

    def forward(self, inputs):
        b, n, d = inputs.shape
        slots = self.slots_mu.expand(b, -1, -1)
        k, v = self.to_k(inputs), self.to_v(inputs)
        for _ in range(3):
            slots_prev = slots
            q = self.to_q(slots)
            dots = torch.einsum("bid,bjd->bij", q, k) * d**-0.5
            attn = dots.softmax(dim=1) + 1e-8
            attn = attn / attn.sum(dim=-1, keepdim=True)
            seen(attn)
            updates = torch.einsum("bjd,bij->bid", v, attn)
            slots = self.gru(updates.reshape(-1, d), slots_prev.reshape(-1, d)).reshape(b, -1, d)
        return slots


@model(floats(2, 5, 6))
class ContentMemory(nn.Module):
    """Content addressing of an external memory that is written at each step."""

    def __init__(self, slots=7, width=4, dim=6):
        super().__init__()
        self.controller = nn.LSTMCell(dim + width, 8)
        self.head = nn.Linear(8, 3 * width + 1)
        self.register_buffer("empty", torch.randn(slots, width) * 0.1)
        self.width = width

    def forward(self, x):
        batch = x.shape[0]
        memory = self.empty.unsqueeze(0).repeat(batch, 1, 1)
        read, state = x.new_zeros(batch, self.width), None
        outputs = []
        for t in range(x.shape[1]):
            h, c = self.controller(torch.cat([x[:, t], read], 1), state)
            state = (h, c)
            key, erase, add, beta = self.head(h).split([self.width, self.width, self.width, 1], dim=1)
            similarity = F.cosine_similarity(memory + 1e-16, key.unsqueeze(1) + 1e-16, dim=-1)
            w = F.softmax(F.softplus(beta) * similarity, dim=1)
            seen(w)
            read = torch.matmul(w.unsqueeze(1), memory).squeeze(1)
            memory = memory * (1 - w.unsqueeze(2) * torch.sigmoid(erase).unsqueeze(1)) + w.unsqueeze(2) * add.unsqueeze(
                1
            )
            stepped("memory", memory)
            outputs.append(read)
        return torch.stack(outputs, dim=1)


# ---- recurrences


@model(floats(2, 6, 4))
class NaiveLSTM(nn.Module):
    def __init__(self, input_sz=4, hidden_sz=5):
        super().__init__()
        self.hidden_size = hidden_sz
        self.W = nn.Parameter(torch.randn(input_sz, hidden_sz * 4) * 0.3)
        self.U = nn.Parameter(torch.randn(hidden_sz, hidden_sz * 4) * 0.3)
        self.bias = nn.Parameter(torch.zeros(hidden_sz * 4))

    def forward(self, x, init_states=None):
        bs, seq_sz, _ = x.size()
        hidden_seq = []
        if init_states is None:
            h_t, c_t = (torch.zeros(bs, self.hidden_size), torch.zeros(bs, self.hidden_size))
        else:
            h_t, c_t = init_states
        HS = self.hidden_size
        for t in range(seq_sz):
            x_t = x[:, t, :]
            gates = x_t @ self.W + h_t @ self.U + self.bias
            i_t, f_t, g_t, o_t = (
                torch.sigmoid(gates[:, :HS]),
                torch.sigmoid(gates[:, HS : HS * 2]),
                torch.tanh(gates[:, HS * 2 : HS * 3]),
                torch.sigmoid(gates[:, HS * 3 :]),
            )
            c_t = f_t * c_t + i_t * g_t
            h_t = o_t * torch.tanh(c_t)
            stepped("c", c_t)
            stepped("h", h_t)
            hidden_seq.append(h_t.unsqueeze(0))
        hidden_seq = torch.cat(hidden_seq, dim=0)
        return hidden_seq.transpose(0, 1).contiguous(), (h_t, c_t)


class MyGRUCell(nn.Module):
    def __init__(self, input_size, hidden_size):
        super().__init__()
        self.x2h, self.h2h = nn.Linear(input_size, 3 * hidden_size), nn.Linear(hidden_size, 3 * hidden_size)

    def forward(self, x, hx):
        x_reset, x_upd, x_new = self.x2h(x).chunk(3, 1)
        h_reset, h_upd, h_new = self.h2h(hx).chunk(3, 1)
        reset, update = torch.sigmoid(x_reset + h_reset), torch.sigmoid(x_upd + h_upd)
        new = torch.tanh(x_new + reset * h_new)
        return update * hx + (1 - update) * new


@model(floats(2, 6, 4))
class StackedGRU(nn.Module):
    """Layers inside of time, their states in a list."""

    def __init__(self, hidden=5, layers=2):
        super().__init__()
        self.cells = nn.ModuleList([MyGRUCell(4 if layer == 0 else hidden, hidden) for layer in range(layers)])
        self.hidden, self.fc = hidden, nn.Linear(hidden, 3)

    def forward(self, x):
        h = [torch.zeros(x.size(0), self.hidden) for _ in self.cells]
        for t in range(x.size(1)):
            for layer, cell in enumerate(self.cells):
                h[layer] = cell(x[:, t] if layer == 0 else h[layer - 1], h[layer])
                stepped(f"h{layer}", h[layer])
        return self.fc(h[-1])


@model(floats(6, 2, 5))
class SRU(nn.Module):
    def __init__(self, dim=5):
        super().__init__()
        self.u = nn.Linear(dim, 3 * dim)

    def forward(self, x):
        x_tilde, f, r = self.u(x).chunk(3, dim=-1)
        f, r = f.sigmoid(), r.sigmoid()
        c = torch.zeros_like(x[0])
        hs = []
        for x_t, z_t, f_t, r_t in zip(x, x_tilde, f, r, strict=True):
            c = f_t * c + (1 - f_t) * z_t
            stepped("c", c)
            hs.append(r_t * torch.tanh(c) + (1 - r_t) * x_t)
        return torch.stack(hs)


@model(floats(2, 6, 4))
class DictLSTM(nn.Module):
    """The state is a dict that is handed on."""

    def __init__(self, hidden=5):
        super().__init__()
        self.gates, self.hidden = nn.Linear(4 + hidden, 4 * hidden), hidden

    def step(self, x, state):
        i, f, g, o = self.gates(torch.cat([x, state["h"]], dim=-1)).chunk(4, dim=-1)
        c = torch.sigmoid(f) * state["c"] + torch.sigmoid(i) * torch.tanh(g)
        return {"h": torch.sigmoid(o) * torch.tanh(c), "c": c}

    def forward(self, x):
        state = {"h": x.new_zeros(x.shape[0], self.hidden), "c": x.new_zeros(x.shape[0], self.hidden)}
        outs = []
        for x_t in x.unbind(dim=1):
            state = self.step(x_t, state)
            stepped("h", state["h"])
            stepped("c", state["c"])
            outs.append(state["h"])
        return torch.stack(outs, 1)


class RNNState(NamedTuple):
    hidden: torch.Tensor
    trace: torch.Tensor


@model(floats(2, 6, 4))
class LeakyMemory(nn.Module):
    """The state is a named tuple; the second part a leaky mean."""

    def __init__(self, hidden=5):
        super().__init__()
        self.ih, self.hh, self.hidden = nn.Linear(4, hidden), nn.Linear(hidden, hidden), hidden

    def forward(self, x):
        state = RNNState(torch.zeros(x.size(0), self.hidden), torch.zeros(x.size(0), self.hidden))
        for t in range(x.size(1)):
            hidden = torch.tanh(self.ih(x[:, t]) + self.hh(state.hidden))
            state = state._replace(hidden=hidden, trace=0.9 * state.trace + 0.1 * hidden)
            stepped("hidden", state.hidden)
            stepped("trace", state.trace)
        return torch.cat(state, -1)


@dataclass
class Carry:
    s: torch.Tensor
    z: torch.Tensor


@model(floats(2, 6, 4))
class LinearAttentionLoop(nn.Module):
    """Linear attention as a recurrence with a matrix, in a dataclass."""

    def __init__(self, dim=4):
        super().__init__()
        self.q, self.k, self.v = nn.Linear(4, dim), nn.Linear(4, dim), nn.Linear(4, dim + 1)

    def forward(self, x):
        q, k, v = F.elu(self.q(x)) + 1, F.elu(self.k(x)) + 1, self.v(x)
        carry = Carry(x.new_zeros(x.size(0), k.size(-1), v.size(-1)), x.new_zeros(x.size(0), k.size(-1)))
        ys = []
        for i in range(x.size(1)):
            carry.s = carry.s + torch.einsum("bd,be->bde", k[:, i], v[:, i])
            carry.z = carry.z + k[:, i]
            stepped("s", carry.s)
            stepped("z", carry.z)
            num = torch.einsum("bd,bde->be", q[:, i], carry.s)
            ys.append(num / (q[:, i] * carry.z).sum(-1, keepdim=True))
        return torch.stack(ys, 1)


@model(floats(2, 6, 4))
class DiagonalStateSpace(nn.Module):
    """h = A h + B x, y = C h, states of a matrix per channel."""

    def __init__(self, dim=4, state=3):
        super().__init__()
        self.A_log = nn.Parameter(torch.randn(dim, state))
        self.B, self.C, self.dt, self.D = (
            nn.Linear(dim, state),
            nn.Linear(dim, state),
            nn.Linear(dim, dim),
            nn.Parameter(torch.ones(dim)),
        )

    def forward(self, u):
        A = -torch.exp(self.A_log)
        delta, B, C = F.softplus(self.dt(u)), self.B(u), self.C(u)
        deltaA = torch.exp(torch.einsum("bld,dn->bldn", delta, A))
        deltaB_u = torch.einsum("bld,bln,bld->bldn", delta, B, u)
        x = torch.zeros(u.shape[0], *A.shape)
        ys = []
        for i in range(u.shape[1]):
            x = deltaA[:, i] * x + deltaB_u[:, i]
            stepped("x", x)
            ys.append(torch.einsum("bdn,bn->bd", x, C[:, i]))
        return torch.stack(ys, dim=1) + u * self.D


@model(floats(2, 5, 3, 6, 6))
class ConvLSTM(nn.Module):
    def __init__(self, hidden=4):
        super().__init__()
        self.conv, self.hidden = nn.Conv2d(3 + hidden, 4 * hidden, 3, padding=1), hidden

    def forward(self, frames):
        b, t, _, height, width = frames.size()
        h = c = torch.zeros(b, self.hidden, height, width)
        for k in range(t):
            combined = torch.cat([frames[:, k], h], dim=1)
            cc_i, cc_f, cc_o, cc_g = torch.split(self.conv(combined), self.hidden, dim=1)
            c = torch.sigmoid(cc_f) * c + torch.sigmoid(cc_i) * torch.tanh(cc_g)
            h = torch.sigmoid(cc_o) * torch.tanh(c)
            stepped("c", c)
            stepped("h", h)
        return h


@model(ids(6, 2))
class CharRNN(nn.Module):
    """The state stands on the module, in a while loop."""

    def __init__(self, hidden=5):
        super().__init__()
        self.emb, self.i2h, self.i2o = nn.Embedding(20, 4), nn.Linear(4 + hidden, hidden), nn.Linear(4 + hidden, 20)
        self.hidden_size = hidden

    def init_hidden(self, batch):
        self.hidden = torch.zeros(batch, self.hidden_size)

    def forward(self, text):
        self.init_hidden(text.size(1))
        i, outputs = 0, []
        while i < len(text):
            combined = torch.cat((self.emb(text[i]), self.hidden), 1)
            self.hidden = torch.tanh(self.i2h(combined))
            stepped("hidden", self.hidden)
            outputs.append(F.log_softmax(self.i2o(combined), dim=1))
            i += 1
        return torch.stack(outputs)


@model(floats(6, 2, 4))
class SpikingNeurons(nn.Module):
    """Leaky integrate and fire, reset by subtraction."""

    def __init__(self, hidden=5, beta=0.9):
        super().__init__()
        self.fc1, self.fc2, self.beta, self.hidden = nn.Linear(4, hidden), nn.Linear(hidden, 3), beta, hidden

    def forward(self, x):
        mem = torch.zeros(x.size(1), self.hidden)
        spikes = []
        for step in range(x.size(0)):
            mem = self.beta * mem + self.fc1(x[step])
            spk = (mem > 0.3).float()
            mem = mem - spk * 0.3
            stepped("mem", mem)
            spikes.append(self.fc2(spk))
        return torch.stack(spikes).mean(0)


@model(floats(2, 6, 4))
class Bidirectional(nn.Module):
    """The same kind of loop forwards and backwards."""

    def __init__(self, hidden=5):
        super().__init__()
        self.fw, self.bw, self.hidden = nn.RNNCell(4, hidden), nn.RNNCell(4, hidden), hidden

    def forward(self, x):
        B, T, _ = x.shape
        fw, bw = [], [None] * T
        h = x.new_zeros(B, self.hidden)
        for t in range(T):
            h = self.fw(x[:, t], h)
            stepped("forwards", h)
            fw.append(h)
        h = x.new_zeros(B, self.hidden)
        for t in reversed(range(T)):
            h = self.bw(x[:, t], h)
            stepped("backwards", h)
            bw[t] = h
        return torch.cat([torch.stack(fw, 1), torch.stack(bw, 1)], -1)


@model(floats(2, 6, 4))
class HiddenMarkov(nn.Module):
    """The forward algorithm in logarithms."""

    def __init__(self, states=5):
        super().__init__()
        self.emit, self.transitions = nn.Linear(4, states), nn.Parameter(torch.randn(states, states))

    def forward(self, x):
        emissions = self.emit(x).log_softmax(-1)
        transitions = self.transitions.log_softmax(-1)
        alpha = emissions[:, 0]
        for t in range(1, x.shape[1]):
            alpha = torch.logsumexp(alpha.unsqueeze(2) + transitions.unsqueeze(0), dim=1) + emissions[:, t]
            stepped("alpha", alpha)
        return alpha.logsumexp(-1)


# ---- neither


@negative(floats(2, 6, 8))
class SparseMoE(nn.Module):
    """Router with the best two of four experts."""

    def __init__(self, dim=8, experts=4):
        super().__init__()
        self.gate = nn.Linear(dim, experts, bias=False)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(dim, 16), nn.SiLU(), nn.Linear(16, dim)) for _ in range(experts)
        )

    def forward(self, x):
        hidden = x.view(-1, x.shape[-1])
        weights = F.softmax(self.gate(hidden), dim=1, dtype=torch.float)
        weights, chosen = torch.topk(weights, 2, dim=-1)
        weights = weights / weights.sum(dim=-1, keepdim=True)
        final = torch.zeros_like(hidden)
        mask = F.one_hot(chosen, num_classes=len(self.experts)).permute(2, 1, 0)
        for index, expert in enumerate(self.experts):
            k, token = torch.where(mask[index])
            final.index_add_(0, token, expert(hidden[token]) * weights[token, k, None])
        return final.view_as(x)


@negative(floats(2, 4, 8))
class DenseMoE(nn.Module):
    """As many experts as positions, all of them mixed."""

    def __init__(self, dim=8, experts=4):
        super().__init__()
        self.gate, self.experts = nn.Linear(dim, experts), nn.ModuleList(nn.Linear(dim, dim) for _ in range(experts))

    def forward(self, x):
        gate = F.softmax(self.gate(x), dim=-1)
        outs = torch.stack([expert(x) for expert in self.experts], dim=2)
        return (gate.unsqueeze(-1) * outs).sum(dim=2)


@negative(ids(2, 6))
class SoftEmbedding(nn.Module):
    """A distribution over words mixes their embeddings."""

    def __init__(self, dim=8):
        super().__init__()
        self.embed, self.out = nn.Embedding(20, dim), nn.Linear(dim, 20)

    def forward(self, words):
        probs = torch.softmax(self.out(self.embed(words)) / 0.7, dim=-1)
        return self.out(probs @ self.embed.weight)


@negative(floats(2, 6, 8))
class GumbelQuantizer(nn.Module):
    def __init__(self, dim=8, codes=6):
        super().__init__()
        self.proj, self.codebook = nn.Linear(dim, codes), nn.Embedding(codes, dim)

    def forward(self, z):
        soft = F.gumbel_softmax(self.proj(z), tau=1.0, hard=False, dim=-1)
        quantized = torch.einsum("b n k, k d -> b n d", soft, self.codebook.weight)
        qy = F.softmax(self.proj(z), dim=-1)
        return quantized, (qy * torch.log(qy * 6 + 1e-10)).sum(-1).mean()


@negative(floats(5, 8))
class MixtureDensity(nn.Module):
    def __init__(self, dim=8, gaussians=5, out=3):
        super().__init__()
        self.pi = nn.Sequential(nn.Linear(dim, gaussians), nn.Softmax(dim=1))
        self.mu, self.sigma = nn.Linear(dim, gaussians * out), nn.Linear(dim, gaussians * out)
        self.shape = (gaussians, out)

    def forward(self, x):
        pi = self.pi(x)
        mu, sigma = self.mu(x).view(-1, *self.shape), torch.exp(self.sigma(x)).view(-1, *self.shape)
        mean = torch.sum(pi.unsqueeze(-1) * mu, dim=1)
        return mean, torch.sum(pi.unsqueeze(-1) * (sigma**2 + (mu - mean.unsqueeze(1)) ** 2), dim=1)


@negative(floats(4, 8))
class Distillation(nn.Module):
    def __init__(self, dim=8, classes=5):
        super().__init__()
        self.teacher, self.student = nn.Linear(dim, classes), nn.Linear(dim, classes)

    def forward(self, x, T=3.0):
        soft_targets = F.softmax(self.teacher(x) / T, dim=-1)
        soft_prob = F.log_softmax(self.student(x) / T, dim=-1)
        return torch.sum(soft_targets * (soft_targets.log() - soft_prob)) / x.size(0) * T**2


@negative(floats(2, 6, 8))
class CapsuleRouting(nn.Module):
    """Softmax over the capsules above, a sum over the capsules below."""

    def __init__(self, inputs=6, outputs=3, dim=4):
        super().__init__()
        self.W = nn.Parameter(torch.randn(1, outputs, inputs, dim, 8) * 0.1)

    def forward(self, x):
        u_hat = torch.matmul(self.W, x[:, None, :, :, None]).squeeze(-1)
        b = torch.zeros(*u_hat.shape[:3], 1)
        for i in range(3):
            c = F.softmax(b, dim=1)
            s = (c * u_hat).sum(dim=2)
            norm = s.norm(dim=-1, keepdim=True)
            v = norm**2 / (1 + norm**2) * s / norm
            if i < 2:
                b = b + torch.matmul(u_hat, v.unsqueeze(-1))
        return v


@negative(floats(5, 8))
class ActorCritic(nn.Module):
    """The value of a state is the mean of its actions' values."""

    def __init__(self, dim=8, actions=5):
        super().__init__()
        self.actor, self.critic = nn.Linear(dim, actions), nn.Linear(dim, actions)

    def forward(self, obs):
        probs, q = F.softmax(self.actor(obs), dim=-1), self.critic(obs)
        v = (probs * q).sum(-1)
        entropy = -(probs * probs.log()).sum(-1)
        return v + 0.01 * entropy


@negative(floats(4, 8))
class CategoricalDQN(nn.Module):
    def __init__(self, dim=8, actions=3, atoms=11):
        super().__init__()
        self.q, self.shape = nn.Linear(dim, actions * atoms), (actions, atoms)
        self.register_buffer("support", torch.linspace(-10, 10, atoms))

    def forward(self, obs):
        pmfs = torch.softmax(self.q(obs).view(len(obs), *self.shape), dim=2)
        return (pmfs * self.support).sum(2).argmax(1), pmfs @ self.support


@negative(floats(2, 3, 6, 6))
class MixedOperations(nn.Module):
    """Architecture search: operations weighted by the softmax of learnt numbers."""

    def __init__(self, channels=3):
        super().__init__()
        self.ops = nn.ModuleList([nn.Conv2d(channels, channels, 3, padding=1), nn.AvgPool2d(3, 1, 1), nn.Identity()])
        self.alphas = nn.Parameter(torch.randn(2, 3))

    def forward(self, x):
        for weights in F.softmax(self.alphas, dim=-1):
            x = sum(w * op(x) for w, op in zip(weights, self.ops, strict=True))
        return x


@negative(floats(2, 6, 8))
class ScalarMix(nn.Module):
    """A learnt mean of the layers."""

    def __init__(self, dim=8, layers=4):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(dim, dim) for _ in range(layers))
        self.mix, self.gamma = nn.Parameter(torch.randn(layers)), nn.Parameter(torch.ones(1))

    def forward(self, x):
        hidden = []
        for layer in self.layers:
            x = F.gelu(layer(x))
            hidden.append(x)
        weights = torch.softmax(self.mix, dim=0)
        by_sum = self.gamma * (torch.stack(hidden) * weights.view(-1, 1, 1, 1)).sum(0)
        return by_sum + torch.einsum("l,lbtd->btd", weights, torch.stack(hidden))


@negative(floats(2, 6, 5, 5))
class SelectiveKernel(nn.Module):
    """Softmax over two branches of convolutions, for each channel."""

    def __init__(self, channels=6):
        super().__init__()
        self.branches = nn.ModuleList(nn.Conv2d(channels, channels, 3, padding=d, dilation=d) for d in (1, 2))
        self.fc, self.fcs = nn.Linear(channels, 4), nn.ModuleList(nn.Linear(4, channels) for _ in range(2))

    def forward(self, x):
        feats = torch.stack([branch(x) for branch in self.branches], dim=1)
        z = self.fc(feats.sum(1).mean(-1).mean(-1))
        attention = torch.stack([fc(z) for fc in self.fcs], dim=1).softmax(dim=1)
        return (feats * attention.unsqueeze(-1).unsqueeze(-1)).sum(dim=1)


@negative(floats(2, 3, 6, 6))
class SpatialSoftArgmax(nn.Module):
    """Expected coordinates of heat maps."""

    def __init__(self, keypoints=4):
        super().__init__()
        self.heat = nn.Conv2d(3, keypoints, 1)

    def forward(self, x):
        heat = self.heat(x)
        b, k, h, w = heat.shape
        p = F.softmax(heat.view(b, k, -1), dim=-1).view(b, k, h, w)
        ys, xs = torch.linspace(-1, 1, h), torch.linspace(-1, 1, w)
        return torch.stack([(p.sum(2) * xs).sum(-1), (p.sum(3) * ys).sum(-1)], dim=-1)


@negative(floats(2, 32, 7))
class BoxDistribution(nn.Module):
    """Boxes as the mean of bins, by a convolution whose weights are the bins."""

    def __init__(self, bins=8):
        super().__init__()
        self.conv, self.bins = nn.Conv2d(bins, 1, 1, bias=False).requires_grad_(False), bins
        self.conv.weight.data[:] = torch.arange(bins, dtype=torch.float).view(1, bins, 1, 1)

    def forward(self, x):
        b, _, a = x.shape
        return self.conv(x.view(b, 4, self.bins, a).transpose(2, 1).softmax(1)).view(b, 4, a)


@negative(floats(2, 6, 5), ids(2, 6, high=5))
class SmoothedLoss(nn.Module):
    def __init__(self):
        super().__init__()
        self.out = nn.Linear(5, 5)

    def forward(self, x, target):
        lprobs = F.log_softmax(self.out(x), dim=-1)
        smooth = torch.full_like(lprobs, 0.1 / 4).scatter_(-1, target.unsqueeze(-1), 0.9)
        p = lprobs.exp()
        brier = ((p - smooth) ** 2).sum(-1)
        return -(smooth * lprobs).sum(-1).mean() + brier.mean() - (p * lprobs).sum(dim=-1).mean()


@negative(floats(2, 4, 20))
class WaveNet(nn.Module):
    """Residual and skip sums over layers."""

    def __init__(self, channels=4):
        super().__init__()
        self.filters = nn.ModuleList(nn.Conv1d(channels, 2 * channels, 2, dilation=2**i) for i in range(3))
        self.res = nn.ModuleList(nn.Conv1d(channels, channels, 1) for _ in range(3))
        self.skips = nn.ModuleList(nn.Conv1d(channels, channels, 1) for _ in range(3))

    def forward(self, x):
        skip = 0
        for i, (conv, res, out) in enumerate(zip(self.filters, self.res, self.skips, strict=True)):
            a, b = conv(F.pad(x, (2**i, 0))).chunk(2, dim=1)
            z = torch.tanh(a) * torch.sigmoid(b)
            skip = skip + out(z)
            x = x + res(z)
        return F.relu(skip)


@negative(floats(2, 6, 4), ids(2, 6, high=3))
class TimeDistributed(nn.Module):
    """A loop over time without a state, whose losses are added up."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 3)

    def forward(self, x, y):
        loss, outs = 0.0, []
        for t in range(x.size(1)):
            out = self.fc(x[:, t])
            loss += F.cross_entropy(out, y[:, t])
            outs.append(out.softmax(-1))
        return torch.stack(outs, 1), loss / x.size(1)


@negative(floats(2, 3, 16, 16))
class FeaturePyramid(nn.Module):
    def __init__(self):
        super().__init__()
        self.down = nn.ModuleList(nn.Conv2d(3 if i == 0 else 4, 4, 3, 2, 1) for i in range(3))
        self.lateral = nn.ModuleList(nn.Conv2d(4, 4, 1) for _ in range(3))

    def forward(self, x):
        features = []
        for conv in self.down:
            x = F.relu(conv(x))
            features.append(x)
        last = self.lateral[-1](features[-1])
        outs = [last]
        for i in (1, 0):
            last = self.lateral[i](features[i]) + F.interpolate(last, scale_factor=2, mode="nearest")
            outs.insert(0, last)
        return outs


@negative(floats(2, 6, 5, 5))
class NetVLAD(nn.Module):
    """Soft assignment to clusters, residuals summed over positions."""

    def __init__(self, clusters=4, dim=6):
        super().__init__()
        self.conv, self.centroids = nn.Conv2d(dim, clusters, 1), nn.Parameter(torch.rand(clusters, dim))

    def forward(self, x):
        N, C = x.shape[:2]
        soft_assign = F.softmax(self.conv(x).view(N, self.centroids.shape[0], -1), dim=1)
        x_flatten = x.view(N, C, -1)
        residual = x_flatten.unsqueeze(1) - self.centroids[None, :, :, None]
        return F.normalize((residual * soft_assign.unsqueeze(2)).sum(dim=-1), dim=2)


@negative(ids(2, 4))
class SampledText(nn.Module):
    """Softmax of logits, a draw, and the text grows."""

    def __init__(self):
        super().__init__()
        self.emb, self.head = nn.Embedding(20, 8), nn.Linear(8, 20)

    def forward(self, idx):
        for _ in range(5):
            logits = self.head(self.emb(idx[:, -4:]).mean(1)) / 0.8
            v, _ = torch.topk(logits, 5)
            logits[logits < v[:, [-1]]] = -float("inf")
            idx = torch.cat((idx, torch.multinomial(F.softmax(logits, dim=-1), num_samples=1)), dim=1)
        return idx


@negative(floats(6, 2, 8))
class MixtureOfSoftmaxes(nn.Module):
    def __init__(self, dim=8, experts=3, words=20):
        super().__init__()
        self.prior, self.latent, self.decoder = (
            nn.Linear(dim, experts),
            nn.Linear(dim, experts * dim),
            nn.Linear(dim, words),
        )
        self.experts, self.dim = experts, dim

    def forward(self, output):
        latent = torch.tanh(self.latent(output))
        logit = self.decoder(latent.view(-1, self.dim))
        prior = F.softmax(self.prior(output).view(-1, self.experts), -1)
        prob = F.softmax(logit, -1).view(-1, self.experts, 20)
        prob = (prob * prior.unsqueeze(2).expand_as(prob)).sum(1)
        return torch.log(prob.add_(1e-8)).view(*output.shape[:2], -1)


@negative(floats(2, 3, 6, 6))
class DynamicConvolution(nn.Module):
    """Softmax over kernels mixes their weights."""

    def __init__(self, channels=3, kernels=4):
        super().__init__()
        self.attention = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, kernels))
        self.weight = nn.Parameter(torch.randn(kernels, channels, channels, 3, 3))

    def forward(self, x):
        b, c, h, w = x.shape
        attention = F.softmax(self.attention(x) / 4.0, 1)
        weight = torch.mm(attention, self.weight.view(len(self.weight), -1)).view(-1, c, 3, 3)
        return F.conv2d(x.view(1, -1, h, w), weight, padding=1, groups=b).view(b, c, h, w)
