"""Attention that a module writes out itself is seen by its softmax, at the path of the attention; other softmaxes are not."""

from __future__ import annotations

import math
from contextlib import nullcontext

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import rfnb as rf
from rfnb.interop.seen.written_attention import says_attention

BATCH, TARGETS, SOURCES, WIDTH, HEADS, VOCAB = 3, 5, 7, 8, 2, 11
WAYS = [lambda x: F.softmax(x, dim=-1), lambda x: torch.softmax(x, -1), lambda x: x.softmax(-1), nn.Softmax(dim=-1)]


class SelfAttention(nn.Module):
    """As in small models of language: heads split, masked, softmax."""

    def __init__(self, way):
        super().__init__()
        self.n_head, self.projection, self.way = HEADS, nn.Linear(WIDTH, 3 * WIDTH), way

    def forward(self, x):
        q, k, v = (part.unflatten(-1, (HEADS, -1)).transpose(1, 2) for part in self.projection(x).chunk(3, -1))
        scores = q @ k.transpose(-2, -1) / math.sqrt(k.shape[-1])
        self.weights = self.way(scores.masked_fill(torch.ones(x.shape[1], x.shape[1]).triu(1) > 0, -math.inf))
        return (self.weights @ v).transpose(1, 2).flatten(2)


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(2)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("length", [SOURCES, BATCH, HEADS])
def test_each_way_to_write_it_is_one_event(way, length):
    model = nn.Sequential(SelfAttention(way))
    with rf.record(model=model, kinds="attention") as trace:
        model(torch.randn(BATCH, length, WIDTH))
    (event,) = trace.events
    weights = trace.attention["0"]
    assert torch.equal(weights.raw_tensor, model[0].weights) and not weights.raw_tensor.requires_grad
    assert event.path == "0" and weights.dims[3].twin_of is weights.dims[2] and weights.dims[1].name == "head"


class BahdanauAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.Wa, self.Ua, self.Va = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 1)

    def forward(self, query, keys):
        scores = self.Va(torch.tanh(self.Wa(query) + self.Ua(keys)))
        weights = F.softmax(scores.squeeze(2).unsqueeze(1), dim=-1)
        return torch.bmm(weights, keys), weights


class AttnDecoder(nn.Module):
    """Runs in a loop, attends in each step, ends with a softmax over its labels."""

    def __init__(self):
        super().__init__()
        self.attention, self.gru, self.out = (
            BahdanauAttention(),
            nn.GRU(2 * WIDTH, WIDTH, batch_first=True),
            nn.Linear(WIDTH, VOCAB),
        )

    def forward(self, encoder_outputs, hidden, steps):
        outputs, weights, step = [], [], torch.zeros(len(encoder_outputs), 1, WIDTH)
        for _ in range(steps):
            context, own = self.attention(hidden.permute(1, 0, 2), encoder_outputs)
            step, hidden = self.gru(torch.cat([step, context], -1), hidden)
            outputs.append(F.softmax(self.out(step), dim=-1))
            weights.append(own)
        return torch.cat(outputs, 1), torch.cat(weights, 1)


@pytest.mark.parametrize("steps", [TARGETS, SOURCES, BATCH])
def test_steps_of_a_decoder_are_stacked_and_its_outputs_are_no_attention(steps):
    model = AttnDecoder()
    with rf.record(model=model, kinds="attention") as trace:
        _, expected = model(torch.randn(BATCH, SOURCES, WIDTH), torch.zeros(1, BATCH, WIDTH), steps)
    weights = trace.attention["attention"]
    assert list(trace.attention) == ["attention"] and weights.dims[0].extent == steps
    assert torch.equal(weights.raw_tensor.transpose(0, 1), expected.detach())
    assert trace.attention.axis("attention").extent == SOURCES


class LuongAttn(nn.Module):
    """The sources are the first axis."""

    def forward(self, hidden, encoder_outputs):
        self.weights = F.softmax((hidden * encoder_outputs).sum(-1), dim=0)
        return self.weights


