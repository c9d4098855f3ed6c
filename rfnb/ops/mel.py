"""Mel features: frequencies on the perceptual mel scale."""

from __future__ import annotations

import math
from typing import Any, Never

import numpy as np

from rfnb.backends.constants import kept
from rfnb.core.dim import Dim
from rfnb.core.errors import dim_error, type_error, value_error
from rfnb.core.op import op
from rfnb.core.tensor import Tensor, new_tensor
from rfnb.core.tensor_checks import check_dim, check_unique
from rfnb.core.tensor_text import shape_of
from rfnb.ops.amp import narrowed, widened
from rfnb.ops.complex import complex_as_real
from rfnb.ops.expand import squeeze
from rfnb.ops.math import safe_log, square
from rfnb.ops.matmul import matmul
from rfnb.ops.operands import need_tensors
from rfnb.ops.reduce import reduce_sum
from rfnb.ops.stft import stft


@op
def mel_filterbank(
    x: Tensor,
    *extra: Never,
    in_dim: Dim,
    out_dim: Dim,
    sampling_rate: int | float,
    fft_length: int | None = None,
    f_min: int | float | None = None,
    f_max: int | float | None = None,
    **unknown: Never,
) -> Tensor:
    """The sum of `x` under each of the overlapping triangles described in `mel_matrix`.

    Args:
        x: float {..., in_dim}: power or magnitude of each frequency from 0 to sampling_rate / 2, as from `stft`.
        out_dim: One entry for each triangle.
        sampling_rate: Samples per second.
        fft_length: Length of the transform in samples. Default: 2 * (in_dim - 1).
        f_min, f_max: The start of the first and the end of the last triangle, in Hz. Default: 0 and sampling_rate / 2.

    Returns:
        {..., out_dim} with feature_dim out_dim. A 16-bit x is summed in float32, also under mixed precision.

    Raises:
        DimError: If in_dim is not in x, or not of size fft_length // 2 + 1.
        TypeError: If x is complex.
        ValueError: If f_min is not below f_max.
    """
    need_tensors("mel_filterbank", x)
    check_dim("mel_filterbank", x, in_dim, "x")
    if x.dtype.startswith("complex"):
        raise type_error(
            "mel_filterbank: x is complex.",
            {"x": f"{shape_of(x)} {x.dtype}"},
            "Triangles are over the power or magnitude of frequencies.",
            "x = rf.square(rf.abs(x))",
        )
    check_unique((in_dim, out_dim), "mel_filterbank")
    fft_length = 2 * (in_dim.extent - 1) if fft_length is None else fft_length
    if in_dim.extent != fft_length // 2 + 1:
        raise dim_error(
            "mel_filterbank: in_dim has another number of frequencies.",
            {"x": x, "in_dim": in_dim, "fft_length": fft_length},
            f"A transform of {fft_length} samples has {fft_length // 2 + 1} frequencies.",
            "fft_length=None",
        )
    f_min, f_max = 0 if f_min is None else f_min, sampling_rate / 2 if f_max is None else f_max
    if not f_min < f_max:
        raise value_error(
            "mel_filterbank: no frequencies between the bounds.",
            {"f_min": f_min, "f_max": f_max},
            "f_min is below f_max, both in Hz.",
            "f_min=None, f_max=None",
        )
    wide = widened(x)
    raw = _raw_matrix(fft_length, out_dim.extent, sampling_rate, f_min, f_max, wide.dtype, x.device, x.backend)
    with x.backend.full_precision():
        out = matmul(wide, new_tensor(raw, (in_dim, out_dim)), reduce=in_dim)
    out = narrowed(out, x)
    out._feature_dim = out_dim
    return out


def mel_matrix(fft_length: int, num_filters: int, sampling_rate: float, f_min: float, f_max: float) -> np.ndarray:
    """[frequencies, filters]: the weight of each frequency in each triangle.

        mel(f) = 2595 log10(1 + f / 700)

    num_filters + 2 points are equally spaced in mel from f_min to f_max. Filter i rises linearly (in Hz) from 0 at point i to 1 at
    point i + 1, and falls to 0 at point i + 2.

    Source: Davis and Mermelstein 1980; the mel scale of the HTK book, section 5.4. The same as torchaudio's `melscale_fbanks` and
    librosa's `filters.mel` with mel_scale "htk" and no norm.
    """
    first, last = (2595 * math.log10(1 + f / 700) for f in (f_min, f_max))
    mel = np.linspace(first, last, num_filters + 2)
    points = 700 * (10 ** (mel / 2595) - 1)
    frequencies = np.arange(fft_length // 2 + 1)[:, None] * (sampling_rate / fft_length)
    left, centre, right = points[:-2], points[1:-1], points[2:]
    rise, fall = (frequencies - left) / (centre - left), (right - frequencies) / (right - centre)
    return np.maximum(0, np.minimum(rise, fall))


@kept(16)
def _raw_matrix(
    fft_length: int,
    num_filters: int,
    sampling_rate: float,
    f_min: float,
    f_max: float,
    dtype: str,
    device: str | None,
    backend: Any,
) -> Any:
    matrix = mel_matrix(fft_length, num_filters, sampling_rate, f_min, f_max)
    return backend.from_numpy(matrix, dtype=dtype, device=device)


@op
def log_mel_filterbank_from_raw(
    raw_audio: Tensor,
    *extra: Never,
    in_spatial_dim: Dim,
    out_dim: Dim,
    sampling_rate: int = 16_000,
    window_len: float = 0.025,
    step_len: float = 0.01,
    n_fft: int | None = None,
    log_base: int | float = 10,
    **unknown: Never,
) -> tuple[Tensor, Dim]:
    """The logarithm of the mel filterbank of a signal's power: `stft`, |.|^2, `mel_filterbank`, log with a floor of 1e-10.

    Args:
        raw_audio: float {..., in_spatial_dim}; a feature_dim of size 1 is dropped.
        out_dim: One entry for each filter, e.g. 80.
        sampling_rate: Samples per second.
        window_len, step_len: Length of a window, and distance between windows, in seconds.
        n_fft: Length of the transform in samples. Default: the window rounded up to a power of 2.
        log_base: Base of the logarithm.

    Returns:
        {..., out time, out_dim} with feature_dim out_dim, and the out time. A signal shorter than a window has no frames. Everything
            is computed in float32, even for a 16-bit signal, since powers exceed the range of float16.

    Raises:
        DimError: If in_spatial_dim is not in raw_audio.
    """
    need_tensors("log_mel_filterbank_from_raw", raw_audio)
    feature = raw_audio.feature_dim
    if feature is not None and feature.size == 1:
        raw_audio = squeeze(raw_audio, feature)
    frame_length = round(window_len * sampling_rate)
    n_fft = 1 << (frame_length - 1).bit_length() if n_fft is None else n_fft
    spectrum, out_time, frequency = stft(
        widened(raw_audio),
        in_spatial_dim=in_spatial_dim,
        frame_step=round(step_len * sampling_rate),
        frame_length=frame_length,
        fft_length=n_fft,
    )
    parts, pair = complex_as_real(spectrum)
    power = reduce_sum(square(parts), axis=pair)  # not abs, whose root has no gradient at 0
    mel = mel_filterbank(power, in_dim=frequency, out_dim=out_dim, sampling_rate=sampling_rate, fft_length=n_fft)
    out = narrowed(safe_log(mel, eps=1e-10) * (1 / math.log(log_base)), raw_audio)
    out._feature_dim = out_dim
    return out, out_time
