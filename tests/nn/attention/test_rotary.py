"""Rotary self-attention against complex numbers in raw torch: a pair of features is a complex number, turned by its position."""

import pytest
import torch
from asserting import assert_same, ragged, raises_message, randn, tensor, with_nan_padding
from parameter_gradients import assert_same_gradients

import rfnb as rf
from rfnb import Dim, DimError
from rfnb.nn.attention.rotary import rotate
from rfnb.trace.probe import listen

batch, model, key, value, out = (
    Dim(n, name=name) for n, name in ((3, "batch"), (6, "model"), (8, "key"), (10, "value"), (7, "out"))
)
HEADS, LENGTHS = 2, [5, 4, 1]
OPTIONS = {"key_dim_total": key, "value_dim_total": value, "num_heads": HEADS}


def random_parameters(module):
    rf.set_random_seed(3)
    for parameter in module.parameters():
        parameter.initial = rf.Normal(0.7)
    return module


def make(causal=False, **options):
    kind = rf.RotaryPosCausalSelfAttention if causal else rf.RotaryPosSelfAttention
    return random_parameters(kind(model, out, **OPTIONS, **options))


def turned(x, base=10000.0):
    """(T, 4) -> (T, 4)."""
    rates = base ** (-torch.tensor([0.0, 2.0], dtype=torch.float64) / 4)
    angles = torch.arange(len(x))[:, None] * rates
    numbers = torch.view_as_complex(x.double().reshape(len(x), 2, 2).contiguous())
    return torch.view_as_real(numbers * torch.exp(1j * angles)).reshape(len(x), 4).float()


def by_hand(module, seq, causal=False, base=10000.0):
    """(T, 6) -> (T, 7)."""
    heads = []
    for head in (seq @ module.qkv.weight.raw_tensor + module.qkv.bias.raw_tensor).split(13, -1):
        q, k, v = head.split([4, 4, 5], -1)
        energy = turned(q, base) @ turned(k, base).T / 2
        if causal:
            energy = energy.masked_fill(torch.ones_like(energy).triu(1).bool(), float("-inf"))
        heads.append(torch.softmax(energy, -1) @ v)
    return torch.cat(heads, -1) @ module.proj.weight.raw_tensor + module.proj.bias.raw_tensor


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("base", [10000.0, 100.0])
def test_it_is_that_of_complex_numbers_for_each_sequence_alone(causal, base):
    module, time = make(causal, base=base), ragged(LENGTHS, batch)
    x = randn(batch, time, model)
    got = module(with_nan_padding(x), axis=time)
    got = (got[0] if causal else got).copy_transpose([batch, time, out]).raw_tensor
    for seq, length in enumerate(LENGTHS):
        expected = by_hand(module, x.raw_tensor[seq, :length], causal, base)
        torch.testing.assert_close(got[seq, :length], expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("causal", [False, True])
def test_gradients_are_those_of_complex_numbers(causal):
    module, time = make(causal), ragged(LENGTHS, batch)

    def ours(raw):
        got = module(rf.convert_to_tensor(raw, dims=[batch, time, model]), axis=time)
        got = (got[0] if causal else got).copy_transpose([batch, time, out]).raw_tensor
        return [got[seq, :length] for seq, length in enumerate(LENGTHS)]

    def complex_numbers(raw):
        return [by_hand(module, raw[seq, :length], causal) for seq, length in enumerate(LENGTHS)]

    assert_same_gradients(
        module, torch.randn(3, 5, 6, generator=torch.Generator().manual_seed(0)), ours, complex_numbers
    )


def test_a_pair_of_features_is_turned_by_the_position():
    """By 1 (radian) per step, and by 1/10 in the second pair."""
    time, four = Dim(3, name="time"), Dim(4, name="four")
    x = tensor([[1.0, 0.0, 2.0, 0.0]] * 3, time, four)
    turned = rotate(x, spatial_dim=time, feat_dim=four, base=100.0)
    angles = torch.arange(3)[:, None] * torch.tensor([1.0, 0.1])
    expected = torch.stack([angles.cos(), angles.sin()], -1) * torch.tensor([[1.0], [2.0]])
    assert_same(turned, expected.reshape(3, 4).tolist())


def test_products_depend_on_the_distance_only():
    feat = Dim(8, name="feat")
    q, k = randn(feat), randn(feat, seed=1)
    products = [
        rf.matmul(
            rotate(q, spatial_dim=None, feat_dim=feat, offset=at + 3), rotate(k, spatial_dim=None, feat_dim=feat, offset=at), reduce=feat
        ).raw_tensor
        for at in (0, 1, 70)
    ]  # fmt: skip
    torch.testing.assert_close(products, products[:1] * 3, rtol=1e-4, atol=1e-5)


def test_offsets_per_sequence_are_those_positions():
    time, feat = Dim(2, name="time"), Dim(4, name="feat")
    x = randn(batch, time, feat)
    got = rotate(x, spatial_dim=time, feat_dim=feat, offset=tensor([0, 3, 1], batch))
    for seq, offset in enumerate((0, 3, 1)):
        alone = rf.gather(x, indices=seq, axis=batch)
        assert_same(
            rf.gather(got, indices=seq, axis=batch), rotate(alone, spatial_dim=time, feat_dim=feat, offset=offset)
        )


def test_the_cache_has_the_keys_as_they_were():
    module, time = make(causal=True), Dim(5, name="time")
    x = randn(batch, time, model)
    _, state = module(x, time)
    _, k, _ = module.forward_qkv(x)
    same, _ = rf.replace_dim(state.k_accum, in_dim=state.accum_axis, out_dim=time)
    assert_same(same, k)


@pytest.mark.parametrize("causal", [False, True])
def test_the_weights_are_probed(causal):
    module, time, events = make(causal), ragged(LENGTHS, batch), []
    with listen(lambda kind, place, values: events.append((kind, values))):
        module(randn(batch, time, model), axis=time)
    (values,) = [values for kind, values in events if kind == "attention"]
    assert set(values["weights"].dims) == {batch, module.num_heads, time, values["axis"]}


def test_an_odd_number_of_features_per_head():
    module, time = (
        rf.RotaryPosSelfAttention(model, None, key_dim_total=model, value_dim_total=value, num_heads=2),
        Dim(5, name="time"),
    )
    with raises_message(DimError, """
        Rotary attention: an odd number of features.
          x         [time=5, heads=2, key_per_head=3]
          features  key_per_head=3
        Features are turned in pairs, so each head has an even number of them.
    """):  # fmt: skip
        module(randn(time, model), axis=time)


@pytest.mark.parametrize("causal", [False, True])
def test_a_missing_axis(causal):
    module, time = make(causal), Dim(5, name="time")
    with raises_message(DimError, f"""
        {type(module).__name__}: no dim time=5.
          source  [batch=3, model=6]
          dim     time=5
        The dim time=5 is not among the dims of source.
            source.dims[0]    # batch=3
            source.dims[1]    # model=6
    """):  # fmt: skip
        module(randn(batch, model), axis=time)


def test_training_after_inference_mode():
    """Sines are kept, here made in inference mode; autograd must be able to use them."""
    module, time = make(causal=True, base=123.0), Dim(5, name="time")
    x = randn(batch, time, model)
    with torch.inference_mode():
        module(x, time)
    y, _ = module(x, time)
    rf.reduce_sum(y, axis=[batch, time, out]).raw_tensor.backward()
    assert all(parameter.raw_tensor.grad.isfinite().all() for parameter in module.parameters())
