"""Short-time Fourier transform in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np

from rfnb.backends.numpy_dtypes import as_float


def stft(x: Any, window: Any, step: int, left: int, fft_length: int) -> Any:
    """See `Backend.stft_raw`."""
    x = as_float(x)
    starts = range(0, x.shape[1] - len(window) + 1, step)
    out = np.zeros((x.shape[0], len(starts), fft_length // 2 + 1), np.result_type(x.dtype, np.complex64))
    for frame, start in enumerate(starts):
        cut = np.zeros((x.shape[0], fft_length), x.dtype)
        cut[:, left : left + len(window)] = x[:, start : start + len(window)] * window
        out[:, frame] = np.fft.rfft(cut, axis=1)
    return out
