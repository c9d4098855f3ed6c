"""A torch module is seen into while a recording is open, and is what it was afterwards."""

from __future__ import annotations

import gc
import weakref

import pytest
import torch
from torch.nn import functional as F

import rfnb as rf


class SelfAttention(torch.nn.Module):
    """Tokens, one attention with two heads."""

    def __init__(self, tokens: int = 11, width: int = 8):
        super().__init__()
        self.embedding = torch.nn.Embedding(tokens, width)
        self.query, self.key = torch.nn.Linear(width, width), torch.nn.Linear(width, width)

    def forward(self, ids):
        hidden = self.embedding(ids)
        query, key = (layer(hidden).unflatten(-1, (2, -1)).transpose(1, 2) for layer in (self.query, self.key))
        return F.scaled_dot_product_attention(query, key, key, is_causal=True)


@pytest.fixture
def model():
    torch.manual_seed(1)
    return SelfAttention()


def test_weights_are_those_of_the_formula(model):
    ids = torch.randint(0, 11, (3, 5))
    with rf.record(model=model) as trace:
        model(ids)
    hidden = model.embedding(ids)
    query, key = (layer(hidden).unflatten(-1, (2, -1)).transpose(1, 2) for layer in (model.query, model.key))
    scores = torch.einsum("bhtd,bhsd->bhts", query, key) / 2.0
    expected = scores.masked_fill(torch.ones(5, 5).triu(1) > 0, -torch.inf).softmax(-1)
    weights = trace.by_path("attention")[""][0].values["weights"]
    torch.testing.assert_close(weights.raw_tensor, expected)


def test_nothing_changes_and_nothing_stays(model):
    ids = torch.randint(0, 11, (3, 5))
    plain, state, function = model(ids), torch.get_rng_state(), F.scaled_dot_product_attention
    names = list(model.state_dict())
    with rf.record(model=model), pytest.raises(IndexError):
        torch.testing.assert_close(model(ids), plain, rtol=0, atol=0)
        assert torch.equal(torch.get_rng_state(), state) and list(model.state_dict()) == names
        model(ids + 11)  # no such token
    assert F.scaled_dot_product_attention is function
    assert not any("forward" in vars(module) for module in model.modules())


def test_two_recordings_of_a_model_end_in_any_order(model):
    first, second = rf.record(model=model), rf.record(model=model)
    ids = torch.randint(0, 11, (3, 5))
    one = first.__enter__()
    two = second.__enter__()
    model(ids)
    first.__exit__(None, None, None)
    model(ids)
    second.__exit__(None, None, None)
    assert (one.counts()["attention"], two.counts()["attention"]) == (1, 2)
    assert not any("forward" in vars(module) for module in model.modules())


def test_what_a_call_got_is_free_when_it_has_returned(model):
    ids = torch.randint(11, (2, 5))
    with rf.record(model=model, kinds="attention"), torch.no_grad():
        gc.collect()
        gc.disable()
        try:
            model(ids)
            held = weakref.ref(ids)
            del ids
            assert held() is None
        finally:
            gc.enable()


def test_weights_that_are_there_only_while_they_are_used_are_no_matter():
    class Attends(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.query, self.value = torch.nn.Linear(8, 8), torch.nn.Linear(8, 8)

        def forward(self, x):
            return torch.softmax(self.query(x) @ x.mT, dim=-1) @ self.value(x)

    def offload(module):
        """As accelerate does it: forward of the instance is another one, which brings the weights and takes them away."""
        forward, kept = module.forward, {name: each.detach() for name, each in module.named_parameters()}

        def take_away():
            for name, each in kept.items():
                module._parameters[name] = torch.nn.Parameter(each.to("meta"), requires_grad=False)

        def brings(*args):
            for name, each in kept.items():
                module._parameters[name] = torch.nn.Parameter(each, requires_grad=False)
            try:
                return forward(*args)
            finally:
                take_away()

        take_away()
        module.forward = brings

    torch.manual_seed(1)
    model, x = Attends(), torch.randn(2, 5, 8)
    wanted = torch.softmax(model.query(x) @ x.mT, dim=-1).detach()
    plain = model(x)
    for part in (model.query, model.value):
        offload(part)
    assert model.query.weight.is_meta
    with rf.record(model=model) as trace:
        assert torch.equal(model(x), plain)
    assert torch.equal(trace.attention[""].raw_tensor, wanted) and model.query.weight.is_meta
    with rf.edit(model, {"weights": lambda weights: 2 * weights}):
        assert torch.allclose(model(x), 2 * plain, atol=1e-6)
    assert torch.equal(model(x), plain)
