"""Conformer and E-Branchformer against the papers written out in raw torch, for each sequence alone."""

import pytest
import torch
from asserting import assert_same, ragged, raises_message, randn, with_nan_padding
from torch.nn import functional

import rfnb as rf
from rfnb import Dim, DimError

batch, model, feat = Dim(3, name="batch"), Dim(6, name="model"), Dim(10, name="feat")
LENGTHS = [7, 4, 1]


@pytest.fixture
def time():
    return ragged(LENGTHS, batch)


def random_parameters(module):
    """Running statistics too: a variance is positive."""
    rf.set_random_seed(3)
    for name, parameter in module.named_parameters():
        parameter.initial = 0.7 if name.endswith("variance") else rf.Normal(0.5)
    return module


def each(got, time, expected):
    """Compare {batch, time, ...} with what `expected(seq)` gives for each sequence alone."""
    feature = got.remaining_dims([batch, time])[0]
    raw = got.copy_transpose([batch, time, feature]).raw_tensor
    for seq, length in enumerate(time.lengths):
        torch.testing.assert_close(raw[seq, :length], expected(seq), rtol=2e-4, atol=2e-5)


# -- the papers in raw torch; x is (T, features) -----------------------------------------------------------------------
def linear(module, x):
    weight = module.weight.copy_transpose([module._in, module.out_dim]).raw_tensor
    return x @ weight + (0 if module.bias is None else module.bias.raw_tensor)


def layer_norm(module, x):
    return functional.layer_norm(x, x.shape[-1:], module.scale.raw_tensor, module.bias.raw_tensor, 1e-6)