def test_the_softmax_says_which_axis_the_source_is():
    model = LuongAttn()
    with rf.record(model=model, kinds="attention") as trace:
        model(torch.randn(1, BATCH, WIDTH), torch.randn(SOURCES, BATCH, WIDTH))
    weights = trace.attention[""]
    assert torch.equal(weights.raw_tensor, model.weights.T)
    assert [dim.extent for dim in weights.dims] == [BATCH, SOURCES] and weights.dims[0].kind == "batch"


class Banned(nn.Module):
    """Attention that changes its weights in place after it has multiplied with them."""

    def forward(self, x):
        weights = (x @ x.transpose(1, 2)).softmax(-1)
        self.weights, out = weights.clone(), weights @ x
        weights.masked_fill_(torch.eye(x.shape[1]) > 0, 0)
        return out


class BannedBefore(nn.Module):
    def forward(self, x):
        weights = (x @ x.transpose(1, 2)).softmax(-1).masked_fill_(torch.eye(x.shape[1]) > 0, 0)
        self.weights = weights.clone()
        return weights @ x


def test_weights_that_are_changed_before_they_are_used_are_those_that_were_used():
    model = BannedBefore()
    with rf.record(model=model) as trace, torch.no_grad():
        model(torch.randn(BATCH, SOURCES, WIDTH))
    assert torch.equal(trace.attention[""].raw_tensor, model.weights)


def test_weights_that_the_model_changes_in_place_later_are_refused():
    model = nn.ModuleDict({"attention": Banned()})
    with rf.record(model=model) as trace, torch.no_grad():
        model["attention"](torch.randn(BATCH, SOURCES, WIDTH))
    with pytest.raises(RuntimeError) as error:
        trace.attention["attention"]
    assert str(error.value) == (
        "attention: the weights of this call have changed.\n"
        "  weights  (3, 7, 7), changed in place after the softmax\n"
        "The result of a softmax is recorded without a copy. Have the model create a new tensor instead of changing this one:\n"
        "    weights = weights.masked_fill(mask, 0)    # not masked_fill_"
    )


def test_weights_of_inference_mode_are_those_of_the_softmax():
    model = nn.ModuleDict({"attention": Banned()})
    with rf.record(model=model) as trace, torch.inference_mode():
        model["attention"](torch.randn(BATCH, SOURCES, WIDTH))
    assert torch.equal(trace.attention["attention"].raw_tensor, model["attention"].weights)


def test_nothing_changes_in_training():
    model, x = SelfAttention(WAYS[2]), torch.randn(BATCH, SOURCES, WIDTH)
    softmax = torch.Tensor.softmax

    def gradients():
        model.zero_grad()
        model(x).square().sum().backward()
        return [parameter.grad.clone() for parameter in model.parameters()]

    plain = gradients()
    with rf.record(model=model):
        again = gradients()
    assert all(torch.equal(*pair) for pair in zip(plain, again)) and torch.Tensor.softmax is softmax


def test_what_says_attention_and_what_does_not():
    assert all(
        map(
            says_attention, ["BahdanauAttention", "AttnDecoder", "self_att", "att", "decoder.attn.core", "MultiHeadAtt"]
        )
    )
    assert not any(map(says_attention, ["Pattern", "attribute", "Matter", "attach", "Mlp", "latt"]))


class Attention(nn.Module):
    """Calls what it is given, and says how many heads it has."""

    def __init__(self, scores, heads=None):
        super().__init__()
        self.scores = scores
        if heads is not None:
            self.num_heads = heads

    def forward(self, x):
        return self.scores.softmax(-1)


def names_of(model, *inputs):
    with rf.record(model=model, kinds="attention") as trace:
        result = model(*inputs)
    weights = trace.attention[""]
    sizes = {dim.name: dim.extent for dim in weights.dims[:-2]}
    return sizes, weights, result


