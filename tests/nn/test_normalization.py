"""Normalisation layers against torch, sequence by sequence where there is padding."""

import pytest
import torch
import torch.nn.functional as F
from asserting import assert_same, ragged, raises_message, randn, with_nan_padding

import rfnb as rf
from rfnb import Dim, DimError

batch, feat, heads = Dim(3, name="batch"), Dim(6, name="feat"), Dim(2, name="heads")
LENGTHS = [7, 4, 1]


@pytest.fixture
def time():
    return ragged(LENGTHS, batch)


@pytest.fixture(autouse=True)
def context():
    rf.set_random_seed(2)
    yield
    rf.init_forward_step_run_ctx()


def sequences(x, time):
    """The raw arrays (T, feat) of the sequences, without padding."""
    raw = x.copy_transpose([batch, time, feat]).raw_tensor
    return [raw[seq, :length] for seq, length in enumerate(LENGTHS)]


def with_random_parameters(module):
    for parameter in module.parameters():
        if not parameter.auxiliary:
            parameter.initial = rf.Normal(1.0)
    return module


def test_moments_over_time_leave_the_padding_out(time):
    x = randn(batch, time, feat)
    mean, variance = rf.moments(with_nan_padding(x), time)
    for seq, frames in enumerate(sequences(x, time)):
        torch.testing.assert_close(mean.copy_transpose([batch, feat]).raw_tensor[seq], frames.mean(0))
        torch.testing.assert_close(variance.copy_transpose([batch, feat]).raw_tensor[seq], frames.var(0, correction=0))


def test_moments_over_all_frames_with_correction(time):
    x = randn(batch, time, feat)
    _, variance = rf.moments(with_nan_padding(x), [batch, time], correction=1)
    torch.testing.assert_close(variance.raw_tensor, torch.cat(sequences(x, time)).var(0, correction=1))


def test_moments_without_mask_count_the_padding(time):
    x = randn(batch, time, feat)
    mean, variance = rf.moments(x, [batch, time], use_mask=False, correction=1)
    raw = x.copy_transpose([batch, time, feat]).raw_tensor.flatten(0, 1)
    torch.testing.assert_close(mean.raw_tensor, raw.mean(0))
    torch.testing.assert_close(variance.raw_tensor, raw.var(0, correction=1))


def test_the_gradient_of_the_variance_is_exact():
    x = randn(feat)
    raw = x.raw_tensor.clone().requires_grad_()
    rf.set_requires_gradient(x)
    rf.moments(x, feat)[1].raw_tensor.backward()
    raw.var(correction=0).backward()
    torch.testing.assert_close(x.raw_tensor.grad, raw.grad)


@pytest.mark.parametrize("with_bias", [True, False])
def test_layer_norm_is_torchs_in_values_and_gradients(with_bias):
    norm, x = with_random_parameters(rf.LayerNorm(feat, with_bias=with_bias)), randn(batch, feat, heads)
    x.feature_dim = feat
    rf.set_requires_gradient(x)
    out = norm(x)
    assert out.feature_dim is feat
    sources = [x, *norm.parameters()]
    raw = [source.raw_tensor.detach().clone().requires_grad_() for source in sources]
    expected = F.layer_norm(raw[0].mT, (6,), *raw[1:], eps=1e-6)
    torch.testing.assert_close(out.copy_transpose([batch, heads, feat]).raw_tensor, expected)
    rf.reduce_sum(rf.square(out + 1.0), axis=[batch, heads, feat]).raw_tensor.backward()
    (expected + 1).square().sum().backward()
    for got, want in zip(sources, raw):
        torch.testing.assert_close(got.raw_tensor.grad, want.grad)


def test_layer_norm_over_two_dims_is_torchs_over_both():
    norm, x = with_random_parameters(rf.LayerNorm([heads, feat])), randn(feat, batch, heads)
    expected = F.layer_norm(
        x.raw_tensor.permute(1, 2, 0), (2, 6), norm.scale.raw_tensor, norm.bias.raw_tensor, eps=1e-6
    )
    torch.testing.assert_close(norm(x).copy_transpose([batch, heads, feat]).raw_tensor, expected)


def test_layer_norm_starts_as_plain_normalisation():
    norm, x = rf.LayerNorm(feat), randn(batch, feat)
    assert [name for name, _ in norm.named_parameters()] == ["scale", "bias"]
    assert_same(norm(x), rf.normalize(x, axis=feat))


@pytest.mark.parametrize("with_bias", [True, False])
def test_rms_norm_is_torchs(with_bias):
    norm, x = with_random_parameters(rf.RMSNorm(feat, with_bias=with_bias)), randn(batch, feat, heads)
    expected = F.rms_norm(x.raw_tensor.mT, (6,), norm.scale.raw_tensor, eps=1e-6)
    if with_bias:
        expected = expected + norm.bias.raw_tensor
    torch.testing.assert_close(norm(x).copy_transpose([batch, heads, feat]).raw_tensor, expected)


def test_group_norm_spatial_is_torchs_group_norm_of_each_sequence_alone(time):
    norm, x = with_random_parameters(rf.GroupNormSpatial(feat, num_groups=2)), randn(batch, time, feat)
    out = norm(with_nan_padding(x), spatial_dim=time)
    for got, frames in zip(sequences(out, time), sequences(x, time)):
        expected = F.group_norm(frames.T[None], 2, norm.scale.raw_tensor, norm.bias.raw_tensor, eps=1e-6)
        torch.testing.assert_close(got, expected[0].T)


