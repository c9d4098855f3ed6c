"""Multi-head attention modules against torch.nn.MultiheadAttention with the same weights."""

import pytest
import torch
from asserting import assert_same, ragged, raises_message, randn, tensor, with_nan_padding

import rfnb as rf
from rfnb import Dim, DimError
from rfnb.trace.probe import listen

batch, model, enc = Dim(3, name="batch"), Dim(6, name="model"), Dim(5, name="enc")
HEADS, LENGTHS, TARGETS = 2, [7, 4, 1], [2, 5, 3]
OPTIONS = {"key_dim_total": model, "value_dim_total": model, "num_heads": HEADS}


@pytest.fixture
def time():
    return ragged(LENGTHS, batch)


def random_parameters(module):
    rf.set_random_seed(3)
    for parameter in module.parameters():
        parameter.initial = rf.Normal(0.7)
    return module


def torch_attention(module):
    """torch.nn.MultiheadAttention with the weights of a module of ours."""
    cross = isinstance(module, rf.CrossAttention)
    att = torch.nn.MultiheadAttention(6, HEADS, batch_first=True, kdim=5 if cross else 6, vdim=5 if cross else 6)
    with torch.no_grad():
        if cross:
            att.q_proj_weight.copy_(module.q.weight.raw_tensor.T)
            kv = module.kv.weight.raw_tensor.T.reshape(HEADS, 2, 3, 5)
            att.k_proj_weight.copy_(kv[:, 0].reshape(6, 5))
            att.v_proj_weight.copy_(kv[:, 1].reshape(6, 5))
            kv_bias = module.kv.bias.raw_tensor.reshape(HEADS, 2, 3).transpose(0, 1).reshape(-1)
            att.in_proj_bias.copy_(torch.cat([module.q.bias.raw_tensor, kv_bias]))
        else:  # ours: head, (query, key, value), feature; torch: (query, key, value), head, feature
            weight = module.qkv.weight.raw_tensor.T.reshape(HEADS, 3, 3, 6)
            att.in_proj_weight.copy_(weight.transpose(0, 1).reshape(18, 6))
            att.in_proj_bias.copy_(module.qkv.bias.raw_tensor.reshape(HEADS, 3, 3).transpose(0, 1).reshape(-1))
        att.out_proj.weight.copy_(module.proj.weight.raw_tensor.T)
        att.out_proj.bias.copy_(module.proj.bias.raw_tensor)
    return att


def frames(x, time, lengths=LENGTHS):
    """(T, feature) of each sequence."""
    raw = x.copy_transpose([batch, time, x.feature_dim or x.remaining_dims([batch, time])[0]]).raw_tensor
    return [raw[seq, :length] for seq, length in enumerate(lengths)]


def causal(length):
    return torch.ones(length, length, dtype=torch.bool).triu(1)


def test_self_attention_is_torchs_of_each_sequence_alone(time):
    module, x = random_parameters(rf.SelfAttention(model, model, **OPTIONS)), randn(batch, time, model)
    out = module(with_nan_padding(x), axis=time)
    assert set(out.dims) == {batch, time, model} and out.feature_dim is model
    for got, seq in zip(frames(out, time), frames(x, time)):
        torch.testing.assert_close(got, torch_attention(module)(seq, seq, seq)[0])


