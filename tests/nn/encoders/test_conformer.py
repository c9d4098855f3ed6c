"""Layers of Conformer and E-Branchformer against the papers written out in raw torch, for each sequence alone."""

import pytest
import torch
from asserting import ragged, raises_message, randn, with_nan_padding
from parameter_gradients import assert_same_gradients
from plain_conformer import (
    assert_each,
    conformer_layer,
    conv_block,
    conv_gated,
    e_branchformer_layer,
    linear,
    merge,
    random_parameters,
)
from torch.nn import functional

import rfnb as rf
from rfnb import Dim, DimError

batch, model, feat = Dim(3, name="batch"), Dim(6, name="model"), Dim(10, name="feat")
LENGTHS = [7, 4, 1]


@pytest.fixture
def time():
    return ragged(LENGTHS, batch)


@pytest.mark.parametrize("kernel_size", [1, 3, 4, 9])
def test_conv_block_is_glu_depthwise_conv_norm_swish(time, kernel_size):
    module = random_parameters(rf.ConformerConvBlock(model, kernel_size=kernel_size, norm=rf.BatchNorm))
    x = randn(batch, time, model)
    out = module(with_nan_padding(x), spatial_dim=time)
    assert_each(out, time, lambda seq: conv_block(module, x.raw_tensor[seq, : LENGTHS[seq]]))


def test_conformer_layer_is_that_of_the_paper_for_each_sequence_alone(time):
    layer = random_parameters(rf.ConformerEncoderLayer(model, num_heads=2, conv_kernel_size=4))
    x = randn(batch, time, model)
    out = layer(with_nan_padding(x), spatial_dim=time)
    assert set(out.dims) == {batch, time, model}
    assert_each(out, time, lambda seq: conformer_layer(layer, x.raw_tensor[seq, : LENGTHS[seq]]))


@pytest.mark.parametrize("name", ["ConformerEncoderLayer", "EBranchformerLayer"])
def test_gradients_are_those_of_the_paper(time, name):
    layer = random_parameters(getattr(rf, name)(model, num_heads=2, ff_dim=8))
    written_out = conformer_layer if name == "ConformerEncoderLayer" else e_branchformer_layer

    def ours(raw):
        got = layer(rf.convert_to_tensor(raw, dims=[batch, time, model]), spatial_dim=time)
        got = got.copy_transpose([batch, time, model]).raw_tensor
        return [got[seq, :length] for seq, length in enumerate(LENGTHS)]

    def paper(raw):
        return [written_out(layer, raw[seq, :length]) for seq, length in enumerate(LENGTHS)]

    assert_same_gradients(layer, torch.randn(3, 7, 6, generator=torch.Generator().manual_seed(0)), ours, paper)


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
    assert_each(out, time, lambda seq: e_branchformer_layer(layer, x.raw_tensor[seq, : LENGTHS[seq]]))


def test_gates_of_the_gated_convolution_begin_open(time):
    """With filters near 0 and bias 1 the result is that without gates."""
    module, x = rf.FeedForwardConvGated(model), randn(batch, time, model)
    assert module.ff_dim.size == 36
    value = functional.gelu(linear(module.linear_ff, x.raw_tensor))[..., :18]
    assert_each(module(x, spatial_dim=time), time, lambda seq: linear(module.linear_out, value[seq, : LENGTHS[seq]]))


def test_the_second_half_is_the_gate(time):
    module, x = (
        rf.FeedForwardConvGated(model, ff_dim=8, gate_activation=rf.sigmoid, with_bias=False),
        randn(batch, time, model),
    )
    out = random_parameters(module)(with_nan_padding(x), spatial_dim=time)
    assert_each(out, time, lambda seq: conv_gated(module, x.raw_tensor[seq, : LENGTHS[seq]], torch.sigmoid))


def test_merge_takes_different_dims(time):
    module = random_parameters(rf.Merge(in_dim1=model, in_dim2=feat, out_dim=model, merge_conv_kernel=3))
    a, b = randn(batch, time, model), randn(batch, time, feat, seed=1)
    out = module(with_nan_padding(a), with_nan_padding(b), spatial_dim=time)
    assert_each(out, time, lambda seq: merge(module, *(x.raw_tensor[seq, : LENGTHS[seq]] for x in (a, b))))


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
            inp.dims[0]    # batch=3
            inp.dims[1]    # model=6
    """):  # fmt: skip
        getattr(rf, name)(model, num_heads=2)(randn(batch, model), spatial_dim=time)
