"""RunningMean: what is averaged, how it moves, when."""

import numpy as np
import pytest
import torch
from asserting import assert_same, ragged, raises_message, randn, tensor, with_nan_padding

import rfnb as rf
from rfnb import Dim, DimError

batch, feat = Dim(2, name="batch"), Dim(3, name="feat")
time = ragged([3, 1], batch)


@pytest.fixture(autouse=True)
def in_training():
    with rf.init_train_step_run_ctx():
        yield


def test_moves_towards_the_mean_of_the_real_frames():
    mean, x = rf.RunningMean(feat, alpha=0.25), randn(batch, time, feat)
    frames = np.concatenate([x.numpy()[0], x.numpy()[1, :1]]).mean(0)
    assert_same(mean(with_nan_padding(x)), tensor(0.25 * frames, feat))
    assert_same(mean(x), tensor((0.25 + 0.75 * 0.25) * frames, feat))


def test_moves_as_the_mean_that_torch_keeps_for_batch_norm():
    mean, norm = rf.RunningMean(feat, alpha=0.25), torch.nn.BatchNorm1d(3, momentum=0.25)
    for seed in range(3):
        x = randn(Dim(5, name="frames"), feat, seed=seed)
        norm(x.raw_tensor)
        assert_same(mean(x), norm.running_mean.numpy())


def test_alpha_one_is_the_last_batch():
    mean = rf.RunningMean(feat, alpha=1.0)
    mean(randn(batch, feat))
    x = randn(batch, feat, seed=1)
    assert_same(mean(x), rf.reduce_mean(x, axis=batch))


def test_a_distribution_starts_uniform_and_stays_one():
    mean = rf.RunningMean(feat, alpha=0.1, is_prob_distribution=True)
    assert_same(mean.mean, tensor([1 / 3] * 3, feat))
    out = mean(rf.softmax(randn(batch, feat), axis=feat))
    assert out.numpy().sum() == pytest.approx(1)


def test_is_not_updated_outside_of_training_unless_asked_to():
    for always in (False, True):
        mean = rf.RunningMean(feat, alpha=0.5, update_only_in_train=not always)
        with rf.get_run_ctx().train_flag_ctx(False):
            assert mean(rf.ones([batch, feat])).numpy().any() == always


def test_has_no_gradient_and_does_not_change_afterwards():
    mean, x = rf.RunningMean(feat, alpha=0.5), randn(batch, feat)
    rf.set_requires_gradient(x)
    first = mean(x)
    assert not first.raw_tensor.requires_grad
    before = first.numpy().copy()
    mean(x)
    assert (first.numpy() == before).all()


def test_a_batch_without_frames_does_not_count():
    mean = rf.RunningMean(feat, alpha=0.5, is_prob_distribution=True)
    nothing = ragged([0, 0], batch, "nothing")
    assert_same(mean(rf.zeros([batch, nothing, feat])), tensor([1 / 3] * 3, feat))


def test_over_several_dims_and_of_another_dtype():
    mean = rf.RunningMean([batch, feat], alpha=1.0, dtype="float64")
    x = randn(batch, time, feat)
    assert_same(mean(x), rf.cast(rf.reduce_mean(x, axis=time), "float64"))


def test_the_mean_is_saved_but_not_trained():
    mean = rf.RunningMean(feat, alpha=0.5)
    assert [(name, p.auxiliary, p.trainable) for name, p in mean.named_parameters()] == [("mean", True, False)]


ERRORS = {
    "no weight": (
        lambda: rf.RunningMean(feat, alpha=1.5),
        ValueError,
        """
        RunningMean: alpha is not a weight.
          alpha  1.5
        The new batch has a weight from 0 to 1.
        """,
    ),
    "no in_dim": (
        lambda: rf.RunningMean(feat, alpha=0.5)(randn(batch)),
        DimError,
        """
        RunningMean: no dim feat=3.
          x    [batch=2]
          dim  feat=3
        The dim feat=3 is not among the dims of x.
            x.dims[0]    # batch=2
        """,
    ),
    "nothing to take the mean over": (
        lambda: rf.RunningMean(feat, alpha=0.5)(randn(feat)),
        DimError,
        """
        RunningMean: nothing to take the mean over.
          x  [feat=3]
        The mean is over all dims but in_dim, so x needs another one.
        """,
    ),
}


@pytest.mark.parametrize(("call", "error", "text"), ERRORS.values(), ids=ERRORS)
def test_error(call, error, text):
    with raises_message(error, text):
        call()
