"""Mel features: the triangles by hand, and log-mel features against NumPy for each signal alone."""

import numpy as np
import pytest
import torch
from asserting import assert_same, ragged, raises_message, randn, with_nan_padding

import rfnb as rf
from rfnb import Dim, DimError
from rfnb.ops.mel import mel_matrix

batch, time, frequency, mels = Dim(2, name="batch"), Dim(3, name="time"), Dim(9, name="frequency"), Dim(4, name="mel")


def of_mel(mel):
    return 700 * (10 ** (mel / 2595) - 1)


def test_the_first_triangle_by_hand():
    # From 0 to 8000 Hz there are 2840.02 mel; with 4 filters a point every 568.
    points = [of_mel(568.0046 * i) for i in range(6)]
    assert points[5] == pytest.approx(8000, rel=1e-4)
    matrix = mel_matrix(16, 4, 16_000, 0, 8000)
    assert matrix.shape == (9, 4)
    # 1000 Hz is between point 1 (458.7 Hz) and point 2 (1218 Hz): falls in filter 0, rises in filter 1.
    assert matrix[1, 0] == pytest.approx((points[2] - 1000) / (points[2] - points[1]), rel=1e-4)
    assert matrix[1, 1] == pytest.approx((1000 - points[1]) / (points[2] - points[1]), rel=1e-4)
    assert matrix[1, 0] + matrix[1, 1] == pytest.approx(1)
    assert matrix[0].tolist() == [0, 0, 0, 0] and np.abs(matrix[8]).max() < 1e-12


def test_between_the_first_and_the_last_peak_the_triangles_add_up_to_one():
    matrix = mel_matrix(512, 20, 16_000, 60, 7600)
    hz = np.arange(257) * 16_000 / 512
    mel = np.linspace(2595 * np.log10(1 + 60 / 700), 2595 * np.log10(1 + 7600 / 700), 22)
    inside = (hz >= of_mel(mel[1])) & (hz <= of_mel(mel[-2]))
    np.testing.assert_allclose(matrix[inside].sum(1), 1)
    assert matrix[hz < 60].max() == 0 and matrix[hz > 7600].max() == 0


def test_the_filterbank_is_the_product_with_the_triangles():
    power = rf.square(randn(batch, frequency, time))
    out = rf.mel_filterbank(power, in_dim=frequency, out_dim=mels, sampling_rate=8000, f_min=100, f_max=3000)
    matrix = mel_matrix(16, 4, 8000, 100, 3000)
    expected = np.einsum("bft,fm->btm", power.numpy(), matrix).astype(np.float32)
    assert out.feature_dim is mels
    assert_same(out, rf.convert_to_tensor(expected, dims=[batch, time, mels]))


def test_log_mel_features_of_a_signal_alone_and_in_the_batch_are_those_of_numpy():
    samples = ragged([1200, 700], batch, "samples")
    audio = randn(batch, samples)
    mels_20 = Dim(20, name="mel")
    out, frames = rf.log_mel_filterbank_from_raw(with_nan_padding(audio), in_spatial_dim=samples, out_dim=mels_20)
    assert frames.lengths.tolist() == [6, 2] and out.feature_dim is mels_20
    hann = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(400) / 400)
    matrix = mel_matrix(512, 20, 16_000, 0, 8000)
    for index, count in enumerate(frames.lengths):
        cut = np.stack([audio.numpy()[index, 160 * t : 160 * t + 400] * hann for t in range(count)])
        power = np.abs(np.fft.rfft(cut, 512)) ** 2
        expected = np.log10(np.maximum(power @ matrix, 1e-10))
        np.testing.assert_allclose(out.numpy()[index, :count], expected, rtol=1e-4, atol=1e-5)


def test_silence_is_the_log_of_the_smallest_power_and_has_a_gradient():
    samples, one = Dim(800, name="samples"), Dim(1, name="channel")
    raw = torch.zeros(800, 1, requires_grad=True)
    audio = rf.convert_to_tensor(raw, dims=[samples, one], feature_dim=one)
    out, frames = rf.log_mel_filterbank_from_raw(audio, in_spatial_dim=samples, out_dim=mels)
    assert set(out.dims) == {frames, mels} and np.allclose(out.numpy(), -10)
    rf.reduce_sum(out, axis=[frames, mels]).raw_tensor.backward()
    assert raw.grad.isfinite().all()


def test_training_after_inference_mode_over_the_same_dims():
    samples = ragged([900, 500], batch, "samples")
    raw = randn(batch, samples).raw_tensor.clone().requires_grad_()

    def features():
        return rf.log_mel_filterbank_from_raw(
            rf.convert_to_tensor(raw, dims=[batch, samples]), in_spatial_dim=samples, out_dim=mels
        )[0]

    with torch.inference_mode():
        features()
    features().raw_tensor.sum().backward()
    assert raw.grad.isfinite().all()


def test_the_window_and_the_base_of_the_logarithm():
    samples = Dim(80, name="samples")
    audio = randn(samples)
    options = {"in_spatial_dim": samples, "out_dim": mels, "sampling_rate": 1000, "window_len": 0.02, "step_len": 0.005}
    ten, frames = rf.log_mel_filterbank_from_raw(audio, **options)
    two, _ = rf.log_mel_filterbank_from_raw(audio, log_base=2, **options)
    assert frames.size == 13
    assert_same(two * float(np.log10(2)), ten)


ERRORS = {
    "no such dim": (
        lambda: rf.mel_filterbank(randn(batch, time), in_dim=frequency, out_dim=mels, sampling_rate=8000),
        DimError,
        """
        mel_filterbank: no dim frequency=9.
          x    [batch=2, time=3]
          dim  frequency=9
        The dim frequency=9 is not among the dims of x.
            x.dims[0]    # batch=2
            x.dims[1]    # time=3
        """,
    ),
    "complex": (
        lambda: rf.mel_filterbank(
            rf.make_complex(randn(batch, frequency), 0), in_dim=frequency, out_dim=mels, sampling_rate=8000
        ),
        TypeError,
        """
        mel_filterbank: x is complex.
          x  [batch=2, frequency=9] complex64
        Triangles are over the power or magnitude of frequencies.
            x = rf.square(rf.abs(x))
        """,
    ),
    "another transform": (
        lambda: rf.mel_filterbank(
            randn(batch, frequency), in_dim=frequency, out_dim=mels, sampling_rate=8000, fft_length=512
        ),
        DimError,
        """
        mel_filterbank: in_dim has another number of frequencies.
          x           [batch=2, frequency=9]
          in_dim      frequency=9
          fft_length  512
        A transform of 512 samples has 257 frequencies.
            fft_length=None
        """,
    ),
    "no frequencies": (
        lambda: rf.mel_filterbank(
            randn(batch, frequency), in_dim=frequency, out_dim=mels, sampling_rate=8000, f_min=4000
        ),
        ValueError,
        """
        mel_filterbank: no frequencies between the bounds.
          f_min  4000
          f_max  4000.0
        f_min is below f_max, both in Hz.
            f_min=None, f_max=None
        """,
    ),
}


@pytest.mark.parametrize(("call", "error", "text"), ERRORS.values(), ids=ERRORS)
def test_error(call, error, text):
    with raises_message(error, text):
        call()
