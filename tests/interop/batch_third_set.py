"""Ten models in ten styles with a switch each: `fault` makes what one sequence gives depend on its padding or on its neighbours.

Written by somebody who had not seen the other sets, nor the code that looks for such.
"""

import math

import torch
import torch.nn.functional as F
from torch import nn


def mask_of(x, lengths):
    return torch.arange(x.shape[1])[None] < lengths[:, None]


class Subsampler(nn.Module):
    """Speech: two strided convolutions, then attention. Fault: frames of padding count as real (lengths rounded up twice)."""

    def __init__(self, fault):
        super().__init__()
        self.fault = fault
        self.front = nn.Conv1d(5, 16, 2, 2)
        self.attend = nn.MultiheadAttention(16, 2, batch_first=True)
        self.head = nn.Linear(16, 4)

    def forward(self, x, lengths):
        x = x * mask_of(x, lengths)[..., None]
        h = self.front(x.transpose(1, 2)).transpose(1, 2)
        n = lengths // 2 + 1 if self.fault else (lengths // 2)
        real = mask_of(h, n)
        h = h + self.attend(h, h, h, key_padding_mask=~real, need_weights=False)[0]
        return self.head(h) * mask_of(h, lengths // 2)[..., None]


class Tagger(nn.Module):
    """A bidirectional GRU; the fault is that nothing is packed."""

    def __init__(self, fault):
        super().__init__()
        self.fault = fault
        self.words = nn.Embedding(30, 12)
        self.context = nn.GRU(12, 10, bidirectional=True, batch_first=True)
        self.tags = nn.Linear(20, 5)

    def forward(self, ids, lengths):
        e = self.words(ids)
        if self.fault:
            h = self.context(e)[0]
        else:
            p = nn.utils.rnn.pack_padded_sequence(e, lengths, batch_first=True, enforce_sorted=False)
            h = nn.utils.rnn.pad_packed_sequence(self.context(p)[0], batch_first=True, total_length=ids.shape[1])[0]
        return self.tags(h)


class ScorePool(nn.Module):
    def __init__(self, fault):
        super().__init__()
        self.fault = fault
        self.score = nn.Linear(12, 1)

    def forward(self, h, real):
        s = self.score(torch.tanh(h))[..., 0]
        s = s * real if self.fault else s.masked_fill(~real, -math.inf)
        return (s.softmax(-1)[..., None] * h).sum(1)


class Speaker(nn.Module):
    """Attention pooling. Fault: scores of padding are 0, not minus infinity."""

    def __init__(self, fault):
        super().__init__()
        self.inp = nn.Linear(7, 12)
        self.pool = ScorePool(fault)
        self.out = nn.Linear(12, 6)

    def forward(self, x, mask):
        return self.out(self.pool(F.relu(self.inp(x)), mask.bool()))


class MaskedGroupNorm(nn.Module):
    def __init__(self, groups, dim):
        super().__init__()
        self.groups, self.weight, self.bias = groups, nn.Parameter(torch.rand(dim)), nn.Parameter(torch.randn(dim))

    def forward(self, x, real):  # x: B C T
        b, c, t = x.shape
        g, r = x.reshape(b, self.groups, -1, t), real[:, None, None].to(x.dtype)
        n = r.sum(-1, keepdim=True) * g.shape[2]
        mean = (g * r).sum((2, 3), keepdim=True) / n
        var = ((g - mean) ** 2 * r).sum((2, 3), keepdim=True) / n
        y = ((g - mean) / (var + 1e-5).sqrt()).reshape(b, c, t)
        return y * self.weight[:, None] + self.bias[:, None]


class Separator(nn.Module):
    """A TasNet: dilated convolutions with a norm over time and channels. Fault: nn.GroupNorm, which counts padding."""

    def __init__(self, fault):
        super().__init__()
        self.fault = fault
        self.lift = nn.Conv1d(3, 8, 1)
        self.convs = nn.ModuleList(nn.Conv1d(8, 8, 3, padding=d, dilation=d) for d in (1, 2))
        self.norms = nn.ModuleList(nn.GroupNorm(2, 8) if fault else MaskedGroupNorm(2, 8) for _ in range(2))
        self.drop = nn.Conv1d(8, 2, 1)

    def forward(self, x, mask):
        real = mask.bool()
        h = self.lift(x.transpose(1, 2)) * real[:, None]
        for conv, norm in zip(self.convs, self.norms):
            y = conv(h)
            y = norm(y) if self.fault else norm(y, real)
            h = (h + F.gelu(y)) * real[:, None]
        return self.drop(h).transpose(1, 2)


class Fourier(nn.Module):
    def __init__(self, fault):
        super().__init__()
        self.fault = fault
        self.mix = nn.Linear(8, 8)

    def forward(self, x, lengths):
        if self.fault:
            return self.mix(torch.fft.fft(torch.fft.fft(x, dim=-1), dim=1).real)
        rows = [torch.fft.fft2(r[:n]).real for r, n in zip(x, lengths.tolist())]
        return self.mix(
            nn.utils.rnn.pad_sequence([F.pad(r, (0, 0, 0, x.shape[1] - len(r))) for r in rows], batch_first=True)
        )


class FNet(nn.Module):
    """Fourier transforms over positions; the fault is that they run over the padded length."""

    def __init__(self, fault):
        super().__init__()
        self.emb = nn.Embedding(20, 8)
        self.blocks = nn.ModuleList(
            nn.ModuleDict({"n": nn.LayerNorm(8), "f": Fourier(fault and i == 1), "m": nn.Linear(8, 8)})
            for i in range(2)
        )
        self.out = nn.Linear(8, 20)

    def forward(self, ids, lengths):
        h = self.emb(ids)
        for b in self.blocks:
            h = h + b["f"](b["n"](h), lengths)
            h = h + F.silu(b["m"](h))
        return self.out(h)


class FromEnd(nn.Module):
    def __init__(self, fault):
        super().__init__()
        self.fault = fault
        self.table = nn.Embedding(64, 10)

    def forward(self, real):
        t = torch.arange(real.shape[1])
        n = real.shape[1] if self.fault else real.sum(1, keepdim=True)
        left = (n - 1 - t.expand(real.shape)).clamp(0, 63)
        return self.table(left)


class Summary(nn.Module):
    """How many positions are left as an embedding. Fault: counted from the longest sequence of the batch."""

    def __init__(self, fault):
        super().__init__()
        self.tok = nn.Embedding(25, 10)
        self.left = FromEnd(fault)
        self.q, self.kv, self.o = nn.Linear(10, 10), nn.Linear(10, 20), nn.Linear(10, 25)

    def forward(self, ids, mask):
        real = mask.bool()
        h = self.tok(ids) + self.left(real)
        k, v = self.kv(h).chunk(2, -1)
        keep = real[:, None, :] & torch.ones(h.shape[1], h.shape[1]).bool().tril()
        e = (self.q(h) @ k.transpose(1, 2) / 10**0.5).masked_fill(~keep, -1e9)
        return self.o(h + e.softmax(-1) @ v)


class SqueezeExcite(nn.Module):
    def __init__(self, fault):
        super().__init__()
        self.fault = fault
        self.down, self.up = nn.Linear(9, 3), nn.Linear(3, 9)

    def forward(self, x, real):  # B T C
        r = real[..., None].to(x.dtype)
        mean = (x * r).mean(1) if self.fault else (x * r).sum(1) / r.sum(1)
        return x * torch.sigmoid(self.up(F.relu(self.down(mean))))[:, None]


class Citrinet(nn.Module):
    """Separable convolutions with a gate from the mean over time. Fault: the mean divides by the padded length."""

    def __init__(self, fault):
        super().__init__()
        self.depth = nn.Conv1d(9, 9, 5, padding=2, groups=9)
        self.point = nn.Linear(9, 9)
        self.se = SqueezeExcite(fault)
        self.ctc = nn.Linear(9, 11)

    def forward(self, x, mask):
        real = mask.bool()
        h = self.depth((x * real[..., None]).transpose(1, 2)).transpose(1, 2)
        return self.ctc(F.relu(self.se(self.point(h), real))).log_softmax(-1)


class LinearAttention(nn.Module):
    def __init__(self, fault):
        super().__init__()
        self.fault = fault
        self.q, self.k, self.v = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x, real):
        q, k, v = F.elu(self.q(x)) + 1, F.elu(self.k(x)) + 1, self.v(x)
        clean = k * real[..., None]
        kv = torch.einsum("btk,btv->bkv", k if self.fault else clean, v)
        z = torch.einsum("btk,bk->bt", q, clean.sum(1))
        return torch.einsum("btk,bkv->btv", q, kv) / z[..., None]