def depthwise(module, x):
    """One frame more after than before, if the filter has an even number of them."""
    raw = module.filter.raw_tensor
    size = raw.shape[-1]
    padded = functional.pad(x.T[None], ((size - 1) // 2, size - 1 - (size - 1) // 2))
    bias = None if module.bias is None else module.bias.raw_tensor
    return functional.conv1d(padded, raw, bias, groups=raw.shape[0])[0].T


def feed_forward(module, x):
    return linear(module.linear_out, functional.silu(linear(module.linear_ff, x)))


def conv_block(module, x):
    value, gate = linear(module.positionwise_conv1, x).chunk(2, -1)
    x = depthwise(module.depthwise_conv, value * torch.sigmoid(gate))
    norm = module.norm
    mean, variance, gamma, beta = (
        p.raw_tensor for p in (norm.running_mean, norm.running_variance, norm.gamma, norm.beta)
    )
    x = (x - mean) / torch.sqrt(variance + 1e-3) * gamma + beta
    return linear(module.positionwise_conv2, functional.silu(x))


def attention(module, x):
    """Tested by itself in test_relative_self_attention.py; here alone and without batch."""
    alone = Dim(len(x), name="alone")
    return module(rf.convert_to_tensor(x, dims=[alone, model]), axis=alone).copy_transpose([alone, model]).raw_tensor


def conformer_layer(layer, x):
    x = x + feed_forward(layer.ffn1, layer_norm(layer.ffn1_layer_norm, x)) / 2
    x = x + attention(layer.self_att, layer_norm(layer.self_att_layer_norm, x))
    x = x + conv_block(layer.conv_block, layer_norm(layer.conv_layer_norm, x))
    x = x + feed_forward(layer.ffn2, layer_norm(layer.ffn2_layer_norm, x)) / 2
    return layer_norm(layer.final_layer_norm, x)


def conv_gated(module, x, gate_activation=lambda gate: gate):
    value, gate = functional.gelu(linear(module.linear_ff, x)).chunk(2, -1)
    gate = depthwise(module.depthwise_conv, layer_norm(module.norm, gate))
    return linear(module.linear_out, value * gate_activation(gate))


def merge(module, x1, x2):
    both = torch.cat([x1, x2], -1)
    return linear(module.merge_proj, both + depthwise(module.depthwise_conv, both))


def e_branchformer_layer(layer, x):
    x = x + feed_forward(layer.ffn1, layer_norm(layer.ffn1_layer_norm, x)) / 2
    far = attention(layer.self_att, layer_norm(layer.self_att_layer_norm, x))
    near = conv_gated(layer.cgmlp, layer_norm(layer.cgmlp_layer_norm, x))
    x = x + merge(layer.merge, far, near)
    x = x + feed_forward(layer.ffn2, layer_norm(layer.ffn2_layer_norm, x)) / 2
    return layer_norm(layer.final_layer_norm, x)


# -- layers ------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("kernel_size", [1, 3, 4, 9])
def test_conv_block_is_glu_depthwise_conv_norm_swish(time, kernel_size):
    module = random_parameters(rf.ConformerConvBlock(model, kernel_size=kernel_size, norm=rf.BatchNorm))
    x = randn(batch, time, model)
    out = module(with_nan_padding(x), spatial_dim=time)
    each(out, time, lambda seq: conv_block(module, x.raw_tensor[seq, : LENGTHS[seq]]))


def test_conformer_layer_is_that_of_the_paper_for_each_sequence_alone(time):
    layer = random_parameters(rf.ConformerEncoderLayer(model, num_heads=2, conv_kernel_size=4))
    x = randn(batch, time, model)
    out = layer(with_nan_padding(x), spatial_dim=time)
    assert set(out.dims) == {batch, time, model}
    each(out, time, lambda seq: conformer_layer(layer, x.raw_tensor[seq, : LENGTHS[seq]]))


def test_batch_norm_in_training_does_not_count_padding(time):
    """The statistics are those of all real frames, one after the other."""
    layer = random_parameters(rf.ConformerEncoderLayer(model, num_heads=2, dropout=0.0, att_dropout=0.0))
    seen = []
    layer.conv_block.norm.register_forward_hook(lambda module, args, kwargs, result: seen.append(args[0]) or result)
    layer.conv_block.norm.running_mean.initial = 0.0
    rf.init_train_step_run_ctx()
    try:
        layer(with_nan_padding(randn(batch, time, model)), spatial_dim=time)
    finally:
        rf.init_forward_step_run_ctx()
    frames = torch.cat([seen[0].copy_transpose([batch, time, model]).raw_tensor[s, :n] for s, n in enumerate(LENGTHS)])
    torch.testing.assert_close(layer.conv_block.norm.running_mean.raw_tensor, frames.mean(0) * 0.1)


def test_e_branchformer_layer_is_that_of_the_paper_for_each_sequence_alone(time):
    layer = random_parameters(rf.EBranchformerLayer(model, num_heads=2, cgmlp_ff_dim=8, cgmlp_conv_kernel=5))
    x = randn(batch, time, model)
    out = layer(with_nan_padding(x), spatial_dim=time)
    each(out, time, lambda seq: e_branchformer_layer(layer, x.raw_tensor[seq, : LENGTHS[seq]]))


def test_gates_of_the_gated_convolution_begin_open(time):
    """With filters near 0 and bias 1 the result is that without gates."""
    module, x = rf.FeedForwardConvGated(model), randn(batch, time, model)
    assert module.ff_dim.size == 36
    value = functional.gelu(linear(module.linear_ff, x.raw_tensor))[..., :18]
    each(module(x, spatial_dim=time), time, lambda seq: linear(module.linear_out, value[seq, : LENGTHS[seq]]))


def test_the_second_half_is_the_gate(time):
    module, x = (
        rf.FeedForwardConvGated(model, ff_dim=8, gate_activation=rf.sigmoid, with_bias=False),
        randn(batch, time, model),
    )
    out = random_parameters(module)(with_nan_padding(x), spatial_dim=time)
    each(out, time, lambda seq: conv_gated(module, x.raw_tensor[seq, : LENGTHS[seq]], torch.sigmoid))


def test_merge_takes_different_dims(time):
    module = random_parameters(rf.Merge(in_dim1=model, in_dim2=feat, out_dim=model, merge_conv_kernel=3))
    a, b = randn(batch, time, model), randn(batch, time, feat, seed=1)
    out = module(with_nan_padding(a), with_nan_padding(b), spatial_dim=time)
    each(out, time, lambda seq: merge(module, *(x.raw_tensor[seq, : LENGTHS[seq]] for x in (a, b))))


def modules_of(module):
    return {name.rpartition(".")[0] for name, _ in module.named_parameters()}


def test_names_of_the_parameters():
    ff = [
        "ffn1.linear_ff",
        "ffn1.linear_out",
        "ffn1_layer_norm",
        "ffn2.linear_ff",
        "ffn2.linear_out",
        "ffn2_layer_norm",
    ]
    att = [
        "self_att.qkv",
        "self_att.proj",
        "self_att.linear_pos",
        "self_att",
        "self_att_layer_norm",
        "final_layer_norm",
    ]
    conv = [f"conv_block.{name}" for name in ("positionwise_conv1", "depthwise_conv", "norm", "positionwise_conv2")]
    assert modules_of(rf.ConformerEncoderLayer(model, num_heads=2)) == {*ff, *att, *conv, "conv_layer_norm"}
    cgmlp = [f"cgmlp.{name}" for name in ("linear_ff", "norm", "depthwise_conv", "linear_out")]
    branches = [*cgmlp, "cgmlp_layer_norm", "merge.depthwise_conv", "merge.merge_proj"]
    assert modules_of(rf.EBranchformerLayer(model, num_heads=2)) == {*ff, *att, *branches}


def test_parts_are_given_by_class_dict_or_pattern():
    layer = rf.ConformerEncoderLayer(
        model, num_heads=2, ff_dim=7, ff_activation=rf.relu, conv_norm_opts={"eps": 0.5}, norm=rf.RMSNorm,
        self_att=rf.RotaryPosSelfAttention, self_att_opts={"key_dim_total": Dim(8, name="key")},
    )  # fmt: skip
    assert layer.ffn1.ff_dim.size == layer.ffn2.ff_dim.size == 7 and layer.ffn1.activation is rf.relu
    assert isinstance(layer.self_att, rf.RotaryPosSelfAttention) and layer.self_att.key_dim_per_head.size == 4
    assert layer.conv_block.norm.eps == 0.5 and isinstance(layer.final_layer_norm, rf.RMSNorm)
    layer = rf.ConformerEncoderLayer(
        model, num_heads=2, conv_norm={"class": rf.LayerNorm, "eps": 0.1}, ff=rf.FeedForwardGated
    )
    assert isinstance(layer.conv_block.norm, rf.LayerNorm) and isinstance(layer.ffn2, rf.FeedForwardGated)
    layer = rf.ConformerEncoderLayer(model, num_heads=2, conv_norm=rf.LayerNorm, conv_norm_opts={"eps": 0.2})
    assert layer.conv_block.norm.eps == 0.2
    layer = rf.EBranchformerLayer(model, num_heads=2, cgmlp={"class": rf.FeedForwardConvGated, "kernel_size": 9})
    assert layer.cgmlp.depthwise_conv.filter_size[0].size == 9
    assert rf.conv_norm_use_mask_default() is None and layer.ffn1 is not layer.ffn2


def test_an_odd_size_has_no_halves():
    with raises_message(DimError, """
        FeedForwardConvGated: ff_dim has no halves.
          ff_dim  ff=7
        One half is the gate of the other, so its size is even.
    """):  # fmt: skip
        rf.FeedForwardConvGated(model, ff_dim=7)


@pytest.mark.parametrize("name", ["ConformerEncoderLayer", "EBranchformerLayer"])
def test_a_layer_without_its_spatial_dim(time, name):
    with raises_message(DimError, f"""
        {name}: no dim time<=7.
          inp  [batch=3, model=6]
          dim  time<=7
        The dim time<=7 is not among the dims of inp.
    """):  # fmt: skip
        getattr(rf, name)(model, num_heads=2)(randn(batch, model), spatial_dim=time)


# -- subsampling -------------------------------------------------------------------------------------------------------
A, B = Dim(4, name="a"), Dim(5, name="b")


@pytest.mark.parametrize("padding", ["same", "valid"])
def test_subsampling_is_conv2d_relu_and_pooling_of_each_sequence_alone(padding):
    time = ragged([13, 9, 8], batch)
    module = rf.ConformerConvSubsample(
        feat, out_dims=[A, B], filter_sizes=[(3, 3), 3], strides=[1, (2, 1)], pool_sizes=[(1, 2)], padding=padding
    )
    random_parameters(module)
    x = randn(batch, time, feat)
    out, shorter = module(with_nan_padding(x), in_spatial_dim=time)
    assert module.downsample_factor == 2 and out.feature_dim is module.out_dim

    def alone(seq):
        frames = x.raw_tensor[seq, : time.lengths[seq]][None]
        pad = 1 if padding == "same" else 0
        first, second = module.conv_layers
        y = torch.relu(functional.conv2d(frames, first.filter.raw_tensor, first.bias.raw_tensor, padding=pad))
        y = functional.max_pool2d(y, (1, 2))
        y = torch.relu(functional.conv2d(y, second.filter.raw_tensor, second.bias.raw_tensor, (2, 1), pad))
        return y.transpose(0, 1).flatten(1)  # channels before features

    assert shorter.lengths.tolist() == [len(alone(seq)) for seq in range(3)]
    assert shorter is module.get_out_spatial_dim(time)
    each(out, shorter, alone)


def test_subsampling_keeps_a_frame_of_every_sequence_with_padding_same():
    time = ragged([9, 1, 0], batch)
    module = rf.ConformerConvSubsample(feat, out_dims=[A, B], filter_sizes=[3, 3], pool_sizes=[(2, 2), (3, 2)])
    _, shorter = module(randn(batch, time, feat), in_spatial_dim=time)
    assert shorter.lengths.tolist() == [2, 1, 0] and module.downsample_factor == 6


def test_subsampling_with_other_numbers_of_options():
    with raises_message(ValueError, """
        ConformerConvSubsample: there are other numbers of options than convolutions.
          out_dims      2
          filter_sizes  1
          strides       2
          pool_sizes    2
        Each convolution has one entry in every list, pool_sizes may be fewer.
            rf.ConformerConvSubsample(in_dim, out_dims=[a, b], filter_sizes=[3, 3], strides=[2, 2])
    """):  # fmt: skip
        rf.ConformerConvSubsample(feat, out_dims=[A, B], filter_sizes=[3])


def test_subsampling_without_its_dims(time):
    with raises_message(DimError, """
        ConformerConvSubsample: no dim feat=10.
          source  [batch=3, time<=7, model=6]
          dim     feat=10
        The dim feat=10 is not among the dims of source.
    """):  # fmt: skip
        module = rf.ConformerConvSubsample(feat, out_dims=[A], filter_sizes=[3])
        module(randn(batch, time, model), in_spatial_dim=time)


# -- encoders ----------------------------------------------------------------------------------------------------------
SMALL = {"num_layers": 2, "num_heads": 2, "conv_kernel_size": 3, "ff_dim": 8}
SUBSAMPLE = {"out_dims": [A, B], "filter_sizes": [3, 3], "strides": [2, 2]}


def test_encoder_is_input_layer_projection_and_layers(time):
    sub = rf.ConformerConvSubsample(feat, **SUBSAMPLE)
    module = random_parameters(rf.ConformerEncoder(feat, model, input_layer=sub, **SMALL))
    x, collected = randn(batch, time, feat), {}
    out, shorter = module(with_nan_padding(x), in_spatial_dim=time, collected_outputs=collected)
    assert module.input_layer is sub and module.downsample_factor == 4 and list(collected) == ["0", "1"]
    assert shorter is sub.get_out_spatial_dim(time)

    def alone(seq):
        frames = Dim(LENGTHS[seq], name="frames")
        y, short = sub(
            rf.convert_to_tensor(x.raw_tensor[seq, : LENGTHS[seq]], dims=[frames, feat]), in_spatial_dim=frames
        )
        y = linear(module.input_projection, y.copy_transpose([short, sub.out_dim]).raw_tensor)
        for layer in module.layers:
            y = conformer_layer(layer, y)
        return y

    each(out, shorter, alone)


def test_frontend_and_blocks_are_the_encoder(time):
    encoder = random_parameters(
        rf.ConformerEncoder(feat, model, input_layer={"class": rf.ConformerConvSubsample, **SUBSAMPLE}, **SMALL)
    )
    frontend = rf.ConformerFrontend(feat, model, input_layer=encoder.input_layer)
    blocks = rf.ConformerEncoderV2(model, **SMALL)
    frontend.input_projection, blocks.layers = encoder.input_projection, encoder.layers
    x = randn(batch, time, feat)
    y, shorter = frontend(x, in_spatial_dim=time)
    assert frontend.downsample_factor == 4
    assert_same(blocks(y, spatial_dim=shorter), encoder(x, in_spatial_dim=time)[0])


def test_encoder_without_input_layer_and_with_positions(time):
    options = {"input_layer": None, "pos_enc": rf.sinusoidal_positional_encoding}
    encoder = random_parameters(rf.ConformerEncoder(feat, model, **options, **SMALL))
    x = randn(batch, time, feat)
    out, same = encoder(x, in_spatial_dim=time)
    assert same is time and encoder.input_embedding_scale == 6**0.5 and encoder.downsample_factor == 1
    y = encoder.input_projection(x) * 6**0.5 + rf.sinusoidal_positional_encoding(spatial_dim=time, feat_dim=model)
    assert_same(encoder.layers(y, spatial_dim=time), out)


def test_layers_begin_with_different_weights_and_have_paths():
    encoder = rf.ConformerEncoder(feat, model, input_layer=None, **SMALL)
    one, other = (layer.ffn1.linear_ff.weight.raw_tensor for layer in encoder.layers)
    assert one.shape == other.shape and not torch.equal(one, other)
    assert encoder.layers[1].self_att.module_path == "layers.1.self_att"


def test_e_branchformer_layers_in_the_encoder(time):
    encoder = rf.ConformerEncoder(
        feat, model, num_layers=2, num_heads=2, input_layer=None,
        encoder_layer={"class": rf.EBranchformerLayer, "cgmlp_conv_kernel": 3},
    )  # fmt: skip
    assert all(isinstance(layer, rf.EBranchformerLayer) for layer in encoder.layers)
    out, _ = encoder(randn(batch, time, feat), in_spatial_dim=time)
    assert set(out.dims) == {batch, time, model}


@pytest.mark.parametrize("lengths", [[0, 0, 0], [5, 0, 1]])
def test_empty_sequences(lengths):
    time = ragged(lengths, batch)
    encoder = rf.ConformerEncoder(feat, model, input_layer={"class": rf.ConformerConvSubsample, **SUBSAMPLE}, **SMALL)
    out, shorter = encoder(randn(batch, time, feat), in_spatial_dim=time)
    assert shorter.lengths.tolist() == [-(-n // 4) for n in lengths]
    rf.reduce_sum(out, axis=[batch, shorter, model]).raw_tensor.backward()
    assert all(p.raw_tensor.grad is None or p.raw_tensor.grad.isfinite().all() for p in encoder.parameters())


@pytest.mark.parametrize("name", ["ConformerFrontend", "ConformerEncoder", "ConformerEncoderV2"])
def test_an_encoder_without_its_spatial_dim(time, name):
    label = "x" if name == "ConformerEncoderV2" else "source"
    with raises_message(DimError, "\n".join([
        f"{name}: no dim time<=7.",
        f"  {label:<{max(len(label), 3)}}  [batch=3, model=6]",
        f"  {'dim':<{max(len(label), 3)}}  time<=7",
        f"The dim time<=7 is not among the dims of {label}.",
    ])):  # fmt: skip
        if name == "ConformerEncoderV2":
            rf.ConformerEncoderV2(model, **SMALL)(randn(batch, model), spatial_dim=time)
        elif name == "ConformerFrontend":
            rf.ConformerFrontend(feat, model, input_layer=None)(randn(batch, model), in_spatial_dim=time)
        else:
            rf.ConformerEncoder(feat, model, input_layer=None, **SMALL)(randn(batch, model), in_spatial_dim=time)


@pytest.mark.parametrize("kind", [rf.IEncoder, rf.ISeqFramewiseEncoder, rf.ISeqDownsamplingEncoder])
def test_an_interface_is_not_called(kind):
    options = {rf.IEncoder: {}, rf.ISeqFramewiseEncoder: {"spatial_dim": model}}.get(kind, {"in_spatial_dim": model})
    with raises_message(NotImplementedError, f"{kind.__name__} does not define __call__."):
        kind()(randn(model), **options)
