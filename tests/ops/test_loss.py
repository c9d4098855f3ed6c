"""Losses: cross entropy in its forms, label smoothing."""

import math
import textwrap

import numpy as np
import pytest
from asserting import assert_same, ragged, raises_message, randn, tensor, with_nan_padding

import rfnb as rf
from rfnb import Dim, DimError

batch, classes = Dim(2, name="batch"), Dim(5, name="classes")
time, frames = ragged([3, 1], batch), ragged([3, 1], batch, "frames")
logits = randn(batch, time, classes)
target = tensor(np.asarray([[4, 0, 1], [2, 9, -9]], np.int32), batch, time, sparse_dim=classes)


def loss(estimated=logits, target=target, kind="logits", **options):
    return rf.cross_entropy(estimated=estimated, target=target, axis=classes, estimated_type=kind, **options)


def test_uniform_logits_cost_the_log_of_their_number():
    assert_same(
        loss(rf.zeros([batch, time, classes])), tensor([[math.log(5)] * 3, [math.log(5), 0.0, 0.0]], batch, time)
    )


def test_is_minus_the_log_probability_of_the_target():
    ids = rf.clip_by_value(target, 0, 4)
    expected = -rf.gather(rf.log_softmax(logits, axis=classes), indices=ids, axis=classes)
    assert_same(loss(), expected)


def test_padding_is_zero_whatever_it_holds():
    assert loss(with_nan_padding(logits)).numpy()[1, 1:].tolist() == [0.0, 0.0]


def test_the_three_kinds_agree():
    assert_same(loss(rf.log_softmax(logits, axis=classes), kind="log-probs"), loss())
    assert_same(loss(rf.softmax(logits, axis=classes), kind="probs"), loss())


def test_a_distribution_as_target():
    ids = rf.clip_by_value(target, 0, 4)
    assert_same(loss(target=rf.one_hot(ids)), loss())


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("kind", ["logits", "log-probs", "probs"])
def test_one_target_for_all_frames_and_one_distribution_for_all_targets(kind, smoothing):
    estimated = {"logits": rf.identity, "log-probs": lambda x: rf.log_softmax(x, axis=classes)}.get(
        kind, lambda x: rf.softmax(x, axis=classes)
    )
    ids = tensor(np.asarray([3, 1], np.int32), batch, sparse_dim=classes)
    given = {"kind": kind, "label_smoothing": smoothing}
    of_sequence = loss(estimated(logits), ids, **given)
    assert of_sequence.dims == (batch, time)
    assert_same(of_sequence, loss(estimated(logits), rf.expand_dim(ids, time), **given))
    assert_same(loss(estimated(logits), rf.one_hot(ids), **given), of_sequence)

    unigram = randn(classes, seed=1)
    of_all = loss(estimated(unigram), target, **given)
    assert_same(of_all, loss(estimated(rf.expand_dims(unigram, [batch, time])), target, **given))


def test_label_smoothing_of_the_loss_is_the_loss_of_the_mixture():
    ids = rf.clip_by_value(target, 0, 4)
    mixture = rf.one_hot(ids) * 0.9 + 0.1 / 5
    assert_same(loss(label_smoothing=0.1), loss(target=mixture))


def test_label_smoothing_spreads_over_the_other_classes():
    smooth = [0.9, 0.025, 0.025, 0.025, 0.025]
    assert_same(rf.label_smoothing(tensor(np.asarray(0), sparse_dim=classes), 0.1), tensor(smooth, classes))
    assert_same(
        rf.label_smoothing(tensor([1.0, 0.0, 0.0, 0.0, 0.0], classes), 0.1, axis=classes), tensor(smooth, classes)
    )


