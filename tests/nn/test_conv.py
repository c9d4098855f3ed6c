"""Conv1d, Conv2d, Conv3d: parameters, square ones, initial values."""

import numpy as np
import torch
import torch.nn.functional as F
from asserting import ragged, raises_message, randn

import rfnb as rf
from rfnb import Dim, DimError

batch, feat, out_dim = Dim(2, name="batch"), Dim(4, name="feat"), Dim(6, name="out")
time = ragged([7, 5], batch)


def test_parameters_are_named_and_ordered_as_documented():
    module = rf.Conv2d(feat, out_dim, (3, 5), padding="same", groups=2)
    shapes = {name: tuple(parameter.raw_tensor.shape) for name, parameter in module.named_parameters()}
    assert shapes == {"filter": (6, 2, 3, 5), "bias": (6,)}
    assert rf.Conv1d(feat, out_dim, 3, padding="same", with_bias=False).bias is None


def test_a_square_convolution_is_torchs():
    module, x = rf.Conv1d(feat, feat, 3, padding="same"), randn(batch, time, feat)
    module.bias.initial = rf.Normal(1.0)
    out, dim = module(x, in_spatial_dim=time)
    assert dim is time and out.feature_dim is feat and set(out.dims) == {batch, time, feat}
    expected = F.conv1d(x.raw_tensor[:1].transpose(1, 2), module.filter.raw_tensor, module.bias.raw_tensor, padding=1)
    torch.testing.assert_close(out.copy_transpose([batch, feat, time]).raw_tensor[:1], expected)


def test_a_depthwise_convolution_gives_every_feature_its_own_filter():
    module, x = rf.Conv1d(feat, feat, 3, padding="same", groups=4, with_bias=False), randn(batch, time, feat)
    out, _ = module(x, in_spatial_dim=time)
    assert module.filter.raw_tensor.shape == (4, 1, 3)
    expected = F.conv1d(x.raw_tensor[:1].transpose(1, 2), module.filter.raw_tensor, padding=1, groups=4)
    torch.testing.assert_close(out.copy_transpose([batch, feat, time]).raw_tensor[:1], expected)


def test_the_filter_size_may_be_dims_also_one_dim_twice():
    size = Dim(3, name="size")
    module = rf.Conv2d(feat, out_dim, (size, size), padding="valid")
    assert module.filter_size == (size, size.copy(match_priority=-1))
    assert rf.Conv1d(feat, out_dim, size, padding="valid").filter_size == (size,)


def test_glorot_counts_what_the_filter_sees():
    rf.set_random_seed(1)
    module = rf.Conv1d(Dim(64, name="in"), Dim(128, name="out"), 5, padding="same")
    limit = np.sqrt(6 / (5 * 64 + 5 * 128))
    largest = float(module.filter.raw_tensor.detach().abs().max())
    assert 0.999 * limit < largest <= limit


def test_a_chain_of_layers_with_stride():
    layers = [rf.Conv1d(feat, feat, 3, padding="same", strides=2) for _ in range(2)]
    x, dim = randn(batch, time, feat), time
    for layer in layers:
        x, dim = layer(x, in_spatial_dim=dim)
    assert dim is time.ceildiv_right(4) and dim.lengths.tolist() == [2, 2]


def test_a_filter_size_for_another_number_of_dims():
    with raises_message(
        DimError,
        """
        Conv2d: filter_size has another number of dims.
          filter_size  3, 3, 3
        There is one size for all spatial dims, or 2 of them.
        """,
    ):
        rf.Conv2d(feat, out_dim, (3, 3, 3), padding="same")
