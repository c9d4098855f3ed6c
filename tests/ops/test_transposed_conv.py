"""Transposed convolution: by hand, as the transpose of conv, against raw torch, and its lengths."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from asserting import assert_same, ragged, raises_message, randn, tensor, with_nan_padding

import rfnb as rf
from rfnb import Dim, DimError

batch, feat, out_dim, three = Dim(4, name="batch"), Dim(2, name="feat"), Dim(3, name="out"), Dim(3, name="filter")
time = ragged([5, 4, 1, 0], batch)
x, filter_, bias = randn(batch, time, feat), randn(out_dim, feat, three, seed=1), randn(out_dim, seed=2)


def transposed(source=x, padding="valid", **options):
    options = {"in_spatial_dims": [time], "filter": filter_, "filter_size": three, **options}
    return rf.transposed_conv(source, in_dim=feat, out_dim=out_dim, padding=padding, **options)


def test_every_frame_puts_the_filter_times_itself():
    one, frames = Dim(1, name="one"), Dim(2, name="frames")
    source, weight = (
        tensor([[1.0, 10.0]], one, frames),
        tensor([[[1.0, 2.0, 3.0]]], one, one.copy(match_priority=1), three),
    )
    options = {"in_dim": one, "out_dim": one, "in_spatial_dims": [frames], "filter": weight, "filter_size": three}
    for padding, stride, expected in (
        ("valid", 3, [1, 2, 3, 10, 20, 30]),
        ("valid", 2, [1, 2, 13, 20, 30]),
        ("valid", 4, [1, 2, 3, 0, 10, 20, 30, 0]),
        ("same", 2, [2, 13, 20, 30]),
        ("same", 1, [12, 23]),
        (1, 2, [2, 13, 20]),
    ):
        out, _ = rf.transposed_conv(source, padding=padding, strides=stride, **options)
        assert out.numpy().tolist() == [expected]


@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("padding", ["same", "valid", 1])
def test_it_is_the_transpose_of_conv(padding, stride):
    long = Dim(11, name="long")
    frames = randn(feat, long, seed=3)
    options = {"filter": filter_, "filter_size": three, "padding": padding, "strides": stride}
    down, (short,) = rf.conv(frames, in_dim=feat, out_dim=out_dim, in_spatial_dims=[long], **options)
    other = randn(out_dim, short, seed=4)
    up, (back,) = rf.transposed_conv(
        other, in_dim=out_dim, out_dim=feat, in_spatial_dims=[short], output_padding=stride - 1, **options
    )
    length = min(back.extent, 11)  # frames from here on were not seen, or are beyond the end
    left = float((down.raw_tensor * other.copy_transpose(down.dims).raw_tensor).sum())
    up_raw = up.copy_transpose([feat, back]).raw_tensor
    right = float((up_raw[:, :length] * frames.raw_tensor[:, :length]).sum())
    assert left == pytest.approx(right, rel=1e-5)


@pytest.mark.parametrize(
    ("padding", "stride", "more"), [("valid", 1, 0), ("valid", 2, 1), (1, 2, 0), (1, 3, 2), (0, 3, None)]
)
def test_a_sequence_in_the_batch_gives_what_torch_gives_for_it_alone(padding, stride, more):
    out, (dim,) = transposed(with_nan_padding(x), padding, strides=stride, output_padding=more, bias=bias)
    pad = 0 if padding == "valid" else padding
    for index, length in enumerate(time.lengths[:3]):
        expected = F.conv_transpose1d(
            x.raw_tensor[index, :length].T[None],
            filter_.raw_tensor.transpose(0, 1),
            bias.raw_tensor,
            stride,
            pad,
            more or 0,
        )[0]
        assert dim.lengths[index] == expected.shape[1]
        got = out.copy_transpose([batch, out_dim, dim]).raw_tensor[index, :, : dim.lengths[index]]
        torch.testing.assert_close(got, expected)


def test_the_stride_is_the_filter_size_by_default_and_a_pooling_with_it_gives_the_dim_back():
    out, (dim,) = transposed()
    assert dim is time * 3 and out.feature_dim is out_dim
    assert rf.max_pool1d(out, pool_size=3, padding="same", in_spatial_dim=dim)[1] is time
    assert transposed(padding="same", strides=1)[1] == (time,)


def test_remove_padding_drops_frames_on_both_sides():
    whole, (dim,) = transposed(bias=bias)
    out, (less,) = transposed(bias=bias, remove_padding=2)
    assert less is dim - 4 and less.lengths.tolist() == [11, 8, 0, 0]
    np.testing.assert_array_equal(out.numpy()[0], whole.numpy()[0][:, 2:13])
    np.testing.assert_array_equal(out.numpy()[1][:, :8], whole.numpy()[1][:, 2:10])


def test_no_frames_give_what_the_lengths_say():
    none, empty = Dim(0, name="none"), Dim(0, name="empty")
    out, (dim,) = transposed(rf.zeros([none, feat]), in_spatial_dims=[none], strides=2, bias=bias)
    assert dim.size == 1  # of the bias alone
    assert_same(out, rf.expand_dim(bias, dim))
    frames = Dim(3, name="frames")
    out, (dim,) = transposed(rf.zeros([empty, feat, frames]), in_spatial_dims=[frames])
    assert out.raw_tensor.shape == (0, 3, 9) and dim.size == 9


def test_out_spatial_dim_without_size_gets_it():
    new = Dim(None, name="new")
    out, dims = transposed(out_spatial_dims=[new])
    assert dims == (new,) and new.lengths.tolist() == [15, 12, 3, 0] and new in out.dims


@pytest.mark.parametrize("padding", ["same", "valid", 0, 3])
@pytest.mark.parametrize("more", [None, 1])
def test_lengths_are_the_same_for_a_number_a_dim_and_a_tensor(padding, more):
    options = {"filter_size": 3, "stride": 2, "padding": padding, "dilation_rate": 2, "output_padding": more}
    dim = rf.calc_transposed_conv_out_length(time, **options)
    assert dim.lengths.tolist() == [rf.calc_transposed_conv_out_length(int(n), **options) for n in time.lengths]
    assert rf.calc_transposed_conv_out_length(time.dyn_size_ext, **options).numpy().tolist() == dim.lengths.tolist()
    assert rf.make_transposed_conv_out_spatial_dims([time], filter_size=3, padding="valid") == [time * 3]


@pytest.mark.parametrize(
    ("layer", "num"), [(rf.TransposedConv1d, 1), (rf.TransposedConv2d, 2), (rf.TransposedConv3d, 3)]
)
def test_layers_are_torchs(layer, num):
    module = layer(feat, feat, 2, padding="valid", strides=1)
    module.bias.initial = rf.Normal(1.0)
    dims = [Dim(3, name="a"), Dim(4, name="b"), Dim(5, name="c")][:num]
    source = randn(batch, *dims, feat)
    out, new = module(source, **({"in_spatial_dim": dims[0]} if num == 1 else {"in_spatial_dims": dims}))
    new = (new,) if num == 1 else new
    assert tuple(module.filter.raw_tensor.shape) == (2, 2) + (2,) * num
    raw = source.copy_transpose([batch, feat, *dims]).raw_tensor
    of_torch = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)[num - 1]
    expected = of_torch(raw, module.filter.raw_tensor, module.bias.raw_tensor)
    torch.testing.assert_close(out.copy_transpose([batch, feat, *new]).raw_tensor, expected)


ERRORS = {
    "negative output padding": (
        lambda: transposed(output_padding=-1),
        ValueError,
        """
        transposed_conv: output_padding -1.
          output_padding  -1
        It is 0 or more.
            output_padding=0
        """,
    ),
    "no in_dim": (
        lambda: transposed(randn(batch, time, out_dim)),
        DimError,
        """
        transposed_conv: no dim feat=2.
          source  [batch=4, time<=5, out=3]
          dim     feat=2
        The dim feat=2 is not among the dims of source.
            source.dims[0]    # batch=4
            source.dims[1]    # time<=5
            source.dims[2]    # out=3
        """,
    ),
    "another filter": (
        lambda: transposed(filter=randn(out_dim, three)),
        DimError,
        """
        transposed_conv: the filter has other dims.
          filter  [out=3, filter=3]
          needed  feat=2, out=3, filter=3
        A filter is over the features that go out and in, and over its sizes along the spatial dims.
        """,
    ),
}


@pytest.mark.parametrize(("call", "error", "text"), ERRORS.values(), ids=ERRORS)
def test_error(call, error, text):
    with raises_message(error, text):
        call()
