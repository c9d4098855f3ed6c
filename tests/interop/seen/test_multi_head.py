"""Attention of torch.nn: the recorded weights are those that the module uses, and recording changes nothing."""

from __future__ import annotations

import gc
import itertools

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

import rfnb as rf

BATCH, TARGETS, SOURCES, WIDTH, HEADS = 3, 5, 7, 8, 2


def recorded(model, *args, **kwargs):
    with rf.record(model=model, kinds="attention") as trace:
        result = model(*args, **kwargs)
    assert trace.counts() == {"attention": 1}  # the parts of an attention offer nothing by themselves
    return result, trace


def weights_of(trace, path="", run=0):
    return trace.attention[path, run]


def masks(name, targets=TARGETS, sources=SOURCES):
    ahead = torch.ones(targets, sources).triu(1) > 0
    pad = torch.arange(sources)[None] >= torch.tensor([sources, 4, 3])[:, None]
    torch.manual_seed(5)
    each = (torch.rand(BATCH * HEADS, targets, sources) < 0.3) & (torch.arange(sources) > 0)
    return {
        "none": {},
        "bool": {"attn_mask": ahead},
        "float": {"attn_mask": torch.randn(targets, sources).masked_fill(ahead, -torch.inf)},
        "each": {"attn_mask": each},
        "padding": {"key_padding_mask": pad},
        "both": {"attn_mask": ahead, "key_padding_mask": pad},
    }[name]


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(3)


FORMS = {
    "plain": {},
    "kdim": {"kdim": 6, "vdim": 4},
    "bias_kv": {"add_bias_kv": True},
    "zero": {"add_zero_attn": True},
    "all": {"add_bias_kv": True, "add_zero_attn": True, "bias": False},
}


@pytest.mark.parametrize("mask", ["none", "bool", "float", "each", "padding", "both"])
@pytest.mark.parametrize("form", list(FORMS))
@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("asked", [True, False])
def test_weights_are_those_that_multi_head_attention_returns(form, mask, batch_first, asked):
    model = nn.MultiheadAttention(WIDTH, HEADS, batch_first=batch_first, **FORMS[form])
    query, key, value = (
        torch.randn(BATCH, size, width)
        for size, width in (
            (TARGETS, WIDTH),
            (SOURCES, FORMS[form].get("kdim", WIDTH)),
            (SOURCES, FORMS[form].get("vdim", WIDTH)),
        )
    )
    given = [raw if batch_first else raw.transpose(0, 1) for raw in (query, key, value)]
    _, expected = model(*given, average_attn_weights=False, **masks(mask))
    _, trace = recorded(model, *given, need_weights=asked, **masks(mask))
    weights = weights_of(trace)
    assert [dim.name for dim in weights.dims] == ["batch", "head", "target", "source"]
    torch.testing.assert_close(weights.raw_tensor, expected.detach())


@pytest.mark.parametrize("asked", [True, False])
def test_an_unbatched_call_has_no_batch(asked):
    model = nn.MultiheadAttention(WIDTH, HEADS)
    query, key = torch.randn(TARGETS, WIDTH), torch.randn(SOURCES, WIDTH)
    _, expected = model(query, key, key, average_attn_weights=False)
    weights = weights_of(recorded(model, query, key, key, need_weights=asked)[1])
    assert [dim.name for dim in weights.dims] == ["head", "target", "source"]
    torch.testing.assert_close(weights.raw_tensor, expected.detach())


def test_the_source_of_self_attention_is_a_twin_and_of_equally_long_others_is_not():
    model = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)
    one, other = torch.randn(2, BATCH, TARGETS, WIDTH).unbind()
    target, source = weights_of(recorded(model, one, one, one, need_weights=False)[1]).dims[-2:]
    assert source.twin_of is target
    target, source = weights_of(recorded(model, one, other, other, need_weights=False)[1]).dims[-2:]
    assert source.twin_of is None and source is not target and source.name == "source"


