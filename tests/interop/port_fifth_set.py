"""Fifteen ports of small models, each right and with one cause; written from the documentation alone, in code as people write it.

`PAIRS[name]` is (theirs, mine, inputs, place, cause): `mine(theirs, right)` makes the port with the same weights, and the difference begins
in the module `place` of mine. In the first run 13 places and 12 causes of the 15 were found, and no wrong one was sure.
"""

import math

import torch
import torch.nn.functional as F
from einops import rearrange
from torch import nn

D, HEADS, VOCAB = 24, 4, 30


def ids():
    return torch.randint(0, VOCAB, (2, 9), generator=torch.Generator().manual_seed(3))


def signal():
    return torch.randn(2, 11, D, generator=torch.Generator().manual_seed(4))


def image():
    return torch.randn(2, 3, 12, 12, generator=torch.Generator().manual_seed(5))


# 1: rotary with complex numbers (pairs of neighbours), and with two halves


def freqs_cis(dim, end, theta=10000.0):
    freqs = 1.0 / (theta ** (torch.arange(0, dim, 2)[: (dim // 2)].float() / dim))
    freqs = torch.outer(torch.arange(end), freqs)
    return torch.polar(torch.ones_like(freqs), freqs)


def apply_cis(x, cis):
    x_ = torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2).contiguous())
    return torch.view_as_real(x_ * cis.to(x_.dtype)[None, :, None]).flatten(3).type_as(x)


def rotate_half(x):
    x1, x2 = x[..., : x.shape[-1] // 2], x[..., x.shape[-1] // 2 :]
    return torch.cat((-x2, x1), dim=-1)


class MetaAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(D, D, bias=False) for _ in range(4))

    def forward(self, x, cis):
        b, t, _ = x.shape
        xq, xk, xv = self.wq(x), self.wk(x), self.wv(x)
        xq = apply_cis(xq.view(b, t, HEADS, -1), cis)
        xk = apply_cis(xk.view(b, t, HEADS, -1), cis)
        xv = xv.view(b, t, HEADS, -1)
        out = F.scaled_dot_product_attention(*(y.transpose(1, 2) for y in (xq, xk, xv)), is_causal=True)
        return self.wo(out.transpose(1, 2).reshape(b, t, D))


class MetaBlock(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = MetaAttention()
        self.w1, self.w2, self.w3 = (
            nn.Linear(D, 40, bias=False),
            nn.Linear(40, D, bias=False),
            nn.Linear(D, 40, bias=False),
        )
        self.attention_norm, self.ffn_norm = nn.RMSNorm(D, eps=1e-5), nn.RMSNorm(D, eps=1e-5)

    def forward(self, x, cis):
        h = x + self.attention(self.attention_norm(x), cis)
        y = self.ffn_norm(h)
        return h + self.w2(F.silu(self.w1(y)) * self.w3(y))


class Meta(nn.Module):
    def __init__(self):
        super().__init__()
        self.tok_embeddings = nn.Embedding(VOCAB, D)
        self.layers = nn.ModuleList(MetaBlock() for _ in range(2))
        self.norm, self.output = nn.RMSNorm(D, eps=1e-5), nn.Linear(D, VOCAB, bias=False)

    def forward(self, tokens):
        h = self.tok_embeddings(tokens)
        cis = freqs_cis(D // HEADS, tokens.shape[1])
        for layer in self.layers:
            h = layer(h, cis)
        return self.output(self.norm(h))


class HalfAttention(nn.Module):
    def __init__(self, theirs, right, base=10000.0):
        super().__init__()
        self.right, self.base = right, base
        self.q_proj, self.k_proj, self.v_proj, self.o_proj = theirs.wq, theirs.wk, theirs.wv, theirs.wo

    def rotate(self, x):
        d = x.shape[-1]
        inv_freq = 1.0 / (self.base ** (torch.arange(0, d, 2).float() / d))
        angles = torch.arange(x.shape[2]).float()[:, None] * inv_freq
        emb = torch.cat((angles, angles), dim=-1)
        if self.right:  # to halves and back
            x = torch.cat((x[..., 0::2], x[..., 1::2]), -1)
        x = x * emb.cos().to(x.dtype) + rotate_half(x) * emb.sin().to(x.dtype)
        if self.right:
            x = torch.stack(x.chunk(2, -1), -1).flatten(-2)
        return x

    def forward(self, hidden):
        b, t, _ = hidden.shape
        q, k, v = (p(hidden).view(b, t, HEADS, -1).transpose(1, 2) for p in (self.q_proj, self.k_proj, self.v_proj))
        q, k = self.rotate(q), self.rotate(k)
        att = torch.matmul(q, k.transpose(2, 3)) / math.sqrt(q.shape[-1])
        att = att + torch.full((t, t), float("-inf")).triu(1).to(att.dtype)
        att = F.softmax(att, dim=-1)
        return self.o_proj(torch.matmul(att, v).transpose(1, 2).contiguous().view(b, t, -1))


class HalfBlock(nn.Module):
    def __init__(self, theirs, right):
        super().__init__()
        self.self_attn = HalfAttention(theirs.attention, right)
        self.gate, self.down, self.up = theirs.w1, theirs.w2, theirs.w3
        self.ln_1, self.ln_2 = theirs.attention_norm, theirs.ffn_norm

    def forward(self, x):
        x = x + self.self_attn(self.ln_1(x))
        y = self.ln_2(x)
        return x + self.down(self.up(y) * F.silu(self.gate(y)))


class Half(nn.Module):
    def __init__(self, theirs, right):
        super().__init__()
        self.wte = theirs.tok_embeddings
        self.h = nn.ModuleList(HalfBlock(layer, right) for layer in theirs.layers)
        self.ln_f, self.lm_head = theirs.norm, theirs.output

    def forward(self, tokens):
        x = self.wte(tokens)
        for block in self.h:
            x = block(x)
        return self.lm_head(self.ln_f(x))


# 2: an encoder of sounds with rotary of another base


class SoundTheirs(nn.Module):
    def __init__(self):
        super().__init__()
        self.subsample = nn.Conv1d(D, D, 3, stride=2, padding=1)
        self.attention = MetaAttention()
        self.norm, self.ctc = nn.LayerNorm(D), nn.Linear(D, 10)

    def forward(self, x):
        x = F.gelu(self.subsample(x.transpose(1, 2))).transpose(1, 2)
        b, t, _ = x.shape
        att, y = self.attention, self.norm(x)
        cis = freqs_cis(D // HEADS, t, theta=500.0)
        q, k = (apply_cis(w(y).view(b, t, HEADS, -1), cis) for w in (att.wq, att.wk))
        v = att.wv(y).view(b, t, HEADS, -1)
        w = torch.einsum("bqhd,bkhd->bhqk", q, k).div(math.sqrt(D // HEADS)).softmax(-1)
        return self.ctc(x + att.wo(torch.einsum("bhqk,bkhd->bqhd", w, v).reshape(b, t, D))).log_softmax(-1)


class SoundMine(nn.Module):
    def __init__(self, theirs, right):
        super().__init__()
        self.conv = theirs.subsample
        self.attn = SoundAttention(theirs.attention, 500.0 if right else 10000.0)
        self.norm, self.out = theirs.norm, theirs.ctc

    def forward(self, x):
        x = F.gelu(self.conv(x.mT).mT)
        return F.log_softmax(self.out(x + self.attn(self.norm(x))), dim=-1)


class SoundAttention(nn.Module):
    def __init__(self, theirs, base):
        super().__init__()
        self.base = base
        self.qkv = nn.Linear(D, 3 * D, bias=False)
        self.qkv.weight.data = torch.cat([theirs.wq.weight, theirs.wk.weight, theirs.wv.weight]).data
        self.proj = theirs.wo

    def forward(self, x):
        q, k, v = rearrange(self.qkv(x), "b t (three h d) -> three b h t d", three=3, h=HEADS)
        d = q.shape[-1]
        angle = torch.arange(x.shape[1])[:, None] * torch.pow(self.base, -torch.arange(0, d, 2) / d)
        cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)

        def turn(y):
            even, odd = y[..., ::2], y[..., 1::2]
            return torch.stack([even * cos - odd * sin, even * sin + odd * cos], -1).flatten(-2)

        y = F.scaled_dot_product_attention(turn(q), turn(k), v)
        return self.proj(rearrange(y, "b h t d -> b t (h d)"))


# 3: rotary over a part of each head, in a block with parallel parts


class NeoTheirs(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed_in = nn.Embedding(VOCAB, 32)
        self.query_key_value, self.dense = nn.Linear(32, 96), nn.Linear(32, 32)
        self.input_layernorm, self.post_layernorm = nn.LayerNorm(32), nn.LayerNorm(32)
        self.h_to_4h, self.back = nn.Linear(32, 64), nn.Linear(64, 32)
        self.embed_out = nn.Linear(32, VOCAB, bias=False)

    def forward(self, tokens):
        x = self.embed_in(tokens)
        b, t, _ = x.shape
        qkv = self.query_key_value(self.input_layernorm(x)).view(b, t, 4, 24).transpose(1, 2)
        q, k, v = qkv.chunk(3, dim=-1)
        inv = 1.0 / (10000 ** (torch.arange(0, 4, 2).float() / 4))
        emb = torch.cat([torch.outer(torch.arange(t).float(), inv)] * 2, -1)
        cos, sin = emb.cos().to(x.dtype), emb.sin().to(x.dtype)
        q = torch.cat([q[..., :4] * cos + rotate_half(q[..., :4]) * sin, q[..., 4:]], -1)
        k = torch.cat([k[..., :4] * cos + rotate_half(k[..., :4]) * sin, k[..., 4:]], -1)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, t, 32)
        return self.embed_out(x + self.dense(y) + self.back(F.gelu(self.h_to_4h(self.post_layernorm(x)))))


class NeoRotary(nn.Module):
    def __init__(self, turned):
        super().__init__()
        self.turned = turned

    def forward(self, x):
        n = self.turned
        inv = 10000.0 ** (-torch.arange(0, n, 2).float() / n)
        angle = torch.arange(x.shape[2]).float()[:, None] * inv
        a, b, rest = x[..., : n // 2], x[..., n // 2 : n], x[..., n:]
        cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
        return torch.cat([a * cos - b * sin, b * cos + a * sin, rest], dim=-1)


class NeoAttention(nn.Module):
    def __init__(self, theirs, right):
        super().__init__()
        self.qkv, self.out, self.rope = theirs.query_key_value, theirs.dense, NeoRotary(4 if right else 8)

    def forward(self, x):
        b, t, _ = x.shape
        q, k, v = self.qkv(x).view(b, t, 4, 3, 8).permute(3, 0, 2, 1, 4)
        q, k = self.rope(q), self.rope(k)
        w = (q @ k.mT) * 8**-0.5
        w = w.masked_fill(torch.ones(t, t, dtype=torch.bool).triu(1), float("-inf")).softmax(-1)
        return self.out((w @ v).transpose(1, 2).reshape(b, t, 32))


class NeoMine(nn.Module):
    def __init__(self, theirs, right):
        super().__init__()
        self.embed = theirs.embed_in
        self.attn = NeoAttention(theirs, right)
        self.ln1, self.ln2 = theirs.input_layernorm, theirs.post_layernorm
        self.mlp = nn.Sequential(theirs.h_to_4h, nn.GELU(), theirs.back)
        self.head = theirs.embed_out

    def forward(self, tokens):
        x = self.embed(tokens)
        return self.head(x + self.attn(self.ln1(x)) + self.mlp(self.ln2(x)))


# 4: fewer heads of keys than of queries


class GroupedTheirs(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.kv, self.o = nn.Linear(D, D), nn.Linear(D, D), nn.Linear(D, D)
        self.ln = nn.LayerNorm(D)

    def forward(self, x):
        b, t, _ = x.shape
        y = self.ln(x)
        q = self.q(y).view(b, t, 4, 6).transpose(1, 2)
        k, v = (part.view(b, t, 2, 6).transpose(1, 2) for part in self.kv(y).chunk(2, -1))
        k, v = k.repeat_interleave(2, 1), v.repeat_interleave(2, 1)
        return x + self.o(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, t, D))


class GroupedAttention(nn.Module):
    def __init__(self, theirs, right):
        super().__init__()
        self.right = right
        self.queries, self.keys_values, self.out = theirs.q, theirs.kv, theirs.o

    def forward(self, x):
        q = rearrange(self.queries(x), "b t (h d) -> b h t d", h=4)
        k, v = rearrange(self.keys_values(x), "b t (two g d) -> two b g t d", two=2, g=2)
        if self.right:
            k, v = (y[:, :, None].expand(-1, -1, 2, -1, -1).flatten(1, 2) for y in (k, v))
        else:
            k, v = (y[:, None].expand(-1, 2, -1, -1, -1).flatten(1, 2) for y in (k, v))
        w = torch.einsum("bhqd,bhkd->bhqk", q, k) / 6**0.5
        return self.out(rearrange(torch.einsum("bhqk,bhkd->bhqd", w.softmax(-1), v), "b h t d -> b t (h d)"))


class GroupedMine(nn.Module):
    def __init__(self, theirs, right):
        super().__init__()
        self.norm, self.attend = theirs.ln, GroupedAttention(theirs, right)

    def forward(self, x):
        return x + self.attend(self.norm(x))


# 5: a recurrent language model with tied, scaled embeddings


class TiedTheirs(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.gru = nn.Embedding(VOCAB, D), nn.GRU(D, D, num_layers=2, batch_first=True)

    def forward(self, tokens):
        x = self.embedding(tokens) * math.sqrt(D)
        return self.gru(x)[0] @ self.embedding.weight.t()


class TiedMine(nn.Module):
    def __init__(self, theirs, right):
        super().__init__()
        self.right = right
        self.words, self.rnn = theirs.embedding, theirs.gru
        self.logits = nn.Linear(D, VOCAB, bias=False)
        self.logits.weight = self.words.weight

    def forward(self, tokens):
        x = self.words(tokens)
        if self.right:
            x = x * D**0.5
        return self.logits(self.rnn(x)[0])


# 6: weights of a norm that are kept less one, in gated layers without attention


class NearOne(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.randn(D) * 0.2)

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * (1 + self.scale)


class GatedTheirs(nn.Module):
    def __init__(self):
        super().__init__()
        self.norms = nn.ModuleList(NearOne() for _ in range(3))
        self.ups = nn.ModuleList(nn.Linear(D, 64) for _ in range(3))
        self.downs = nn.ModuleList(nn.Linear(32, D) for _ in range(3))

    def forward(self, x):
        for norm, up, down in zip(self.norms, self.ups, self.downs, strict=True):
            x = x + down(F.glu(up(norm(x))))
        return x


class PlainNorm(nn.Module):
    def __init__(self, weight, right):
        super().__init__()
        self.weight, self.right = weight, right

    def forward(self, x):
        normed = x / torch.sqrt((x * x).mean(dim=-1, keepdim=True) + 1e-6)
        return normed * (1.0 + self.weight) if self.right else self.weight * normed


class GatedLayer(nn.Module):
    def __init__(self, norm, up, down, right):
        super().__init__()
        self.norm, self.up, self.down = PlainNorm(norm.scale, right), up, down

    def forward(self, x):
        value, gate = self.up(self.norm(x)).split(32, dim=-1)
        return x + self.down(value * gate.sigmoid())


class GatedMine(nn.Module):
    def __init__(self, theirs, right):
        super().__init__()
        parts = zip(theirs.norms, theirs.ups, theirs.downs, strict=True)
        self.layers = nn.Sequential(*(GatedLayer(*part, right) for part in parts))

    def forward(self, x):
        return self.layers(x)


# 7: epsilon of a norm behind the sum


class PostTheirs(nn.Module):
    def __init__(self):
        super().__init__()
        self.attn = nn.MultiheadAttention(D, HEADS, batch_first=True)
        self.ln1, self.ln2 = nn.LayerNorm(D, eps=1e-12), nn.LayerNorm(D, eps=1e-12)
        self.fc1, self.fc2 = nn.Linear(D, 48), nn.Linear(48, D)

    def forward(self, x):
        x = self.ln1(x + self.attn(x, x, x, need_weights=False)[0])
        return self.ln2(x + self.fc2(F.gelu(self.fc1(x))))


class HandNorm(nn.Module):
    def __init__(self, theirs, eps):
        super().__init__()
        self.gamma, self.beta, self.eps = theirs.weight, theirs.bias, eps

    def forward(self, x):
        mean = x.mean(-1, keepdim=True)
        var = (x - mean).pow(2).mean(-1, keepdim=True)
        return self.gamma * ((x - mean) / torch.sqrt(var + self.eps)) + self.beta


class PostMine(nn.Module):
    def __init__(self, theirs, right):
        super().__init__()
        self.mha = theirs.attn
        eps = 1e-12 if right else 1e-5
        self.norm1, self.norm2 = HandNorm(theirs.ln1, eps), HandNorm(theirs.ln2, eps)
        self.ff = nn.Sequential(theirs.fc1, nn.GELU(), theirs.fc2)

    def forward(self, x):
        a, _ = self.mha(x, x, x)
        x = self.norm1(x + a)
        return self.norm2(x + self.ff(x))


# 8: a soft cap on scores


class CapTheirs(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb, self.pos = nn.Embedding(VOCAB, D), nn.Embedding(16, D)
        self.attn_qkv, self.attn_out, self.lm_head = nn.Linear(D, 3 * D), nn.Linear(D, D), nn.Linear(D, VOCAB)

    def forward(self, tokens):
        b, t = tokens.shape
        x = self.emb(tokens) + self.pos(torch.arange(t))
        q, k, v = (y.view(b, t, HEADS, -1).transpose(1, 2) for y in self.attn_qkv(x).split(D, -1))
        scores = 2.0 * torch.tanh((q @ k.mT) * (D // HEADS) ** -0.5 / 2.0)
        scores = torch.where(torch.tril(torch.ones(t, t)).bool(), scores, float("-inf"))
        return self.lm_head(x + self.attn_out((scores.softmax(-1) @ v).transpose(1, 2).reshape(b, t, D)))


class CapAttention(nn.Module):
    def __init__(self, theirs, right):
        super().__init__()
        self.cap = 2.0 if right else None
        self.c_attn, self.c_proj = theirs.attn_qkv, theirs.attn_out

    def forward(self, x):
        b, t, c = x.size()
        q, k, v = self.c_attn(x).split(c, dim=2)
        q, k, v = (y.view(b, t, HEADS, c // HEADS).transpose(1, 2) for y in (q, k, v))
        att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        if self.cap is not None:
            att = torch.tanh(att / self.cap) * self.cap
        att = att.masked_fill(torch.tril(torch.ones(t, t)) == 0, float("-inf"))
        y = F.softmax(att, dim=-1) @ v
        return self.c_proj(y.transpose(1, 2).contiguous().view(b, t, c))


class CapMine(nn.Module):
    def __init__(self, theirs, right):
        super().__init__()
        self.transformer = nn.ModuleDict({"wte": theirs.emb, "wpe": theirs.pos, "attn": CapAttention(theirs, right)})
        self.lm_head = theirs.lm_head

    def forward(self, idx):
        x = self.transformer.wte(idx) + self.transformer.wpe(torch.arange(0, idx.size(1)))
        return self.lm_head(x + self.transformer.attn(x))


# 9: an LSTM written out, with gates in another order


class CharTheirs(nn.Module):
    def __init__(self):
        super().__init__()
        self.chars, self.lstm, self.out = nn.Embedding(VOCAB, D), nn.LSTM(D, D, batch_first=True), nn.Linear(D, VOCAB)

    def forward(self, tokens):
        return self.out(self.lstm(self.chars(tokens))[0])


class Cell(nn.Module):
    def __init__(self, theirs, right):
        super().__init__()
        self.right = right
        self.w_ih, self.w_hh = theirs.weight_ih_l0, theirs.weight_hh_l0
        self.bias = nn.Parameter(theirs.bias_ih_l0.data + theirs.bias_hh_l0.data)

    def forward(self, x, h, c):
        z = x @ self.w_ih.T + h @ self.w_hh.T + self.bias
        if self.right:
            i, f, g, o = z.chunk(4, dim=-1)
        else:
            i, g, f, o = z.chunk(4, dim=-1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        return torch.sigmoid(o) * torch.tanh(c), c


class CharMine(nn.Module):
    def __init__(self, theirs, right):
        super().__init__()
        self.embed, self.cell, self.proj = theirs.chars, Cell(theirs.lstm, right), theirs.out

    def forward(self, tokens):
        x = self.embed(tokens)
        h = c = x.new_zeros(x.shape[0], D)
        outputs = []
        for t in range(x.shape[1]):
            h, c = self.cell(x[:, t], h, c)
            outputs.append(h)
        return self.proj(torch.stack(outputs, dim=1))


# 10: a convolution without its bias


class DepthTheirs(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, D, 4, stride=4)
        self.dw, self.pw1, self.pw2 = nn.Conv2d(D, D, 3, padding=1, groups=D), nn.Linear(D, 48), nn.Linear(48, D)
        self.norm, self.head = nn.LayerNorm(D), nn.Linear(D, 5)

    def forward(self, x):
        x = self.stem(x)
        y = self.norm(self.dw(x).permute(0, 2, 3, 1))
        y = self.pw2(F.gelu(self.pw1(y))).permute(0, 3, 1, 2)
        return self.head((x + y).mean((2, 3)))


class DepthMine(nn.Module):
    def __init__(self, theirs, right):
        super().__init__()
        self.patch = theirs.stem
        self.depthwise = nn.Conv2d(D, D, 3, padding=1, groups=D, bias=right)
        self.depthwise.weight = theirs.dw.weight
        if right:
            self.depthwise.bias = theirs.dw.bias
        self.ln, self.expand, self.reduce, self.fc = theirs.norm, theirs.pw1, theirs.pw2, theirs.head

    def forward(self, img):
        h = self.patch(img)
        z = rearrange(self.depthwise(h), "b c y x -> b y x c")
        z = self.reduce(F.gelu(self.expand(self.ln(z))))
        return self.fc(F.adaptive_avg_pool2d(h + rearrange(z, "b y x c -> b c y x"), 1).flatten(1))


# 11: a local window that is one position shorter


class LocalTheirs(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.qkv, self.out = nn.LayerNorm(D), nn.Linear(D, 3 * D), nn.Linear(D, D)
        self.last = nn.Linear(D, 8)

    def forward(self, x):
        b, t, _ = x.shape
        q, k, v = (y.unflatten(-1, (HEADS, -1)).transpose(1, 2) for y in self.qkv(self.norm(x)).chunk(3, -1))
        i, j = torch.arange(t)[:, None], torch.arange(t)[None]
        allowed = (j <= i) & (i - j < 4)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=allowed)
        return self.last(x + self.out(y.transpose(1, 2).flatten(2)))


class LocalAttention(nn.Module):
    def __init__(self, theirs, right):
        super().__init__()
        self.window = 4 if right else 3
        self.in_proj, self.out_proj = theirs.qkv, theirs.out

    def forward(self, x):
        n = x.shape[1]
        q, k, v = rearrange(self.in_proj(x), "b t (r h d) -> r b h t d", r=3, h=HEADS)
        mask = torch.ones(n, n).tril().triu(-(self.window - 1)).log().to(x.dtype)
        w = torch.softmax(q @ k.transpose(-1, -2) / (D // HEADS) ** 0.5 + mask, dim=-1)
        return self.out_proj(rearrange(w @ v, "b h t d -> b t (h d)"))


class LocalMine(nn.Module):
    def __init__(self, theirs, right):
        super().__init__()
        self.ln, self.local, self.final = theirs.norm, LocalAttention(theirs, right), theirs.last

    def forward(self, x):
        return self.final(x + self.local(self.ln(x)))


# 12: a bilinear score with its weight transposed


class ParserTheirs(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(D, 12, batch_first=True, bidirectional=True)
        self.heads, self.deps = nn.Linear(D, D), nn.Linear(D, D)
        self.u = nn.Parameter(torch.randn(D, D) * 0.3)

    def forward(self, x):
        h, _ = self.lstm(x)
        return torch.einsum(
            "bid,de,bje->bij", F.leaky_relu(self.deps(h), 0.1), self.u, F.leaky_relu(self.heads(h), 0.1)
        )


class Biaffine(nn.Module):
    def __init__(self, weight, right):
        super().__init__()
        self.weight, self.right = weight, right

    def forward(self, dependent, head):
        if self.right:
            return dependent @ self.weight @ head.mT
        return F.linear(dependent, self.weight) @ head.mT


class ParserMine(nn.Module):
    def __init__(self, theirs, right):
        super().__init__()
        self.encoder, self.act = theirs.lstm, nn.LeakyReLU(0.1)
        self.mlp_d, self.mlp_h, self.biaffine = theirs.deps, theirs.heads, Biaffine(theirs.u, right)

    def forward(self, x):
        x = self.encoder(x)[0]
        return self.biaffine(self.act(self.mlp_d(x)), self.act(self.mlp_h(x)))


# 13: an activation


class ClipTheirs(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.cls = nn.Conv2d(3, D, 4, 4, bias=False), nn.Parameter(torch.randn(D))
        self.pos = nn.Parameter(torch.randn(10, D))
        self.ln_pre, self.ln_2, self.ln_post = nn.LayerNorm(D), nn.LayerNorm(D), nn.LayerNorm(D)
        self.c_fc, self.c_proj, self.proj = nn.Linear(D, 48), nn.Linear(48, D), nn.Parameter(torch.randn(D, 8))

    def forward(self, x):
        x = self.conv1(x).flatten(2).permute(0, 2, 1)
        x = torch.cat([self.cls.expand(x.shape[0], 1, -1), x], dim=1) + self.pos
        x = self.ln_pre(x)
        y = self.c_fc(self.ln_2(x))
        x = x + self.c_proj(y * torch.sigmoid(1.702 * y))
        return self.ln_post(x[:, 0]) @ self.proj


class QuickGELU(nn.Module):
    def forward(self, x):
        return x * torch.sigmoid(1.702 * x)


class ClipMine(nn.Module):
    def __init__(self, theirs, right):
        super().__init__()
        self.patch_embed, self.cls_token, self.pos_embed = theirs.conv1, theirs.cls, theirs.pos
        self.norm_pre, self.norm2, self.norm = theirs.ln_pre, theirs.ln_2, theirs.ln_post
        self.fc1, self.act, self.fc2 = theirs.c_fc, QuickGELU() if right else nn.GELU(), theirs.c_proj
        self.head = nn.Linear(D, 8, bias=False)
        self.head.weight.data = theirs.proj.data.T.contiguous()

    def forward(self, x):
        x = rearrange(self.patch_embed(x), "b c h w -> b (h w) c")
        x = torch.cat([self.cls_token.expand(len(x), 1, D), x], 1)
        x = self.norm_pre(x + self.pos_embed)
        x = x + self.fc2(self.act(self.fc1(self.norm2(x))))
        return self.head(self.norm(x)[:, 0])


# 14: dropout that does not know of eval


class MixTheirs(nn.Module):
    def __init__(self):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(D), nn.LayerNorm(D)
        self.t1, self.t2, self.c1, self.c2 = nn.Linear(11, 20), nn.Linear(20, 11), nn.Linear(D, 40), nn.Linear(40, D)

    def forward(self, x):
        x = x + self.t2(F.gelu(self.t1(self.n1(x).mT))).mT
        return x + self.c2(F.gelu(self.c1(self.n2(x))))


class MixMLP(nn.Module):
    def __init__(self, first, second, dropped):
        super().__init__()
        self.first, self.second, self.dropped = first, second, dropped

    def forward(self, x):
        return self.second(F.dropout(F.gelu(self.first(x)), self.dropped))


class MixMine(nn.Module):
    def __init__(self, theirs, right):
        super().__init__()
        self.norm1, self.norm2 = theirs.n1, theirs.n2
        self.tokens, self.channels = (
            MixMLP(theirs.t1, theirs.t2, 0.0),
            MixMLP(theirs.c1, theirs.c2, 0.0 if right else 0.2),
        )

    def forward(self, x):
        x = x + self.tokens(self.norm1(x).transpose(1, 2)).transpose(1, 2)
        return x + self.channels(self.norm2(x))


# 15: one weight for queries, keys and values, head by head or kind by kind


class FusedTheirs(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.qkv, self.proj = nn.LayerNorm(D), nn.Linear(D, 3 * D), nn.Linear(D, D)

    def forward(self, x):
        b, t, _ = x.shape
        q, k, v = self.qkv(self.norm(x)).reshape(b, t, 3, HEADS, D // HEADS).permute(2, 0, 3, 1, 4).unbind(0)
        y = F.scaled_dot_product_attention(q, k, v)
        return x + self.proj(y.transpose(1, 2).reshape(b, t, D))


class FusedAttention(nn.Module):
    def __init__(self, theirs, right):
        super().__init__()
        self.right, self.to_qkv, self.to_out = right, theirs.qkv, theirs.proj

    def forward(self, x):
        order = "b t (c h d) -> c b h t d" if self.right else "b t (h c d) -> c b h t d"
        q, k, v = rearrange(self.to_qkv(x), order, c=3, h=HEADS)
        dots = torch.einsum("bhid,bhjd->bhij", q, k) * (D // HEADS) ** -0.5
        return self.to_out(rearrange(dots.softmax(-1) @ v, "b h t d -> b t (h d)"))


class FusedMine(nn.Module):
    def __init__(self, theirs, right):
        super().__init__()
        self.prenorm, self.fn = theirs.norm, FusedAttention(theirs, right)

    def forward(self, x):
        return x + self.fn(self.prenorm(x))


PAIRS = {
    "rotary pairs, complex": (Meta, Half, ids, "h.0.self_attn", "rotary pairing"),
    "rotary base of sounds": (SoundTheirs, SoundMine, signal, "attn", "rotary base"),
    "rotary over a part": (NeoTheirs, NeoMine, ids, "attn.rope", "rotary part"),
    "grouped heads by expand": (GroupedTheirs, GroupedMine, signal, "attend", "grouped heads"),
    "scale of tied embeddings": (TiedTheirs, TiedMine, ids, "", "embedding scale"),
    "norm less one": (GatedTheirs, GatedMine, signal, "layers.0.norm", "norm offset"),
    "epsilon of a norm by hand": (PostTheirs, PostMine, signal, "norm1", "norm epsilon"),
    "soft cap of scores": (CapTheirs, CapMine, ids, "transformer.attn", "soft cap"),
    "order of gates by hand": (CharTheirs, CharMine, ids, "cell", "gate order"),
    "bias of a convolution": (DepthTheirs, DepthMine, image, "depthwise", "missing bias"),
    "window of three": (LocalTheirs, LocalMine, signal, "local", "mask"),
    "bilinear weight": (ParserTheirs, ParserMine, signal, "biaffine", "transposed weight"),
    "quick gelu": (ClipTheirs, ClipMine, image, "act", "activation"),
    "dropout by hand": (MixTheirs, MixMine, signal, "channels", "dropout"),
    "heads of one weight": (FusedTheirs, FusedMine, signal, "fn", "heads reshaped"),
}


# written after the first run: what is near to the causes that it missed


class Parts(nn.Module):
    """A convolution, a norm and a product, as modules."""

    def __init__(self):
        super().__init__()
        self.conv, self.norm, self.product = nn.Conv1d(D, D, 3, padding=1), nn.LayerNorm(D), nn.Linear(D, D)
        self.up, self.head = nn.ConvTranspose1d(D, 12, 2, stride=2), nn.Linear(12, 5)

    def forward(self, x):
        x = x + self.product(self.norm(self.conv(x.mT).mT))
        return self.head(F.relu(self.up(x.mT).mT))


class ByHand(nn.Module):
    """The same by functions, without one of its biases."""

    def __init__(self, theirs, lacks):
        super().__init__()
        self.conv, self.product, self.head = theirs.conv, ByMatmul(theirs.product, lacks == "product"), theirs.head
        self.norm = nn.LayerNorm(D, bias=lacks != "norm")
        self.norm.weight = theirs.norm.weight
        if lacks != "norm":
            self.norm.bias = theirs.norm.bias
        self.up = nn.ConvTranspose1d(D, 12, 2, stride=2, bias=lacks != "up")
        self.up.weight = theirs.up.weight
        if lacks != "up":
            self.up.bias = theirs.up.bias

    def forward(self, x):
        x = x + self.product(self.norm(self.conv(x.transpose(1, 2)).transpose(1, 2)))
        return self.head(torch.relu(self.up(x.transpose(1, 2)).transpose(1, 2)))


class ByMatmul(nn.Module):
    def __init__(self, theirs, lacks):
        super().__init__()
        self.w, self.b = nn.Parameter(theirs.weight.data.T.contiguous()), None if lacks else theirs.bias

    def forward(self, x):
        y = x @ self.w
        return y if self.b is None else y + self.b


class Dropping(nn.Module):
    """The attention of `FusedTheirs`, with something that draws also in eval."""

    def __init__(self, theirs, draws):
        super().__init__()
        self.norm, self.attn, self.draws = theirs.norm, DroppingAttention(theirs, draws == "attention"), draws

    def forward(self, x):
        y = self.attn(self.norm(x))
        if self.draws == "path":
            y = y / 0.5 * y.new_empty(y.shape[0], 1, 1).bernoulli_(0.5)
        if self.draws == "noise":
            y = y + 0.1 * torch.randn_like(y)
        return x + y


class DroppingAttention(nn.Module):
    def __init__(self, theirs, draws):
        super().__init__()
        self.qkv, self.proj, self.p = theirs.qkv, theirs.proj, 0.3 if draws else 0.0

    def forward(self, x):
        q, k, v = rearrange(self.qkv(x), "b t (c h d) -> c b h t d", c=3, h=HEADS)
        y = F.scaled_dot_product_attention(q, k, v, dropout_p=self.p)
        return self.proj(rearrange(y, "b h t d -> b t (h d)"))


class Interleaved(FusedMine):
    """Queries, keys and values of each feature side by side."""

    def __init__(self, theirs):
        super().__init__(theirs, True)
        self.fn = InterleavedAttention(theirs)


class InterleavedAttention(FusedAttention):
    def __init__(self, theirs):
        super().__init__(theirs, True)

    def forward(self, x):
        b, t, _ = x.shape
        q, k, v = (y.transpose(1, 2) for y in self.to_qkv(x).view(b, t, HEADS, -1, 3).unbind(-1))
        return self.to_out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))


class NeoWhole(NeoTheirs):
    """Turns all features of its heads."""

    def forward(self, tokens):
        mine = NeoMine(self, True)
        mine.attn.rope.turned = 8
        return mine(tokens)


NEAR = {
    "bias of a norm": (Parts, lambda theirs: ByHand(theirs, "norm"), signal, "norm", "missing bias", True),
    "bias of a product": (Parts, lambda theirs: ByHand(theirs, "product"), signal, "product", "missing bias", True),
    "bias of what widens": (Parts, lambda theirs: ByHand(theirs, "up"), signal, "up", "missing bias", True),
    "dropout of weights": (FusedTheirs, lambda theirs: Dropping(theirs, "attention"), signal, "attn", "dropout", True),
    "paths dropped": (FusedTheirs, lambda theirs: Dropping(theirs, "path"), signal, "", "dropout", True),
    "noise": (FusedTheirs, lambda theirs: Dropping(theirs, "noise"), signal, "", "randomness", False),
    "features side by side": (FusedTheirs, Interleaved, signal, "fn", "heads reshaped", True),
    "rotary over a part of mine": (
        NeoWhole,
        lambda theirs: NeoMine(theirs, True),
        ids,
        "attn.rope",
        "rotary part",
        True,
    ),
}


def made(build):
    """A model in eval, whose vectors are no ones and zeros."""
    torch.manual_seed(7)
    model = build()
    for parameter in model.parameters():
        if parameter.ndim == 1:
            parameter.data += 0.3 * torch.randn_like(parameter)
    return model.eval()


def pair(name, right):
    """Mine, theirs and inputs."""
    theirs, mine, inputs, *_ = PAIRS[name]
    original = made(theirs)
    return mine(original, right).eval(), original, inputs()
