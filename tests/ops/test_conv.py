"""Convolution: against raw torch per sequence, the dims of the result, and the edges."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from asserting import assert_same, ragged, raises_message, randn, tensor, with_nan_padding

import rfnb as rf
from rfnb import Dim, DimError

batch, feat, out_dim, three = Dim(4, name="batch"), Dim(2, name="feat"), Dim(6, name="out"), Dim(3, name="filter")
heads, wide = Dim(2, name="heads"), Dim(8, name="wide")
time = ragged([7, 5, 1, 0], batch)
x = randn(batch, time, feat)
filter_ = randn(out_dim, feat, three, seed=1)
bias = randn(out_dim, seed=2)


def conv(source=x, filter=filter_, padding="same", **options):
    options = {"in_dim": feat, "out_dim": out_dim, "in_spatial_dims": [time], "filter_size": three, **options}
    return rf.conv(source, filter=filter, padding=padding, **options)


def by_sequence(pads, **options):
    """Raw torch on each sequence alone: the lengths and the results {feature, frame}."""
    results = []
    for index, length in enumerate(time.lengths):
        alone = F.pad(x.raw_tensor[index, :length].T, pads)
        reach = (three.size - 1) * options.get("dilation", 1)
        results.append(
            F.conv1d(alone[None], filter_.raw_tensor, bias.raw_tensor, **options)[0]
            if alone.shape[1] > reach
            else torch.zeros(6, 0)
        )
    return results


@pytest.mark.parametrize(
    ("padding", "stride", "dilation", "pads"),
    [
        ("same", 1, 1, (1, 1)),
        ("same", 2, 1, (1, 1)),
        ("same", 3, 2, (2, 2)),
        ("valid", 1, 1, (0, 0)),
        ("valid", 2, 2, (0, 0)),
        (1, 1, 1, (1, 1)),
        (2, 3, 1, (2, 2)),
        (5, 2, 3, (5, 5)),
    ],
)
def test_a_sequence_in_the_batch_gives_what_torch_gives_for_it_alone(padding, stride, dilation, pads):
    out, (dim,) = conv(with_nan_padding(x), padding=padding, strides=stride, dilation_rate=dilation, bias=bias)
    expected = by_sequence(pads, stride=stride, dilation=dilation)
    # A sequence of no frames gives none with "same", though the padding around it could be read.
    assert dim.lengths.tolist() == [
        each.shape[1] if n or padding != "same" else 0 for each, n in zip(expected, time.lengths)
    ]
    for index, each in enumerate(expected):
        got = out.copy_transpose([batch, out_dim, dim]).raw_tensor[index, :, : dim.lengths[index]]
        torch.testing.assert_close(got, each[:, : dim.lengths[index]])


def test_a_hand_made_convolution():
    one = Dim(1, name="one")
    y = tensor([[1.0, 2.0, 3.0, 4.0, 5.0]], one, Dim(5, name="frames"))
    frames, weight = y.dims[1], tensor([[[1.0, 10.0, 100.0]]], one, one.copy(match_priority=1), three)
    out, (dim,) = rf.conv(
        y, in_dim=one, out_dim=one, in_spatial_dims=[frames], filter=weight, filter_size=three, padding="same"
    )
    assert dim is frames
    assert_same(out, [[210.0, 321.0, 432.0, 543.0, 54.0]])


def test_an_even_filter_reaches_one_frame_more_after_than_before():
    four = Dim(4, name="filter")
    weight = randn(out_dim, feat, four)
    out, _ = conv(filter=weight, filter_size=four)
    expected = F.conv1d(F.pad(x.raw_tensor[0].T[None], (1, 2)), weight.raw_tensor)[0]
    torch.testing.assert_close(out.copy_transpose([batch, out_dim, time]).raw_tensor[0], expected)


def test_same_with_stride_takes_every_second_frame_of_same_without():
    whole, _ = conv()
    out, (dim,) = conv(strides=2)
    assert dim is time.ceildiv_right(2)
    np.testing.assert_allclose(out.numpy()[0], whole.numpy()[0][:, ::2], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(out.numpy()[1][:, :3], whole.numpy()[1][:, :5:2], rtol=1e-5, atol=1e-6)


def test_the_same_convolution_of_the_same_dim_gives_the_same_dim():
    assert conv()[1] == (time,)
    assert conv(padding=1)[1] == (time,)
    assert conv(padding="valid")[1][0] is conv(padding="valid")[1][0] is time - 2
    assert conv(padding="valid", strides=2)[1][0] is (time - 2).ceildiv_right(2)
    (made,) = rf.make_conv_out_spatial_dims([time], filter_size=three, padding="valid", strides=2)
    assert made is conv(padding="valid", strides=2)[1][0]


def test_two_dims_with_options_of_their_own_and_batch_dims_anywhere():
    height, width = ragged([5, 4, 2, 3], batch, "height"), ragged([4, 1, 6, 2], batch, "width")
    y = randn(height, heads, batch, width, feat)
    size = (Dim(3, name="h"), Dim(2, name="w"))
    weight = randn(out_dim, feat, *size)
    out, (new_height, new_width) = rf.conv(
        with_nan_padding(y),
        in_dim=feat,
        out_dim=out_dim,
        in_spatial_dims=[height, width],
        filter=weight.copy_transpose([size[1], feat, out_dim, size[0]]),
        filter_size=size,
        padding=["same", "valid"],
        strides=[1, 2],
        dilation_rate=[2, 1],
    )
    assert new_height is height and new_width is (width - 1).ceildiv_right(2)
    raw = y.copy_transpose([batch, heads, feat, height, width]).raw_tensor
    for index, (h, w) in enumerate(zip(height.lengths, width.lengths)):
        if w < 2:
            assert new_width.lengths[index] == 0
            continue
        alone = F.pad(raw[index, :, :, :h, :w], (0, 0, 2, 2))
        expected = F.conv2d(alone, weight.raw_tensor, stride=(1, 2), dilation=(2, 1))
        got = out.copy_transpose([batch, heads, out_dim, new_height, new_width]).raw_tensor[index]
        torch.testing.assert_close(got[..., :h, : new_width.lengths[index]], expected)


def test_three_spatial_dims():
    dims = [Dim(size, name=f"d{size}") for size in (3, 5, 4)]
    y = randn(feat, *dims)
    module = rf.Conv3d(feat, out_dim, 2, padding="valid")
    out, new = module(y, in_spatial_dims=dims)
    assert [dim.size for dim in new] == [2, 4, 3]
    expected = F.conv3d(y.raw_tensor[None], module.filter.raw_tensor, module.bias.raw_tensor)[0]
    torch.testing.assert_close(out.copy_transpose([out_dim, *new]).raw_tensor, expected)


def test_groups_see_only_their_own_features():
    y, weight = randn(batch, time, wide), randn(out_dim, wide // 2, three)
    out, _ = conv(y, weight, in_dim=wide, groups=2)
    raw = torch.where(torch.arange(7) < torch.tensor(time.lengths)[:, None, None], y.raw_tensor.transpose(1, 2), 0)
    expected = F.conv1d(raw, weight.raw_tensor, padding=1, groups=2)
    assert_same(out, rf.convert_to_tensor(expected, dims=[batch, out_dim, time]))


def test_out_spatial_dim_without_size_gets_it_and_with_size_is_checked():
    new = Dim(None, name="new")
    out, (dim,) = conv(padding="valid", out_spatial_dims=[new])
    assert dim is new and new.lengths.tolist() == [5, 3, 0, 0] and new in out.dims
    assert conv(padding="valid", out_spatial_dims=[new])[1] == (new,)


def test_an_empty_batch_gives_an_empty_result():
    none = Dim(0, name="none")
    frames = ragged(np.zeros(0, int), none, "frames")
    for padding in ("same", "valid", 4):
        out, (dim,) = conv(rf.zeros([none, frames, feat]), padding=padding, in_spatial_dims=[frames])
        assert out.raw_tensor.shape == (0, 6, dim.extent)


def test_a_filter_longer_than_every_sequence_gives_no_frames_and_gradients_of_zero():
    short = Dim(2, name="short")
    y = randn(short, feat)
    rf.set_requires_gradient(y)
    out, (dim,) = conv(y, padding="valid", in_spatial_dims=[short])
    assert dim.size == 0 and out.raw_tensor.shape == (6, 0)
    out.raw_tensor.sum().backward()
    assert y.raw_tensor.grad.abs().sum() == 0


def test_gradients_are_those_of_torch_and_none_come_from_the_padding():
    y, weight = rf.copy(x), rf.copy(filter_)
    for each in (y, weight):
        rf.set_requires_gradient(each)
    rf.reduce_sum(rf.square(conv(y, weight)[0]), axis=[batch, time, out_dim]).raw_tensor.backward()
    raw, raw_weight = (each.raw_tensor.detach().clone().requires_grad_() for each in (x, filter_))
    mask = (torch.arange(7) < torch.tensor(time.lengths)[:, None])[..., None]
    expected = F.conv1d(torch.where(mask, raw, 0).transpose(1, 2), raw_weight, padding=1)
    torch.where(mask.transpose(1, 2), expected, 0).square().sum().backward()
    torch.testing.assert_close(y.raw_tensor.grad, raw.grad)
    torch.testing.assert_close(weight.raw_tensor.grad, raw_weight.grad)


def test_training_after_inference_mode_over_the_same_dims():
    width = ragged([3, 1, 2, 2], batch, "width")
    module, source = rf.Conv2d(feat, out_dim, 3, padding="same"), randn(batch, time, width, feat)
    with torch.inference_mode():
        expected, _ = module(source, in_spatial_dims=[time, width])
    rf.set_requires_gradient(source)
    out, _ = module(source, in_spatial_dims=[time, width])
    out.raw_tensor.sum().backward()
    assert_same(out, expected)
    assert source.raw_tensor.grad.isfinite().all() and module.filter.raw_tensor.grad.isfinite().all()


def test_without_mask_the_padding_is_read():
    out, _ = conv(with_nan_padding(x), use_mask=False)
    assert np.isnan(out.copy_transpose([batch, time, out_dim]).numpy()[1, 4]).all()


@pytest.mark.parametrize("padding", ["same", "valid", 0, 3])
def test_lengths_are_the_same_for_a_number_a_dim_and_a_tensor(padding):
    options = {"filter_size": 3, "stride": 2, "padding": padding, "dilation_rate": 2}
    dim = rf.calc_conv_out_length(time, **options)
    assert dim.lengths.tolist() == [rf.calc_conv_out_length(int(n), **options) for n in time.lengths]
    assert rf.calc_conv_out_length(time.dyn_size_ext, **options).numpy().tolist() == dim.lengths.tolist()
    assert dim is rf.calc_conv_out_length(time, **options)


char = ragged(np.ones((4, 7), int), [batch, time], "char")
ERRORS = {
    "unknown padding": (
        lambda: conv(padding="full"),
        ValueError,
        """
        conv: padding 'full'.
          known  "same", "valid", a number of frames
        The padding is one of these.
            padding="same"
        """,
    ),
    "no stride": (
        lambda: conv(strides=-1),
        ValueError,
        """
        conv: strides -1.
          strides  -1
        It is 1 or more.
            strides=1
        """,
    ),
    "two strides for one dim": (
        lambda: conv(strides=[1, 2]),
        DimError,
        """
        conv: strides is for another number of dims.
          in_spatial_dims  [time<=7]
          strides          1, 2
        There is one value for each spatial dim, or one for all.
        """,
    ),
    "no in_dim": (
        lambda: conv(in_dim=wide),
        DimError,
        """
        conv: no dim wide=8.
          source  [batch=4, time<=7, feat=2]
          dim     wide=8
        The dim wide=8 is not among the dims of source.
            source.dims[0]    # batch=4
            source.dims[1]    # time<=7
            source.dims[2]    # feat=2
        """,
    ),
    "no spatial dim": (
        lambda: conv(in_spatial_dims=[wide]),
        DimError,
        """
        conv: no dim wide=8.
          source  [batch=4, time<=7, feat=2]
          dim     wide=8
        The dim wide=8 is not among the dims of source.
            source.dims[0]    # batch=4
            source.dims[1]    # time<=7
            source.dims[2]    # feat=2
        """,
    ),
    "no spatial dims": (
        lambda: conv(in_spatial_dims=[], filter_size=[]),
        DimError,
        """
        conv: one, two or three different spatial dims are needed.
          source           [batch=4, time<=7, feat=2]
          in_spatial_dims  []
        The dims that it does not move along are batch dims, which need no mention.
        """,
    ),
    "features as spatial dim": (
        lambda: conv(in_spatial_dims=[feat]),
        DimError,
        """
        conv: feat=2 is in_dim and spatial dim.
          source           [batch=4, time<=7, feat=2]
          in_spatial_dims  [feat=2]
        A filter sees all features of a frame, and moves along other dims.
        """,
    ),
    "out_dim is a batch dim": (
        lambda: conv(out_dim=batch, filter=randn(batch, feat, three)),
        DimError,
        """
        conv: the same dim twice.
          dims   [batch=4, batch=4, time<=7]
          twice  batch=4
        A tensor holds a dim once. A square weight uses the dim and its twin:
            batch.copy(match_priority=1)
        """,
    ),
    "lengths over the spatial dim": (
        lambda: conv(randn(batch, time, char, feat)),
        DimError,
        """
        conv: the lengths of char<=1 are over time<=7.
          tensor   [batch=4, time<=7, char<=1, feat=2]
          axis     time<=7
          lengths  [batch=4, time<=7]
        Frames that move would lose their lengths. Work on a copy of the axis with its own lengths, or without char.
        """,
    ),
    "groups that do not divide": (
        lambda: conv(groups=4),
        DimError,
        """
        conv: 4 groups.
          source   [batch=4, time<=7, feat=2]
          in_dim   feat=2
          out_dim  out=6
        The number of groups divides the sizes of in_dim and out_dim.
        """,
    ),
    "another filter": (
        lambda: conv(filter=randn(out_dim, wide, three)),
        DimError,
        """
        conv: the filter has other dims.
          filter  [out=6, wide=8, filter=3]
          needed  out=6, feat=2, filter=3
        A filter is over the features that go out and in, and over its sizes along the spatial dims.
        """,
    ),
    "a bias over another dim": (
        lambda: conv(bias=randn(feat)),
        DimError,
        """
        conv: the bias is over out_dim.
          bias     [feat=2]
          out_dim  out=6
        There is one number for each output feature.
        """,
    ),
    "an out_spatial_dim of another size": (
        lambda: conv(padding="valid", out_spatial_dims=[time]),
        DimError,
        """
        conv: out_spatial_dim has another size.
          out_spatial_dim  time<=7 [7, 5, 1, 0]
          needed           time-2<=5 [5, 3, 0, 0]
        An out_spatial_dim fits, or has no size yet and takes it over.
            Dim(None, name="time")
        """,
    ),
    "two out_spatial_dims for one": (
        lambda: conv(out_spatial_dims=[time, time]),
        DimError,
        """
        conv: another number of out_spatial_dims.
          out_spatial_dims  [time<=7, time<=7]
          needed            [time<=7]
        There is one for each of in_spatial_dims.
        """,
    ),
}


@pytest.mark.parametrize(("call", "error", "text"), ERRORS.values(), ids=ERRORS)
def test_error(call, error, text):
    with raises_message(error, text):
        call()
