"""Pooling: by hand, against raw torch per sequence, and what does not count."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from asserting import assert_same, ragged, raises_message, randn, tensor, with_nan_padding

import rfnb as rf
from rfnb import Dim, DimError

batch, feat = Dim(4, name="batch"), Dim(3, name="feat")
time = ragged([7, 5, 1, 0], batch)
x = randn(batch, time, feat)
y = tensor(
    [[1.0, 5.0, 3.0, 4.0, 2.0], [-1.0, -2.0, -3.0, 9.0, 9.0]],
    pair := Dim(2, name="pair"),
    frames := ragged([5, 3], pair),
)


def test_windows_do_not_overlap_by_default():
    out, dim = rf.max_pool1d(y, pool_size=2, in_spatial_dim=frames)
    assert dim is (frames - 1).ceildiv_right(2) and dim.lengths.tolist() == [2, 1]
    assert out.numpy().tolist() == [[5, 4], [-1, 0]]


def test_the_maximum_sees_no_padding_and_gives_0_in_its_own():
    out, dim = rf.max_pool1d(y, pool_size=2, padding="same", in_spatial_dim=frames)
    assert dim is frames.ceildiv_right(2)
    assert out.numpy().tolist() == [[5, 4, 2], [-1, -3, 0]]


def test_the_mean_divides_by_the_real_frames_only():
    out, dim = rf.pool1d(y, mode="avg", pool_size=3, strides=2, padding="same", in_spatial_dim=frames)
    assert_same(out, tensor([[3.0, 4.0, 3.0], [-1.5, -2.5, 0.0]], pair, dim))


def test_a_window_without_any_real_frame_gives_what_reduce_gives_for_nothing():
    options = {"pool_size": 1, "strides": 1, "padding": 1, "in_spatial_dim": frames}
    largest, dim = rf.max_pool1d(y, **options)
    assert dim is frames + 2
    assert largest.numpy()[1].tolist() == [-np.inf, -1, -2, -3, -np.inf, 0, 0]
    assert rf.pool1d(y, mode="avg", **options)[0].numpy()[1].tolist() == [0, -1, -2, -3, 0, 0, 0]


@pytest.mark.parametrize("mode", ["max", "avg"])
@pytest.mark.parametrize("stride", [1, 2, 4])
def test_a_sequence_in_the_batch_gives_what_torch_gives_for_it_alone(mode, stride):
    out, (dim,) = rf.pool(
        with_nan_padding(x), mode=mode, pool_size=3, padding=1, strides=stride, in_spatial_dims=[time]
    )
    of_torch = F.max_pool1d if mode == "max" else lambda *args: F.avg_pool1d(*args, count_include_pad=False)
    for index, length in enumerate(time.lengths):
        if length:
            expected = of_torch(x.raw_tensor[index, :length].T[None], 3, stride, 1)[0]
            got = out.copy_transpose([batch, feat, dim]).raw_tensor[index, :, : dim.lengths[index]]
            torch.testing.assert_close(got, expected)


@pytest.mark.parametrize("mode", ["max", "avg"])
def test_two_dims_with_dilation(mode):
    height, width = Dim(7, name="height"), Dim(6, name="width")
    image = randn(height, batch, width)
    out, (new_height, new_width) = rf.pool2d(
        image, mode=mode, pool_size=(3, 2), dilation_rate=(2, 1), strides=(1, 3), in_spatial_dims=[height, width]
    )
    windows = image.copy_transpose([batch, height, width]).raw_tensor.unfold(1, 5, 1)[..., ::2].unfold(2, 2, 3)
    expected = windows.amax((-1, -2)) if mode == "max" else windows.mean((-1, -2))
    assert_same(out, rf.convert_to_tensor(expected, dims=[batch, new_height, new_width]))


def test_three_dims_and_a_batch_dim_that_is_ragged_itself():
    dims = [Dim(4, name="a"), Dim(5, name="b"), Dim(6, name="c")]
    volume = randn(batch, time, *dims)
    out, new = rf.pool3d(volume, mode="max", pool_size=2, in_spatial_dims=dims)
    expected = F.max_pool3d(volume.raw_tensor, 2)
    assert_same(out, rf.convert_to_tensor(expected, dims=[batch, time, *new]))


def test_the_mean_of_integers_is_a_float():
    ints = tensor(np.asarray([1, 2, 4], np.int32), three := Dim(3, name="three"))
    assert rf.pool1d(ints, mode="avg", pool_size=2, strides=1, in_spatial_dim=three)[0].numpy().tolist() == [1.5, 3]
    assert rf.max_pool1d(ints, pool_size=2, strides=1, in_spatial_dim=three)[0].dtype == "int32"


def test_the_feature_dim_follows():
    source = rf.copy(x)
    source.feature_dim = feat
    assert rf.max_pool1d(source, pool_size=2, in_spatial_dim=time)[0].feature_dim is feat
    out, dim = rf.max_pool1d(source, pool_size=2, in_spatial_dim=feat)
    assert out.feature_dim is dim


def test_the_gradient_of_a_mean_reaches_real_frames_only():
    raw = y.raw_tensor.clone().requires_grad_()
    out, dim = rf.pool1d(
        rf.convert_to_tensor(raw, dims=y.dims), mode="avg", pool_size=2, padding="same", in_spatial_dim=frames
    )
    rf.reduce_sum(out, axis=[pair, dim]).raw_tensor.backward()
    assert raw.grad.tolist() == [[0.5, 0.5, 0.5, 0.5, 1], [0.5, 0.5, 1, 0, 0]]


def test_without_mask_the_padding_counts():
    out, _ = rf.pool(y, mode="max", pool_size=2, in_spatial_dims=[frames], padding="same", use_mask=False)
    assert out.numpy()[1].tolist() == [-1, 9, 0]


def test_training_after_inference_mode_over_the_same_dims():
    def mean(raw):
        source = rf.convert_to_tensor(raw, dims=[batch, time, feat])
        return rf.pool1d(source, mode="avg", pool_size=2, in_spatial_dim=time)[0].raw_tensor

    with torch.inference_mode():
        expected = mean(x.raw_tensor)
    raw = x.raw_tensor.clone().requires_grad_()
    out = mean(raw)
    out.sum().backward()
    torch.testing.assert_close(out, expected)
    assert raw.grad.isfinite().all()


def test_no_sequences_and_no_frames():
    none = Dim(0, name="none")
    for mode in ("max", "avg"):
        out, dim = rf.pool1d(
            rf.zeros([none, feat, frames_5 := Dim(5, name="frames")]), mode=mode, pool_size=2, in_spatial_dim=frames_5
        )
        assert out.raw_tensor.shape == (0, 3, 2) and dim.size == 2
        out, dim = rf.pool1d(rf.zeros([feat, none]), mode=mode, pool_size=2, in_spatial_dim=none)
        assert out.raw_tensor.shape == (3, 0) and dim.size == 0


ERRORS = {
    "unknown mode": (
        lambda: rf.pool(x, mode="min", pool_size=2, in_spatial_dims=[time]),
        ValueError,
        """
        pool: unknown mode "min".
          known  max, avg
        A mode is one of these.
            mode="max"
        """,
    ),
    "another number of dims": (
        lambda: rf.pool2d(x, mode="max", pool_size=2, in_spatial_dims=[time]),
        DimError,
        """
        pool2d: 2 spatial dims are needed.
          source           [batch=4, time<=7, feat=3]
          in_spatial_dims  [time<=7]
        The number is that of the dims along which the window moves.
        """,
    ),
    "no such dim": (
        lambda: rf.max_pool1d(x, pool_size=2, in_spatial_dim=frames - 1),
        DimError,
        """
        pool: no dim time-1<=4.
          source  [batch=4, time<=7, feat=3]
          dim     time-1<=4
        The dim time-1<=4 is not among the dims of source.
            source.dims[0]    # batch=4
            source.dims[1]    # time<=7
            source.dims[2]    # feat=3
        """,
    ),
    "an empty window": (
        lambda: rf.max_pool1d(x, pool_size=0, in_spatial_dim=time),
        ValueError,
        """
        pool: pool_size 0.
          pool_size  0
        It is 1 or more.
            pool_size=1
        """,
    ),
}


@pytest.mark.parametrize(("call", "error", "text"), ERRORS.values(), ids=ERRORS)
def test_error(call, error, text):
    with raises_message(error, text):
        call()
