"""Gradients changed on their way back: scaled, shifted, smoothed like labels."""

import numpy as np
import pytest
import torch
from asserting import assert_same, ragged, raises_message, randn, tensor, with_nan_padding

import rfnb as rf
from rfnb import Dim, DimError

batch, classes = Dim(2, name="batch"), Dim(4, name="classes")
time = ragged([3, 1], batch)
PROBS = [0.1, 0.2, 0.3, 0.4]


def gradient_of(fn, x, weights):
    """The gradient of sum(fn(x) * weights), padding left out."""
    rf.set_requires_gradient(x)
    out = fn(x)
    assert_same(rf.stop_gradient(out), rf.stop_gradient(x), tolerance=0)
    return rf.gradient(rf.reduce_sum(out * weights, axis=x.dims), x)


def test_scale():
    x, weights = randn(batch, classes), randn(batch, classes, seed=1)
    assert_same(gradient_of(lambda x: rf.scaled_gradient(x, 0.5), x, weights), weights * 0.5)


def test_a_negative_scale_reverses():
    x, weights = randn(batch, classes), randn(batch, classes, seed=1)
    assert_same(gradient_of(lambda x: rf.scaled_gradient(x, -1), x, weights), -weights)


def test_scale_zero_stops():
    x = randn(batch)
    rf.set_requires_gradient(x)
    assert not rf.scaled_gradient(x, 0).raw_tensor.requires_grad


def test_a_scale_per_sequence():
    x, weights = randn(classes, batch), randn(batch, classes, seed=1)
    scale = tensor([2.0, 0.0], batch)
    assert_same(gradient_of(lambda x: rf.scaled_gradient(x, scale), x, weights), weights * scale)


def test_shift():
    x, weights = randn(batch, classes), randn(batch, classes, seed=1)
    shift = tensor([0.0, 1.0, 2.0, 3.0], classes)
    got = gradient_of(lambda x: rf.scaled_gradient_ext(x, scale=2, shift=shift), x, weights)
    assert_same(got, weights * 2 + shift)


def test_shift_times_the_sum_of_absolute_gradients_over_an_axis():
    x, weights = randn(batch, classes), randn(batch, classes, seed=1)
    got = gradient_of(
        lambda x: rf.scaled_gradient_ext(x, scale=2, shift=0.1, scale_shift_by_sum_over_axis=classes), x, weights
    )
    assert_same(got, weights * 2 + rf.reduce_sum(rf.abs(weights), axis=classes) * 0.1)


def test_the_sum_is_over_real_frames_and_padding_gets_no_shift():
    x = with_nan_padding(randn(batch, time))
    rf.set_requires_gradient(x)
    out = rf.scaled_gradient_ext(x, scale=0, shift=1.0, scale_shift_by_sum_over_axis=time)
    total = rf.reduce_sum(out, axis=[batch, time], use_mask=False)
    assert_same(rf.gradient(total, x), [[3.0, 3.0, 3.0], [1.0, 0.0, 0.0]])
    assert rf.gradient(total, x).numpy()[1].tolist() == [1.0, 0.0, 0.0]


def test_the_gradient_of_the_gradient_is_scaled_too():
    x = tensor([1.0, 2.0], batch)
    rf.set_requires_gradient(x)
    first = rf.gradient(rf.reduce_sum(rf.square(rf.scaled_gradient(x, 3.0)), axis=batch), x)
    assert_same(rf.stop_gradient(first), [6.0, 12.0])
    assert_same(rf.gradient(rf.reduce_sum(first, axis=batch), x), [18.0, 18.0])


def smoothed(**options):
    return lambda x: rf.label_smoothed_log_prob_gradient(x, 0.3, axis=classes, **options)


def test_smoothing_gives_the_gradient_of_smoothed_labels():
    ids = tensor(np.asarray([2, 0], np.int32), batch, sparse_dim=classes)
    log_prob = rf.log_softmax(randn(batch, classes), axis=classes)
    got = gradient_of(smoothed(), rf.stop_gradient(log_prob), -rf.one_hot(ids))
    assert_same(got, -rf.label_smoothing(ids, 0.3))
    assert_same(got, [[-0.1, -0.1, -0.7, -0.1], [-0.7, -0.1, -0.1, -0.1]])


def test_excluded_labels_neither_give_nor_get():
    target = tensor([PROBS, [0.0, 0.0, 0.0, 1.0]], batch, classes)
    got = gradient_of(smoothed(exclude_labels=[-1]), randn(batch, classes), -target)
    # 0.6 of the first target is smoothed over three labels: each keeps 0.7 and gives 0.15 to each other one
    first = [0.7 * p + 0.15 * (0.6 - p) for p in PROBS[:3]]
    assert_same(got, -tensor([[*first, 0.4], [0.0, 0.0, 0.0, 1.0]], batch, classes))