def test_the_mask_says_what_may_be_seen():
    model = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)
    query, key = torch.randn(BATCH, TARGETS, WIDTH), torch.randn(BATCH, SOURCES, WIDTH)
    for asked in (True, False):
        event = recorded(model, query, key, key, need_weights=asked, **masks("both"))[1].events[0]
        mask = event.values["mask"].copy_compatible_to(event.values["weights"], check_dtype=False, unbroadcast=True)
        given = masks("both")
        hidden = given["attn_mask"][None, None] | given["key_padding_mask"][:, None, None]
        assert torch.equal(~mask.raw_tensor, hidden.expand(BATCH, HEADS, TARGETS, SOURCES))
        assert not event.values["causal"]


@pytest.mark.parametrize("asked", [True, False])
@pytest.mark.parametrize("hint", [True, False])
def test_a_causal_mask_of_self_attention_is_called_so(asked, hint):
    model = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)
    x = torch.randn(BATCH, TARGETS, WIDTH)
    ahead = nn.Transformer.generate_square_subsequent_mask(TARGETS)
    _, trace = recorded(model, x, x, x, need_weights=asked, attn_mask=ahead, is_causal=hint)
    values = trace.events[0].values
    assert values["causal"] and "mask" not in values
    _, expected = model(x, x, x, attn_mask=ahead, average_attn_weights=False)
    torch.testing.assert_close(weights_of(trace).raw_tensor, expected.detach())


def test_weights_are_those_before_dropout_and_training_is_the_same():
    model = nn.MultiheadAttention(WIDTH, HEADS, dropout=0.5, batch_first=True)
    query, key = torch.randn(BATCH, TARGETS, WIDTH), torch.randn(BATCH, SOURCES, WIDTH)
    _, expected = model.eval()(query, key, key, average_attn_weights=False)
    model.train()
    for asked in (True, False):
        plain = _trained(model, lambda asked=asked: model(query, key, key, need_weights=asked)[0])
        with rf.record(model=model) as trace:
            again = _trained(model, lambda asked=asked: model(query, key, key, need_weights=asked)[0])
        assert all(torch.equal(one, other) for one, other in zip(plain, again, strict=True))
        torch.testing.assert_close(weights_of(trace).raw_tensor, expected.detach())


def _trained(model, forward):
    """The output, the gradients and the state of the random generator."""
    torch.manual_seed(7)
    model.zero_grad()
    out = forward()
    out.square().sum().backward()
    return [out.detach(), *(p.grad.clone() for p in model.parameters()), torch.get_rng_state()]


def test_a_function_in_a_module_of_ones_own_is_seen():
    inner = nn.MultiheadAttention(WIDTH, HEADS)

    class Own(nn.Module):
        def forward(self, x, y, asked):
            return F.multi_head_attention_forward(
                x, y, y, WIDTH, HEADS, inner.in_proj_weight, inner.in_proj_bias, None, None, False, 0.0,
                inner.out_proj.weight, inner.out_proj.bias, need_weights=asked, average_attn_weights=False,
            )  # fmt: skip

    x, y = torch.randn(TARGETS, BATCH, WIDTH), torch.randn(SOURCES, BATCH, WIDTH)
    for asked in (True, False):
        _, trace = recorded(Own(), x, y, asked)
        torch.testing.assert_close(weights_of(trace).raw_tensor, inner(x, y, y, average_attn_weights=False)[1].detach())


# -- nn.Transformer and its parts ------------------------------------------------------------------------------------------


