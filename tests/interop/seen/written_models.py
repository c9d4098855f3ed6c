"""Models with attention as people write them, and others whose softmaxes are none.

Each puts the maps that it computes into `maps`, by path, in the order of axes (batch, head, target, source).
"""

import math

import torch
from torch import nn
from torch.nn import functional as F

VOCAB, WIDTH, HEADS, BATCH, LENGTH, SOURCES = 19, 8, 2, 3, 5, 7


class Written(nn.Module):
    def __init__(self):
        super().__init__()
        object.__setattr__(self, "maps", {})

    def keep(self, weights, path=""):
        self.maps.setdefault(path, []).append(weights.detach().clone())
        return weights


def linears(count, width=WIDTH, out=WIDTH):
    return (nn.Linear(width, out, bias=False) for _ in range(count))


class Head(Written):
    """Of a lecture on GPT."""

    def __init__(self):
        super().__init__()
        self.key, self.query, self.value = linears(3, WIDTH, WIDTH // HEADS)
        self.register_buffer("tril", torch.tril(torch.ones(16, 16)))
        self.dropout = nn.Dropout(0.2)

    def forward(self, x):
        time = x.shape[1]
        k, q = self.key(x), self.query(x)
        wei = q @ k.transpose(-2, -1) * k.shape[-1] ** -0.5
        wei = wei.masked_fill(self.tril[:time, :time] == 0, float("-inf"))
        wei = F.softmax(wei, dim=-1)
        self.keep(wei)
        return self.dropout(wei) @ self.value(x)


class Heads(Written):
    def __init__(self):
        super().__init__()
        self.embed, self.heads = nn.Embedding(VOCAB, WIDTH), nn.ModuleList(Head() for _ in range(HEADS))
        self.proj = nn.Linear(WIDTH, WIDTH)

    def forward(self, ids):
        x = self.embed(ids)
        out = self.proj(torch.cat([h(x) for h in self.heads], dim=-1))
        self.maps["heads"] = [torch.stack([h.maps[""].pop() for h in self.heads], 1)]
        return out


class Inline(Written):
    """All in one forward: two layers, one line each."""

    def __init__(self):
        super().__init__()
        self.embed, self.q, self.k, self.v = nn.Embedding(VOCAB, WIDTH), *linears(3)

    def forward(self, ids):
        x = self.embed(ids)
        first = torch.softmax(self.q(x) @ self.k(x).mT / 8**0.5, -1)
        x = x + self.keep(first, "first") @ self.v(x)
        second = (torch.bmm(self.q(x), self.k(x).permute(0, 2, 1)) / 8**0.5).softmax(2)
        return x + self.keep(second, "second").bmm(self.v(x))


class Einsum(Written):
    def __init__(self):
        super().__init__()
        self.embed, self.qkv = nn.Embedding(VOCAB, WIDTH), nn.Linear(WIDTH, 3 * WIDTH)

    def forward(self, ids):
        b, t = ids.shape
        q, k, v = (y.reshape(b, t, HEADS, -1) for y in self.qkv(self.embed(ids)).chunk(3, -1))
        attn = (torch.einsum("bihd,bjhd->bhij", q, k) * 0.5).softmax(-1)
        return torch.einsum("bhij,bjhd->bihd", self.keep(attn), v).reshape(b, t, -1)


class ExpOverSum(Written):
    def __init__(self):
        super().__init__()
        self.embed, self.q, self.k, self.v = nn.Embedding(VOCAB, WIDTH), *linears(3)

    def forward(self, ids):
        x = self.embed(ids)
        scores = self.q(x) @ self.k(x).mT
        e = (scores - scores.max(-1, keepdim=True).values).exp()
        return self.keep(e / e.sum(-1, keepdim=True)) @ self.v(x)


class LogSoftmax(ExpOverSum):
    def forward(self, ids):
        x = self.embed(ids)
        return torch.matmul(self.keep(F.log_softmax(self.q(x) @ self.k(x).mT, -1).exp()), self.v(x))


class MHSA(Written):
    """Of a vision transformer, with nn.Softmax as a child."""

    def __init__(self):
        super().__init__()
        self.patch, self.qkv, self.softmax = nn.Conv2d(3, WIDTH, 4, 4), nn.Linear(WIDTH, 3 * WIDTH), nn.Softmax(dim=-1)
        self.num_heads, self.drop, self.cls = HEADS, nn.Dropout(0.1), nn.Parameter(torch.randn(1, 1, WIDTH))

    def forward(self, pixels):
        x = self.patch(pixels).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls.expand(len(x), -1, -1), x], dim=1)
        B, N, C = x.shape
        q, k, v = self.qkv(x).reshape(B, N, 3, self.num_heads, C // self.num_heads).permute(2, 0, 3, 1, 4)
        attn = self.softmax(q @ k.transpose(-2, -1) * 0.5)
        return (self.drop(self.keep(attn)) @ v).transpose(1, 2).reshape(B, N, C)


class Additive(Written):
    """Bahdanau: a row in each step of a decoder."""

    def __init__(self):
        super().__init__()
        self.embed, self.w, self.u, self.cell = nn.Embedding(VOCAB, WIDTH), *linears(2), nn.GRUCell(WIDTH, WIDTH)
        self.v = nn.Linear(WIDTH, 1)

    def forward(self, ids):
        memory, h = self.embed(ids), torch.zeros(len(ids), WIDTH)
        rows = []
        for _ in range(4):
            energy = self.v(torch.tanh(self.w(h).unsqueeze(1) + self.u(memory))).squeeze(-1)
            alpha = F.softmax(energy, dim=1)
            rows.append(alpha.detach())
            h = self.cell((alpha.unsqueeze(-1) * memory).sum(1), h)
        self.keep(torch.stack(rows))
        return h


class Luong(Written):
    """Source and target are both inputs, of equal length or not."""

    def __init__(self):
        super().__init__()
        self.general = nn.Linear(WIDTH, WIDTH, bias=False)

    def forward(self, decoder_states, encoder_states):
        scores = decoder_states.bmm(self.general(encoder_states).transpose(1, 2))
        return self.keep(scores.softmax(dim=-1)).bmm(encoder_states)


class LastLayer(Written):
    """Gives its weights away; who calls it multiplies."""

    class Score(nn.Module):
        def forward(self, q, k):
            return F.softmax(torch.einsum("btd,bsd->bts", q, k), -1)

    def __init__(self):
        super().__init__()
        self.score, self.embed = self.Score(), nn.Embedding(VOCAB, WIDTH)

    def forward(self, ids):
        x = self.embed(ids)
        return self.keep(self.score(x, x), "score") @ x


class MemoryHops(Written):
    def __init__(self):
        super().__init__()
        self.a, self.c, self.b = (nn.Embedding(VOCAB, WIDTH) for _ in range(3))

    def forward(self, story, question):
        m, c, u = self.a(story).sum(2), self.c(story).sum(2), self.b(question).sum(1)
        hops = []
        for _ in range(3):
            p = torch.softmax((m * u.unsqueeze(1)).sum(-1), dim=1)
            hops.append(p.detach())
            u = u + torch.einsum("bs,bsd->bd", p, c)
        self.keep(torch.stack(hops))
        return u


class MemoryExpanded(MemoryHops):
    """Weights that are as large as the values before they meet."""

    def forward(self, story, question):
        m, c, u = self.a(story).sum(2), self.c(story).sum(2), self.b(question).sum(1)
        p = self.keep(torch.softmax((m * u[:, None].expand_as(m)).sum(2), 1))
        return u + torch.sum(c * p.unsqueeze(2).expand_as(c), 1)


class PointerGlimpse(Written):
    def __init__(self):
        super().__init__()
        self.encoder, self.embed, self.q = (
            nn.LSTM(WIDTH, WIDTH, batch_first=True),
            nn.Embedding(VOCAB, WIDTH),
            *linears(1),
        )

    def forward(self, ids):
        memory, (h, _) = self.encoder(self.embed(ids))
        glimpse = torch.softmax(torch.matmul(memory, self.q(h[0]).unsqueeze(2)).squeeze(2), dim=-1)
        read = torch.matmul(self.keep(glimpse).unsqueeze(1), memory).squeeze(1)
        return torch.matmul(memory, read.unsqueeze(2)).squeeze(2)


class Graph(Written):
    """Nodes that are neighbours see each other; there is no batch."""

    def __init__(self):
        super().__init__()
        self.w, self.left, self.right = nn.Linear(WIDTH, WIDTH, bias=False), nn.Linear(WIDTH, 1), nn.Linear(WIDTH, 1)

    def forward(self, nodes, adjacency):
        h = self.w(nodes)
        e = F.leaky_relu(self.left(h) + self.right(h).T)
        e = torch.where(adjacency > 0, e, torch.full_like(e, -9e15))
        return torch.mm(self.keep(F.softmax(e, dim=1)), h)


class Pooling(Written):
    def __init__(self):
        super().__init__()
        self.embed, self.rnn, self.score = (
            nn.Embedding(VOCAB, WIDTH),
            nn.GRU(WIDTH, WIDTH, batch_first=True),
            nn.Linear(WIDTH, 1),
        )

    def forward(self, ids):
        out, _ = self.rnn(self.embed(ids))
        weights = self.score(out).softmax(1)
        self.keep(weights.squeeze(-1))
        return torch.sum(weights * out, dim=1)


class LoopOfHeads(Written):
    def __init__(self):
        super().__init__()
        self.embed, self.q, self.k, self.v = nn.Embedding(VOCAB, WIDTH), *linears(3)

    def forward(self, ids):
        x, size, out, maps = self.embed(ids), WIDTH // HEADS, [], []
        q, k, v = (each(x).split(size, -1) for each in (self.q, self.k, self.v))
        for head in range(HEADS):
            w = F.softmax(q[head] @ k[head].transpose(1, 2) / math.sqrt(size), -1)
            maps.append(w)
            out.append(w @ v[head])
        self.keep(torch.stack(maps, 1))
        return torch.cat(out, -1)


class Latents(Written):
    """Learned queries read the input, and then each other."""

    def __init__(self):
        super().__init__()
        self.embed, self.q, self.k, self.v = nn.Embedding(VOCAB, WIDTH), *linears(3)
        self.latents = nn.Parameter(torch.randn(4, WIDTH))

    def forward(self, ids):
        x, z = self.embed(ids), self.latents.expand(len(ids), -1, -1)
        cross = (self.q(z) @ self.k(x).transpose(1, 2)).softmax(-1)
        z = z + self.keep(cross, "cross") @ self.v(x)
        inner = (self.q(z) @ self.k(z).transpose(1, 2)).softmax(-1)
        return self.keep(inner, "inner") @ self.v(z)


class Synthesizer(Written):
    """Scores of a Linear that knows the longest input; the values have positions."""

    def __init__(self):
        super().__init__()
        self.embed, self.attn, self.v = nn.Embedding(VOCAB, WIDTH), nn.Linear(WIDTH, 16), nn.Linear(WIDTH, WIDTH)

    def forward(self, ids):
        x = self.embed(ids)
        return self.keep(self.attn(x)[..., : x.shape[1]].softmax(-1)) @ self.v(x)


class TalkingHeads(Einsum):
    """Heads are mixed before and after the softmax."""

    def __init__(self):
        super().__init__()
        self.before, self.after = (nn.Parameter(torch.randn(HEADS, HEADS)) for _ in range(2))

    def forward(self, ids):
        q, k, v = (y.unflatten(-1, (HEADS, -1)).transpose(1, 2) for y in self.qkv(self.embed(ids)).chunk(3, -1))
        scores = torch.einsum("bhij,hg->bgij", torch.einsum("bhid,bhjd->bhij", q, k), self.before)
        attn = torch.einsum("bhij,hg->bgij", self.keep(scores.softmax(-1)), self.after)
        return torch.einsum("bhij,bhjd->bhid", attn, v)


class ChannelsFirst(Written):
    """The softmax is over the rows, and the weights are on the right of the values."""

    def __init__(self):
        super().__init__()
        self.f, self.g, self.h = (nn.Conv1d(WIDTH, WIDTH, 1) for _ in range(3))
        self.softmax = nn.Softmax(dim=1)

    def forward(self, x):
        beta = self.softmax(torch.bmm(self.f(x).transpose(1, 2), self.g(x)))
        self.keep(beta.transpose(1, 2))
        return torch.bmm(self.h(x), beta) + x


def attend(q, k, v, kept):
    weights = torch.softmax(q @ k.transpose(-1, -2), -1)
    kept(weights)
    return weights @ v


class Helper(Written):
    """One function for both of its attentions."""

    def __init__(self):
        super().__init__()
        self.q, self.k, self.v = linears(3)

    def forward(self, x, memory):
        own = attend(self.q(x), self.k(x), self.v(x), lambda weights: self.keep(weights, "own"))
        cross = attend(self.q(own), self.k(memory), self.v(memory), lambda weights: self.keep(weights, "cross"))
        return own + cross


class BothWays(Written):
    """Each position of a text reads a question, and the question reads the text; two softmaxes on one line."""

    def __init__(self):
        super().__init__()
        self.w = nn.Linear(3 * WIDTH, 1)

    def forward(self, text, question):
        c, q = (
            text.unsqueeze(2).expand(-1, -1, question.shape[1], -1),
            question.unsqueeze(1).expand(-1, text.shape[1], -1, -1),
        )
        scores = self.w(torch.cat([c, q, c * q], -1)).squeeze(-1)
        a, b = F.softmax(scores, dim=2), F.softmax(scores.max(dim=2)[0], dim=1)
        self.keep(a, "softmax_1"), self.keep(b, "softmax_2")
        return torch.cat([torch.bmm(a, question), text * torch.bmm(b.unsqueeze(1), text)], -1)


class TimeInFront(Written):
    def __init__(self):
        super().__init__()
        self.att = nn.Linear(WIDTH, WIDTH)

    def forward(self, encoded, hidden):
        weights = torch.softmax((self.att(encoded) * hidden.unsqueeze(0)).sum(2), 0)
        self.keep(weights.T)
        return (weights.unsqueeze(2) * encoded).sum(0)


def ids(high=LENGTH):
    return torch.randint(VOCAB, (BATCH, high))


POSITIVE = [
    (Heads, lambda: (ids(),)), (Inline, lambda: (ids(),)), (Einsum, lambda: (ids(),)), (ExpOverSum, lambda: (ids(),)),
    (LogSoftmax, lambda: (ids(),)), (MHSA, lambda: (torch.randn(BATCH, 3, 8, 8),)), (Additive, lambda: (ids(SOURCES),)),
    (Luong, lambda: (torch.randn(BATCH, LENGTH, WIDTH), torch.randn(BATCH, SOURCES, WIDTH))),
    (Luong, lambda: (torch.randn(BATCH, LENGTH, WIDTH), torch.randn(BATCH, LENGTH, WIDTH))),
    (LastLayer, lambda: (ids(),)), (MemoryHops, lambda: (torch.randint(VOCAB, (BATCH, SOURCES, 4)), ids(4))),
    (MemoryExpanded, lambda: (torch.randint(VOCAB, (BATCH, SOURCES, 4)), ids(4))),
    (PointerGlimpse, lambda: (ids(SOURCES),)), (Graph, lambda: (torch.randn(6, WIDTH), (torch.rand(6, 6) > 0.4).float())),
    (Pooling, lambda: (ids(SOURCES),)), (LoopOfHeads, lambda: (ids(),)), (Latents, lambda: (ids(),)), (Synthesizer, lambda: (ids(),)),
    (TalkingHeads, lambda: (ids(),)), (ChannelsFirst, lambda: (torch.randn(BATCH, WIDTH, LENGTH),)),
    (Helper, lambda: (torch.randn(BATCH, LENGTH, WIDTH), torch.randn(BATCH, SOURCES, WIDTH))),
    (BothWays, lambda: (torch.randn(BATCH, LENGTH, WIDTH), torch.randn(BATCH, SOURCES, WIDTH))),
    (TimeInFront, lambda: (torch.randn(SOURCES, BATCH, WIDTH), torch.randn(BATCH, WIDTH))),
]  # fmt: skip


class Negative(nn.Module):
    """A model of which no softmax is attention; the body says which."""

    def __init__(self, body, **parts):
        super().__init__()
        self.body = body
        for name, part in parts.items():
            setattr(self, name, part)

    def forward(self, x):
        return self.body(self, x)


def _experts(self, x):
    gate = F.softmax(self.gate(x), -1)
    return (gate[..., None] * torch.stack([each(x) for each in self.experts], -2)).sum(-2)


def _mixed_by_einsum(self, x):
    return torch.einsum("bte,btef->btf", self.gate(x).softmax(-1), torch.einsum("btd,edf->btef", x, self.table))


def _mixture(self, x):
    pi = torch.softmax(self.gate(x), -1)
    return (pi.unsqueeze(-1) * self.wide(x).view(*x.shape[:2], 5, WIDTH)).sum(-2)


def _linear_attention(self, x):
    q, k, v = (part(x) for part in (self.q, self.k, self.v))
    return q.softmax(-1) @ torch.einsum("bnd,bne->bde", k.relu(), v)


def _keypoints(self, x):
    grid = torch.stack(torch.meshgrid(torch.linspace(0, 1, LENGTH), torch.linspace(0, 1, WIDTH), indexing="ij"), -1)
    return x.flatten(1).softmax(-1) @ grid.reshape(-1, 2)


def _entropy(self, x):
    p = self.gate(x).softmax(-1)
    return -(p * p.log()).sum(-1)


def _looped_experts(self, x):
    weights, chosen = torch.topk(F.softmax(self.gate(x), -1), 2)
    out = torch.zeros_like(x)
    for index, expert in enumerate(self.experts):
        out = out + (weights * (chosen == index)).sum(-1, keepdim=True) * expert(x)
    return out


def gates(**parts):
    return {"gate": nn.Linear(WIDTH, 5), **parts}


NEGATIVE = {
    "a router of experts": lambda: Negative(_experts, **gates(experts=nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(5)))),
    "experts in a loop": lambda: Negative(_looped_experts, **gates(experts=nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(5)))),
    "experts in one table": lambda: Negative(_mixed_by_einsum, **gates(table=nn.Parameter(torch.randn(5, WIDTH, WIDTH)))),
    "a mixture": lambda: Negative(_mixture, **gates(wide=nn.Linear(WIDTH, 5 * WIDTH))),
    "an expected embedding": lambda: Negative(
        lambda self, x: self.out(x).softmax(-1) @ self.embed.weight, out=nn.Linear(WIDTH, VOCAB), embed=nn.Embedding(VOCAB, WIDTH)
    ),
    "prototypes": lambda: Negative(lambda self, x: F.softmax(x @ self.table.T, -1) @ self.table, table=nn.Parameter(torch.randn(5, WIDTH))),
    "an output": lambda: Negative(lambda self, x: F.softmax(self.gate(x), -1), **gates()),
    "an output that is logged": lambda: Negative(lambda self, x: F.softmax(self.gate(x), -1).log(), **gates()),
    "an entropy": lambda: Negative(_entropy, **gates()),
    "features of a linear attention": lambda: Negative(_linear_attention, **dict(zip("qkv", linears(3)))),
    "key points": lambda: Negative(_keypoints),
    "a draw": lambda: Negative(
        lambda self, x: F.gumbel_softmax(self.gate(x), hard=True) @ torch.einsum("btd,ed->bte", x, self.table).transpose(1, 2),
        **gates(table=nn.Parameter(torch.randn(5, WIDTH))),
    ),
    "channels that are scaled": lambda: Negative(lambda self, x: x * x.mean(1, keepdim=True).softmax(-1)),
    "the expected value of two networks": lambda: Negative(
        lambda self, x: torch.bmm(self.policy(x[:, 0]).softmax(-1)[:, None], self.value(x[:, 0])[..., None]),
        policy=nn.Sequential(nn.Linear(WIDTH, 8), nn.ReLU(), nn.Linear(8, 5)), value=nn.Sequential(nn.Linear(WIDTH, 8), nn.Linear(8, 5)),
    ),
    "key points of a constant that is made": lambda: Negative(
        lambda self, x: self.gate(x).mT.softmax(-1) @ torch.arange(2.0 * LENGTH).view(LENGTH, 2).type_as(x), **gates()
    ),
    "a sum that is written as a product": lambda: Negative(lambda self, x: self.gate(x).mT.softmax(-1) @ x.new_ones(LENGTH, 3), **gates()),
    "an expected number": lambda: Negative(lambda self, x: (self.gate(x).softmax(-1) * torch.arange(5.0)).sum(-1), **gates()),
}  # fmt: skip
