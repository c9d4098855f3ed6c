"""Attention functions against the formulas in raw torch."""

import numpy as np
import pytest
import torch
from asserting import assert_same, ragged, raises_message, randn, with_nan_padding

import rfnb as rf
from rfnb import Dim, DimError
from rfnb.trace.probe import listen

batch, key, value, heads, beam = (
    Dim(n, name=name) for n, name in ((3, "batch"), (2, "key"), (5, "value"), (4, "heads"), (6, "beam"))
)
LENGTHS = [7, 4, 1]


@pytest.fixture
def time():
    return ragged(LENGTHS, batch)


def dot(query, keys, values, scale=2**-0.5):
    """query (Q, key), keys (T, key), values (T, value)."""
    return torch.softmax(query @ keys.T * scale, -1) @ values


def additive(query, keys, values, v):
    return torch.softmax(torch.tanh(query[:, None] + keys[None]) @ v, -1) @ values


@pytest.mark.parametrize("scale", [None, 1, 0.3])
def test_dot_attention_of_one_step(time, scale):
    query, keys, values = randn(batch, key), randn(batch, time, key, seed=1), randn(batch, time, value, seed=2)
    values.feature_dim = value
    out = rf.dot_attention(
        query,
        with_nan_padding(keys),
        with_nan_padding(values).copy_transpose([time, value, batch]),
        key_dim=key,
        axis=time,
        scale=scale,
    )
    assert set(out.dims) == {batch, value} and out.feature_dim is value
    for seq, length in enumerate(LENGTHS):
        raw = [t.raw_tensor[seq, :length] for t in (keys, values)]
        expected = dot(query.raw_tensor[seq][None], *raw, *([] if scale is None else [scale]))
        torch.testing.assert_close(out.copy_transpose([batch, value]).raw_tensor[seq], expected[0])


def test_dims_of_the_query_are_kept_and_common_ones_are_batch_dims(time):
    """Heads are in all three, beams and target positions in the query alone."""
    target = ragged([2, 5, 3], batch, "target")
    query = randn(target, batch, heads, beam, key)
    keys, values = randn(batch, time, heads, key, seed=1), randn(time, heads, batch, value, seed=2)
    out = rf.dot_attention(query, keys, values, key_dim=key, axis=time)
    assert set(out.dims) == {batch, target, heads, beam, value}
    got = out.copy_transpose([batch, heads, beam, target, value]).raw_tensor
    raw_query = query.copy_transpose([batch, heads, beam, target, key]).raw_tensor
    raw_keys, raw_values = (
        t.copy_transpose([batch, heads, time, dim]).raw_tensor for t, dim in ((keys, key), (values, value))
    )
    for seq, length in enumerate(LENGTHS):
        for head in range(4):
            expected = dot(
                raw_query[seq, head].reshape(-1, 2), raw_keys[seq, head, :length], raw_values[seq, head, :length]
            )
            torch.testing.assert_close(got[seq, head].reshape(-1, 5), expected)


@pytest.mark.parametrize("function", ["dot", "additive"])
def test_self_attention_lets_every_frame_attend_to_every_frame(time, function):
    query, keys, values = (randn(batch, time, dim, seed=seed) for seed, dim in enumerate((key, key, value)))
    v = randn(key, seed=4)
    if function == "dot":
        out = rf.dot_attention(query, with_nan_padding(keys), with_nan_padding(values), key_dim=key, axis=time)
    else:
        out = rf.additive_attention(
            query, with_nan_padding(keys), with_nan_padding(values), energy_weight=v, key_dim=key, axis=time
        )
    assert set(out.dims) == {batch, time, value}
    for seq, length in enumerate(LENGTHS):
        raw = [t.raw_tensor[seq, :length] for t in (query, keys, values)]
        expected = dot(*raw) if function == "dot" else additive(*raw, v.raw_tensor)
        torch.testing.assert_close(out.copy_transpose([batch, time, value]).raw_tensor[seq, :length], expected)


