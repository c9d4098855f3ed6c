"""Attention of one step of inference, which looks for what is not finite instead of masking all keys and values."""

import math

import numpy as np
import pytest
import torch
from asserting import assert_same, ragged, randn, using_backend, with_padding
from hypothesis import given, settings
from hypothesis import strategies as st

import rfnb as rf
from rfnb import Dim

GARBAGE = [0.0, 1e30, -3e38, math.inf, -math.inf, math.nan]


@settings(max_examples=80, deadline=None)
@given(
    lengths=st.lists(st.integers(0, 6), min_size=1, max_size=4),
    in_keys=st.sampled_from(GARBAGE),
    in_values=st.sampled_from(GARBAGE),
    beams=st.sampled_from([None, 1, 2]),
    seed=st.integers(0, 99),
)
def test_whatever_is_in_the_padding_changes_no_bit(lengths, in_keys, in_values, beams, seed):
    batch, key, value = Dim(len(lengths), name="batch"), Dim(3, name="key"), Dim(5, name="value")
    time = ragged(lengths, batch)
    query = randn(batch, *(() if beams is None else (Dim(beams, name="beam"),)), key, seed=seed)
    keys, values = randn(batch, time, key, seed=seed + 1), randn(batch, time, value, seed=seed + 2)

    def attend(keys, values):
        return rf.dot_attention(query, keys, values, key_dim=key, axis=time)

    with torch.no_grad():
        expected = attend(keys.copy_masked(0), values.copy_masked(0))
        out = attend(with_padding(keys, in_keys), with_padding(values, in_values))
        again = attend(with_padding(keys, in_keys), with_padding(values, in_values))
    np.testing.assert_array_equal(out.numpy(), expected.numpy())
    np.testing.assert_array_equal(again.numpy(), expected.numpy())


@pytest.mark.parametrize("backend", ["torch", "numpy"])
@pytest.mark.parametrize("where", ["query", "keys", "values"])
@pytest.mark.parametrize("kind", [math.nan, math.inf])
def test_what_is_not_finite_in_a_real_frame_stays_in_its_sequence(kind, where, backend):
    batch, key, value = Dim(3, name="batch"), Dim(2, name="key"), Dim(5, name="value")
    time = ragged([4, 2, 3], batch)
    host = {
        "query": randn(batch, key).numpy().copy(),
        "keys": randn(batch, time, key).numpy().copy(),
        "values": randn(batch, time, value).numpy().copy(),
    }
    dims = {"query": (batch, key), "keys": (batch, time, key), "values": (batch, time, value)}
    host["keys"][1, 2:] = math.nan
    host["values"][2, 3:] = math.nan

    def attend():
        q, k, v = (rf.convert_to_tensor(host[name].copy(), dims=dims[name]) for name in host)
        return rf.dot_attention(q, k, v, key_dim=key, axis=time).numpy()

    with using_backend(backend), torch.no_grad():
        before = attend()
        host[where].reshape(3, -1)[0, 0] = kind
        after = attend()
    assert np.isfinite(before).all()
    np.testing.assert_array_equal(after[1:], before[1:])
    assert not np.array_equal(after[0], before[0])


def test_weights_that_somebody_records_are_those_of_the_result():
    batch, beam, key = Dim(2, name="batch"), Dim(2, name="beam"), Dim(3, name="key")
    time = ragged([4, 2], batch)
    query, keys = randn(batch, beam, key), randn(batch, time, key)
    for garbage in GARBAGE:
        with torch.no_grad(), rf.record() as trace:
            padded = with_padding(keys, garbage)
            out = rf.dot_attention(query, padded, padded, key_dim=key, axis=time)
        (event,) = trace.select(kind="attention")
        weights = event.values["weights"]
        np.testing.assert_allclose(rf.reduce_sum(weights, axis=time).numpy(), 1.0, rtol=1e-6)
        assert_same(rf.matmul(weights, keys.copy_masked(0), reduce=time), out)
