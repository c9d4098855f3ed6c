"""Five small models, each written twice, with 19 ways in which a port may depart; written from the documentation of rf.diff alone."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F

# --- a decoder with rotary positions and grouped heads: theirs in one product per layer, mine in einsum


class TheirRms(nn.Module):
    def __init__(self, size: int, plus: float = 0.0) -> None:
        super().__init__()
        self.scale, self.plus = nn.Parameter(torch.rand(size) + 0.3), plus

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x / torch.sqrt(x.square().mean(-1, keepdim=True) + 1e-5) * (self.scale + self.plus)


class MyRms(nn.Module):
    def __init__(self, scale: torch.Tensor) -> None:
        super().__init__()
        self.gain = nn.Parameter(scale.detach().clone())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.gain * x * torch.rsqrt(x.pow(2).mean(dim=-1, keepdim=True) + 1e-5)


class TheirBlock(nn.Module):
    def __init__(self, fault: str) -> None:
        super().__init__()
        self.fault = fault
        self.norm_a, self.norm_b = TheirRms(16, float(fault == "gain counted from one")), TheirRms(16)
        self.qkv, self.o = nn.Linear(16, 32, bias=False), nn.Linear(16, 16, bias=False)
        self.up_gate, self.down = nn.Linear(16, 48, bias=False), nn.Linear(24, 16, bias=False)

    def turned(self, x: torch.Tensor) -> torch.Tensor:  # batch head time feature
        base = 500.0 if self.fault == "slower rotation" else 10000.0
        angle = torch.outer(torch.arange(x.size(2)).to(x), base ** -(torch.arange(0, 4, 2).to(x) / 4))
        if self.fault == "neighbours turn together":
            pairs = torch.view_as_complex(x.unflatten(-1, (-1, 2)).contiguous())
            return torch.view_as_real(pairs * torch.polar(torch.ones_like(angle), angle)).flatten(-2)
        a, b = x.chunk(2, -1)
        return torch.cat([a * angle.cos() - b * angle.sin(), b * angle.cos() + a * angle.sin()], -1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        time = x.size(1)
        q, k, v = self.qkv(self.norm_a(x)).split([16, 8, 8], -1)
        q, k, v = (one.unflatten(-1, (-1, 4)).transpose(1, 2) for one in (q, k, v))
        q, k = self.turned(q), self.turned(k)
        if self.fault == "heads in turn":
            k, v = k.repeat(1, 2, 1, 1), v.repeat(1, 2, 1, 1)
        else:
            k, v = k.repeat_interleave(2, 1), v.repeat_interleave(2, 1)
        seen = torch.ones(time, time, dtype=torch.bool).tril()
        if self.fault == "looks back three":
            seen = seen.triu(-3)
        x = x + self.o(F.scaled_dot_product_attention(q, k, v, attn_mask=seen).transpose(1, 2).flatten(2))
        up, gate = self.up_gate(self.norm_b(x)).chunk(2, -1)
        if self.fault == "gate and value change places":
            up, gate = gate, up
        return x + self.down(up * F.silu(gate))


class TheirDecoder(nn.Module):
    def __init__(self, fault: str) -> None:
        super().__init__()
        self.fault, self.words = fault, nn.Embedding(19, 16)
        self.blocks, self.last = nn.ModuleList([TheirBlock(""), TheirBlock(fault)]), TheirRms(16)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.words(ids)
        for block in self.blocks:
            x = block(x)
        logits = self.last(x) @ self.words.weight.T
        return 5 * torch.tanh(logits / 5) if self.fault == "logits bend" else logits


def crossed(x: torch.Tensor) -> torch.Tensor:
    return torch.cat([-x[..., 2:], x[..., :2]], -1)


class MyAttention(nn.Module):
    def __init__(self, theirs: TheirBlock) -> None:
        super().__init__()
        self.wq, self.wk, self.wv = (nn.Parameter(w.detach().clone()) for w in theirs.qkv.weight.split([16, 8, 8]))
        self.wo = nn.Parameter(theirs.o.weight.detach().clone())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q = torch.einsum("btd,gjfd->btgjf", x, self.wq.view(2, 2, 4, 16))
        k, v = (torch.einsum("btd,gfd->btgf", x, w.view(2, 4, 16)) for w in (self.wk, self.wv))
        angle = torch.arange(x.size(1)).to(x)[:, None] * torch.exp(
            -torch.log(torch.tensor(10000.0).to(x)) * torch.tensor([0.0, 0.5]).to(x)
        )
        angle = torch.cat([angle, angle], -1)[:, None]
        k = k * angle.cos() + crossed(k) * angle.sin()
        q = q * angle[:, None].cos() + crossed(q) * angle[:, None].sin()
        scores = torch.einsum("btgjf,bsgf->bgjts", q, k) / 2
        scores = scores + torch.full_like(scores, -torch.inf).triu(1)
        heads = torch.einsum("bgjts,bsgf->btgjf", scores.softmax(-1), v)
        return F.linear(heads.reshape(*x.shape[:2], 16), self.wo)


class MyFeedForward(nn.Module):
    def __init__(self, theirs: TheirBlock) -> None:
        super().__init__()
        self.w1, self.w2 = (nn.Parameter(w.detach().clone()) for w in theirs.up_gate.weight.chunk(2))
        self.w3 = nn.Parameter(theirs.down.weight.detach().clone())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        gate = F.linear(x, self.w2)
        return F.linear(gate * torch.sigmoid(gate) * F.linear(x, self.w1), self.w3)


class MyDecoder(nn.Module):
    def __init__(self, theirs: TheirDecoder) -> None:
        super().__init__()
        self.embed, self.final = nn.Parameter(theirs.words.weight.detach().clone()), MyRms(theirs.last.scale)
        self.att = nn.ModuleList(MyAttention(block) for block in theirs.blocks)
        self.ff = nn.ModuleList(MyFeedForward(block) for block in theirs.blocks)
        self.pre = nn.ModuleList(MyRms(block.norm_a.scale) for block in theirs.blocks)
        self.mid = nn.ModuleList(MyRms(block.norm_b.scale) for block in theirs.blocks)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.embed[ids]
        for pre, att, mid, ff in zip(self.pre, self.att, self.mid, self.ff, strict=True):
            x = x + att(pre(x))
            x = x + ff(mid(x))
        return F.linear(self.final(x), self.embed)


# --- a tagger: theirs is nn.GRU with a head, mine a loop over cells


class TheirTagger(nn.Module):
    def __init__(self, fault: str) -> None:
        super().__init__()
        self.fault, self.rnn, self.tags = fault, nn.GRU(6, 8, batch_first=True), nn.Linear(8, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.tags(self.rnn(x)[0])


class MyCell(nn.Module):
    def __init__(self, theirs: TheirTagger) -> None:
        super().__init__()
        self.fault = theirs.fault
        self.w, self.u, self.b, self.c = (nn.Parameter(p.detach().clone()) for p in theirs.rnn.parameters())
        if self.fault == "reset and update change places":
            for one in (self.w, self.u, self.b, self.c):
                one.data = torch.cat([one.data[8:16], one.data[:8], one.data[16:]])
        if self.fault == "no bias of the state":
            self.c.data.zero_()

    def forward(self, x: torch.Tensor, h: torch.Tensor) -> torch.Tensor:
        r, z, n = (x @ self.w.T + self.b).chunk(3, -1)
        if self.fault == "reset before the product":
            hr, hz, _ = (h @ self.u.T + self.c).chunk(3, -1)
            r, z = torch.sigmoid(r + hr), torch.sigmoid(z + hz)
            n = torch.tanh(n + (r * h) @ self.u[16:].T + self.c[16:])
        else:
            hr, hz, hn = (h @ self.u.T + self.c).chunk(3, -1)
            r, z = torch.sigmoid(r + hr), torch.sigmoid(z + hz)
            n = torch.tanh(n + r * hn)
        return n + z * (h - n)


class MyTagger(nn.Module):
    def __init__(self, theirs: TheirTagger) -> None:
        super().__init__()
        self.cell, self.head = MyCell(theirs), nn.Linear(8, 4)
        self.head.load_state_dict(theirs.tags.state_dict())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h, out = x.new_zeros(len(x), 8), []
        for step in x.unbind(1):
            h = self.cell(step, h)
            out.append(h)
        return self.head(torch.stack(out, dim=1))


# --- patches of a picture: theirs convolves, mine folds and multiplies


class TheirPatches(nn.Module):
    def __init__(self, fault: str) -> None:
        super().__init__()
        self.fault, self.cut, self.place = fault, nn.Conv2d(3, 12, 4, stride=4), nn.Parameter(torch.randn(9, 12))
        eps = 1e-2 if fault == "norm of a larger floor" else 1e-5
        self.norm, self.up, self.down = nn.LayerNorm(12, eps=eps), nn.Linear(12, 24), nn.Linear(24, 12)

    def forward(self, picture: torch.Tensor) -> torch.Tensor:
        x = self.cut(picture).flatten(2).mT
        if self.fault == "places from one":
            x = x + self.place[1 : 1 + x.size(1)]
        else:
            x = x + self.place[: x.size(1)]
        bend = F.gelu if self.fault != "gelu by tanh" else lambda y: F.gelu(y, approximate="tanh")
        return x + self.down(bend(self.up(self.norm(x))))


class MyPatches(nn.Module):
    def __init__(self, theirs: TheirPatches) -> None:
        super().__init__()
        self.project = nn.Linear(48, 12)
        self.project.load_state_dict({"weight": theirs.cut.weight.flatten(1), "bias": theirs.cut.bias})
        self.positions = nn.Embedding(9, 12)
        self.positions.load_state_dict({"weight": theirs.place})
        self.mlp = nn.Sequential(nn.LayerNorm(12), nn.Linear(12, 24), nn.GELU(), nn.Linear(24, 12))
        for mine, their in ((0, theirs.norm), (1, theirs.up), (3, theirs.down)):
            self.mlp[mine].load_state_dict(their.state_dict())

    def forward(self, picture: torch.Tensor) -> torch.Tensor:
        x = self.project(F.unfold(picture, 4, stride=4).mT)
        x = x + self.positions(torch.arange(x.size(1)))
        return x + self.mlp(x)


# --- linear attention with decay: theirs step by step, mine all steps at once


class TheirLinear(nn.Module):
    def __init__(self, fault: str) -> None:
        super().__init__()
        self.fault, self.words = fault, nn.Embedding(11, 8)
        self.q, self.k, self.v, self.f = (nn.Linear(8, 8, bias=False) for _ in range(4))
        self.out = nn.Linear(8, 8, bias=False)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.words(ids)
        if self.fault == "words are larger":
            x = x * 8**0.5
        q, k, v, f = self.q(x), self.k(x), self.v(x), -F.softplus(self.f(x))
        if self.fault == "another feature map":
            q = F.elu(q) + 1
        else:
            q = q.relu()
        state, out = x.new_zeros(len(x), 8, 8), []
        for step in range(x.size(1)):
            state = state * f[:, step].exp()[:, :, None] + k[:, step, :, None] * v[:, step, None]
            out.append((q[:, step, None] @ state)[:, 0])
        x = torch.stack(out, 1) * (8**-0.5 if self.fault != "heads of another scale" else 0.25)
        return self.out(x) if self.fault != "the other way round" else x @ self.out.weight


class MyMix(nn.Module):
    def __init__(self, theirs: TheirLinear) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.cat([one.weight.detach() for one in (theirs.q, theirs.k, theirs.v, theirs.f)]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v, f = F.linear(x, self.w).split(8, -1)
        total = F.logsigmoid(-f).cumsum(1)
        weights = torch.einsum(
            "btd,bsd,btsd->bts", q.clamp(min=0), k, (total[:, :, None] - total[:, None]).clamp(max=0).exp()
        )
        return weights.tril() @ v / 8**0.5


class MyLinear(nn.Module):
    def __init__(self, theirs: TheirLinear) -> None:
        super().__init__()
        self.embedding, self.mix, self.leave = nn.Embedding(11, 8), MyMix(theirs), nn.Linear(8, 8, bias=False)
        self.embedding.load_state_dict(theirs.words.state_dict())
        self.leave.load_state_dict(theirs.out.state_dict())

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.leave(self.mix(self.embedding(ids)))


# --- a convolution block of speech: theirs in channels first, mine in channels last


class TheirSpeech(nn.Module):
    def __init__(self, fault: str) -> None:
        super().__init__()
        self.fault = fault
        self.wide, self.deep, self.back = (
            nn.Conv1d(6, 16, 1),
            nn.Conv1d(8, 8, 3, padding=1, groups=8),
            nn.Conv1d(8, 6, 1),
        )
        self.norm = nn.BatchNorm1d(8)
        nn.init.normal_(self.norm.running_mean, std=0.3)
        nn.init.uniform_(self.norm.running_var, 0.5, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.mT
        y = self.wide(x)
        a, b = y.chunk(2, 1)
        y = b * a.sigmoid() if self.fault == "the other half is the gate" else a * b.sigmoid()
        y = self.deep(y)
        if self.fault == "norm of this batch":
            y = F.batch_norm(y, None, None, self.norm.weight, self.norm.bias, training=True)
        else:
            y = self.norm(y)
        return (x + self.back(F.silu(y))).mT


class MySpeech(nn.Module):
    def __init__(self, theirs: TheirSpeech) -> None:
        super().__init__()
        self.wide, self.back = nn.Linear(6, 16), nn.Linear(8, 6)
        self.wide.load_state_dict({"weight": theirs.wide.weight[..., 0], "bias": theirs.wide.bias})
        self.back.load_state_dict({"weight": theirs.back.weight[..., 0], "bias": theirs.back.bias})
        self.taps, self.shift = (
            nn.Parameter(theirs.deep.weight.detach()[:, 0].T.clone()),
            nn.Parameter(theirs.deep.bias.detach().clone()),
        )
        self.norm = Frozen(theirs.norm)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        left, right = self.wide(x).chunk(2, dim=-1)
        y = F.pad(left * torch.sigmoid(right), (0, 0, 1, 1))
        y = sum(y[:, i : i + x.size(1)] * self.taps[i] for i in range(3)) + self.shift
        y = self.norm(y)
        return x + self.back(y * y.sigmoid())


class Frozen(nn.Module):
    def __init__(self, theirs: nn.BatchNorm1d) -> None:
        super().__init__()
        self.w, self.b = nn.Parameter(theirs.weight.detach().clone()), nn.Parameter(theirs.bias.detach().clone())
        self.register_buffer("mean", theirs.running_mean.clone())
        self.register_buffer("var", theirs.running_var.clone())

    def forward(self, y: torch.Tensor) -> torch.Tensor:
        return (y - self.mean) * (self.var + 1e-5).rsqrt() * self.w + self.b


MODELS = {
    "decoder": (TheirDecoder, MyDecoder),
    "tagger": (TheirTagger, MyTagger),
    "patches": (TheirPatches, MyPatches),
    "linear": (TheirLinear, MyLinear),
    "speech": (TheirSpeech, MySpeech),
}
# Cause: model, modules of mine that are right, the name of the cause (None: the documentation names none).
CAUSES = {
    "slower rotation": ("decoder", ("att.1",), "rotary base"),
    "neighbours turn together": ("decoder", ("att.1",), "rotary pairing"),
    "heads in turn": ("decoder", ("att.1",), "grouped heads"),
    "gain counted from one": ("decoder", ("pre.1",), "norm offset"),
    "looks back three": ("decoder", ("att.1",), "mask"),
    "gate and value change places": ("decoder", ("ff.1",), "gate order"),
    "logits bend": ("decoder", ("",), "soft cap"),
    "reset and update change places": ("tagger", ("cell",), "gate order"),
    "no bias of the state": ("tagger", ("cell",), "missing bias"),
    "reset before the product": ("tagger", ("cell",), None),
    "norm of a larger floor": ("patches", ("mlp.0",), "norm epsilon"),
    "places from one": ("patches", ("", "positions"), "positions"),
    "gelu by tanh": ("patches", ("mlp.2",), "activation"),
    "words are larger": ("linear", ("", "embedding"), "embedding scale"),
    "another feature map": ("linear", ("mix",), "activation"),
    "heads of another scale": ("linear", ("mix",), "scale"),
    "the other way round": ("linear", ("leave",), "transposed weight"),
    "the other half is the gate": ("speech", ("",), "gate order"),
    "norm of this batch": ("speech", ("norm",), None),
}


def pair(name: str, fault: str = "") -> tuple[nn.Module, nn.Module, torch.Tensor]:
    """Mine, theirs, and inputs."""
    theirs_of, mine_of = MODELS[name]
    with torch.random.fork_rng():
        torch.manual_seed(3)
        theirs = theirs_of(fault).eval()
        mine = mine_of(theirs).eval()
        inputs = {
            "decoder": torch.randint(19, (2, 7)),
            "tagger": torch.randn(2, 5, 6),
            "patches": torch.randn(2, 3, 8, 12),
            "linear": torch.randint(11, (2, 6)),
            "speech": torch.randn(2, 7, 6),
        }
    return mine, theirs, inputs[name]
