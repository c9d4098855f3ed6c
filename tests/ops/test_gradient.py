"""Gradients: asked for, of ragged data, and stopped."""

import math

import numpy as np
from asserting import assert_same, ragged, raises_message, randn, tensor, with_nan_padding

import rfnb as rf
from rfnb import Dim

batch, feat = Dim(3, name="batch"), Dim(2, name="feat")
time = ragged([3, 1, 0], batch)


def tracked(x):
    rf.set_requires_gradient(x)
    return x


def test_gradient_of_a_square():
    x = tracked(tensor([1.0, 2.0, 3.0], batch))
    assert_same(rf.gradient(rf.reduce_sum(x * x, axis=batch), x), [2.0, 4.0, 6.0])


def test_gradient_of_a_gradient():
    x = tracked(tensor([1.0, 2.0, 3.0], batch))
    first = rf.gradient(rf.reduce_sum(x * x * x, axis=batch), x)
    assert_same(rf.gradient(rf.reduce_sum(first, axis=batch), x), [6.0, 12.0, 18.0])


def test_no_nan_of_the_padding_gets_into_a_gradient():
    x = tracked(with_nan_padding(randn(batch, time, feat)))
    mean = rf.reduce_mean(rf.softmax(x, axis=time) * rf.copy(x).copy_masked(0), axis=[batch, time, feat])
    assert not np.isnan(rf.gradient(mean, x).numpy()).any()


def test_a_sequence_without_frames_has_no_nan_gradient():
    x = tracked(rf.zeros([batch, time]))
    total = rf.reduce_sum(rf.softmax(x, axis=time), axis=[batch, time])
    assert not any(map(math.isnan, rf.gradient(total, x).numpy().ravel()))


def test_stop_gradient():
    x = tracked(tensor([1.0, 2.0, 3.0], batch))
    y = rf.reduce_sum(x * rf.stop_gradient(x), axis=batch)
    assert_same(rf.gradient(y, x), [1.0, 2.0, 3.0])


def test_nothing_is_tracked_in_a_scope():
    x = tracked(tensor([1.0, 2.0, 3.0], batch))
    with rf.stop_gradient_scope():
        assert not (x * x).raw_tensor.requires_grad
    assert (x * x).raw_tensor.requires_grad


def test_a_gradient_that_was_not_tracked():
    x = tensor([1.0, 2.0, 3.0], batch)
    with raises_message(
        ValueError,
        """
        gradient: nothing was tracked.
          y tracked  False
          x tracked  False
        Ask for gradients of x before y is computed from it.
            rf.set_requires_gradient(x)
        """,
    ):
        rf.gradient(rf.reduce_sum(x, axis=batch), x)
