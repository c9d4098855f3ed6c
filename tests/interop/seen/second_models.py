"""A second set of models, written by somebody who had not seen the first one, nor its rules in the tests: twenty with attention, which
keep their own maps, and twenty without. They are in the styles of their authors, short names and all.
"""

import math

import torch
import torch.nn.functional as F
from torch import nn

BATCH, TIME, WIDTH = 2, 6, 8


class Cap(nn.Module):
    def __init__(self):
        super().__init__()
        self.own = []

    def cap(self, w):
        self.own.append(w.detach().clone())
        return w


# minGPT style
class CausalSelfAttention(Cap):
    def __init__(self, n_embd=WIDTH, n_head=2, block=16):
        super().__init__()
        self.c_attn = nn.Linear(n_embd, 3 * n_embd)
        self.c_proj = nn.Linear(n_embd, n_embd)
        self.attn_dropout = nn.Dropout(0.1)
        self.register_buffer("bias", torch.tril(torch.ones(block, block)).view(1, 1, block, block))
        self.n_head = n_head
        self.n_embd = n_embd

    def forward(self, x):
        B, T, C = x.size()
        q, k, v = self.c_attn(x).split(self.n_embd, dim=2)
        k = k.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        q = q.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        v = v.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        att = att.masked_fill(self.bias[:, :, :T, :T] == 0, float("-inf"))
        att = F.softmax(att, dim=-1)
        self.cap(att)
        att = self.attn_dropout(att)
        y = att @ v
        y = y.transpose(1, 2).contiguous().view(B, T, C)
        return self.c_proj(y)