@pytest.mark.parametrize("shape", [(BATCH, HEADS, 5, 4, 4), (BATCH, 5, HEADS, 4, 4), (BATCH * HEADS, 5, 4, 4)])
def test_blocks_are_told_from_heads_by_their_number(shape):
    sizes, weights, _ = names_of(Attention(torch.randn(shape), HEADS), torch.randn(BATCH, 20, WIDTH))
    assert sizes == {"batch": BATCH, "head": HEADS, "block": 5}
    assert [dim.extent for dim in weights.dims] == ([BATCH, HEADS, 5, 4, 4] if len(shape) == 4 else list(shape))


def test_of_several_axes_none_is_called_heads_where_the_module_does_not_say_how_many_there_are():
    _, weights, _ = names_of(Attention(torch.randn(BATCH, HEADS, 5, 4, 4)), torch.randn(BATCH, 20, WIDTH))
    assert [dim.name for dim in weights.dims[:3]] == ["batch", "block", "block"]


def test_targets_in_front_of_heads_are_told_by_the_inputs():
    scores = torch.randn(BATCH, SOURCES, HEADS, SOURCES)
    sizes, weights, result = names_of(Attention(scores), torch.randn(BATCH, SOURCES, WIDTH))
    assert sizes == {"batch": BATCH, "head": HEADS} and torch.equal(weights.raw_tensor, result.transpose(1, 2))


class CrossAttention(nn.Module):
    """Without an axis for heads, and with the positions in front of the batch."""

    def forward(self, x, memory):
        return torch.einsum("tbd,sbd->tbs", x, memory).softmax(-1)


def test_targets_in_front_of_the_batch_are_told_by_the_inputs():
    x, memory = torch.randn(TARGETS, BATCH, WIDTH), torch.randn(SOURCES, BATCH, WIDTH)
    _, weights, result = names_of(CrossAttention(), x, memory)
    assert torch.equal(weights.raw_tensor, result.transpose(0, 1)) and weights.dims[0].name == "batch"


class Described(torch.Tensor):
    """A subclass, for which torch hands calls on."""


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("handed_on", ["by a default device", "by a subclass"])
def test_a_call_that_torch_hands_on_is_seen_once(way, handed_on):
    model, x = SelfAttention(way), torch.randn(BATCH, SOURCES, WIDTH)
    x = x.as_subclass(Described) if handed_on == "by a subclass" else x
    with torch.device("cpu") if handed_on == "by a default device" else nullcontext(), rf.record(model=model) as trace:
        model(x)
    assert len([event for event in trace.events if event.kind == "attention"]) == 1


def test_an_attention_that_torch_hands_on_is_seen_once():
    model, x = nn.MultiheadAttention(6, 2, batch_first=True), torch.randn(2, 5, 6)
    with torch.device("cpu"), rf.record(model=model) as trace:
        model(x, x, x)
    assert len([event for event in trace.events if event.kind == "attention"]) == 1


class PoolingAttention(nn.Module):
    """One weight for each token of a sequence, of what it makes of the tokens itself."""

    def __init__(self):
        super().__init__()
        self.embedding, self.score = nn.Embedding(VOCAB, WIDTH), nn.Linear(WIDTH, 1)

    def forward(self, ids):
        x = self.embedding(ids)
        return (self.score(x).softmax(1) * x).sum(1)


class RowPoolingAttention(PoolingAttention):
    def forward(self, ids):
        x = self.embedding(ids)
        return (self.score(x).squeeze(-1).softmax(1)[..., None] * x).sum(1)


@pytest.mark.parametrize("kind", [PoolingAttention, RowPoolingAttention])
@pytest.mark.parametrize("sizes", [(BATCH, SOURCES), (BATCH, BATCH), (SOURCES, BATCH)])
def test_weights_of_tokens_have_a_row_for_each_sequence(kind, sizes):
    model = kind()
    with rf.record(model=model, kinds="attention") as trace:
        model(torch.randint(VOCAB, sizes))
    dims = [dim for dim in trace.attention[""].dims if dim.extent > 1]
    assert [(dim.kind == "batch", dim.extent) for dim in dims] == [(True, sizes[0]), (False, sizes[1])]
