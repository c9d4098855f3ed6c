"""An attention that ran and of which nothing was offered is one sentence: a warning, an event and a line of the view."""

from __future__ import annotations

import warnings

import pytest
import torch
from torch import nn

import rfnb as rf
from rfnb.viz.show import view_of


class LinearAttention(nn.Module):
    """Has no map: keys and values are summed up first."""

    def __init__(self, width=8):
        super().__init__()
        self.width, self.qkv = width, nn.Linear(width, 3 * width)

    def forward(self, x):
        q, k, v = self.qkv(x).relu().chunk(3, -1)
        return q @ (k.transpose(-2, -1) @ v)


class OfferedAttention(LinearAttention):
    def forward(self, x):
        q, k, _ = self.qkv(x).chunk(3, -1)
        weights = q @ k.transpose(-2, -1)
        rf.probe("attention", weights=weights, dims="batch target source", axis="source", target="target")
        return super().forward(x)


class AttentionBlock(nn.Module):
    """Calls attentions, and is one by its name."""

    def __init__(self, *attentions):
        super().__init__()
        self.attentions = nn.ModuleList(attentions)

    def forward(self, x):
        for attention in self.attentions:
            out = attention(x, x, x) if isinstance(attention, nn.MultiheadAttention) else attention(x)
            x = out[0] if isinstance(out, tuple) else out
        return x


def recorded(model, **options):
    with warnings.catch_warnings(record=True) as caught, rf.record(model=model, **options) as trace:
        warnings.simplefilter("always")
        model(torch.randn(2, 5, 8))
    return trace, [str(each.message) for each in caught]


@pytest.mark.parametrize("options", [{}, {"kinds": "attention"}, {"path": "0*"}])
def test_attention_without_a_map_is_one_sentence(options, tmp_path):
    trace, said = recorded(nn.Sequential(LinearAttention(), LinearAttention()), **options)
    (sentence,) = said
    assert "0, a LinearAttention" in sentence and "calls no softmax" in sentence and "rf.probe(" in sentence
    assert [event.path for event in trace.select(kind="unseen")] == ["0"] and not trace.attention
    trace.save(tmp_path / "run.rfnb")
    for one in (trace, rf.load_trace(tmp_path / "run.rfnb")):
        assert "Not seen: 0, a LinearAttention: it calls no softmax" in view_of(one).text().replace("\n", " ")
    assert "Not seen" not in view_of(trace, kinds="states").text()


def test_the_attentions_around_it_are_named_with_it():
    _, (sentence,) = recorded(AttentionBlock(LinearAttention()))
    assert "attentions.0, a LinearAttention in a AttentionBlock" in sentence


def test_beside_an_attention_that_is_seen_it_is_named_all_the_same():
    trace, (sentence,) = recorded(AttentionBlock(nn.MultiheadAttention(8, 2, batch_first=True), LinearAttention()))
    assert "attentions.1, a LinearAttention\n" in sentence and list(trace.attention) == ["attentions.0"]


@pytest.mark.parametrize(
    "attention", [OfferedAttention(), AttentionBlock(nn.MultiheadAttention(8, 2, batch_first=True))]
)
def test_what_offers_is_not_named(attention):
    trace, said = recorded(attention)
    assert not said and len(trace.attention) == 1


def test_who_does_not_record_attention_hears_nothing_of_it():
    trace, said = recorded(LinearAttention(), kinds="states")
    assert not said and not trace.select(kind="unseen")


class ScoringAttention(nn.Module):
    """Gives scores, of which its caller makes weights."""

    def __init__(self):
        super().__init__()
        self.left, self.right, self.score = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 1)

    def forward(self, query, keys):
        return self.score(torch.tanh(self.left(query)[:, None] + self.right(keys)))[..., 0]


class Scored(nn.Module):
    def __init__(self, read):
        super().__init__()
        self.scores, self.read = ScoringAttention(), read

    def forward(self, x):
        scores = self.scores(x[:, 0], x)
        return (scores.softmax(-1) @ x[:, 0].new_ones(5, 1)) if not self.read else (scores.softmax(-1)[:, None] @ x)


def test_scores_that_become_attention_elsewhere_are_not_named_and_others_are():
    trace, said = recorded(Scored(read=True))
    assert not said and list(trace.attention) == [""]
    trace, (sentence,) = recorded(Scored(read=False))
    assert "scores, a ScoringAttention" in sentence and not trace.attention


class PointerScoresAttention(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.query, self.key, self.score = nn.Linear(width, width), nn.Linear(width, width), nn.Linear(width, 1)

    def forward(self, state, memory):
        return self.score(torch.tanh(self.key(memory) + self.query(state)[:, None]))[..., 0]


class Pointer(nn.Module):
    """Points at a position: its scores become log probabilities, and no values are summed."""

    def __init__(self):
        super().__init__()
        self.pointer = PointerScoresAttention()

    def forward(self, memory):
        return torch.log_softmax(self.pointer(memory[:, 0], memory), -1)


class SteppedLinearAttention(LinearAttention):
    """The same one position after the other: what it sums up is a state."""

    def forward(self, x):
        q, k, v = self.qkv(x).relu().chunk(3, -1)
        memory, out = torch.zeros(len(x), self.width, self.width), []
        for t in range(x.shape[1]):
            memory = memory * 0.9 + k[:, t, :, None] * v[:, t, None]
            out.append((q[:, t, None] @ memory)[:, 0])
        return torch.stack(out, 1)


@pytest.mark.parametrize("model", [Pointer(), SteppedLinearAttention()], ids=["pointer", "steps"])
def test_scores_of_outputs_and_an_attention_that_is_a_recurrence_are_not_silent(model):
    with warnings.catch_warnings(), rf.record(model=model) as trace:
        warnings.simplefilter("error")
        model(torch.randn(2, 5, 8))
    assert not trace.select(kind="unseen")
    assert len(trace.select(kind="states")) == 5 * isinstance(model, SteppedLinearAttention)