ERRORS = {
    "other frames": (
        lambda: loss(randn(batch, frames, classes)),
        DimError,
        """
        cross_entropy: estimated and target have different dims beside the classes.
          estimated  [batch=2, frames<=3, classes=5]
          target     [batch=2, time<=3]
          axis       classes=5
        Each frame has one target. If two dims are the same axis, replace one first:
            target, _ = rf.replace_dim(target, in_dim=time, out_dim=frames)
        """,
    ),
    "other frames of the same name": (
        lambda: loss(randn(batch, ragged([3, 1], batch), classes)),
        DimError,
        """
        cross_entropy: estimated and target have different dims beside the classes.
          estimated  [batch=2, time#1<=3, classes=5]
          target     [batch=2, time#2<=3]
          axis       classes=5
        Each frame has one target. If two dims are the same axis, replace one first:
            target, _ = rf.replace_dim(target, in_dim=target.dims[1], out_dim=estimated.dims[1])
        """,
    ),
    "no classes": (
        lambda: loss(randn(batch, time)),
        DimError,
        """
        cross_entropy: no dim classes=5.
          estimated  [batch=2, time<=3]
          dim        classes=5
        The dim classes=5 is not among the dims of estimated.
            estimated.dims[0]    # batch=2
            estimated.dims[1]    # time<=3
        """,
    ),
    "an unknown kind": (
        lambda: loss(kind="energies"),
        ValueError,
        """
        cross_entropy: estimated_type "energies".
          known  logits, log-probs, probs
        It is one of these.
            estimated_type="logits"
        """,
    ),
    "labels of a larger vocabulary": (
        lambda: loss(target=rf.set_sparse_dim(target, Dim(9, name="words"))),
        DimError,
        """
        cross_entropy: the targets may not be indices into the classes.
          target  [batch=2, time<=3] over words=9
          axis    classes=5
        There are more labels than classes. If the targets are indices into the classes, say so:
            target = rf.set_sparse_dim(target, classes)
        """,
    ),
    "a smoothing that is no share": (
        lambda: loss(label_smoothing=10),
        ValueError,
        """
        cross_entropy: label_smoothing is no share.
          label_smoothing  10
        It is the share of the target's mass that goes to all classes, from 0 to 1:
            rf.cross_entropy(..., label_smoothing=0.1)
        """,
    ),
    "smoothing over which dim": (
        lambda: rf.label_smoothing(logits, 0.1),
        DimError,
        """
        label_smoothing: over which dim?
          prob  [batch=2, time<=3, classes=5]
        It has neither a sparse_dim nor a feature_dim, so name the classes:
            rf.label_smoothing(prob, 0.1, axis=...)
        """,
    ),
}


@pytest.mark.parametrize(("call", "error", "text"), ERRORS.values(), ids=ERRORS)
def test_error(call, error, text):
    with raises_message(error, text):
        call()


def test_labels_of_a_smaller_vocabulary_are_classes():
    """Those without a blank or an end label, as public code has them."""
    few = rf.set_sparse_dim(rf.clip_by_value(target, 0, 2), Dim(3, name="few"))
    assert_same(loss(target=few), loss(target=rf.set_sparse_dim(few, classes)))


@pytest.mark.parametrize(("kind", "other"), [("log-probs", "probs"), ("probs", "log-probs")])
def test_what_are_no_probabilities_is_said(kind, other):
    with pytest.warns(UserWarning) as caught:
        low = loss(rf.exp(rf.abs(logits)), kind=kind).numpy()
    assert str(caught[0].message) == textwrap.dedent(
        f"""\
        cross_entropy: a loss below 0.
          estimated  [batch=2, time<=3, classes=5] as {kind}
          target     [batch=2, time<=3]
          lowest     {low.min():.4g}
        A probability is at most 1, and -log of it at least 0. So these are none; say what they are:
            estimated_type="logits"       # any numbers
            estimated_type="{other}\""""
    )
    assert caught[0].filename == __file__


def test_a_softmax_of_a_softmax_is_said():
    with pytest.warns(UserWarning) as caught:
        loss(rf.softmax(logits, axis=classes))
    assert [str(each.message) for each in caught] == [
        textwrap.dedent(
            """\
            cross_entropy: a softmax of a softmax.
              estimated  [batch=2, time<=3, classes=5], of rf.softmax
              type       logits
            As logits they are all nearly equal, and little is learned. Leave the softmax out, or say what they are:
                estimated_type="probs\""""
        )
    ]
    assert caught[0].filename == __file__


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_nobody_is_warned_of_probabilities(dtype, recwarn):
    sure = rf.cast(logits * 40.0, dtype)  # the best class has all
    loss(rf.log_softmax(sure, axis=classes), kind="log-probs")
    loss(rf.softmax(sure, axis=classes), kind="probs")
    assert not recwarn.list


def test_what_are_no_probabilities_is_said_of_a_recorded_loop():
    loop = rf.Loop(axis=time)
    with pytest.warns(UserWarning, match="cross_entropy: a loss below 0"):
        with loop:
            step = rf.cross_entropy(
                estimated=rf.exp(loop.unstack(logits)), target=loop.unstack(target.copy_masked(0)), axis=classes,
                estimated_type="log-probs",
            )  # fmt: skip
            losses = loop.stack(step)
    assert_same(losses, -rf.gather(rf.exp(logits), indices=target.copy_masked(0), axis=classes).copy_masked(0))


@pytest.mark.parametrize("kind", ["log-probs", "probs"])
def test_a_target_below_0_is_no_class(kind):
    ids = tensor(np.asarray([[4, -1, 1], [2, 0, 0]], np.int32), batch, time, sparse_dim=classes)
    loss(rf.softmax(logits, axis=classes), kind="probs")  # then there is a plan
    with pytest.raises(IndexError, match="1 of the indices out of range"):
        loss(rf.softmax(logits, axis=classes), ids, kind=kind)
