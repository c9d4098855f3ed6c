"""SpecAugment: what is masked, how much, when, and that each sequence has masks of its own."""

import numpy as np
import pytest
import torch
from asserting import assert_same, ragged, raises_message, randn, tensor

import rfnb as rf
from rfnb import Dim, DimError

batch, feat = Dim(3, name="batch"), Dim(10, name="feat")
time = ragged([300, 50, 2], batch)
ones = rf.ones([batch, time, feat])
ones.feature_dim = feat


@pytest.fixture(autouse=True)
def context():
    rf.set_random_seed(3)
    yield
    rf.init_forward_step_run_ctx()


def masked_frames(out):
    return (out.copy_transpose([batch, time, feat]).numpy() == 0).all(-1)


def test_outside_of_training_it_is_x_itself():
    rf.init_forward_step_run_ctx()
    assert rf.specaugment(ones, spatial_dim=time) is ones
    assert rf.specaugment(ones, spatial_dim=time, only_on_train=False) is not ones

    run = rf.init_train_step_run_ctx()
    with run.train_flag_ctx(False, func=rf.specaugment):
        assert rf.specaugment(ones, spatial_dim=time) is ones
    with run.train_flag_ctx(False), run.train_flag_ctx(True, func=rf.audio.specaugment):
        assert rf.specaugment(ones, spatial_dim=time) is not ones


def test_runs_are_over_whole_frames_and_whole_features():
    rf.init_train_step_run_ctx(step=5000)
    out = rf.specaugment(ones, spatial_dim=time, max_consecutive_spatial_dims=4)
    assert out.dims == ones.dims and out.feature_dim is feat
    zero = out.numpy()[0] == 0
    frames, features = zero.all(1), zero.all(0)
    assert frames.any() and features.any() and not zero.all()
    assert (zero == (frames[:, None] | features)).all()  # nothing else is masked


def test_numbers_and_lengths_of_runs_keep_to_their_bounds():
    rf.init_train_step_run_ctx(step=5000)
    seen = []
    for _ in range(30):
        out = rf.specaugment(ones, spatial_dim=time, max_consecutive_spatial_dims=3, max_consecutive_feature_dims=1)
        frames = masked_frames(out)[0]
        seen.append(frames.sum())
        assert 2 <= frames.sum() <= 12 * 3 and 2 <= (out.numpy()[0] == 0).all(0).sum() <= 5
    assert len(set(seen)) > 5


def test_masks_ramp_up_with_the_steps():
    options = {
        "spatial_dim": time,
        "max_consecutive_spatial_dims": 1,
        "max_consecutive_feature_dims": 1,
        "steps": (10, 20, 30),
    }
    most = []
    for step in (9, 10, 20, 30):
        rf.init_train_step_run_ctx(step=step)
        outs = [rf.specaugment(ones, **options) for _ in range(40)]
        most.append(max(masked_frames(out)[0].sum() for out in outs))
        if step == 9:
            assert all(out is ones for out in outs)
    assert most[0] == 0 and 0 < most[1] <= 3 < most[2] <= 6 < most[3] <= 12
    rf.init_train_step_run_ctx(step=0)
    assert rf.specaugment(ones, global_train_step_dependent=False, **options) is not ones


def test_each_sequence_has_its_own_masks_and_the_seed_repeats_them():
    rf.init_train_step_run_ctx(step=5000)
    rf.set_random_seed(1)
    first = rf.specaugment(ones, spatial_dim=time)
    rf.set_random_seed(1)
    assert_same(rf.specaugment(ones, spatial_dim=time), first)
    frames = masked_frames(first)
    assert (frames[0, :50] != frames[1, :50]).any()


def test_every_place_is_within_the_sequence():
    for _ in range(10):
        out = rf.random_mask(ones, mask_axis=time, broadcast_axis=feat, min_num=5, max_num=5, max_dims=1)
        frames = masked_frames(out)
        assert frames[0].sum() == 5 and frames[1, :50].sum() == 5 and frames[2, :2].all()


