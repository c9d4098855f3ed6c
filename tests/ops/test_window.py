"""Windows, repeated frames, one more frame: what changes the length of sequences."""

import numpy as np
import pytest
import torch
from asserting import assert_same, ragged, raises_message, randn, tensor

import rfnb as rf
from rfnb import Dim

batch, feat, three = Dim(2, name="batch"), Dim(4, name="feat"), Dim(3, name="window")
time = ragged([4, 2], batch)
x = tensor([[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, -9.0, -9.0]], batch, time)


def test_same_window_is_centred_and_ends_with_the_sequence():
    out, dim = rf.window(x, spatial_dim=time, window_dim=three)
    assert dim is time
    rows = [[[0, 1, 2], [1, 2, 3], [2, 3, 4], [3, 4, 0]], [[0, 5, 6], [5, 6, 0], [0, 0, 0], [0, 0, 0]]]
    assert_same(out, tensor(np.asarray(rows, np.float32), batch, time, three))


def test_window_of_the_past_only():
    out, _ = rf.window(x, spatial_dim=time, window_dim=three, window_right=0, pad_value=-1)
    rows = [[[-1, -1, 1], [-1, 1, 2], [1, 2, 3], [2, 3, 4]], [[-1, -1, 5], [-1, 5, 6], [0, 0, 0], [0, 0, 0]]]
    assert_same(out, tensor(np.asarray(rows, np.float32), batch, time, three))


def test_valid_windows_with_stride():
    out, dim = rf.window(x, spatial_dim=time, window_dim=Dim(2, name="pair"), padding="valid", stride=2)
    assert dim.lengths.tolist() == [2, 1]
    assert out.numpy()[0].tolist() == [[1, 2], [3, 4]] and out.numpy()[1, 0].tolist() == [5, 6]


def test_window_without_mask_reads_the_padding():
    out, _ = rf.window(x, spatial_dim=time, window_dim=three, use_mask=False)
    assert out.numpy()[1, 1].tolist() == [5, 6, -9]


def test_repeat():
    counts = tensor(np.asarray([[2, 0, 1, 1], [0, 3, 7, 7]], np.int32), batch, time)
    out, dim = rf.repeat(x, in_spatial_dim=time, repeats=counts)
    assert dim.lengths.tolist() == [4, 3]
    assert_same(out, tensor([[1.0, 1.0, 3.0, 4.0], [6.0, 6.0, 6.0, 0.0]], batch, dim))


def test_repeat_by_a_number():
    y = tensor([1.0, 2.0, 3.0, 4.0], feat)
    assert rf.repeat(y, in_spatial_dim=feat, repeats=2)[0].numpy().tolist() == [1, 1, 2, 2, 3, 3, 4, 4]


def test_the_gradient_of_a_repeated_frame_adds_up():
    raw = torch.ones(4, requires_grad=True)
    counts = tensor(np.asarray([2, 0, 1, 3], np.int32), feat)
    out, dim = rf.repeat(rf.convert_to_tensor(raw, dims=[feat]), in_spatial_dim=feat, repeats=counts)
    rf.reduce_sum(out, axis=dim).raw_tensor.backward()
    assert raw.grad.tolist() == [2, 0, 1, 3]


def test_cum_concat_step_appends_at_the_end_of_each_sequence():
    out, dim = rf.cum_concat_step(tensor([7.0, 8.0], batch), prev_accum=x, axis=time)
    assert dim is time + 1
    assert_same(out, tensor([[1.0, 2.0, 3.0, 4.0, 7.0], [5.0, 6.0, 8.0, 0.0, 0.0]], batch, dim))


def test_cum_concat_step_begins_with_nothing():
    empty = Dim(0, name="keys")
    out, dim = rf.cum_concat_step(tensor([7.0, 8.0], batch), prev_accum=rf.zeros([batch, empty]), axis=empty)
    assert out.numpy().tolist() == [[7.0], [8.0]] and dim.extent == 1


def test_an_empty_axis_gets_an_entry():
    empty = Dim(0, name="empty")
    out, dim = rf.expand_make_non_empty(rf.zeros([batch, empty]), axis=empty)
    assert out.dims == (batch, dim) and out.numpy().tolist() == [[0], [0]]
    assert rf.expand_make_non_empty(x, axis=time)[0] is x


def test_an_empty_axis_gets_an_entry_where_only_the_padding_of_its_lengths_has_some():
    outer = ragged([1, 0], batch, "outer")
    empty = ragged([[1], [2]], [batch, outer], "inner") - 1
    out, dim = rf.expand_make_non_empty(rf.zeros([batch, outer, empty]), axis=empty)
    assert dim.size == 1 and out.raw_tensor.shape == (2, 1, 1)


@pytest.mark.parametrize("mode", ["constant", "reflect", "replicate", "circular"])
def test_padding_below_0_cuts_off(mode):
    five = Dim(5, name="five")
    out, (dim,) = rf.pad(rf.range_over_dim(five), axes=[five], padding=[(-2, 1)], mode=mode)
    assert out.numpy().tolist() == [2, 3, 4, {"constant": 0, "reflect": 3, "replicate": 4, "circular": 2}[mode]]
    out, (dim,) = rf.pad(rf.range_over_dim(five), axes=[five], padding=[(-3, -4)])
    assert dim.extent == 0 and out.raw_tensor.shape == (0,)


def test_reshape_regroups_the_entries():
    a, b, rest = Dim(3, name="a"), Dim(2, name="b"), Dim(None, name="rest")
    y = randn(batch, a, feat)
    out = rf.reshape(y, [a, feat], [rest, b])
    assert out.dims == (batch, rest, b)
    assert np.array_equal(out.numpy(), y.numpy().reshape(2, 6, 2))


ERRORS = {
    "another padding": (
        lambda: rf.window(x, spatial_dim=time, window_dim=three, padding="full"),
        ValueError,
        """
        window: padding "full".
          known  same, valid
        It is one of these.
            padding="same"
        """,
    ),
    "left and right beside the width": (
        lambda: rf.window(x, spatial_dim=time, window_dim=three, window_left=2, window_right=2),
        ValueError,
        """
        window: left and right do not make up the width.
          left   2
          right  2
          width  3
        The width is left + 1 + right. Give one of them:
            rf.window(..., window_left=...)
        """,
    ),
    "a negative count": (
        lambda: rf.repeat(x, in_spatial_dim=time, repeats=-1),
        ValueError,
        """
        repeat: a negative count.
          repeats  [batch=2, time<=4]
        A frame is repeated 0 times or more.
            rf.maximum(repeats, 0)
        """,
    ),
}


@pytest.mark.parametrize(("call", "error", "text"), ERRORS.values(), ids=ERRORS)
def test_error(call, error, text):
    with raises_message(error, text):
        call()
