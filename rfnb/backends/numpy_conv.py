"""Convolution, pooling and the short-time Fourier transform in NumPy, written for readability: all windows of the input, then one sum
over each.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rfnb.backends.numpy_functions import as_float

Pads = Sequence[tuple[int, int]]


def windows_of(
    x: np.ndarray, size: Sequence[int], pads: Pads, strides: Sequence[int], dilation: Sequence[int], value: float
) -> np.ndarray:
    """[..., *spatial] -> [..., *out spatial, *size]: the input under the filter at each place."""
    num = len(size)
    reach = [(count - 1) * rate for count, rate in zip(size, dilation)]
    lack = [max(most + 1 - n - sum(pad), 0) for most, n, pad in zip(reach, x.shape[-num:], pads)]
    widths = [(0, 0)] * (x.ndim - num) + [(left, right + more) for (left, right), more in zip(pads, lack)]
    spans = np.lib.stride_tricks.sliding_window_view(
        np.pad(x, widths, constant_values=value), [most + 1 for most in reach], axis=tuple(range(-num, 0))
    )
    steps = [slice(0, 0) if more else slice(None, None, stride) for more, stride in zip(lack, strides)]
    return spans[(..., *steps, *(slice(None, None, rate) for rate in dilation))]


def conv(
    x: Any, filter: Any, bias: Any | None, pads: Pads, strides: Sequence[int], dilation: Sequence[int], groups: int
) -> Any:
    """See `Backend.conv_raw`."""
    seen = windows_of(x, filter.shape[2:], pads, strides, dilation, 0)
    spatial, size = "xyz"[: len(pads)], "ijk"[: len(pads)]
    seen = seen.reshape((x.shape[0], groups, filter.shape[1], *seen.shape[2:]))
    per_group = filter.reshape((groups, filter.shape[0] // groups, *filter.shape[1:]))
    out = np.einsum(f"bgc{spatial}{size},goc{size}->bgo{spatial}", seen, per_group)
    out = out.reshape((x.shape[0], filter.shape[0], *out.shape[3:]))
    return out if bias is None else out + bias.reshape((-1, *(1 for _ in pads)))


def transposed_conv(
    x: Any, filter: Any, bias: Any | None, strides: Sequence[int], starts: Sequence[int], shape: Sequence[int]
) -> Any:
    """See `Backend.transposed_conv_raw`."""
    lengths, size = x.shape[2:], filter.shape[2:]
    full = [max(n - 1, 0) * stride + count for n, stride, count in zip(lengths, strides, size)]
    room = [max(have, start + need) for have, start, need in zip(full, starts, shape)]
    out = np.zeros((x.shape[0], filter.shape[1], *room), x.dtype)
    for offset in np.ndindex(*size):
        places: tuple[Any, ...] = tuple(
            slice(k, k + n * stride, stride) for k, n, stride in zip(offset, lengths, strides)
        )
        out[:, :, *places] += np.einsum("bi...,io->bo...", x, filter[:, :, *offset])
    out = out[:, :, *(slice(start, start + need) for start, need in zip(starts, shape))]
    return out if bias is None else out + bias.reshape((-1, *(1 for _ in shape)))


def pool(
    x: Any, kind: str, size: Sequence[int], pads: Pads, strides: Sequence[int], dilation: Sequence[int], neutral: float
) -> Any:
    """See `Backend.pool_raw`."""
    seen = windows_of(x, size, pads, strides, dilation, neutral)
    axes = tuple(range(-len(size), 0))
    return seen.max(axes) if kind == "max" else seen.sum(axes)


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