def test_additive_attention_of_a_whole_target_sequence(time):
    target = ragged([2, 5, 3], batch, "target")
    query, keys, values = randn(batch, target, key), randn(batch, time, key, seed=1), randn(batch, time, value, seed=2)
    v = randn(key, seed=3)
    out = rf.additive_attention(
        query, with_nan_padding(keys), with_nan_padding(values), energy_weight=v, key_dim=key, axis=time
    )
    for seq, (length, queries) in enumerate(zip(LENGTHS, [2, 5, 3])):
        raw = query.raw_tensor[seq, :queries], keys.raw_tensor[seq, :length], values.raw_tensor[seq, :length]
        got = out.copy_transpose([batch, target, value]).raw_tensor[seq, :queries]
        torch.testing.assert_close(got, additive(*raw, v.raw_tensor))


@pytest.mark.parametrize("function", ["dot", "additive"])
def test_gradients_are_those_of_the_formula_and_zero_in_the_padding(time, function):
    sources = [
        randn(batch, key),
        randn(batch, time, key, seed=1),
        randn(batch, time, value, seed=2),
        randn(key, seed=3),
    ]
    raw = [source.raw_tensor.clone().requires_grad_() for source in sources]
    for source in sources:
        rf.set_requires_gradient(source)
    query, keys, values, v = sources
    if function == "dot":
        out = rf.dot_attention(query, keys, values, key_dim=key, axis=time)
    else:
        out = rf.additive_attention(query, keys, values, energy_weight=v, key_dim=key, axis=time)
    rf.reduce_sum(rf.square(out), axis=[batch, value]).raw_tensor.backward()
    total = 0.0
    for seq, length in enumerate(LENGTHS):
        parts = raw[0][seq][None], raw[1][seq, :length], raw[2][seq, :length]
        total = total + (dot(*parts) if function == "dot" else additive(*parts, raw[3])).square().sum()
    total.backward()
    for source, want in zip(sources[: 3 + (function == "additive")], raw):
        torch.testing.assert_close(source.raw_tensor.grad, want.grad)


def weights_of(**options):
    events = []
    with listen(lambda kind, place, values: events.append((kind, values))):
        rf.dot_attention(**options)
    ((kind, values),) = events
    assert kind == "attention"
    return values["weights"], values["axis"]


def test_the_weights_are_offered_and_exactly_zero_in_the_padding(time):
    keys = with_nan_padding(randn(batch, time, key))
    weights, axis = weights_of(
        query=randn(batch, key), keys=keys, values=randn(batch, time, value), key_dim=key, axis=time
    )
    assert axis is time and set(weights.dims) == {batch, time}
    raw = weights.copy_transpose([batch, time]).numpy()
    np.testing.assert_allclose(raw.sum(-1), 1, rtol=1e-6)
    for seq, length in enumerate(LENGTHS):
        assert (raw[seq, :length] > 0).all() and (raw[seq, length:] == 0).all()


def test_the_weights_of_self_attention_have_a_twin_of_the_axis(time):
    x = randn(batch, time, key)
    weights, axis = weights_of(query=x, keys=x, values=x, key_dim=key, axis=time)
    assert axis is not time and axis.lengths.tolist() == LENGTHS and set(weights.dims) == {batch, time, axis}


def test_a_sequence_without_frames_gets_zero():
    empty = ragged([2, 0, 0], batch)
    out = rf.dot_attention(
        randn(batch, key), randn(batch, empty, key), randn(batch, empty, value), key_dim=key, axis=empty
    )
    raw = out.copy_transpose([batch, value]).numpy()
    assert raw[0].any() and not raw[1:].any()


