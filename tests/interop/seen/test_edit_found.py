"""Weights of attention that somebody has written out are edited as recordings know them: by what they do, however they are written.

Each model changes its own weights by hand, with `change`, and has to give the same bits.
"""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import rfnb as rf

BATCH, TIME, WIDTH, HEADS = 2, 5, 8, 2


class Written(nn.Module):
    """A block with attention in it; of a name that says nothing."""

    def __init__(self):
        super().__init__()
        self.qkv, self.out, self.dropout = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH), nn.Dropout(0.3)
        self.change, self.calls = lambda weights: weights, 0

    def parts(self, x):
        self.calls += 1
        return (each.view(*x.shape[:2], HEADS, -1).transpose(1, 2) for each in self.qkv(x).chunk(3, -1))

    def merged(self, heads):
        return self.out(heads.transpose(1, 2).flatten(2))


class Operators(Written):
    def forward(self, x):
        q, k, v = self.parts(x)
        return self.merged(self.dropout(self.change(((q @ k.mT) / 2).softmax(-1))) @ v)


class Quotient(Written):
    def forward(self, x):
        q, k, v = self.parts(x)
        scores = torch.exp(torch.einsum("bhid,bhjd->bhij", q, k))
        return self.merged(torch.einsum("bhij,bhjd->bhid", self.change(scores / scores.sum(-1, keepdim=True)), v))


class OfLogs(Written):
    def forward(self, x):
        q, k, v = self.parts(x)
        return self.merged(self.change(F.log_softmax(q @ k.mT, -1).exp()) @ v)


class Module(Written):
    def __init__(self):
        super().__init__()
        self.normalise = nn.Softmax(-1)

    def forward(self, x):
        q, k, v = self.parts(x)
        return self.merged(self.change(self.normalise(q @ k.mT)) @ v)


class HeadsBehindTargets(Written):
    def forward(self, x):
        q, k, v = self.parts(x)
        weights = F.softmax(torch.einsum("bhid,bhjd->bihj", q, k), dim=-1)
        weights = self.change(weights.transpose(1, 2)).transpose(1, 2)
        return self.merged(torch.einsum("bihj,bhjd->bhid", weights, v))


class SourcesInFront(Written):
    def forward(self, x):
        q, k, v = self.parts(x)
        weights = torch.softmax(k @ q.mT, 2)
        weights = self.change(weights.mT).mT
        return self.merged(weights.mT @ v)


class Cached(Written):
    """Has all keys so far as attributes, which a second call would double."""

    def forward(self, x):
        q, k, v = self.parts(x)
        self.keys = k if not hasattr(self, "keys") else torch.cat([self.keys, k], 2)
        self.values = v if not hasattr(self, "values") else torch.cat([self.values, v], 2)
        return self.merged(self.change((q @ self.keys.mT).softmax(-1)) @ self.values)


class Routed(Written):
    """A router's softmax comes first, and is none of attention."""

    def __init__(self):
        super().__init__()
        self.gate, self.experts = nn.Linear(WIDTH, 3), nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(3))

    def forward(self, x):
        gate = self.gate(x).softmax(-1)
        x = sum(gate[..., place, None] * expert(x) for place, expert in enumerate(self.experts))
        q, k, v = self.parts(x)
        return self.merged(self.change((q @ k.mT).softmax(-1)) @ v)


KINDS = [Operators, Quotient, OfLogs, Module, HeadsBehindTargets, SourcesInFront, Cached, Routed]


