"""The fused kernel gives what the formula in single ops gives; what is known about padding is forgotten where it may be wrong."""

import numpy as np
import pytest
import torch
from asserting import assert_same, ragged, randn, with_nan_padding

import rfnb as rf
from rfnb import Dim
from rfnb.nn.attention import functions as attention
from rfnb.nn.attention.attention_kernel import fused_attention

batch, heads, key, value, beam = (
    Dim(n, name=name) for n, name in ((3, "batch"), (2, "heads"), (4, "key"), (5, "value"), (6, "beam"))
)


def both(monkeypatch, query, keys, values, axis, **options):
    """The result of the kernel, and of single ops."""
    fused = rf.dot_attention(query, keys, values, key_dim=key, axis=axis, **options)
    monkeypatch.setattr(attention, "fused_attention", lambda *args: None)
    return fused, rf.dot_attention(query, keys, values, key_dim=key, axis=axis, **options)


def is_fused(query, keys, values, axis, causal_dim=None):
    return fused_attention(query, keys, values, key, axis, causal_dim, 1.0) is not None


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("lengths", [[5, 3, 1], [5, 0, 2], [4, 4, 4]])
def test_self_attention(monkeypatch, lengths, causal):
    time = ragged(lengths, batch)
    query, keys = randn(batch, time, heads, key), randn(batch, time, heads, key, seed=1)
    values = with_nan_padding(randn(batch, time, heads, value, seed=2))
    assert is_fused(query, keys, values, time, time if causal else None)
    options = {"causal_query_spatial_dim": time} if causal else {}
    assert_same(*both(monkeypatch, query, with_nan_padding(keys), values, time, **options))


def test_more_queries_than_keys(monkeypatch):
    """The last query stands at the last key, so the first ones see nothing, and are 0."""
    time, target = ragged([2, 1, 3], batch), ragged([4, 1, 2], batch, "target")
    query, keys, values = randn(batch, target, key), randn(batch, time, key), randn(batch, time, value)
    got, expected = both(monkeypatch, query, keys, values, time, causal_query_spatial_dim=target)
    assert_same(got, expected)
    raw = got.copy_transpose([batch, target, value]).numpy()
    assert (raw[0, :2] == 0).all() and raw[0, 2:].all()


def test_one_step_of_a_search(monkeypatch):
    time = ragged([5, 3, 1], batch)
    query, keys = randn(batch, beam, heads, key), randn(batch, time, heads, key)
    assert_same(*both(monkeypatch, query, keys, randn(batch, time, heads, value), time))


def test_a_query_that_sees_nothing_has_no_gradient():
    time = ragged([2, 0, 1], batch)
    sources = [randn(batch, heads, key), randn(batch, time, heads, key), randn(batch, time, heads, value)]
    for source in sources:
        rf.set_requires_gradient(source)
    out = rf.dot_attention(*sources, key_dim=key, axis=time)
    rf.reduce_sum(rf.square(out), axis=out.dims).raw_tensor.backward()
    for source in sources:
        assert torch.isfinite(source.raw_tensor.grad).all()
        assert (source.raw_tensor.grad[1] == 0).all()


def test_recording_does_not_change_the_result():
    time = ragged([5, 3, 1], batch)
    operands = randn(batch, time, heads, key), randn(batch, time, heads, key, seed=1), randn(batch, time, heads, value)
    plain = rf.dot_attention(*operands, key_dim=key, axis=time)
    with rf.record() as trace:
        recorded = rf.dot_attention(*operands, key_dim=key, axis=time)
    assert torch.equal(plain.raw_tensor, recorded.raw_tensor)
    (event,) = trace.select(kind="attention")
    weights = event.values["weights"]
    again = rf.matmul(weights, rf.replace_dim(operands[2], in_dim=time, out_dim=event.values["axis"])[0],
                      reduce=event.values["axis"])  # fmt: skip
    assert_same(again, recorded)


def test_dims_that_the_kernel_does_not_take():
    """Values per query are no values of a kernel that all queries share."""
    time = ragged([5, 3, 1], batch)
    assert not is_fused(randn(batch, beam, key), randn(batch, time, key), randn(batch, time, beam, value), time)


def test_what_is_known_about_padding_goes_with_another_array():
    time = ragged([2, 1, 0], batch)
    linear = rf.Linear(key, value)
    x = rf.relu(linear(rf.Embedding(heads, key)(rf.zeros([batch, time], dtype="int64", sparse_dim=heads))))
    assert x._finite
    x.raw_tensor = with_nan_padding(x).raw_tensor
    assert not x._finite
    out = rf.reduce_sum(rf.Linear(value, key)(x), axis=[batch, time, key])
    assert np.isfinite(out.numpy())
