"""Weights of `F.scaled_dot_product_attention`, of everything that it takes, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

import rfnb as rf
from rfnb.viz.trace_page import spec as view_of

BATCH, HEADS, TARGETS, SOURCES, WIDTH = 3, 4, 5, 7, 8


class SingleChange(nn.Module):
    """Calls the function with what it is given; x has positions, so that dims have something to come from."""

    def forward(self, query, key, **options):
        return F.scaled_dot_product_attention(query, key, key, **options)


def recorded(query, key, **options):
    torch.manual_seed(1)
    plain = SingleChange()(query, key, **options)
    torch.manual_seed(1)
    with rf.record(model=SingleChange(), kinds="attention"):
        pass
    model = SingleChange()
    with rf.record(model=model) as trace:
        result = model(query, key, **options)
    if not plain.is_nested:
        assert torch.equal(plain, result)
    (event,) = trace.select("attention")
    return event.values


def by_numpy(query, key, allowed=None, added=None, scale=None):
    query, key = query.double().numpy(), key.double().numpy()
    key = np.repeat(key, query.shape[-3] // key.shape[-3], -3) if query.ndim > 2 else key
    scores = query @ key.swapaxes(-1, -2) * (scale if scale is not None else query.shape[-1] ** -0.5)
    scores = scores + (0 if added is None else added)
    scores = scores if allowed is None else np.where(allowed, scores, -np.inf)
    top = np.exp(scores - np.where(np.isinf(scores.max(-1, keepdims=True)), 0, scores.max(-1, keepdims=True)))
    return top / np.maximum(top.sum(-1, keepdims=True), 1e-300)


def close(values, expected, atol=1e-6):
    np.testing.assert_allclose(values["weights"].raw_tensor.float().numpy(), expected, atol=atol)


@pytest.fixture
def pair():
    torch.manual_seed(4)
    return torch.randn(BATCH, HEADS, TARGETS, WIDTH), torch.randn(BATCH, HEADS, SOURCES, WIDTH)


@pytest.mark.parametrize(
    "shape", [(TARGETS, SOURCES), (BATCH, 1, 1, SOURCES), (1, HEADS, TARGETS, SOURCES), (BATCH, 1, TARGETS, 1)]
)
def test_masks_broadcast(pair, shape):
    allowed = torch.rand(shape) < 0.6
    values = recorded(*pair, attn_mask=allowed)
    close(values, by_numpy(*pair, allowed=allowed.numpy()))
    mask = values["mask"].copy_compatible_to(values["weights"], check_dtype=False, unbroadcast=True).raw_tensor
    assert torch.equal(mask, allowed.expand(mask.shape))


def test_a_mask_of_floats_is_added_and_hides_where_it_is_minus_infinity(pair):
    added = torch.randn(HEADS, TARGETS, SOURCES).masked_fill(torch.arange(SOURCES) > 5, -torch.inf)
    values = recorded(*pair, attn_mask=added)
    close(values, by_numpy(*pair, added=added.numpy()))
    assert torch.equal(values["mask"].raw_tensor, ~added.isneginf())


def test_a_row_that_may_see_nothing_has_no_weight(pair):
    allowed = torch.arange(TARGETS)[:, None].expand(TARGETS, SOURCES) > 1
    close(recorded(*pair, attn_mask=allowed), by_numpy(*pair, allowed=allowed.numpy()))


def test_a_causal_mask_begins_at_the_first_source(pair):
    values = recorded(*pair, is_causal=True)
    allowed = np.tril(np.ones((TARGETS, SOURCES), bool))
    close(values, by_numpy(*pair, allowed=allowed))
    assert not values["causal"] and np.array_equal(values["mask"].raw_tensor.numpy(), allowed)


def test_scale_dropout_and_shared_heads(pair):
    query, key = pair
    close(recorded(query, key, scale=0.7, dropout_p=0.5), by_numpy(query, key, scale=0.7))
    key = key[:, :2]
    close(recorded(query, key, enable_gqa=True), by_numpy(query, key))


@pytest.mark.parametrize("shape", [(BATCH, 1, TARGETS, WIDTH), (TARGETS, WIDTH)])
def test_one_query_for_all_heads_broadcasts(pair, shape):
    query = torch.randn(shape)
    close(recorded(query, pair[1]), by_numpy(query.expand(BATCH, HEADS, TARGETS, WIDTH), pair[1]))


@pytest.mark.parametrize("front", [(BATCH, HEADS, 2), (BATCH, 2, HEADS)])
def test_blocks_are_told_from_heads_by_their_number(front):
    class Attention(SingleChange):
        num_heads = HEADS

    query, key = torch.randn(*front, TARGETS, WIDTH), torch.randn(*front, SOURCES, WIDTH)
    with rf.record(model=(model := Attention())) as trace:
        model(query, key)
    weights = trace.attention[""]
    assert {dim.name: dim.extent for dim in weights.dims[:3]} == {"batch": BATCH, "head": HEADS, "block": 2}
    close(trace.events[0].values, by_numpy(query, key))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_half_and_double_precision(pair, dtype):
    query, key = (raw.to(dtype) for raw in pair)
    values = recorded(query, key)
    close(values, by_numpy(query, key))
    assert values["weights"].dtype == ("float64" if dtype is torch.float64 else "float32")


@pytest.mark.parametrize("layout", [torch.jagged, torch.strided])
def test_nested_tensors(layout):
    torch.manual_seed(4)
    sizes, others = (5, 2, 4), (3, 7, 6)
    query, key = ([torch.randn(size, HEADS, WIDTH) for size in own] for own in (sizes, others))
    if layout is torch.jagged:
        nested = [torch.nested.nested_tensor(parts, layout=layout).transpose(1, 2) for parts in (query, key)]
    else:  # heads in front: it has to be contiguous
        nested = [torch.nested.nested_tensor([part.transpose(0, 1) for part in parts]) for parts in (query, key)]
    with torch.no_grad():
        weights = recorded(*nested)["weights"]
    assert weights.dims[2].lengths.tolist() == list(sizes) and weights.dims[3].lengths.tolist() == list(others)
    for index, (one, other) in enumerate(zip(query, key)):
        expected = by_numpy(one.transpose(0, 1), other.transpose(0, 1))
        found = weights.raw_tensor[index, :, : sizes[index], : others[index]]
        np.testing.assert_allclose(found.numpy(), expected, atol=1e-6)


def test_keys_in_a_buffer_that_is_written_to_are_those_of_the_call():
    buffer, query = torch.zeros(1, HEADS, SOURCES, WIDTH), torch.randn(1, HEADS, SOURCES, WIDTH)
    model = SingleChange()
    with rf.record(model=model) as trace:
        buffer[:, :, :4] = torch.randn(1, HEADS, 4, WIDTH)
        expected = by_numpy(query, buffer)
        model(query, buffer)
        buffer[:, :, 4:] = 1
    close(trace.events[0].values, expected)


def test_what_is_changed_in_place_later_is_refused(pair):
    query, key = (raw.clone() for raw in pair)
    with rf.record(model=(model := SingleChange())) as trace:
        model(query, key)
    query.mul_(2)
    with pytest.raises(RuntimeError) as error:
        trace.attention[""]
    assert str(error.value) == (
        "attention: the queries of this call have changed.\n"
        "  queries  (3, 4, 5, 8), changed in place after the call\n"
        "Weights are computed from queries and keys on first access. Access them before the model changes them:\n"
        "    trace.attention[path]    # inside of `with rf.record(...)`, after the call"
    )
    (part,) = view_of(trace).head["parts"]
    assert part["head"]["fault"] == str(error.value)


def test_a_step_with_a_cache_keeps_its_weights_and_not_the_cache():
    query, key = torch.randn(1, HEADS, 1, 64), torch.randn(1, HEADS, 1000, 64)
    with rf.record(model=(model := SingleChange())) as trace:
        model(query, key)
    assert trace.num_bytes == 4 * HEADS * 1000
    close(trace.events[0].values, by_numpy(query, key))


def test_the_limit_counts_queries_and_keys():
    query = torch.randn(1, HEADS, 100, WIDTH)
    with rf.record(model=(model := SingleChange())) as trace:
        model(query, query.clone())
    assert trace.num_bytes == 2 * query.numel() * 4


def test_the_view_gets_the_mask(pair):
    allowed = torch.rand(TARGETS, SOURCES) < 0.6
    with rf.record(model=(model := SingleChange())) as trace:
        model(*pair, attn_mask=allowed)
        model(pair[0], pair[0], is_causal=True)
    first, second = view_of(trace).head["parts"]
    assert first["head"]["maps"][0]["mask"] == "mask0" and second["head"]["maps"][0]["causal"] == "given"