class Net(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.blocks, self.norm = nn.ModuleList(kind() for _ in range(2)), nn.BatchNorm1d(WIDTH)

    def forward(self, x):
        for block in self.blocks:
            x = x + block(x)
        return self.norm(x.transpose(1, 2)).transpose(1, 2)


def without_head(weights):
    weights = weights.clone()
    weights[:, 1] = 0
    return weights


def to_first(weights):
    weights = weights.clone()
    weights[1, :, 3] = torch.eye(TIME)[0]
    return weights


EDITS = {
    "ablated": ("[head=1]", 0, without_head),
    "scaled": ("[head=0]", lambda there: there * 0.5, lambda weights: torch.cat([weights[:, :1] * 0.5, weights[:, 1:]], 1)),
    "a row": ("[batch=1, target=3]", torch.eye(TIME)[0], to_first),
}  # fmt: skip


@pytest.mark.parametrize("train", [False, True])
@pytest.mark.parametrize("words", EDITS)
@pytest.mark.parametrize("kind", KINDS)
def test_an_edit_is_what_the_code_would_do_by_itself(kind, words, train):
    place, value, by_hand = EDITS[words]
    results = []
    for edited in (False, True):
        torch.manual_seed(3)
        net, x = Net(kind).train(train), torch.randn(BATCH, TIME, WIDTH, requires_grad=True)
        if not edited:
            net.blocks[1].change = by_hand
            out = net(x)
        else:
            with rf.edit(net, {f"blocks.1.weights{place}": value}), rf.record(model=net) as trace:
                out = net(x)
        out.square().sum().backward()
        gradients = [x.grad, *(each.grad for each in net.parameters())]
        results.append([out, *gradients, *net.state_dict().values(), torch.get_rng_state(), torch.tensor(net.blocks[1].calls)])  # fmt: skip
    for own, wanted in zip(*results[::-1], strict=True):
        assert (own is None) == (wanted is None) and (own is None or torch.equal(own, wanted))
    weights = trace.attention["blocks.1"].raw_tensor
    assert (
        torch.equal(weights, by_hand(weights))
        if words != "scaled"
        else weights[:, 0].sum(-1).allclose(torch.tensor(0.5))
    )
    assert trace.attention["blocks.0"].raw_tensor.sum(-1).allclose(torch.tensor(1.0))
    assert [event.module for event in trace.select("attention")] == ["blocks.0", "blocks.1"]


def test_a_head_that_is_a_module_is_edited_by_itself_and_in_the_map_of_all():
    class Head(nn.Module):
        def __init__(self):
            super().__init__()
            self.k, self.q, self.v = (nn.Linear(WIDTH, 4) for _ in range(3))

        def forward(self, x):
            return F.softmax(self.q(x) @ self.k(x).mT, -1) @ self.v(x)

    class Heads(nn.Module):
        def __init__(self):
            super().__init__()
            self.heads = nn.ModuleList(Head() for _ in range(3))

        def forward(self, x):
            return torch.cat([head(x) for head in self.heads], -1)

    model, x = Heads(), torch.randn(BATCH, TIME, WIDTH)
    plain = model(x)
    for edits, gone in (
        ({"heads.1.weights": 0}, [1]),
        ({"heads.weights[head=1]": 0}, [1]),
        ({"heads.weights[head=[0, -1]]": 0}, [0, 2]),
        ({"heads.weights": lambda there: 0 * there}, [0, 1, 2]),
    ):
        with rf.edit(model, edits), rf.record(model=model) as trace:
            out = model(x)
        wanted = plain.clone()
        for head in gone:
            wanted[..., 4 * head : 4 * head + 4] = 0
        assert torch.equal(out, wanted)
        assert [bool(row.any()) for row in trace.attention["heads"].raw_tensor.unbind(1)] == [
            each not in gone for each in range(3)
        ]
    with pytest.raises(IndexError, match="heads.0 to heads.2"):
        with rf.edit(model, {"heads.weights[head=3]": 0}):
            pass
    with pytest.raises(ValueError, match="Each head is a module of its own here"):
        with rf.edit(model, {"heads.weights": torch.ones(3, 1, 1)}):
            pass


class Both(Written):
    def forward(self, x, memory):
        q, k, v = self.parts(x)
        own = self.change((q @ k.mT).softmax(-1))
        x = self.merged(own @ v)
        other = (x @ memory.mT).softmax(-1)
        return x + other @ memory


def test_one_of_several_attentions_has_the_name_of_its_variable():
    model, x, memory = Both(), torch.randn(BATCH, TIME, WIDTH), torch.randn(BATCH, 3, WIDTH)
    with rf.record(model=model) as clean:
        model(x, memory)
    assert list(clean.attention) == ["own", "other"]
    model.change = without_head
    wanted = model(x, memory)
    model.change = lambda weights: weights
    with rf.edit(model, {"own.weights[head=1]": 0}):
        assert torch.equal(model(x, memory), wanted)
    with rf.edit(model, {"other.weights": clean}), rf.record(model=model) as trace:
        model(2 * x, memory)
    assert torch.equal(trace.attention["other"].raw_tensor, clean.attention["other"].raw_tensor)
    assert not torch.equal(trace.attention["own"].raw_tensor, clean.attention["own"].raw_tensor)
    with pytest.raises(ValueError, match="no weights were computed"), rf.edit(model, {"owm.weights": 0}):
        model(x, memory)
    with rf.edit(model, {"other.weights[source=0]": 0}), rf.record(model=model) as trace:
        model(x, memory)
    assert not trace.attention["other"].raw_tensor[..., 0].any() and trace.attention["own"].raw_tensor.all()
    with pytest.raises(ValueError) as caught, rf.edit(model, {"weights": 0}):
        model(x, memory)
    assert str(caught.value).splitlines() == [
        'edit: "weights" may belong to several attentions.',
        "  module      the model, a Both",
        "  attentions  own, other",
        "They are named after the variables of their weights:",
        '    {"own.weights": ...}',
    ]


def test_weights_are_patched_in_from_a_recording_of_another_input():
    net, x, other = Net(Quotient).eval(), torch.randn(BATCH, TIME, WIDTH), torch.randn(BATCH, TIME, WIDTH)
    with torch.no_grad(), rf.record(model=net) as clean:
        net(other)
    net.blocks[1].change = lambda weights: clean.attention["blocks.1"].raw_tensor
    wanted = net(x)
    net.blocks[1].change = lambda weights: weights
    with rf.edit(net, {"blocks.1.weights": clean}):
        assert torch.equal(net(x), wanted)


def test_a_cache_that_is_given_is_grown_once():
    class Grows(Written):
        def forward(self, x, cache):
            q, k, v = self.parts(x)
            cache["k"].append(k)
            cache["v"].append(v)
            return self.merged((q @ torch.cat(cache["k"], 2).mT).softmax(-1) @ torch.cat(cache["v"], 2))

    model, x, cache = Grows(), torch.randn(BATCH, TIME, WIDTH), {"k": [], "v": []}
    with rf.edit(model, {"weights[head=0]": 0}), rf.record(model=model) as trace:
        model(x, cache), model(x[:, :1], cache)
    assert [len(each) for each in cache.values()] == [2, 2] and model.calls == 2
    assert [event.values["weights"].raw_tensor.shape[-1] for event in trace.select("attention")] == [TIME, TIME + 1]


class Router(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate, self.experts = nn.Linear(WIDTH, 2), nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(2))

    def forward(self, x):
        gate = self.gate(x).softmax(-1)
        return (torch.stack([expert(x) for expert in self.experts], -1) * gate[..., None, :]).sum(-1)


class Lookup(nn.Module):
    def __init__(self):
        super().__init__()
        self.score, self.table = nn.Linear(WIDTH, 7), nn.Parameter(torch.randn(7, WIDTH))

    def forward(self, x):
        return self.score(x).softmax(-1) @ self.table


class Entropy(nn.Module):
    def forward(self, x):
        probabilities = x.softmax(-1)
        return -(probabilities * probabilities.log()).sum(-1)


@pytest.mark.parametrize("kind", [Router, Lookup, Entropy])
def test_a_softmax_that_is_no_attention_is_not_edited_and_that_is_said(kind):
    model, x = kind(), torch.randn(BATCH, TIME, WIDTH)
    with pytest.raises(ValueError, match="no weights were computed"), rf.edit(model, {"weights": 0}):
        model(x)
    assert not [event for event in recorded(model, x).events if event.kind == "attention"]


def recorded(model, x):
    with rf.record(model=model) as trace:
        model(x)
    return trace