class M1(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = CausalSelfAttention()

    def forward(self, x):
        return self.a(x)


# functional helper outside of the class
def attend(q, k, v, mask=None):
    scores = torch.einsum("...qd,...kd->...qk", q, k) / q.shape[-1] ** 0.5
    if mask is not None:
        scores = scores.masked_fill(~mask, -1e9)
    p = torch.softmax(scores, -1)
    return torch.einsum("...qk,...kd->...qd", p, v), p


class M2(Cap):
    def __init__(self):
        super().__init__()
        self.q = nn.Linear(WIDTH, WIDTH)
        self.k = nn.Linear(WIDTH, WIDTH)
        self.v = nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        def f(layer):
            return layer(x).unflatten(-1, (4, 2)).movedim(2, 1)

        o, p = attend(f(self.q), f(self.k), f(self.v))
        self.cap(p)
        return o.movedim(1, 2).flatten(2)


# RoPE with llama style repeat_kv GQA
class M3(Cap):
    def __init__(self):
        super().__init__()
        self.wq = nn.Linear(WIDTH, WIDTH, False)
        self.wk = nn.Linear(WIDTH, WIDTH // 2, False)
        self.wv = nn.Linear(WIDTH, WIDTH // 2, False)
        self.wo = nn.Linear(WIDTH, WIDTH, False)

    def rope(self, x):
        t = torch.arange(x.shape[1]).float()[:, None] * torch.tensor([1.0])[None]
        c, si = t.cos()[None, :, None], t.sin()[None, :, None]
        a, b = x[..., ::2], x[..., 1::2]
        return torch.stack([a * c - b * si, a * si + b * c], -1).flatten(-2)

    def forward(self, x):
        b, t, _ = x.shape
        q = self.rope(self.wq(x).view(b, t, 4, 2))
        k = self.rope(self.wk(x).view(b, t, 2, 2))
        v = self.wv(x).view(b, t, 2, 2)
        k = k[:, :, :, None].expand(b, t, 2, 2, 2).reshape(b, t, 4, 2)
        v = v[:, :, :, None].expand(b, t, 2, 2, 2).reshape(b, t, 4, 2)
        q, k, v = [z.transpose(1, 2) for z in (q, k, v)]
        sc = torch.matmul(q, k.transpose(2, 3)) / math.sqrt(2) + torch.full((t, t), float("-inf")).triu(1)
        sc = F.softmax(sc.float(), dim=-1).type_as(q)
        self.cap(sc)
        return self.wo(torch.matmul(sc, v).transpose(1, 2).contiguous().view(b, t, -1))


# Luong in a decoder loop
class M4(Cap):
    def __init__(self):
        super().__init__()
        self.c = nn.GRUCell(WIDTH, WIDTH)
        self.wa = nn.Linear(WIDTH, WIDTH)
        self.out = nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x):
        mem = x.tanh()
        h = x.mean(1)
        ys = []
        for t in range(3):
            h = self.c(x[:, t], h)
            e = torch.bmm(mem, self.wa(h).unsqueeze(2)).squeeze(2)
            a = F.softmax(e, dim=1)
            self.cap(a)
            ctx = torch.bmm(a.unsqueeze(1), mem).squeeze(1)
            ys.append(self.out(torch.cat([h, ctx], 1)))
        return torch.stack(ys, 1)


# additive pooling: HAN
class M5(Cap):
    def __init__(self):
        super().__init__()
        self.w = nn.Linear(WIDTH, WIDTH)
        self.u = nn.Parameter(torch.randn(WIDTH))

    def forward(self, x):
        a = torch.softmax(torch.tanh(self.w(x)) @ self.u, 1)
        self.cap(a)
        return (x * a.unsqueeze(-1)).sum(1)


# GAT dense
class M6(Cap):
    def __init__(self):
        super().__init__()
        self.W = nn.Parameter(torch.randn(WIDTH, WIDTH) / 3)
        self.a = nn.Parameter(torch.randn(2 * WIDTH, 1) / 3)

    def forward(self, x):
        h = x @ self.W
        n = h.shape[1]
        e = F.leaky_relu(h @ self.a[:WIDTH] + (h @ self.a[WIDTH:]).transpose(1, 2))
        adj = torch.rand(n, n) > 0.3
        adj = adj | torch.eye(n).bool()
        att = F.softmax(torch.where(adj, e, torch.full_like(e, -9e15)), dim=2)
        self.cap(att)
        return F.elu(att @ h)


# cross attention Perceiver with learned latents as queries
class M7(Cap):
    def __init__(self):
        super().__init__()
        self.lat = nn.Parameter(torch.randn(3, WIDTH))
        self.q = nn.Linear(WIDTH, WIDTH)
        self.kv = nn.Linear(WIDTH, 2 * WIDTH)

    def forward(self, x):
        q = self.q(self.lat.expand(len(x), -1, -1))
        k, v = self.kv(x).chunk(2, -1)
        p = (q @ k.mT * WIDTH**-0.5).softmax(dim=-1)
        self.cap(p)
        return p @ v


# spatial self attention of images (non-local)
class M8(Cap):
    def __init__(self):
        super().__init__()
        self.q = nn.Conv2d(WIDTH, 4, 1)
        self.k = nn.Conv2d(WIDTH, 4, 1)
        self.v = nn.Conv2d(WIDTH, WIDTH, 1)
        self.gamma = nn.Parameter(torch.ones(1))
        self.shape = (BATCH, WIDTH, 3, 4)

    def forward(self, x):
        b, c, h, w = x.shape
        q = self.q(x).view(b, -1, h * w).permute(0, 2, 1)
        k = self.k(x).view(b, -1, h * w)
        a = torch.softmax(torch.bmm(q, k), dim=-1)
        self.cap(a)
        o = torch.bmm(self.v(x).view(b, -1, h * w), a.permute(0, 2, 1)).view(b, c, h, w)
        return self.gamma * o + x


# T5 bias, weights first scores [h,i,j] no batch
class M9(Cap):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.rel = nn.Embedding(11, 2)
        self.shape = (TIME, WIDTH)

    def forward(self, x):
        n = len(x)
        q, k, v = self.qkv(x).view(n, 3, 2, 4).permute(1, 2, 0, 3)
        r = torch.arange(n)
        bias = self.rel(r[:, None] - r[None] + 5).permute(2, 0, 1)
        w = (q @ k.transpose(1, 2) + bias).softmax(2)
        self.cap(w)
        return (w @ v).transpose(0, 1).reshape(n, WIDTH)


# logsumexp
class M10(Cap):
    def __init__(self):
        super().__init__()
        self.q = nn.Linear(WIDTH, WIDTH)
        self.k = nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        sc = self.q(x) @ self.k(x).mT
        w = (sc - sc.logsumexp(-1, keepdim=True)).exp()
        self.cap(w)
        return w @ x


# script style: heads as list comprehension in Sequential
class H(Cap):
    def __init__(self):
        super().__init__()
        self.p = nn.Linear(WIDTH, 12, bias=False)

    def forward(self, x):
        q, k, v = self.p(x).tensor_split(3, -1)
        w = nn.functional.softmax(q.matmul(k.transpose(1, 2)), 2)
        self.cap(w)
        return w.matmul(v)


class M11(nn.Module):
    def __init__(self):
        super().__init__()
        self.hs = nn.ModuleList([H() for _ in range(2)])
        self.o = nn.Linear(8, WIDTH)

    def forward(self, x):
        return self.o(torch.cat([h(x) for h in self.hs], dim=-1))


# sequence first  [TIME,BATCH,WIDTH]
class M12(Cap):
    def __init__(self):
        super().__init__()
        self.i = nn.Linear(WIDTH, 3 * WIDTH)
        self.shape = (TIME, BATCH, WIDTH)

    def forward(self, x):
        t, b, d = x.shape
        q, k, v = self.i(x).chunk(3, -1)
        q, k, v = (z.contiguous().view(t, b * 2, d // 2).transpose(0, 1) for z in (q, k, v))
        w = F.softmax(torch.bmm(q, k.transpose(1, 2)) / 2, dim=-1)
        self.cap(w)
        return torch.bmm(w, v).transpose(0, 1).contiguous().view(t, b, d)


# numerically stable by hand
class M13(Cap):
    def __init__(self):
        super().__init__()
        self.q = nn.Linear(WIDTH, WIDTH)
        self.k = nn.Linear(WIDTH, WIDTH)
        self.v = nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        sc = self.q(x) @ self.k(x).permute(0, 2, 1)
        sc = sc - sc.max(-1, keepdim=True).values
        e = torch.exp(sc)
        w = torch.div(e, torch.sum(e, -1, True))
        self.cap(w)
        return torch.matmul(w, self.v(x))


# memory network: query over memory input
class M14(Cap):
    def __init__(self):
        super().__init__()
        self.A = nn.Linear(WIDTH, WIDTH)
        self.C = nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        u = x[:, -1]
        for _ in range(2):
            p = torch.softmax((self.A(x) * u[:, None]).sum(-1), -1)
            self.cap(p)
            u = u + (p[..., None] * self.C(x)).sum(1)
        return u


# window attention (swin)
class M15(Cap):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)

    def forward(self, x):
        b, t, d = x.shape
        w = x.view(b * 2, t // 2, d)
        q, k, v = self.qkv(w).view(b * 2, t // 2, 3, 2, 4).permute(2, 0, 3, 1, 4)
        a = (q @ k.transpose(-1, -2)).softmax(-1)
        self.cap(a)
        return (a @ v).transpose(1, 2).reshape(b, t, d)


# set transformer pooling by seed + nn.Softmax module
class M16(Cap):
    def __init__(self):
        super().__init__()
        self.seed = nn.Parameter(torch.randn(1, 2, WIDTH))
        self.sm = nn.Softmax(dim=-1)
        self.v = nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        w = self.sm(torch.matmul(self.seed, x.transpose(1, 2)) / WIDTH**0.5)
        self.cap(w)
        return torch.matmul(w, self.v(x))


# channels attention over time via einsum with ellipsis, sources in front
class M17(Cap):
    def __init__(self):
        super().__init__()
        self.q = nn.Linear(WIDTH, WIDTH)
        self.k = nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        w = torch.einsum("bid,bjd->bji", self.q(x), self.k(x)).softmax(1)
        self.cap(w)
        return torch.einsum("bji,bjd->bid", w, x)


# pointer/copy with given embeddings of sources: self-written TransformerBlock with alibi
class M18(Cap):
    def __init__(self):
        super().__init__()
        self.l = nn.Linear(WIDTH, WIDTH * 3)
        self.register_buffer("m", torch.tensor([0.5, 0.25])[:, None, None])

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = (z.reshape(b, t, 2, -1).swapaxes(1, 2) for z in self.l(x).chunk(3, dim=-1))
        pos = torch.arange(t)
        sc = q @ k.swapaxes(-1, -2) - self.m * (pos[:, None] - pos).abs()
        sc = sc + torch.triu(torch.ones(t, t) * -1e4, 1)
        pr = torch.softmax(sc, dim=-1, dtype=torch.float32)
        self.cap(pr)
        return torch.einsum("bhij,bhje->bihe", pr, v).reshape(b, t, d)


# weights returned to the outer module, which uses them
class Score(Cap):
    def __init__(self):
        super().__init__()
        self.w = nn.Linear(WIDTH, 1)

    def forward(self, x):
        a = torch.softmax(self.w(x).squeeze(-1), -1)
        self.cap(a)
        return a


class M19(nn.Module):
    def __init__(self):
        super().__init__()
        self.score = Score()

    def forward(self, x):
        a = self.score(x)
        return torch.einsum("bt,btd->bd", a, x)


# kv cache generation loop in forward
class M20(Cap):
    def __init__(self):
        super().__init__()
        self.q = nn.Linear(WIDTH, WIDTH)
        self.k = nn.Linear(WIDTH, WIDTH)
        self.v = nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        ks, vs, out = [], [], []
        for t in range(x.shape[1]):
            xt = x[:, t : t + 1]
            ks.append(self.k(xt))
            vs.append(self.v(xt))
            K = torch.cat(ks, 1)
            V = torch.cat(vs, 1)
            w = torch.softmax(self.q(xt) @ K.mT, -1)
            self.cap(w)
            out.append(w @ V)
        return torch.cat(out, 1)


POSITIVE = [M1, M2, M3, M4, M5, M6, M7, M8, M9, M10, M11, M12, M13, M14, M15, M16, M17, M18, M19, M20]


# classifier mixture of logits
class N1(nn.Module):
    def __init__(self):
        super().__init__()
        self.h = nn.ModuleList(nn.Linear(WIDTH, 5) for _ in range(3))
        self.g = nn.Linear(WIDTH, 3)

    def forward(self, x):
        p = torch.stack([h(x).softmax(-1) for h in self.h], -2)
        g = self.g(x).softmax(-1)
        return (g.unsqueeze(-1) * p).sum(-2)


# switch MoE top1
class N2(nn.Module):
    def __init__(self):
        super().__init__()
        self.r = nn.Linear(WIDTH, 4)
        self.e = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(4))

    def forward(self, x):
        p = self.r(x).softmax(-1)
        g, i = p.max(-1)
        y = torch.zeros_like(x)
        for n, e in enumerate(self.e):
            m = i == n
            y[m] = e(x[m])
        return y * g[..., None]


# soft codebook
class N3(nn.Module):
    def __init__(self):
        super().__init__()
        self.book = nn.Embedding(7, WIDTH)

    def forward(self, x):
        d = torch.cdist(x, self.book.weight[None].expand(len(x), -1, -1))
        return (-d).softmax(-1) @ self.book.weight


# soft argmax of heat maps
class N4(nn.Module):
    def forward(self, x):
        p = x.softmax(1)
        g = torch.linspace(0, 1, TIME)
        return (p * g[None, :, None]).sum(1)


# expected value distributional RL
class N5(nn.Module):
    def __init__(self):
        super().__init__()
        self.l = nn.Linear(WIDTH, 3 * 11)
        self.register_buffer("z", torch.linspace(-1, 1, 11))

    def forward(self, x):
        return (self.l(x).view(*x.shape[:2], 3, 11).softmax(-1) * self.z).sum(-1)


# gumbel VQ
class N6(nn.Module):
    def __init__(self):
        super().__init__()
        self.l = nn.Linear(WIDTH, 5)
        self.c = nn.Parameter(torch.randn(5, WIDTH))

    def forward(self, x):
        return F.gumbel_softmax(self.l(x), tau=1.0, hard=False) @ self.c


# SE block
class N7(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(WIDTH, 4)
        self.b = nn.Linear(4, WIDTH)

    def forward(self, x):
        return x * torch.softmax(self.b(self.a(x.mean(1)).relu()), -1)[:, None]


# label smoothing / CE by hand
class N8(nn.Module):
    def __init__(self):
        super().__init__()
        self.l = nn.Linear(WIDTH, 9)

    def forward(self, x):
        lp = self.l(x).log_softmax(-1)
        return -(lp.exp() * lp).sum(-1)


# linear attention
class N9(nn.Module):
    def __init__(self):
        super().__init__()
        self.q = nn.Linear(WIDTH, WIDTH)
        self.k = nn.Linear(WIDTH, WIDTH)
        self.v = nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        q = self.q(x).softmax(-1)
        k = self.k(x).softmax(-1)
        return q @ (k.mT @ self.v(x))


# scalar mix ELMo
class N10(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.zeros(3))
        self.l = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(3))

    def forward(self, x):
        hs = []
        for layer in self.l:
            x = layer(x)
            hs.append(x)
        w = self.w.softmax(0)
        return sum(a * h for a, h in zip(w, hs))


# mixture density
class N11(nn.Module):
    def __init__(self):
        super().__init__()
        self.pi = nn.Linear(WIDTH, 3)
        self.mu = nn.Linear(WIDTH, 3 * 2)

    def forward(self, x):
        pi = self.pi(x).softmax(-1)
        mu = self.mu(x).view(*x.shape[:2], 3, 2)
        return (pi[..., None] * mu).sum(-2)


# contrastive loss
class N12(nn.Module):
    def forward(self, x):
        z = F.normalize(x.mean(1), dim=-1)
        return -(z @ z.T / 0.1).log_softmax(-1).diagonal()


# CRF/HMM posterior
class N13(nn.Module):
    def __init__(self):
        super().__init__()
        self.t = nn.Parameter(torch.randn(4, 4))
        self.e = nn.Linear(WIDTH, 4)

    def forward(self, x):
        a = self.e(x[:, 0]).softmax(-1)
        A = self.t.softmax(-1)
        for t in range(1, TIME):
            a = (a @ A) * self.e(x[:, t]).softmax(-1)
        return a


# capsule routing-like sparsemax gate -> conditional computation (dynamic conv kernels)
class N14(nn.Module):
    def __init__(self):
        super().__init__()
        self.g = nn.Linear(WIDTH, 3)
        self.k = nn.Parameter(torch.randn(3, WIDTH, WIDTH))

    def forward(self, x):
        g = self.g(x.mean(1)).softmax(-1)
        W = torch.einsum("be,eij->bij", g, self.k)
        return x @ W


# color histogram soft binning
class N15(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("c", torch.linspace(-2, 2, 5))

    def forward(self, x):
        w = (-((x[..., None] - self.c) ** 2)).softmax(-1)
        return w.mean(1)


# classifier only
class N16(nn.Module):
    def __init__(self):
        super().__init__()
        self.l = nn.Linear(WIDTH, 5)

    def forward(self, x):
        return self.l(x.mean(1)).softmax(-1)


# policy: prob-weighted q values
class N17(nn.Module):
    def __init__(self):
        super().__init__()
        self.p = nn.Linear(WIDTH, 4)
        self.q = nn.Linear(WIDTH, 4)

    def forward(self, x):
        return (self.p(x).softmax(-1) * self.q(x)).sum(-1)


# lightweight/dynamic conv (softmax over kernel taps)
class N18(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Linear(WIDTH, 3)

    def forward(self, x):
        w = self.w(x).softmax(-1)
        xp = F.pad(x, (0, 0, 1, 1)).unfold(1, 3, 1)
        return (xp * w.unsqueeze(2)).sum(-1)


# soft decision tree leaves
class N19(nn.Module):
    def __init__(self):
        super().__init__()
        self.l = nn.Linear(WIDTH, 4)
        self.v = nn.Parameter(torch.randn(4, 3))

    def forward(self, x):
        return self.l(x).softmax(-1).matmul(self.v)


# normalisation by probability: temperature, nothing summed
class N20(nn.Module):
    def __init__(self):
        super().__init__()
        self.l = nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        return x * self.l(x).softmax(1)


NEGATIVE = [N1, N2, N3, N4, N5, N6, N7, N8, N9, N10, N11, N12, N13, N14, N15, N16, N17, N18, N19, N20]