def test_gradients_of_self_attention_are_torchs(time):
    module, x = random_parameters(rf.SelfAttention(model, model, **OPTIONS)), randn(batch, time, model)
    att, raw = torch_attention(module), x.raw_tensor.clone().requires_grad_()
    rf.set_requires_gradient(x)
    rf.reduce_sum(rf.square(module(x, axis=time)), axis=[time, batch, model]).raw_tensor.backward()
    for seq, length in enumerate(LENGTHS):
        att(*[raw[seq, :length]] * 3)[0].square().sum().backward()
    torch.testing.assert_close(x.raw_tensor.grad, raw.grad, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(module.proj.weight.raw_tensor.grad.T, att.out_proj.weight.grad, rtol=1e-4, atol=1e-4)


def test_causal_self_attention_is_torchs_with_a_triangular_mask(time):
    module, x = random_parameters(rf.CausalSelfAttention(model, model, **OPTIONS)), randn(batch, time, model)
    out, _ = module(with_nan_padding(x), time)
    for got, seq in zip(frames(out, time), frames(x, time)):
        expected = torch_attention(module)(seq, seq, seq, attn_mask=causal(len(seq)))[0]
        torch.testing.assert_close(got, expected)


def test_cross_attention_is_torchs_of_each_sequence_alone(time):
    target = ragged(TARGETS, batch, "target")
    module = random_parameters(rf.CrossAttention(enc, model, model, **OPTIONS))
    encoder, query = randn(batch, time, enc), randn(batch, target, model, seed=1)
    out = module(with_nan_padding(query), module.transform_encoder(with_nan_padding(encoder), axis=time))
    att = torch_attention(module)
    for got, q, kv in zip(frames(out, target, TARGETS), frames(query, target, TARGETS), frames(encoder, time)):
        torch.testing.assert_close(got, att(q, kv, kv)[0])


def test_cross_attention_of_one_step_is_that_of_the_whole_query(time):
    target = Dim(4, name="target")
    module = random_parameters(rf.CrossAttention(enc, model, model, **OPTIONS))
    query = randn(batch, target, model, seed=1)
    encoder = module.transform_encoder(randn(batch, time, enc), axis=time)
    steps = [module(frame, encoder) for frame in rf.unstack(query, axis=target)]
    assert_same(rf.stack(steps, out_dim=target)[0], module(query, encoder))


def test_without_projection_the_heads_are_side_by_side(time):
    """Keys and values of different sizes: the layout is query, key, value within each head."""
    keys, values = Dim(4, name="keys"), Dim(10, name="values")
    module = random_parameters(
        rf.SelfAttention(model, None, key_dim_total=keys, value_dim_total=values, num_heads=2, with_bias=False)
    )
    assert {name: [dim.extent for dim in p.dims] for name, p in module.named_parameters()} == {"qkv.weight": [6, 18]}
    x = randn(batch, time, model)
    out = module(x, axis=time)
    assert out.feature_dim is values
    for got, seq in zip(frames(out, time), frames(x, time)):
        heads = []
        for head in (seq @ module.qkv.weight.raw_tensor).split(9, -1):
            q, k, v = head.split([2, 2, 5], -1)
            heads.append(torch.softmax(q @ k.T / 2**0.5, -1) @ v)
        torch.testing.assert_close(got, torch.cat(heads, -1))


def test_the_weights_of_causal_attention_are_zero_ahead(time):
    events = []
    module, x = random_parameters(rf.CausalSelfAttention(model, model, **OPTIONS)), randn(batch, time, model)
    with listen(lambda kind, place, values: events.append((kind, values))):
        module(with_nan_padding(x), time)
    (values,) = [values for kind, values in events if kind == "attention"]
    weights, axis = values["weights"], values["axis"]
    assert set(weights.dims) == {batch, module.num_heads, time, axis}
    raw = weights.copy_transpose([batch, module.num_heads, time, axis]).numpy()
    for seq, length in enumerate(LENGTHS):
        own = raw[seq, :, :length]
        assert (own[:, causal(7)[:length].numpy()] == 0).all() and (own[:, ~causal(7)[:length].numpy()] > 0).all()


def test_dot_attention_with_fewer_keys_than_queries_gives_the_first_queries_nothing():
    """Queries 0 to 3 beside keys 0 and 1, the last ones at the same place."""
    query, keys, key, value = (Dim(n, name=name) for n, name in ((4, "q"), (2, "k"), (1, "key"), (2, "value")))
    values = tensor([[1.0, 0.0], [0.0, 1.0]], keys, value)
    q = rf.zeros([query, key])
    rf.set_requires_gradient(q)
    out = rf.dot_attention(
        q, rf.ones([keys, key]), values, key_dim=key, axis=keys, causal_query_spatial_dim=query
    )  # fmt: skip
    assert out.copy_transpose([query, value]).numpy().tolist() == [[0, 0], [0, 0], [1, 0], [0.5, 0.5]]
    rf.reduce_sum(out, axis=[query, value]).raw_tensor.backward()
    assert q.raw_tensor.grad.isfinite().all()


def test_a_causal_dim_that_the_query_lacks(time):
    with raises_message(DimError, """
        dot_attention: no dim time<=7.
          query  [batch=3, model=6]
          dim    time<=7
        The dim time<=7 is not among the dims of query.
            query.dims[0]    # batch=3
            query.dims[1]    # model=6
    """):  # fmt: skip
        x = randn(batch, time, model)
        rf.dot_attention(randn(batch, model), x, x, key_dim=model, axis=time, causal_query_spatial_dim=time)


def test_heads_that_do_not_divide_the_features():
    with raises_message(DimError, """
        Attention: the features do not split into equal heads.
          key_dim_total  model=6
          num_heads      4
        num_heads divides key_dim_total.
    """):  # fmt: skip
        rf.SelfAttention(model, model, key_dim_total=model, value_dim_total=model, num_heads=4)


@pytest.mark.parametrize("name", ["SelfAttention", "CausalSelfAttention", "CrossAttention"])
def test_a_missing_axis(time, name):
    label = "encoder" if name == "CrossAttention" else "source"
    with raises_message(DimError, "\n".join([
        f"{name}: no dim time<=7.",
        f"  {label}  [batch=3, model=6]",
        f"  {'dim':<{len(label)}}  time<=7",
        f"The dim time<=7 is not among the dims of {label}.",
        f"    {label}.dims[0]    # batch=3",
        f"    {label}.dims[1]    # model=6",
    ])):  # fmt: skip
        if name == "SelfAttention":
            rf.SelfAttention(model, model, **OPTIONS)(randn(batch, model), axis=time)
        elif name == "CausalSelfAttention":
            rf.CausalSelfAttention(model, model, **OPTIONS)(randn(batch, model), time)
        else:
            rf.CrossAttention(model, model, model, **OPTIONS).transform_encoder(randn(batch, model), axis=time)


@pytest.mark.parametrize("broadcast", [None, True, False])
def test_dropout_of_the_weights_is_shared_unless_told_otherwise(broadcast):
    many, time = Dim(64, name="many"), Dim(5, name="time")
    module = rf.SelfAttention(model, None, att_dropout=0.5, att_dropout_broadcast=broadcast, **OPTIONS)
    x = randn(time, model)
    rf.init_train_step_run_ctx()
    try:
        out = module(rf.expand_dim(x, many), axis=time).copy_transpose([many, time, model]).raw_tensor
    finally:
        rf.init_forward_step_run_ctx()
    assert bool((out - out[:1]).abs().max() < 1e-6) == (broadcast is not False)