class Kernel(nn.Module):
    """Linear attention in both directions. Fault: keys of padding are left out of the denominator only."""

    def __init__(self, fault):
        super().__init__()
        self.emb = nn.Embedding(15, 8)
        self.layers = nn.ModuleList(LinearAttention(fault and i == 0) for i in range(2))
        self.norm = nn.LayerNorm(8)
        self.cls = nn.Linear(8, 3)

    def forward(self, input_ids, attention_mask):
        real = attention_mask.bool()
        h = self.emb(input_ids)
        for layer in self.layers:
            h = self.norm(h + layer(h, real))
        r = real[..., None].to(h.dtype)
        return {"logits": self.cls((h * r).sum(1) / r.sum(1)), "hidden": h}


class Crf(nn.Module):
    def __init__(self, fault):
        super().__init__()
        self.fault = fault
        self.trans = nn.Parameter(torch.randn(5, 5))

    def forward(self, e, y, real):
        alpha, gold = e[:, 0], e[:, 0].gather(1, y[:, :1])[:, 0]
        for t in range(1, e.shape[1]):
            new = (alpha[:, :, None] + self.trans).logsumexp(1) + e[:, t]
            step = self.trans[y[:, t - 1], y[:, t]] + e[:, t].gather(1, y[:, t : t + 1])[:, 0]
            alpha = new if self.fault else torch.where(real[:, t, None], new, alpha)
            gold = gold + step * (1 if self.fault else real[:, t])
        return alpha.logsumexp(1) - gold