def expected_weights(layer, hidden, context, mask=None, pad=None):
    """{batch, head, target, source} with NumPy, from the parameters of nn.MultiheadAttention."""
    weight, bias = layer.in_proj_weight.detach().numpy(), layer.in_proj_bias.detach().numpy()
    width = hidden.shape[-1]
    query = hidden @ weight[:width].T + bias[:width]
    key = context @ weight[width : 2 * width].T + bias[width : 2 * width]
    split = lambda raw: raw.reshape(*raw.shape[:2], HEADS, -1).transpose(0, 2, 1, 3)  # noqa: E731
    scores = np.einsum("bhtd,bhsd->bhts", split(query), split(key)) / np.sqrt(width // HEADS)
    if mask is not None:
        scores = np.where(mask, -np.inf, scores)
    if pad is not None:
        scores = np.where(pad[:, None, None], -np.inf, scores)
    scores = np.exp(scores - scores.max(-1, keepdims=True))
    return scores / scores.sum(-1, keepdims=True)


@pytest.mark.parametrize("norm_first", [True, False])
@pytest.mark.parametrize("mask", ["none", "bool", "padding", "both"])
@pytest.mark.parametrize("fast", [True, False])
def test_encoder_layers_are_the_same_on_their_fast_path(norm_first, mask, fast, monkeypatch):
    layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 16, batch_first=True, norm_first=norm_first).eval()
    x = torch.randn(BATCH, SOURCES, WIDTH)
    given = {{"attn_mask": "src_mask"}.get(k, "src_" + k): v for k, v in masks(mask, SOURCES).items()}
    calls = _counted(monkeypatch, "_transformer_encoder_layer_fwd")
    with torch.set_grad_enabled(not fast):
        plain = layer(x, **given)
        taken = len(calls)
        result, trace = recorded(layer, x, **given)
    assert (taken, len(calls)) == ((1, 2) if fast else (0, 0))
    assert torch.equal(result, plain)
    hidden = (layer.norm1(x) if norm_first else x).detach().numpy()
    both = {name: value.numpy() for name, value in masks(mask, SOURCES).items()}
    expected = expected_weights(layer.self_attn, hidden, hidden, both.get("attn_mask"), both.get("key_padding_mask"))
    np.testing.assert_allclose(trace.attention["self_attn"].raw_tensor.numpy(), expected, atol=1e-5)


def _counted(monkeypatch, name):
    calls, function = [], getattr(torch, name)
    monkeypatch.setattr(torch, name, lambda *args, **kwargs: calls.append(1) or function(*args, **kwargs))
    return calls


def test_an_encoder_that_makes_nested_tensors_does_so_and_is_seen(monkeypatch):
    layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 16, batch_first=True)
    model = nn.TransformerEncoder(layer, 2, enable_nested_tensor=True).eval()
    x, pad = torch.randn(BATCH, SOURCES, WIDTH), masks("padding")["key_padding_mask"]
    calls = _counted(monkeypatch, "_transformer_encoder_layer_fwd")
    with torch.no_grad():
        plain = model(x, src_key_padding_mask=pad)
        with rf.record(model=model, kinds="attention") as trace:
            result = model(x, src_key_padding_mask=pad)
        with rf.record(model=model, kinds="attention") as slow, torch.enable_grad():
            model(x, src_key_padding_mask=pad)
    assert torch.equal(result, plain) and len(calls) == 4
    assert list(trace.attention) == list(slow.attention) == ["layers.0.self_attn", "layers.1.self_attn"]
    for path, weights in trace.attention.items():
        real = (~pad)[:, None, :, None]  # rows of padding are computed on the slow path only
        torch.testing.assert_close(weights.raw_tensor, slow.attention[path].raw_tensor * real, atol=1e-5, rtol=1e-4)
    first, second = (weights.dims for weights in trace.attention.values())
    assert (first[0], *first[2:]) == (second[0], *second[2:])


def test_nested_tensors_of_the_caller_have_lengths(monkeypatch):
    layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 16, batch_first=True).eval()
    parts = [torch.randn(size, WIDTH) for size in (7, 4, 2)]
    calls = _counted(monkeypatch, "_transformer_encoder_layer_fwd")
    with torch.no_grad():
        _, trace = recorded(layer, torch.nested.nested_tensor(parts))
    assert calls
    weights = trace.attention["self_attn"]
    assert weights.dims[2].lengths.tolist() == [7, 4, 2] and weights.dims[3].twin_of is weights.dims[2]
    for index, part in enumerate(parts):
        own = part[None].numpy()
        expected = expected_weights(layer.self_attn, own, own)[0]
        found = weights.raw_tensor[index, :, : len(part), : len(part)]
        np.testing.assert_allclose(found.numpy(), expected, atol=1e-5)