def test_group_norm_is_torchs_group_norm_of_each_frame(time):
    norm, x = with_random_parameters(rf.GroupNorm(feat, num_groups=3)), randn(batch, time, feat)
    out = norm(with_nan_padding(x))
    for got, frames in zip(sequences(out, time), sequences(x, time)):
        torch.testing.assert_close(got, F.group_norm(frames, 3, norm.scale.raw_tensor, norm.bias.raw_tensor, eps=1e-6))


def test_normalize_with_scale_and_bias(time):
    norm, x = with_random_parameters(rf.Normalize(param_dims=feat)), randn(batch, time, feat)
    out = norm(with_nan_padding(x), axis=time)
    for got, frames in zip(sequences(out, time), sequences(x, time)):
        normal = (frames - frames.mean(0)) / (frames.var(0, correction=0) + 1e-6).sqrt()
        torch.testing.assert_close(
            got, normal * norm.scale.raw_tensor + norm.bias.raw_tensor, rtol=1e-4, atol=1e-5
        )  # fmt: skip
    assert list(rf.Normalize(param_dims=feat, scale=False, bias=False).parameters()) == []


def test_batch_norm_in_training_is_torchs_on_the_real_frames(time):
    norm, x = with_random_parameters(rf.BatchNorm(feat)), randn(batch, time, feat)
    frames = torch.cat(sequences(x, time))
    rf.init_train_step_run_ctx()
    out = norm(with_nan_padding(x))
    expected = F.batch_norm(frames, None, None, norm.gamma.raw_tensor, norm.beta.raw_tensor, True, eps=1e-3)
    torch.testing.assert_close(torch.cat(sequences(out, time)), expected)
    torch.testing.assert_close(norm.running_mean.raw_tensor.detach(), 0.1 * frames.mean(0))
    torch.testing.assert_close(norm.running_variance.raw_tensor.detach(), 0.9 + 0.1 * frames.var(0, correction=0))


def test_batch_norm_outside_of_training_uses_the_running_statistics(time):
    norm, x = with_random_parameters(rf.BatchNorm(feat)), randn(batch, time, feat)
    norm.running_mean.assign(2.0)
    norm.running_variance.assign(3.0)
    frames, mean, variance = torch.cat(sequences(x, time)), torch.full([6], 2.0), torch.full([6], 3.0)
    out = norm(with_nan_padding(x))
    expected = F.batch_norm(frames, mean, variance, norm.gamma.raw_tensor, norm.beta.raw_tensor, False, eps=1e-3)
    torch.testing.assert_close(torch.cat(sequences(out, time)), expected)
    assert norm.running_mean.numpy().tolist() == [2.0] * 6


def test_batch_norm_without_running_statistics_uses_those_of_the_batch():
    norm, x = rf.BatchNorm(feat, affine=False, track_running_stats=False), randn(batch, feat)
    assert list(norm.parameters()) == []
    torch.testing.assert_close(
        norm(x).raw_tensor, F.batch_norm(x.raw_tensor, None, None, training=True, eps=1e-3)
    )  # fmt: skip


def test_batch_norm_without_mask_counts_the_padding(time):
    norm, x = rf.BatchNorm(feat, affine=False, track_running_stats=False, use_mask=False), randn(batch, time, feat)
    raw = x.copy_transpose([batch, time, feat]).raw_tensor.flatten(0, 1)
    expected = F.batch_norm(raw, None, None, training=True, eps=1e-3)
    torch.testing.assert_close(norm(x).copy_transpose([batch, time, feat]).raw_tensor.flatten(0, 1), expected)


def test_running_statistics_are_auxiliary_and_get_no_gradient():
    norm, x = rf.BatchNorm(feat), randn(batch, feat)
    assert [name for name, _ in norm.named_parameters()] == ["gamma", "beta", "running_mean", "running_variance"]
    assert [p.trainable for p in norm.parameters()] == [True, True, False, False]
    rf.set_requires_gradient(x)
    rf.init_train_step_run_ctx()
    norm(x)
    assert not norm.running_mean.raw_tensor.requires_grad and not norm.running_variance.raw_tensor.requires_grad


@pytest.mark.parametrize(
    "norm", [rf.LayerNorm(feat), rf.RMSNorm(feat), rf.GroupNorm(feat, num_groups=2)], ids=lambda n: type(n).__name__
)
def test_a_missing_feature_dim(norm):
    with raises_message(DimError, f"""
        {type(norm).__name__}: no dim feat=6.
          x    [batch=3]
          dim  feat=6
        The dim feat=6 is not among the dims of x.
            x.dims[0]    # batch=3
    """):  # fmt: skip
        norm(randn(batch))


def test_groups_that_do_not_divide_the_features():
    with raises_message(DimError, """
        GroupNorm: the features do not split into equal groups.
          in_dim      feat=6
          num_groups  4
        num_groups divides the size of in_dim.
    """):  # fmt: skip
        rf.GroupNorm(feat, num_groups=4)


def test_batch_norm_of_a_single_frame_has_nothing_to_average():
    rf.init_train_step_run_ctx()
    with raises_message(DimError, """
        BatchNorm: nothing to take statistics over.
          source  [feat=6]
          in_dim  feat=6
        In training the mean is over all dims but in_dim, so source needs another one.
    """):  # fmt: skip
        rf.BatchNorm(feat)(randn(feat))


def test_moments_over_several_processes():
    with raises_message(NotImplementedError, """
        moments: over all processes of a distributed training.
          source       [feat=6]
          distributed  True
        The frames are those of this process. Add the results of all processes:
            torch.distributed.all_reduce(total.raw_tensor)
    """):  # fmt: skip
        rf.moments(randn(feat), feat, distributed=True)
