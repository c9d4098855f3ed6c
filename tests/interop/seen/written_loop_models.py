"""Loops as people write them in a `forward`: what they carry is a state, or is none. `self.keep` notes by hand what each turn has made."""

import torch
import torch.nn.functional as F
from torch import nn

BATCH, TIME, WIDTH = 3, 5, 4


class Own(nn.Module):
    """Parts for all of them."""

    def __init__(self):
        super().__init__()
        self.i, self.h = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.gates, self.back = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(WIDTH, 4 * WIDTH)
        self.w, self.stack = nn.Parameter(torch.randn(WIDTH, WIDTH) / 3), nn.Parameter(torch.randn(4, WIDTH, WIDTH) / 3)
        self.layers = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.own = {}

    def keep(self, **values):
        for name, value in values.items():
            self.own.setdefault(name, []).append(value.detach().clone())

    def zeros(self, x):
        return x.new_zeros(BATCH, WIDTH)

    def lstm(self, x, state):
        h, c = state
        i, f, g, o = (self.gates(x) + self.back(h)).chunk(4, -1)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        return o.sigmoid() * c.tanh(), c


class RNN(Own):
    def forward(self, x):
        h = self.zeros(x)
        out = []
        for t in range(x.shape[1]):
            h = torch.tanh(self.i(x[:, t]) + self.h(h))
            self.keep(h=h)
            out.append(h)
        return torch.stack(out, 1)


class LSTM(Own):
    def forward(self, x):
        h = self.zeros(x)
        c = self.zeros(x)
        out = []
        for x_t in x.unbind(1):
            i, f, g, o = (self.gates(x_t) + self.back(h)).chunk(4, -1)
            c = f.sigmoid() * c + i.sigmoid() * g.tanh()
            h = o.sigmoid() * c.tanh()
            self.keep(h=h, c=c)
            out.append(h)
        return torch.stack(out, 1)


class Tuple(Own):
    def forward(self, x):
        state = (self.zeros(x),) * 2
        for t in range(TIME):
            state = self.lstm(x[:, t], state)
            self.keep(h=state[0], c=state[1])
        return state[0]


class Helper(Own):
    def forward(self, x):
        h = self.zeros(x)
        c = h
        for f in x.unbind(1):
            h, c = self.lstm(f, (h, c))
            self.keep(h=h, c=c)
        return h


class EMA(Own):
    def forward(self, x):
        ema = x[:, 0]
        for t in range(1, TIME):
            ema = 0.9 * ema + 0.1 * x[:, t]
            self.keep(ema=ema)
        return ema


class SSM(Own):
    def forward(self, x):
        state = torch.zeros(BATCH, WIDTH)
        ys = []
        t = 0
        while t < TIME:
            state = state @ self.w + x[:, t]
            self.keep(state=state)
            ys.append(state.sum(-1))
            t += 1
        return torch.stack(ys, 1)


class LinearAttention(Own):
    """A state that is only added to, but read in each turn."""

    def forward(self, x):
        k, v = self.i(x).relu(), self.h(x)
        s, z = x.new_zeros(BATCH, WIDTH, WIDTH), self.zeros(x)
        out = []
        for t in range(TIME):
            s = s + k[:, t, :, None] * v[:, t, None]
            z = z + k[:, t]
            self.keep(s=s, z=z)
            out.append(torch.einsum("bi,bij->bj", x[:, t], s) / (x[:, t] * z).sum(-1, True))
        return torch.stack(out, 1)


class CRF(Own):
    def forward(self, x):
        alpha = x[:, 0]
        for t in range(1, TIME):
            alpha = torch.logsumexp(alpha[:, :, None] + self.w, 1) + x[:, t]
            self.keep(alpha=alpha)
        return alpha.logsumexp(-1)


class DEQ(Own):
    def forward(self, x):
        z = torch.zeros_like(x)
        for _ in range(6):
            z = torch.tanh(self.h(z) + self.i(x))
            self.keep(z=z)
        return z


class Masked(Own):
    def forward(self, x):
        lengths = torch.tensor([5, 3, 2])
        h = self.zeros(x)
        for t in range(TIME):
            new = torch.tanh(self.i(x[:, t]) + self.h(h))
            m = (t < lengths)[:, None]
            h = torch.where(m, new, h)
            self.keep(h=h)
        return h


class Bi(Own):
    def forward(self, x):
        h = self.zeros(x)
        b = self.zeros(x)
        for t in range(TIME):
            h = torch.tanh(self.i(x[:, t]) + self.h(h))
            self.keep(h=h)
        for t in reversed(range(TIME)):
            b = torch.tanh(self.i(x[:, t]) + b @ self.w)
            self.keep(b=b)
        return h + b


class Multi(Own):
    def forward(self, x):
        hs = [self.zeros(x) for _ in range(2)]
        for t in range(TIME):
            y = x[:, t]
            for layer in range(2):
                hs[layer] = torch.tanh(y @ self.w + self.layers[layer](hs[layer]))
                y = hs[layer]
            self.keep(hs_0=hs[0], hs_1=hs[1])
        return y


class AttnDec(Own):
    def forward(self, x):
        h = x.mean(1)
        outs = []
        for t in range(TIME):
            a = torch.softmax((x @ h[:, :, None])[..., 0], -1)
            ctx = (a[:, :, None] * x).sum(1)
            h = torch.tanh(self.i(ctx) + self.h(h) + x[:, t])
            self.keep(h=h)
            outs.append(h)
        return torch.stack(outs, 1)


