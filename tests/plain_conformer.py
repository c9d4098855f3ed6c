"""Conformer and E-Branchformer in raw torch, written from the papers, with the parameters of modules of ours.

x is (T, features), one sequence.
"""

import torch
from plain_relative_attention import relative_attention
from torch.nn import functional

import rfnb as rf


def random_parameters(module):
    """Running statistics too: a variance is positive."""
    rf.set_random_seed(3)
    for name, parameter in module.named_parameters():
        parameter.initial = 0.7 if name.endswith("variance") else rf.Normal(0.5)
    return module


def assert_each(got, time, expected):
    """Compare {batch, time, ...} with what `expected(seq)` gives for each sequence alone."""
    (batch,) = time.length_dims
    (feature,) = got.remaining_dims([batch, time])
    raw = got.copy_transpose([batch, time, feature]).raw_tensor
    for seq, length in enumerate(time.lengths):
        torch.testing.assert_close(raw[seq, :length], expected(seq), rtol=2e-4, atol=2e-5)


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


def conformer_layer(layer, x):
    x = x + feed_forward(layer.ffn1, layer_norm(layer.ffn1_layer_norm, x)) / 2
    x = x + relative_attention(layer.self_att, layer_norm(layer.self_att_layer_norm, x))
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
    far = relative_attention(layer.self_att, layer_norm(layer.self_att_layer_norm, x))
    near = conv_gated(layer.cgmlp, layer_norm(layer.cgmlp_layer_norm, x))
    x = x + merge(layer.merge, far, near)
    x = x + feed_forward(layer.ffn2, layer_norm(layer.ffn2_layer_norm, x)) / 2
    return layer_norm(layer.final_layer_norm, x)
