"""Conformer encoders and their subsampling against raw torch, for each sequence alone."""

import pytest
import torch
from asserting import assert_same, ragged, raises_message, randn, with_nan_padding
from plain_conformer import assert_each, conformer_layer, linear, random_parameters
from torch.nn import functional

import rfnb as rf
from rfnb import Dim, DimError

batch, model, feat = Dim(3, name="batch"), Dim(6, name="model"), Dim(10, name="feat")
LENGTHS = [7, 4, 1]


@pytest.fixture
def time():
    return ragged(LENGTHS, batch)


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
        return y.permute(1, 2, 0).flatten(1)  # the channels of one feature beside each other

    assert shorter.lengths.tolist() == [len(alone(seq)) for seq in range(3)]
    assert shorter is module.get_out_spatial_dim(time)
    assert_each(out, shorter, alone)


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
            source.dims[0]    # batch=3
            source.dims[1]    # time<=7
            source.dims[2]    # model=6
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

    assert_each(out, shorter, alone)


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
        f"    {label}.dims[0]    # batch=3",
        f"    {label}.dims[1]    # model=6",
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