class Layers(Own):
    def forward(self, x):
        for layer in self.layers:
            x = torch.relu(layer(x))
        return x


class Residual(Own):
    def forward(self, x):
        for layer in self.layers:
            x = x + torch.relu(layer(x))
        return x


class Indexed(Own):
    def forward(self, x):
        for i in range(4):
            x = torch.tanh(x @ self.stack[i])
        return x


class Iterated(Own):
    def forward(self, x):
        for weight in self.stack:
            x = torch.tanh(x @ weight)
        return x


class RunningSum(Own):
    def forward(self, x):
        y, out = self.zeros(x), []
        for t in range(TIME):
            y = y + self.i(x[:, t])
            out.append(y)
        return torch.stack(out, 1)


class Experts(Own):
    def forward(self, x):
        g = self.h(x).softmax(-1)
        y = torch.zeros_like(x)
        for i, e in enumerate(self.layers):
            y = y + g[..., i : i + 1] * e(x)
        return y


class Conv(Own):
    def forward(self, x):
        p = F.pad(x, (0, 0, 1, 1))
        y = torch.zeros_like(x)
        for k in range(3):
            y = y + p[:, k : k + TIME] @ self.w
        return y


class Grow(Own):
    def forward(self, x):
        y = x[:, :1]
        for t in range(1, TIME):
            y = torch.cat([y, self.i(x[:, t : t + 1]) + y[:, -1:]], 1)
        return y


class Best(Own):
    def forward(self, x):
        m = x[:, 0]
        for t in range(1, TIME):
            m = torch.maximum(m, x[:, t])
        return m


class Loss(Own):
    def forward(self, x):
        loss = x.new_zeros(())
        for t in range(TIME):
            loss = loss * 0.5 + self.i(x[:, t]).square().mean()
        return loss


class Sink(Own):
    def forward(self, x):
        p = x @ x.transpose(1, 2)
        for _ in range(5):
            p = p - p.logsumexp(-1, True)
            p = p - p.logsumexp(-2, True)
        return p.exp()


class PerFrame(Own):
    def forward(self, x):
        out = []
        for t in range(TIME):
            y = self.i(x[:, t])
            y = torch.tanh(self.h(y))
            out.append(y)
        return torch.stack(out, 1)


class Labels(Own):
    def forward(self, x):
        tok = torch.zeros(BATCH, dtype=torch.long)
        for t in range(TIME):
            tok = (self.i(x[:, t]) + self.w[tok]).argmax(-1)
        return tok


class Write(Own):
    def forward(self, x):
        out = torch.zeros_like(x)
        for t in range(TIME):
            out[:, t] = torch.tanh(self.i(x[:, t]))
        return out


class InitIn(Own):
    def forward(self, x):
        h = None
        for t in range(TIME):
            h = torch.tanh(self.i(x[:, t])) if h is None else torch.tanh(self.i(x[:, t]) + self.h(h))
            self.keep(h=h)
        return h


class Early(Own):
    def forward(self, x):
        h = self.zeros(x)
        for t in range(TIME):
            if x[:, t].sum() > 1e9 or t == 3:
                break
            h = torch.tanh(self.i(x[:, t]) + self.h(h))
            self.keep(h=h)
        return h


class Inplace(Own):
    def forward(self, x):
        h = self.zeros(x)
        with torch.no_grad():
            for t in range(TIME):
                h = torch.tanh(self.i(x[:, t]) + self.h(h))
                h.mul_(0.5)
                self.keep(h=h)
        return h


class Dict(Own):
    def cell(self, x, h):
        return torch.tanh(self.i(x) + self.h(h))

    def forward(self, x):
        h = self.zeros(x)
        for _t, f in enumerate(x.transpose(0, 1)):
            z = torch.sigmoid(self.i(f))
            h = (1 - z) * h + z * self.cell(f, h)
            self.keep(h=h)
        return h


class While(Own):
    def step(self, h, x):
        return torch.tanh(self.i(x) + self.h(h) * torch.sigmoid(self.w[0]))

    def forward(self, x):
        h = x.mean(1)
        n = 0
        while True:
            h = self.step(h, self.first)
            self.keep(h=h)
            n += 1
            if n > 4:
                break
        return h

    first = torch.ones(BATCH, WIDTH)


class PerLayerFrames(Own):
    def forward(self, x):
        y = x
        for layer in self.layers:
            outs = []
            for t in range(TIME):
                outs.append(torch.tanh(layer(y[:, t])))
            y = torch.stack(outs, 1)
        return y


class Alternating(Own):
    def forward(self, x):
        a = x
        b = x
        for i in range(0, 4, 2):
            a = torch.tanh(self.layers[i](b))
            b = torch.tanh(self.layers[i + 1](a))
        return a + b


class TopK(Own):
    def forward(self, x):
        r = x
        for _ in range(3):
            m = r.max(-1, True)[0]
            r = torch.where(r == m, torch.zeros_like(r), r)
        return r


RECURRENCES = [
    RNN,
    LSTM,
    Tuple,
    Helper,
    EMA,
    SSM,
    LinearAttention,
    CRF,
    DEQ,
    Masked,
    Bi,
    Multi,
    AttnDec,
    InitIn,
    Early,
    Inplace,
    Dict,
    While,
]
OTHERS = [
    Layers,
    Residual,
    Indexed,
    Iterated,
    RunningSum,
    Experts,
    Conv,
    Grow,
    Best,
    Loss,
    Sink,
    PerFrame,
    Labels,
    Write,
    PerLayerFrames,
    Alternating,
    TopK,
]
