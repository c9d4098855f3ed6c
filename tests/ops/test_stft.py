"""Short-time Fourier transform: against torch.stft and NumPy, per sequence."""

import numpy as np
import pytest
import torch
from asserting import assert_same, ragged, raises_message, randn, with_nan_padding

import rfnb as rf
from rfnb import Dim, DimError

batch = Dim(4, name="batch")
time = ragged([50, 33, 8, 3], batch)
x = randn(batch, time)


def alone(index, **options):
    """The transform of one sequence without its batch."""
    length = int(time.lengths[index])
    samples = Dim(length, name="samples")
    signal = rf.convert_to_tensor(x.numpy()[index, :length].copy(), dims=[samples])
    return rf.stft(signal, in_spatial_dim=samples, **options)[0].numpy()


@pytest.mark.parametrize(("length", "fft_length"), [(8, 8), (8, 16), (10, 13)])
@pytest.mark.parametrize("step", [1, 3, 8])
def test_with_the_options_of_torch_it_is_torch(length, fft_length, step):
    out, frames, _ = rf.stft(
        with_nan_padding(x), in_spatial_dim=time, frame_step=step, frame_length=length, fft_length=fft_length,
        window_use_frame_length=False, align_window_left=False,
    )  # fmt: skip
    for index, samples in enumerate(time.lengths):
        if samples >= fft_length:
            expected = torch.stft(
                x.raw_tensor[index, :samples],
                fft_length,
                step,
                length,
                torch.hann_window(length),
                center=False,
                return_complex=True,
            )
            assert frames.lengths[index] == expected.shape[1]
            torch.testing.assert_close(out.raw_tensor[index, : expected.shape[1]], expected.T)
        else:
            assert frames.lengths[index] == 0


def test_by_default_frames_are_cut_with_the_window_and_zeros_come_after():
    out, frames, frequency = rf.stft(x, in_spatial_dim=time, frame_step=4, frame_length=8, fft_length=16)
    assert frames is (time - 7).ceildiv_right(4) and frames.lengths.tolist() == [11, 7, 1, 0] and frequency.size == 9
    hann = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(8) / 8)
    for t in range(11):
        expected = np.fft.rfft(x.numpy()[0, 4 * t : 4 * t + 8] * hann, 16)
        np.testing.assert_allclose(out.numpy()[0, t], expected, rtol=1e-4, atol=1e-5)
    assert out.feature_dim is frequency and out.dtype == "complex64"


def test_a_centred_window_only_turns_the_phase():
    options = {"in_spatial_dim": time, "frame_step": 4, "frame_length": 8, "fft_length": 16}
    left, frames, frequency = rf.stft(x, **options)
    middle, _, _ = rf.stft(x, **options, align_window_left=False)
    assert_same(rf.abs(left), rf.abs(middle), tolerance=1e-4)
    turned = left.numpy() * np.exp(-2j * np.pi * 4 * np.arange(9) / 16)
    np.testing.assert_allclose(middle.numpy()[0], turned[0], rtol=1e-4, atol=1e-4)


def test_an_odd_window_is_taken_as_one_less_unless_told_otherwise():
    even, frames, frequency = rf.stft(x, in_spatial_dim=time, frame_step=3, frame_length=9)
    same, same_frames, same_frequency = rf.stft(x, in_spatial_dim=time, frame_step=3, frame_length=8)
    assert (frames, frequency) == (same_frames, same_frequency)
    assert_same(rf.complex_as_real(even)[0], rf.complex_as_real(same)[0])
    _, frames, _ = rf.stft(x, in_spatial_dim=time, frame_step=3, frame_length=9, window_enforce_even=False)
    assert frames is (time - 8).ceildiv_right(3)


def test_a_sequence_alone_gives_what_it_gives_in_the_batch():
    for options in ({}, {"fft_length": 16}, {"fft_length": 10, "window_use_frame_length": False}):
        options = {"frame_step": 3, "frame_length": 8, **options}
        out, frames, _ = rf.stft(with_nan_padding(x), in_spatial_dim=time, **options)
        for index in range(4):
            np.testing.assert_allclose(
                out.numpy()[index, : frames.lengths[index]], alone(index, **options), rtol=1e-4, atol=1e-5
            )


def test_no_frames_and_no_sequences():
    empty, none = Dim(0, name="none"), Dim(0, name="empty")
    for signal, axis in ((rf.zeros([batch, none]), none), (rf.zeros([empty, frames := Dim(9, name="frames")]), frames)):
        out, out_dim, _ = rf.stft(signal, in_spatial_dim=axis, frame_step=2, frame_length=4)
        assert out.raw_tensor.shape == (signal.dims[0].size, out_dim.size, 3)


def test_the_energy_of_the_transform_is_that_of_the_signal_and_gradients_agree():
    raw = x.raw_tensor[0].clone().requires_grad_()
    samples = Dim(50, name="samples")
    out, frames, frequency = rf.stft(
        rf.convert_to_tensor(raw, dims=[samples]), in_spatial_dim=samples, frame_step=8, frame_length=8
    )
    twice = rf.where(rf.logical_and(rf.range_over_dim(frequency) > 0, rf.range_over_dim(frequency) < 4), 2.0, 1.0)
    energy = rf.reduce_sum(rf.square(rf.abs(out)) * twice, axis=[frames, frequency]).raw_tensor / 8
    hann = torch.hann_window(8)
    expected = (raw.detach()[:48].view(6, 8) * hann).square().sum()  # Parseval
    torch.testing.assert_close(energy, expected)
    energy.backward()
    torch.testing.assert_close(raw.grad[:48], (2 * raw.detach()[:48].view(6, 8) * hann.square()).flatten())
    assert raw.grad[48:].tolist() == [0, 0]


def test_dims_without_size_get_it():
    frames, frequency = Dim(None, name="frames"), Dim(None, name="frequency")
    options = {"in_spatial_dim": time, "frame_step": 4, "frame_length": 8}
    out, *dims = rf.stft(x, out_spatial_dim=frames, out_dim=frequency, **options)
    assert dims == [frames, frequency] and frames.lengths.tolist() == [11, 7, 1, 0] and frequency.extent == 5


ERRORS = {
    "a window longer than the transform": (
        lambda: rf.stft(x, in_spatial_dim=time, frame_step=4, frame_length=8, fft_length=6),
        ValueError,
        """
        stft: these sizes make no frames.
          frame_step    4
          frame_length  8
          fft_length    6
        A frame has 2 samples or more, is not longer than the transform, and starts 1 sample or more after the previous one.
            fft_length=None
        """,
    ),
    "another number of frequencies": (
        lambda: rf.stft(x, in_spatial_dim=time, frame_step=4, frame_length=8, out_dim=Dim(8, name="bins")),
        DimError,
        """
        stft: out_dim has another size.
          out_dim  bins=8
          needed   5
        An out_dim fits, or has no size yet and takes it over.
            Dim(None, name="bins")
        """,
    ),
    "no such dim": (
        lambda: rf.stft(x, in_spatial_dim=time + 1, frame_step=4, frame_length=8),
        DimError,
        """
        stft: no dim time+1<=51.
          source  [batch=4, time<=50]
          dim     time+1<=51
        The dim time+1<=51 is not among the dims of source.
            source.dims[0]    # batch=4
            source.dims[1]    # time<=50
        """,
    ),
}


@pytest.mark.parametrize(("call", "error", "text"), ERRORS.values(), ids=ERRORS)
def test_error(call, error, text):
    with raises_message(error, text):
        call()