@pytest.mark.parametrize("shared", [False, True])
def test_dropout_on_the_weights_in_training(shared):
    """Values are one-hot per frame, so the result is the weights after dropout."""
    frames, many = Dim(2, name="frames"), Dim(300, name="many")
    one_hot = rf.convert_to_tensor(np.eye(2, dtype=np.float32), dims=[frames, value2 := Dim(2, name="value")])
    options = {
        "keys": rf.zeros([frames, key]),
        "values": one_hot,
        "key_dim": key,
        "axis": frames,
        "att_dropout": 0.5,
        "att_dropout_broadcast": shared,
    }
    assert_same(rf.dot_attention(rf.zeros([many, key]), **options), rf.zeros([many, value2]) + 0.5)
    rf.set_random_seed(0)
    rf.init_train_step_run_ctx()
    try:
        out = rf.dot_attention(rf.zeros([many, key]), **options).copy_transpose([many, value2]).numpy()
    finally:
        rf.init_forward_step_run_ctx()
    assert set(out.ravel().tolist()) <= {0.0, 1.0}
    if shared:
        assert (out == out[0]).all()
    else:
        assert 0.4 < out.mean() < 0.6 and len(np.unique(out, axis=0)) == 4


@pytest.mark.parametrize(("label", "missing"), [("query", key), ("keys", key), ("keys", "axis"), ("values", "axis")])
def test_a_missing_dim(time, label, missing):
    dim = time if missing == "axis" else missing
    operands = {"query": [batch, key], "keys": [batch, time, key], "values": [batch, time, value]}
    operands[label] = [other for other in operands[label] if other is not dim]
    tensors = {name: randn(*dims) for name, dims in operands.items()}
    shown = ", ".join(other.short_repr() for other in operands[label])
    width = len(label)
    with raises_message(DimError, "\n".join([
        f"dot_attention: no dim {dim.short_repr()}.",
        f"  {label:<{width}}  [{shown}]",
        f"  {'dim':<{width}}  {dim.short_repr()}",
        f"The dim {dim.short_repr()} is not among the dims of {label}.",
        *(f"    {label}.dims[{place}]    # {other.short_repr()}" for place, other in enumerate(operands[label])),
    ])):  # fmt: skip
        rf.dot_attention(**tensors, key_dim=key, axis=time)


_feat, _key, _query = Dim(6, name="feat"), Dim(5, name="key"), Dim(3, name="query")
_OF_HEADS = {"key_dim_total": _feat, "value_dim_total": _feat, "num_heads": 2, "att_dropout": 0.5}


def _masked_attention(x, q):
    mask = rf.full(dims=[_query, _key], fill_value=True)
    return rf.Backend.scaled_dot_product_attention(
        q, x, x, attention_mask=mask, qk_feat_dim=_feat, kv_spatial_dim=_key, query_spatial_dim=_query, att_dropout=0.5
    )


def _shifted_attention(x, q):
    module = rf.QKVSelfAttention(_feat, **_OF_HEADS)
    return module(x, axis=_key, key_shift=rf.zeros([_key, module.keys_dim(_key), module.key_dim_per_head]))


def _cross_attention(x, q):
    module = rf.CrossAttention(encoder_dim=_feat, query_in_dim=_feat, proj_dim=None, **_OF_HEADS)
    return module(q, module.transform_encoder(x, axis=_key))


ATTENTIONS = {
    "dot_attention": lambda x, q: rf.dot_attention(q, x, x, key_dim=_feat, axis=_key, att_dropout=0.5),
    "additive_attention": lambda x, q: rf.additive_attention(
        q, x, x, energy_weight=rf.ones([_feat]), key_dim=_feat, axis=_key, att_dropout=0.5
    ),
    "with a mask": _masked_attention,
    "with shifted keys": _shifted_attention,
    "CrossAttention": _cross_attention,
    **{
        kind: lambda x, q, kind=kind: getattr(rf, kind)(_feat, None, **_OF_HEADS)(x, axis=_key)
        for kind in "SelfAttention CausalSelfAttention RelPosSelfAttention RelPosCausalSelfAttention".split()
    },
}


@pytest.mark.parametrize("kind", ATTENTIONS)
def test_the_weights_that_are_shown_in_training_are_those_before_dropout(kind):
    x, q = randn(_key, _feat), randn(_query, _feat, seed=1)
    with rf.get_run_ctx().train_flag_ctx(True), rf.record() as trace:
        ATTENTIONS[kind](x, q)
    (values,) = (event.values for event in trace.select(kind="attention"))
    total = rf.reduce_sum(values["weights"], axis=values["axis"])
    assert_same(total, np.ones([dim.extent for dim in total.dims], np.float32))