@pytest.mark.parametrize("exclude_labels", [None, [1]])
def test_each_sequence_may_have_a_smoothing_of_its_own(exclude_labels):
    def of_share(share):
        return lambda x: rf.label_smoothed_log_prob_gradient(x, share, axis=classes, exclude_labels=exclude_labels)

    x, grad = randn(batch, classes), randn(batch, classes, seed=1)
    got = gradient_of(of_share(tensor([0.3, 0.1], batch)), x, grad)
    for index, share in enumerate([0.3, 0.1]):
        one = gradient_of(of_share(share), x, grad)
        assert_same(rf.gather(got, indices=index, axis=batch), rf.gather(one, indices=index, axis=batch))
        assert_same(gradient_of(of_share(tensor(np.float32(share))), x, grad), one)


def test_smoothing_of_ctc_keeps_the_mass_of_each_frame():
    label = Dim(2, name="label")
    targets = tensor(np.asarray([[0, 1], [2, 2]], np.int32), batch, label, sparse_dim=classes)
    frames = Dim(5, name="frames")
    x = rf.log_softmax(randn(batch, frames, classes), axis=classes)
    rf.set_requires_gradient(x)

    def gradient(x, of):
        dims = {"input_spatial_dim": frames, "targets_spatial_dim": label, "blank_index": 3}
        loss = rf.ctc_loss(logits=of, logits_normalized=True, targets=targets, **dims)
        return rf.gradient(rf.reduce_sum(loss, axis=batch), x)

    hard, soft = gradient(x, x), gradient(x, smoothed()(x))
    assert_same(rf.reduce_sum(soft, axis=classes), -rf.ones([batch, frames]))
    assert_same(soft, hard * 0.6 + rf.reduce_sum(hard, axis=classes) * 0.1)


def test_nothing_to_smooth():
    x = randn(batch, classes)
    x.feature_dim = classes
    assert rf.label_smoothed_log_prob_gradient(x, 0.0) is x
    assert smoothed(exclude_labels=[0, 1, 2])(x) is x


@pytest.mark.parametrize("kind", ["float64", "float32"])
def test_the_gradient_keeps_its_dtype(kind):
    x = rf.cast(randn(batch, classes), kind)
    assert gradient_of(smoothed(exclude_labels=[1]), x, rf.ones_like(x)).dtype == kind
    assert x.raw_tensor.dtype == getattr(torch, kind)


ERRORS = {
    "a scale over another dim": (
        lambda: rf.scaled_gradient(randn(batch), randn(classes)),
        DimError,
        """
        scaled_gradient_ext: scale has dims that source lacks.
          source  [batch=2]
          scale   [classes=4]
        The gradient has the dims of source.
        """,
    ),
    "an axis that is not there": (
        lambda: rf.scaled_gradient_ext(randn(batch), scale=1, shift=1, scale_shift_by_sum_over_axis=classes),
        DimError,
        """
        scaled_gradient_ext: no dim classes=4.
          source  [batch=2]
          dim     classes=4
        The dim classes=4 is not among the dims of source.
            source.dims[0]    # batch=2
        """,
    ),
    "labels that are not there": (
        lambda: smoothed()(randn(batch)),
        DimError,
        """
        label_smoothed_log_prob_gradient: no dim classes=4.
          log_prob  [batch=2]
          dim       classes=4
        The dim classes=4 is not among the dims of log_prob.
            log_prob.dims[0]    # batch=2
        """,
    ),
    "labels that are not said": (
        lambda: rf.label_smoothed_log_prob_gradient(randn(batch, classes), 0.1),
        DimError,
        """
        label_smoothed_log_prob_gradient: over which dim?
          log_prob  [batch=2, classes=4]
        It has no feature_dim, so name the labels:
            rf.label_smoothed_log_prob_gradient(..., axis=...)
        """,
    ),
    "no such label": (
        lambda: smoothed(exclude_labels=[4])(randn(batch, classes)),
        IndexError,
        """
        label_smoothed_log_prob_gradient: no label 4 to exclude.
          axis  classes=4
        The excluded labels are indices into the axis.
        """,
    ),
}


@pytest.mark.parametrize(("call", "error", "text"), ERRORS.values(), ids=ERRORS)
def test_error(call, error, text):
    with raises_message(error, text):
        call()
