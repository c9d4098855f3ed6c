"""A fourth set of models, of other kinds than those before: on grids, with relative places, copying, with scores of their own, solvers.

It was written without a look at the rules for single cases; of its first run all maps, states and negatives were right, and one name of an
axis was not (of a state whose last step nothing else had read).
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from interop.seen.third_models import floats, ids, seen, stepped
from torch import nn

MODELS, NEGATIVES = {}, {}


def model(*inputs, **options):
    def add(cls):
        MODELS[cls.__name__] = lambda: (cls(**options), tuple(one() for one in inputs))
        return cls

    return add


def negative(*inputs):
    def add(cls):
        NEGATIVES[cls.__name__] = lambda: (cls(), tuple(one() for one in inputs))
        return cls

    return add


# ---- attention


@model(floats(2, 8, 3, 5))
class AxialAttention(nn.Module):
    """Over the columns of each row, then over the rows of each column."""

    def __init__(self, dim=8, heads=2):
        super().__init__()
        self.heads = heads
        self.qkv_w, self.qkv_h = nn.Linear(dim, 3 * dim, bias=False), nn.Linear(dim, 3 * dim, bias=False)

    def attend(self, x, qkv):
        n, length, c = x.shape
        q, k, v = qkv(x).reshape(n, length, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        attn = seen((q @ k.transpose(-1, -2) / math.sqrt(c // self.heads)).softmax(-1))
        return (attn @ v).transpose(1, 2).reshape(n, length, c)

    def forward(self, x):
        b, c, h, w = x.shape
        rows = self.attend(x.permute(0, 2, 3, 1).reshape(b * h, w, c), self.qkv_w).view(b, h, w, c)
        cols = self.attend(rows.permute(0, 2, 1, 3).reshape(b * w, h, c), self.qkv_h).view(b, w, h, c)
        return cols.permute(0, 3, 2, 1)


@model(floats(2, 6, 8))
class RelativeAttention(nn.Module):
    """Scores of content and of distance, shifted as in Transformer-XL."""

    def __init__(self, dim=8, heads=2):
        super().__init__()
        self.heads, self.d = heads, dim // heads
        self.q, self.k, self.v, self.r = (nn.Linear(dim, dim, bias=False) for _ in range(4))
        self.u, self.w = nn.Parameter(torch.randn(heads, dim // heads)), nn.Parameter(torch.randn(heads, dim // heads))
        self.register_buffer("places", torch.randn(32, dim))

    def rel_shift(self, x):
        b, h, t, s = x.shape
        return F.pad(x, (1, 0)).view(b, h, s + 1, t)[:, :, 1:].view_as(x)

    def forward(self, x):
        b, t, _ = x.shape
        q, k, v = (f(x).view(b, t, self.heads, self.d) for f in (self.q, self.k, self.v))
        r = self.r(self.places[:t]).view(t, self.heads, self.d)
        content = torch.einsum("bihd,bjhd->bhij", q + self.u, k)
        distance = self.rel_shift(torch.einsum("bihd,jhd->bhij", q + self.w, r))
        scores = (content + distance).div_(math.sqrt(self.d))
        mask = torch.triu(torch.ones(t, t, dtype=torch.bool), 1)
        attn = seen(F.softmax(scores.masked_fill_(mask, float("-inf")), dim=-1))
        return torch.einsum("bhij,bjhd->bihd", attn, v).flatten(2)


@model(ids(2, 6, high=12), ids(2, 4, high=12))
class PointerGenerator(nn.Module):
    """A decoder with coverage that copies words of its source."""

    def __init__(self, vocab=12, dim=6):
        super().__init__()
        self.embed, self.encoder = nn.Embedding(vocab, dim), nn.GRU(dim, dim, batch_first=True)
        self.cell, self.out = nn.GRUCell(2 * dim, dim), nn.Linear(2 * dim, vocab)
        self.w_h, self.w_s, self.w_c = nn.Linear(dim, dim), nn.Linear(dim, dim), nn.Linear(1, dim)
        self.score, self.p_gen = nn.Linear(dim, 1, bias=False), nn.Linear(2 * dim, 1)

    def forward(self, article, summary):
        enc, h = self.encoder(self.embed(article))
        h, coverage = h[0], torch.zeros(article.shape, dtype=torch.float)
        context, outputs = torch.zeros_like(h), []
        for t in range(summary.size(1)):
            h = self.cell(torch.cat([self.embed(summary[:, t]), context], 1), h)
            energy = torch.tanh(self.w_h(enc) + self.w_s(h).unsqueeze(1) + self.w_c(coverage.unsqueeze(-1)))
            attn = seen(F.softmax(self.score(energy).squeeze(-1), dim=1))
            context = stepped("context", torch.bmm(attn.unsqueeze(1), enc).squeeze(1))
            coverage = stepped("coverage", coverage + attn)
            both = torch.cat([h, context], 1)
            gen = torch.sigmoid(self.p_gen(both))
            vocab = gen * F.softmax(self.out(both), dim=1)
            outputs.append(vocab.scatter_add(1, article, (1 - gen) * attn))
        return torch.stack(outputs, 1)


@model(floats(2, 4, 3, 5))
class NonLocalBlock(nn.Module):
    def __init__(self, channels=4):
        super().__init__()
        self.inner = channels // 2
        self.theta, self.phi, self.g = (nn.Conv2d(channels, self.inner, 1) for _ in range(3))
        self.W = nn.Conv2d(self.inner, channels, 1)

    def forward(self, x):
        n = x.size(0)
        g_x = self.g(x).view(n, self.inner, -1).permute(0, 2, 1)
        theta_x = self.theta(x).view(n, self.inner, -1).permute(0, 2, 1)
        f = torch.matmul(theta_x, self.phi(x).view(n, self.inner, -1))
        y = torch.matmul(seen(F.softmax(f, dim=-1)), g_x).permute(0, 2, 1).contiguous()
        return self.W(y.view(n, self.inner, *x.shape[2:])) + x


@model(floats(2, 7, 6))
class Resampler(nn.Module):
    """Learned queries that attend to media and to themselves at once."""

    def __init__(self, dim=6, latents=3, heads=2):
        super().__init__()
        self.heads, self.latents = heads, nn.Parameter(torch.randn(latents, dim))
        self.to_q, self.to_kv = nn.Linear(dim, dim, bias=False), nn.Linear(dim, 2 * dim, bias=False)

    def forward(self, media):
        b = media.shape[0]
        latents = self.latents.expand(b, -1, -1)
        k, v = self.to_kv(torch.cat((media, latents), dim=-2)).chunk(2, dim=-1)
        q = self.to_q(latents)
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in (q, k, v))
        sim = torch.einsum("... i d, ... j d -> ... i j", q * q.shape[-1] ** -0.5, k)
        sim = sim - sim.amax(dim=-1, keepdim=True).detach()
        attn = seen(sim.softmax(dim=-1))
        return latents + torch.einsum("... i j, ... j d -> ... i d", attn, v).transpose(1, 2).flatten(2)


@model(floats(2, 5, 6), floats(2, 4, 6))
class CoAttention(nn.Module):
    """One matrix of scores, a softmax over either side."""

    def __init__(self, dim=6):
        super().__init__()
        self.W = nn.Parameter(torch.randn(dim, dim) * 0.4)

    def forward(self, question, document):
        affinity = question @ self.W @ document.transpose(1, 2)
        a_q = seen(F.softmax(affinity, dim=2))
        a_d = seen(F.softmax(affinity, dim=1).transpose(1, 2))
        return torch.cat([question, a_q @ document], -1), torch.cat([document, a_d @ question], -1)


@model(floats(2, 5, 6))
class RationalSoftmax(nn.Module):
    """One more in the denominator, so that a row may attend to nothing ... as a zero key that gets no value."""

    def __init__(self, dim=6):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(dim, dim) for _ in range(3))

    def forward(self, x):
        scores = torch.baddbmm(
            torch.zeros(x.size(0), x.size(1), x.size(1)), self.q(x), self.k(x).mT, beta=0, alpha=6**-0.5
        )
        scores = 30.0 * torch.tanh(scores / 30.0)
        attn = torch.nn.functional.softmax(scores, dim=-1, dtype=torch.float32).type_as(scores)
        return torch.bmm(seen(attn), self.v(x))


@model(floats(2, 6, 5), floats(3, 5))
class PrototypeReader(nn.Module):
    """A few-shot classifier: each query frame reads the support set, whose labels come with it."""

    def __init__(self, dim=5):
        super().__init__()
        self.f, self.g = nn.Linear(dim, dim), nn.Linear(dim, dim)

    def forward(self, queries, support):
        a = F.normalize(self.f(queries), dim=-1)
        b = F.normalize(self.g(support), dim=-1)
        attn = seen(torch.softmax(10.0 * torch.tensordot(a, b, dims=([-1], [-1])), dim=-1))
        return torch.tensordot(attn, support, dims=1)


# ---- recurrences


@model(floats(2, 5, 3))
class MinimalGRU(nn.Module):
    def __init__(self, dim=3, hidden=4):
        super().__init__()
        self.to_z, self.to_h, self.hidden = nn.Linear(dim, hidden), nn.Linear(dim, hidden), hidden

    def forward(self, x):
        h, outs = torch.zeros(x.shape[0], self.hidden), []
        for z, g in zip(torch.sigmoid(self.to_z(x)).unbind(1), self.to_h(x).unbind(1)):
            h = stepped("h", torch.lerp(h, g, z))
            outs.append(h)
        return torch.stack(outs, 1)


@model(floats(6, 2, 3))
class EchoState(nn.Module):
    """A reservoir whose weights are buffers, over time in front."""

    def __init__(self, inputs=3, units=7):
        super().__init__()
        self.register_buffer("w_in", torch.randn(inputs, units))
        self.register_buffer("w", torch.randn(units, units) * 0.1)
        self.leak, self.readout = 0.3, nn.Linear(units, 2)

    def forward(self, u):
        state, states = u.new_zeros(u.shape[1], self.w.shape[0]), []
        for u_t in u:
            state = stepped("state", (1 - self.leak) * state + self.leak * torch.tanh(u_t @ self.w_in + state @ self.w))
            states.append(state)
        return self.readout(torch.stack(states))


@model(floats(2, 4))
class EulerSolver(nn.Module):
    """A field that is integrated in steps of fixed length."""

    def __init__(self, dim=4, steps=5):
        super().__init__()
        self.field, self.steps = nn.Sequential(nn.Linear(dim + 1, 8), nn.Tanh(), nn.Linear(8, dim)), steps

    def forward(self, y):
        dt = 1.0 / self.steps
        for i in range(self.steps):
            t = torch.full_like(y[:, :1], i * dt)
            k1 = self.field(torch.cat([y, t], -1))
            y = stepped("y", y + dt * self.field(torch.cat([y + 0.5 * dt * k1, t + 0.5 * dt], -1)))
        return y


@model(floats(2, 6, 3))
class PeepholeLSTM(nn.Module):
    def __init__(self, dim=3, hidden=4):
        super().__init__()
        self.x, self.h = nn.Linear(dim, 4 * hidden), nn.Linear(hidden, 4 * hidden, bias=False)
        self.peep_i, self.peep_f, self.peep_o = (nn.Parameter(torch.randn(hidden)) for _ in range(3))
        self.hidden = hidden

    def step(self, x, state):
        h, c = state
        i, f, g, o = torch.chunk(self.x(x) + self.h(h), 4, dim=1)
        c = torch.sigmoid(f + self.peep_f * c) * c + torch.sigmoid(i + self.peep_i * c) * g.tanh()
        h = torch.sigmoid(o + self.peep_o * c) * c.tanh()
        return stepped("h", h), stepped("c", c)

    def forward(self, x):
        state = (torch.zeros(len(x), self.hidden), torch.zeros(len(x), self.hidden))
        t = 0
        while t < x.size(1):
            state = self.step(x[:, t], state)
            t += 1
        return state[0]


# ---- neither


@negative(floats(2, 4))
class ExpectedCost(nn.Module):
    """Of each action, by a table of costs of classes."""

    def __init__(self):
        super().__init__()
        self.net = nn.Linear(4, 3)
        self.register_buffer("cost", torch.rand(3, 5))

    def forward(self, x):
        return self.net(x).softmax(-1) @ self.cost


@negative(floats(2, 4))
class Ensemble(nn.Module):
    """Members that a gate weighs."""

    def __init__(self):
        super().__init__()
        self.members, self.gate = nn.ModuleList(nn.Linear(4, 3) for _ in range(4)), nn.Linear(4, 4)

    def forward(self, x):
        weights = F.softmax(self.gate(x), dim=-1)
        outputs = torch.stack([member(x) for member in self.members], dim=1)
        return torch.einsum("bm,bmd->bd", weights, outputs)


@negative(floats(2, 6, 3, 5))
class StereoDisparity(nn.Module):
    """The expected disparity of each pixel."""

    def __init__(self):
        super().__init__()
        self.cost = nn.Conv2d(6, 7, 1)

    def forward(self, x):
        probability = F.softmax(-self.cost(x), dim=1)
        return torch.sum(probability * torch.arange(7.0).view(1, 7, 1, 1), 1)


@negative(floats(2, 2, 3, 4), floats(2, 6, 3, 4))
class ConvexUpsampling(nn.Module):
    """Each fine pixel is a mean of nine coarse ones around it."""

    def __init__(self):
        super().__init__()
        self.mask = nn.Conv2d(6, 9 * 4, 1)

    def forward(self, flow, net):
        n, _, h, w = flow.shape
        mask = torch.softmax(self.mask(net).view(n, 1, 9, 2, 2, h, w), dim=2)
        up = F.unfold(2 * flow, [3, 3], padding=1).view(n, 2, 9, 1, 1, h, w)
        return torch.sum(mask * up, dim=2).permute(0, 1, 4, 2, 5, 3).reshape(n, 2, 2 * h, 2 * w)


@negative(floats(4, 6), floats(4, 6))
class Contrastive(nn.Module):
    """Pairs of a batch that are to be told from others."""

    def __init__(self):
        super().__init__()
        self.image, self.text, self.scale = nn.Linear(6, 5), nn.Linear(6, 5), nn.Parameter(torch.tensor(2.0))

    def forward(self, image, text):
        logits = self.scale.exp() * F.normalize(self.image(image), dim=-1) @ F.normalize(self.text(text), dim=-1).t()
        return -logits.softmax(dim=-1).diagonal().log().mean()


@negative(floats(2, 5, 4))
class MonteCarloDropout(nn.Module):
    """The mean of several passes."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.Linear(8, 3))

    def forward(self, x):
        total = 0
        for _ in range(4):
            total = total + F.softmax(self.net(x), dim=-1)
        return total / 4


@negative(floats(2, 3, 8, 8))
class SmallUNet(nn.Module):
    """Loops down and up, with what was there on the way back."""

    def __init__(self):
        super().__init__()
        self.down = nn.ModuleList([nn.Conv2d(3, 4, 3, padding=1), nn.Conv2d(4, 4, 3, padding=1)])
        self.up = nn.ModuleList([nn.Conv2d(8, 4, 3, padding=1), nn.Conv2d(8, 3, 3, padding=1)])

    def forward(self, x):
        skips = []
        for conv in self.down:
            x = F.relu(conv(x))
            skips.append(x)
            x = F.max_pool2d(x, 2)
        for conv in self.up:
            x = F.interpolate(x, scale_factor=2)
            x = conv(torch.cat([x, skips.pop()], 1))
        return x.softmax(1)


@negative(floats(2, 4), ids(2, high=3))
class FocalLoss(nn.Module):
    def __init__(self):
        super().__init__()
        self.net, self.gamma = nn.Linear(4, 3), 2.0

    def forward(self, x, label):
        p = F.softmax(self.net(x), dim=1)
        p_t = (p * F.one_hot(label, 3)).sum(1)
        return (-((1 - p_t) ** self.gamma) * p_t.log()).mean()