def test_the_fast_path_of_attention_alone_is_taken_and_seen(monkeypatch):
    model = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True).eval()
    x = torch.randn(BATCH, SOURCES, WIDTH)
    calls = _counted(monkeypatch, "_native_multi_head_attention")
    for asked, name in itertools.product((True, False), ("none", "bool", "padding", "both")):
        given = masks(name, SOURCES)
        with torch.no_grad():
            plain, _ = model(x, x, x, need_weights=asked, **given)
            calls.clear()
            (result, _), trace = recorded(model, x, x, x, need_weights=asked, **given)
        assert calls and torch.equal(result, plain)
        _, expected = model(x, x, x, average_attn_weights=False, **given)
        torch.testing.assert_close(weights_of(trace).raw_tensor, expected.detach(), atol=1e-5, rtol=1e-4)


def test_parameters_that_change_afterwards_are_not_looked_at():
    layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 16, batch_first=True, norm_first=True).eval()
    x = torch.randn(BATCH, SOURCES, WIDTH)
    with torch.no_grad():
        _, first = recorded(layer, x)
        expected = weights_of(recorded(layer, x)[1], "self_attn").raw_tensor
        for parameter in layer.parameters():
            parameter.data.mul_(2)  # as an old training loop does: torch counts no version of it
        _, second = recorded(layer, x)
    assert torch.equal(weights_of(first, "self_attn").raw_tensor, expected)
    assert not torch.allclose(weights_of(second, "self_attn").raw_tensor, expected)


def test_copies_of_parameters_go_with_the_trace():
    def copies():
        gc.collect()
        return sum(type(each) is torch.Tensor and each.shape == (52, 26) for each in gc.get_objects())

    layer = nn.TransformerEncoderLayer(26, 2, 16, batch_first=True).eval()
    with torch.no_grad():
        _, trace = recorded(layer, torch.randn(BATCH, SOURCES, 26))
        _, other = recorded(layer, torch.randn(BATCH, SOURCES, 26))
    assert copies() == 1
    del trace, other
    assert copies() == 0


def test_transformer_has_three_kinds_of_attention():
    model = nn.Transformer(WIDTH, HEADS, 1, 1, 16, batch_first=True).eval()
    for targets in (TARGETS, SOURCES):  # then equally long
        src, tgt = torch.randn(BATCH, SOURCES, WIDTH), torch.randn(BATCH, targets, WIDTH)
        with rf.record(model=model, kinds="attention") as trace:
            plain = model(src, tgt)
        assert torch.equal(plain, model(src, tgt))
        encoder, own, cross = (
            trace.attention[path]
            for path in ("encoder.layers.0.self_attn", "decoder.layers.0.self_attn", "decoder.layers.0.multihead_attn")
        )
        assert cross.dims[-1] is encoder.dims[-2] and encoder.dims[-1].twin_of is encoder.dims[-2]
        assert cross.dims[-2] is own.dims[-2] and own.dims[-1].twin_of is own.dims[-2]
        assert own.dims[-2] is not encoder.dims[-2] and own.dims[0] is encoder.dims[0]


@pytest.mark.parametrize("heads", [1, 2])
@pytest.mark.parametrize("need_weights", [False, True])
def test_weights_that_are_made_at_once_are_no_further_event(heads, need_weights):
    """With few positions and many features the weights are less than queries and keys: they are kept instead."""
    torch.manual_seed(1)
    attention, x, y = (
        torch.nn.MultiheadAttention(48, heads, batch_first=True),
        torch.randn(1, 8, 48),
        torch.randn(1, 8, 48),
    )
    with torch.no_grad(), rf.record(model=attention) as trace:
        attention(x, y, y, need_weights=need_weights)
    wanted = attention(x, y, y, average_attn_weights=False)[1]
    assert trace.counts()["attention"] == 1
    torch.testing.assert_close(trace.attention[""].raw_tensor, wanted.detach())
