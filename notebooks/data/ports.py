"""The layers that are ported in lessons 03, 11 and 14, written out so that `rf.diff` sees every step of them, and ports with one fault.

Whoever reads this file has the answers. `Gru` is torch.nn.GRU taken apart: its numbers are those of torch. `FAULTS` has by layer what
goes wrong in ports: a class with the same weights, and how the fault is said.
"""

from __future__ import annotations

import copy

import torch
from torch.nn.functional import linear, normalize, softplus
from torch.overrides import TorchFunctionMode

import rfnb as rf
from rfnb.teaching import call, check_same, is_same, kind_of, wrong


def drawn(layer, seed=1):
    """A layer with random weights of a seed, in eval and without gradients."""
    generator = torch.Generator().manual_seed(seed)
    for weight in layer.parameters():
        size = weight.shape[-1] if weight.ndim > 1 else 1
        weight.data = torch.randn(weight.shape, generator=generator) / size**0.5
    return layer.eval().requires_grad_(False)


def inputs(*shape, seed=0):
    """Random numbers of a seed."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def with_weights_of(kind, layer):
    """A faulty layer with the weights of a sound one."""
    faulty = copy.deepcopy(layer)
    faulty.__class__ = kind
    vars(faulty).pop("forward", None)
    return faulty


def beside(port, original, x):
    """Shows what `rf.diff` says of a port and its original; of a port that does not run yet, a sentence."""
    try:
        found = rf.diff(port(original), original, inputs=x)
    except Exception as error:  # whatever a student has written so far
        print(f"The port does not run yet: {type(error).__name__}.")
        return None
    print(found)
    return rf.show(found)


# 03


class Gru(torch.nn.GRU):
    """torch.nn.GRU of one layer, step by step: (batch, time, features) -> (batch, time, units)."""

    def __init__(self, features, units):
        super().__init__(features, units, batch_first=True)

    def gates(self, of_x, of_h):
        """What goes into reset and update, and both parts of the new value."""
        (r_x, z_x, new_x), (r_h, z_h, new_h) = of_x.chunk(3, -1), of_h.chunk(3, -1)
        return r_x + r_h, z_x + z_h, new_x, new_h

    def new(self, new_x, new_h, r, h):
        return torch.tanh(new_x + r * new_h)

    def mixed(self, z, new, h):
        return (1 - z) * new + z * h

    def forward(self, x):
        h, states = x.new_zeros(len(x), self.hidden_size), []
        for now in linear(x, self.weight_ih_l0, self.bias_ih_l0).unbind(1):
            r, z, new_x, new_h = self.gates(now, linear(h, self.weight_hh_l0, self.bias_hh_l0))
            r, z = torch.sigmoid(r), torch.sigmoid(z)
            h = self.mixed(z, self.new(new_x, new_h, r, h), h)
            states.append(h)
        return torch.stack(states, 1)


class GruOrder(Gru):
    def gates(self, of_x, of_h):
        r, z, new_x, new_h = super().gates(of_x, of_h)
        return z, r, new_x, new_h


class GruInside(Gru):
    def new(self, new_x, new_h, r, h):
        return torch.tanh(new_x + linear(r * h, self.weight_hh_l0.chunk(3)[2], self.bias_hh_l0.chunk(3)[2]))


class GruBias(Gru):
    def new(self, new_x, new_h, r, h):
        bias = self.bias_hh_l0.chunk(3)[2]
        return torch.tanh(new_x + bias + r * (new_h - bias))


class GruTurned(Gru):
    def mixed(self, z, new, h):
        return z * new + (1 - z) * h


class GruOneBias(Gru):
    def gates(self, of_x, of_h):
        return super().gates(of_x, of_h - self.bias_hh_l0)


class GruWithoutReset(Gru):
    def new(self, new_x, new_h, r, h):
        return torch.tanh(new_x + new_h)


class GruOverBatch(Gru):
    def forward(self, x):
        return super().forward(x.transpose(0, 1)).transpose(0, 1)


class GruBefore(Gru):
    def forward(self, x):
        states = super().forward(x)
        return torch.cat([torch.zeros_like(states[:, :1]), states[:, :-1]], 1)


# 11


class Attention(torch.nn.Module):
    """Causal self-attention with rotary positions and heads that share keys and values: (batch, time, width) -> the same.

    Attributes:
        qkv: One Linear: first all queries, head by head, then the keys of the groups, then their values.
        out: Linear of all heads, one after the other.
        heads, groups, size: Heads of the queries, of the keys and values, and how many numbers each has.
        base: Of the rotary angles.
    """

    def __init__(self, heads=4, groups=2, size=4, base=100.0):
        super().__init__()
        self.heads, self.groups, self.size, self.base = heads, groups, size, base
        self.qkv = torch.nn.Linear(heads * size, (heads + 2 * groups) * size)
        self.out = torch.nn.Linear(heads * size, heads * size)

    def angles(self, x):
        """(time, size / 2): position times base ** (-2 i / size)."""
        rates = self.base ** (-torch.arange(0, self.size, 2, dtype=x.dtype) / self.size)
        return torch.outer(torch.arange(x.shape[-2], dtype=x.dtype), rates)

    def turned(self, x):
        angles = self.angles(x)
        even, odd = x[..., 0::2], x[..., 1::2]
        pairs = [even * angles.cos() - odd * angles.sin(), even * angles.sin() + odd * angles.cos()]
        return torch.stack(pairs, -1).flatten(-2)

    def placed(self, q, k, v):
        return self.turned(q), self.turned(k), v

    def shared(self, x):
        return x.repeat_interleave(self.heads // self.groups, 1)

    def scaled(self, scores):
        return scores / self.size**0.5

    def seen(self, scores):
        return torch.ones(scores.shape[-2:], dtype=torch.bool).tril()

    def forward(self, x):
        sizes = [self.heads * self.size, self.groups * self.size, self.groups * self.size]
        parts = self.qkv(x).split(sizes, -1)
        q, k, v = (part.unflatten(-1, (-1, self.size)).transpose(1, 2) for part in parts)
        q, k, v = self.placed(q, k, v)
        scores = self.scaled(q @ self.shared(k).mT)
        weights = scores.masked_fill(~self.seen(scores), -torch.inf).softmax(-1)
        return self.out((weights @ self.shared(v)).transpose(1, 2).flatten(2))


class AttentionHalves(Attention):
    def turned(self, x):
        angles = self.angles(x)
        one, other = x.chunk(2, -1)
        return torch.cat([one * angles.cos() - other * angles.sin(), one * angles.sin() + other * angles.cos()], -1)


class AttentionDealt(Attention):
    def shared(self, x):
        return x.repeat(1, self.heads // self.groups, 1, 1)


class AttentionUnscaled(Attention):
    def scaled(self, scores):
        return scores


class AttentionAhead(Attention):
    def seen(self, scores):
        return torch.ones(scores.shape[-2:], dtype=torch.bool)


class AttentionBase(Attention):
    def angles(self, x):
        rates = 10000.0 ** (-torch.arange(0, self.size, 2, dtype=x.dtype) / self.size)
        return torch.outer(torch.arange(x.shape[-2], dtype=x.dtype), rates)


class AttentionBackwards(Attention):
    def angles(self, x):
        return -super().angles(x)


class AttentionUnturned(Attention):
    def turned(self, x):
        return x


class AttentionValues(Attention):
    def placed(self, q, k, v):
        return self.turned(q), self.turned(k), self.turned(v)


class AttentionQueries(Attention):
    def placed(self, q, k, v):
        return self.turned(q), k, v


# 14


class Delta(torch.nn.Module):
    """A gated delta rule with heads: (batch, time, width) -> the same.

    Attributes:
        qkv: One Linear: all queries, head by head, all keys, all values.
        gates: Linear: the write gate of each head, before its sigmoid, then the decay of each.
        out: Linear of what all heads read, one after the other.
        heads, size: How many there are, and how many numbers a query, a key and a value of one have.
    """

    def __init__(self, heads=2, size=4):
        super().__init__()
        self.heads, self.size, width = heads, size, heads * size
        self.qkv, self.gates = torch.nn.Linear(width, 3 * width), torch.nn.Linear(width, 2 * heads)
        self.out = torch.nn.Linear(width, width)

    def opened(self, gates):
        """The share that is written, and that is kept."""
        write, decay = gates.chunk(2, -1)
        return torch.sigmoid(write), torch.exp(-softplus(decay))

    def unit(self, q, k):
        return normalize(q, dim=-1), normalize(k, dim=-1)

    def step(self, state, q, k, v, write, keep):
        """State (batch, heads, value, key)."""
        state = keep[..., None, None] * state
        missing = v - (state @ k[..., None])[..., 0]
        return state + (write[..., None] * missing)[..., None] * k[..., None, :]

    def forward(self, x):
        q, k, v = (part.unflatten(-1, (self.heads, self.size)) for part in self.qkv(x).chunk(3, -1))
        q, k = self.unit(q, k)
        write, keep = self.opened(self.gates(x))
        state, read = x.new_zeros(len(x), self.heads, self.size, self.size), []
        for at in range(x.shape[1]):
            state = self.step(state, q[:, at], k[:, at], v[:, at], write[:, at], keep[:, at])
            read.append((state @ q[:, at, :, :, None])[..., 0])
        return self.out(torch.stack(read, 1).flatten(2))


class DeltaSwapped(Delta):
    def opened(self, gates):
        decay, write = gates.chunk(2, -1)
        return torch.sigmoid(write), torch.exp(-softplus(decay))


class DeltaKeeps(Delta):
    def opened(self, gates):
        write, decay = gates.chunk(2, -1)
        return torch.sigmoid(write), torch.sigmoid(decay)


class DeltaOpen(Delta):
    def opened(self, gates):
        return torch.ones_like(gates.chunk(2, -1)[0]), super().opened(gates)[1]


class DeltaForgetsNothing(Delta):
    def opened(self, gates):
        return super().opened(gates)[0], torch.ones_like(gates.chunk(2, -1)[1])


class DeltaLate(Delta):
    def step(self, state, q, k, v, write, keep):
        missing = v - (state @ k[..., None])[..., 0]
        return keep[..., None, None] * state + (write[..., None] * missing)[..., None] * k[..., None, :]


class DeltaLinear(Delta):
    def step(self, state, q, k, v, write, keep):
        return keep[..., None, None] * state + (write[..., None] * v)[..., None] * k[..., None, :]


class DeltaLong(Delta):
    def unit(self, q, k):
        return q, k


class DeltaLongQueries(Delta):
    def unit(self, q, k):
        return q, normalize(k, dim=-1)


class DeltaByRoot(Delta):
    def unit(self, q, k):
        return q / self.size**0.5, k / self.size**0.5


class DeltaOverTime(Delta):
    def unit(self, q, k):
        return normalize(q, dim=1), normalize(k, dim=1)


class DeltaByHead(Delta):
    def opened(self, gates):
        write, decay = gates.unflatten(-1, (self.heads, 2)).unbind(-1)
        return torch.sigmoid(write), torch.exp(-softplus(decay))


class DeltaCrossed(Delta):
    def opened(self, gates):
        return super().opened(gates)[::-1]


class DeltaBeginsAnew(Delta):
    def step(self, state, q, k, v, write, keep):
        return super().step(torch.zeros_like(state), q, k, v, write, keep)


class DeltaWithoutOut(Delta):
    def forward(self, x):
        self.out = torch.nn.Identity()
        return super().forward(x)


FAULTS = {
    Gru: {
        GruOrder: "Reset and update have changed places: the stacked weights are reset, update, new.",
        GruInside: "The reset gate stands inside of the product with the state; in torch it multiplies the product and its bias.",
        GruBias: "The bias of the state's part of the new value is not multiplied by the reset gate.",
        GruTurned: "z and 1 - z have changed places: z says how much of the old state stays.",
        GruOneBias: "The bias of the state's part is missing: there are two, bias_ih_l0 and bias_hh_l0.",
        GruWithoutReset: "The reset gate is not used.",
        GruOverBatch: "The loop goes over the batch: the frames of x are along its second axis, x.unbind(1).",
        GruBefore: "It returns the state before each frame; the one after it is wanted.",
    },
    Attention: {
        AttentionHalves: "Both halves of a head are turned against each other; here neighbours are a pair.",
        AttentionDealt: "Heads take keys and values in turn; here neighbouring heads share them: heads 0 and 1 group 0, 2 and 3 group 1.",
        AttentionUnscaled: "The scores are not divided by the root of the size of a head.",
        AttentionAhead: "There is no causal mask.",
        AttentionBase: "The base of the angles is 10000; here it is theirs.base.",
        AttentionBackwards: "The sign of the sine is turned: it turns the other way.",
        AttentionUnturned: "Queries and keys are not turned.",
        AttentionValues: "Values are turned, too; only queries and keys are.",
        AttentionQueries: "Only queries are turned; keys are, too.",
    },
    Delta: {
        DeltaSwapped: "Write and decay have changed places: first the write gates of all heads, then their decays.",
        DeltaKeeps: "What is kept is exp(-softplus(decay)), which is sigmoid(-decay).",
        DeltaOpen: "The write gate is not used.",
        DeltaForgetsNothing: "Nothing is forgotten: the state is multiplied by what is kept.",
        DeltaLate: "The key asks the state before the gate; first all of it is multiplied by what is kept.",
        DeltaLinear: "It adds instead of correcting: the value is written, not what is missing of it.",
        DeltaLong: "Queries and keys do not have length 1.",
        DeltaLongQueries: "Queries do not have length 1; only keys do.",
        DeltaByRoot: "Queries and keys are divided by the root of their size; here each is divided by its own length.",
        DeltaOverTime: "Queries and keys are normalized over time: normalize takes axis 1 unless it is told dim=-1.",
        DeltaByHead: "The gates are cut head by head; here all write gates come first, then all decays.",
        DeltaCrossed: "Write and keep have changed places behind their gates: write is the share of the correction.",
        DeltaBeginsAnew: "Each step begins with an empty state; it begins with that of the step before.",
        DeltaWithoutOut: "The last map is missing: out is applied to what all heads have read.",
    },
}


class Called(TorchFunctionMode):
    """Notes the names of all functions of torch that are called."""

    def __init__(self):
        super().__init__()
        self.names = set()

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.names.add(getattr(func, "__name__", ""))
        return func(*args, **(kwargs or {}))


def judge(answer, cases, forbidden=()):
    """Calls `wrong` with what `rf.diff` says if a port does not give what its original gives.

    Args:
        answer: Of an original, a torch.nn.Module that computes the same.
        cases: (original, x) for each try.
        forbidden: Names of functions that do all of it.
    """
    for original, x in cases:
        ran, theirs = [], copy.deepcopy(original)
        theirs.forward = lambda *args, own=theirs.forward, ran=ran: ran.append(args) or own(*args)
        given = [("x", tuple(x.shape))]
        port = call(answer, theirs)
        if not isinstance(port, torch.nn.Module):
            rule = "A class with `torch.nn.Module` in its brackets, and `super().__init__()` as the first line of __init__."
            wrong("This makes no torch.nn.Module.", [("got", kind_of(port))], rule)
        with torch.no_grad(), Called() as functions:
            got = call(port, x.clone())
        if ran:
            wrong(
                "It runs the original.", given, "A port computes the same by itself, with the weights of the original."
            )
        if found := functions.names & set(forbidden):
            wrong(f"It calls torch's own {min(found)}, which makes all of it already.", given, "Write the steps out.")
        with torch.no_grad():
            right = original(x)
        if not isinstance(got, torch.Tensor):
            wrong("It gives no tensor.", [*given, ("got", kind_of(got))], "forward returns one tensor.")
        if got.shape != right.shape:
            rows = [("got", tuple(got.shape)), ("expected", tuple(right.shape))]
            wrong("The result has another shape:", [*given, *rows])
        if not is_same(got, right):
            told(port, original, x, got, right, given)


def told(port, original, x, got, right, given):
    """Says where a port parts from its original, by `rf.diff`."""
    try:
        found = rf.diff(port.eval(), original, inputs=x)
    except Exception:  # a port that cannot run in float64, or leaves torch on the way
        found = None
    if found is None or found.same or found.place is None:
        check_same(got, right, what="The result", given=given)
    at = f', in "{found.place}" ({found.kind})' if found.place else ""
    rows = [*given, ("line", found.code or found.line)]
    if found.theirs is not None:
        rows.append(("in theirs", found.theirs[1].strip("_")))
    with torch.no_grad():
        known = [
            said for kind, said in FAULTS[type(original)].items() if is_same(got, with_weights_of(kind, original)(x))
        ]
    causes = [cause for cause in found.causes if cause.sure or not known]
    for cause in causes:
        rows.append(
            (cause.name, cause.said + ("; with that changed both give the same" if cause.sure else "; it could be"))
        )
    rule = (
        "Compare that line with what the original does there."
        if causes
        else "None of the usual causes: compare that line."
    )
    wrong(f"rf.diff: mine and theirs part in {found.call.strip('_')}{at}.", rows, known[0] if known else rule)