def test_all_frames_are_drawn_equally_often():
    ten = Dim(10, name="ten")
    many = rf.ones([Dim(4000, name="many"), ten, feat])
    out = rf.random_mask(many, mask_axis=ten, broadcast_axis=feat, min_num=2, max_num=2, max_dims=1)
    share = (out.numpy() == 0).all(-1).mean(0)
    np.testing.assert_allclose(share, 0.2, atol=0.03)


def test_the_length_of_a_run_is_uniform_up_to_the_most():
    ten = Dim(10, name="ten")
    many = rf.ones([batch_dim := Dim(3000, name="many"), ten])
    out = rf.audio.mask(many, mask_axis=ten, pos=rf.zeros([batch_dim], dtype="int32"), max_amount=4)
    counts = np.bincount((out.numpy() == 0).sum(1), minlength=5)
    assert counts[0] == 0 and len(counts) == 5
    np.testing.assert_allclose(counts[1:] / 3000, 0.25, atol=0.03)


def test_the_runs_of_a_sequence_have_lengths_of_their_own():
    frames = Dim(1000, name="frames")
    many = rf.ones([Dim(400, name="many"), frames, feat])
    out = rf.random_mask(many, mask_axis=frames, broadcast_axis=feat, min_num=2, max_num=2, max_dims=2)
    counts = np.bincount((out.numpy() == 0).all(-1).sum(-1), minlength=5)
    assert counts[3] > 150 and counts[2] > 70 and counts[4] > 70  # of 400: a half, a quarter, a quarter


def test_bounds_may_differ_for_each_sequence():
    number, most = tensor(np.asarray([3, 0, 1], np.int32), batch), tensor(np.asarray([1, 1, 2], np.int32), batch)
    out = rf.random_mask(ones, mask_axis=time, broadcast_axis=[feat], min_num=number, max_num=number, max_dims=most)
    frames = masked_frames(out)
    assert frames[0].sum() == 3 and frames[1].sum() == 0 and 1 <= frames[2, :2].sum() <= 2


def test_one_run_by_hand_with_another_value():
    x = tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], pair := Dim(2, name="pair"), three := Dim(3, name="three"))
    pos = tensor(np.asarray([2, 0], np.int32), pair)
    out = rf.audio.mask(x, mask_axis=three, pos=pos, max_amount=1, mask_value=-1)
    assert_same(out, [[1.0, 2.0, -1.0], [-1.0, 5.0, 6.0]])


def test_no_frames_no_sequences_and_no_gradient_through_a_mask():
    rf.init_train_step_run_ctx(step=5000)
    none, empty = Dim(0, name="none"), Dim(0, name="empty")
    for x, axis in (
        (rf.zeros([batch, none, feat]), none),
        (rf.zeros([empty, time_5 := Dim(5, name="five"), feat]), time_5),
    ):
        assert rf.specaugment(x, spatial_dim=axis, feature_dim=feat).raw_tensor.shape == x.raw_tensor.shape
    raw = torch.ones(300, 10, requires_grad=True)
    frames = Dim(300, name="frames")
    out = rf.specaugment(rf.convert_to_tensor(raw, dims=[frames, feat]), spatial_dim=frames, feature_dim=feat)
    rf.reduce_sum(out, axis=[frames, feat]).raw_tensor.backward()
    assert ((raw.grad == 0) == (out.raw_tensor == 0)).all() and (raw.grad == 0).any()


def test_the_features_have_to_be_named():
    with raises_message(
        DimError,
        """
        specaugment: which dim is that of the features?
          x            [batch=3, time<=300, feat=10]
          spatial_dim  time<=300
        x has no feature_dim.
            rf.specaugment(..., feature_dim=...)
        """,
    ):
        rf.specaugment(randn(batch, time, feat), spatial_dim=time)


def test_the_documented_names_are_in_audio():
    assert rf.audio.specaugment is rf.specaugment and rf.audio.mel_filterbank is rf.mel_filterbank