class CrfTagger(nn.Module):
    """A CRF's loss for each sequence. Fault: the forward algorithm runs over padding."""

    def __init__(self, fault):
        super().__init__()
        self.emb = nn.Embedding(20, 8)
        self.score = nn.Linear(8, 5)
        self.crf = Crf(fault)

    def forward(self, ids, labels, mask):
        return self.crf(self.score(self.emb(ids)), labels.clamp(0, 4), mask.bool())


class Switch(nn.Module):
    def __init__(self, fault):
        super().__init__()
        self.fault = fault
        self.router = nn.Linear(8, 3)
        self.experts = nn.ModuleList(nn.Linear(8, 8) for _ in range(3))

    def forward(self, x):
        flat = x.reshape(-1, 8)
        p, chosen = self.router(flat).softmax(-1).max(-1)
        room = math.ceil(len(flat) / 3) if self.fault else len(flat)
        out = torch.zeros_like(flat)
        for i, expert in enumerate(self.experts):
            places = (chosen == i).nonzero()[:room, 0]
            out[places] = expert(flat[places]) * p[places, None]
        return out.reshape(x.shape)


class Capacity(nn.Module):
    """A mixture of experts. Fault: an expert takes only so many tokens of the batch, the others go past it."""

    def __init__(self, fault):
        super().__init__()
        self.emb = nn.Embedding(20, 8)
        self.moe = Switch(fault)
        self.out = nn.Linear(8, 20)

    def forward(self, ids, mask):
        h = self.emb(ids)
        return self.out(h + self.moe(h))


LENGTHS = torch.tensor([9, 6, 4])


def tokens(n, t=9):
    ids = torch.randint(1, n, (3, t))
    return ids * (torch.arange(t)[None] < LENGTHS[:, None])


MASK = (torch.arange(9)[None] < LENGTHS[:, None]).long()
# The class, its inputs, the module in which the fault is. Nine features in as many frames: an axis is not told by its size.
CASES = {
    "subsampled": (Subsampler, lambda: {"x": torch.randn(3, 10, 5), "lengths": torch.tensor([10, 6, 4])}, "attend"),
    "bigru": (Tagger, lambda: {"ids": tokens(30), "lengths": LENGTHS}, "context"),
    "pool": (Speaker, lambda: {"x": torch.randn(3, 9, 7), "mask": MASK}, "pool"),
    "groupnorm": (Separator, lambda: {"x": torch.randn(3, 9, 3), "mask": MASK}, "norms.0"),
    "fourier": (FNet, lambda: {"ids": tokens(20), "lengths": LENGTHS}, "blocks.1.f"),
    "from_end": (Summary, lambda: {"ids": tokens(25), "mask": MASK}, "left"),
    "squeeze": (Citrinet, lambda: {"x": torch.randn(3, 9, 9), "mask": MASK}, "se"),
    "linear": (Kernel, lambda: {"input_ids": tokens(15), "attention_mask": MASK}, "layers.0"),
    "crf": (CrfTagger, lambda: {"ids": tokens(20), "labels": torch.randint(0, 5, (3, 9)), "mask": MASK}, "crf"),
    "capacity": (Capacity, lambda: {"ids": tokens(20), "mask": MASK}, "moe"),
}  # fmt: skip


def case(which, fault):
    """A model in eval mode, its inputs, and the module in which the fault is."""
    kind, inputs, module = CASES[which]
    torch.manual_seed(0)
    return kind(fault).eval(), inputs(), module
