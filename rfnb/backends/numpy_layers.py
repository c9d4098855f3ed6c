"""Layers in NumPy, written for readability: convolution, pooling and the short-time Fourier transform make all windows of the input, then
one sum over each; attention and recurrent units over whole sequences of different lengths go step by step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from rfnb.backends.numpy_functions import as_float, sigmoid

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


def lstm(
    x: Any, h: Any, c: Any, ff_weight: Any, rec_weight: Any, bias: Any | None, mask: Any | None
) -> tuple[Any, Any, Any]:
    """See `Backend.lstm_raw`."""
    y = np.zeros((*x.shape[:2], h.shape[-1]), h.dtype)
    for time in range(x.shape[0]):
        real = np.ones((x.shape[1], 1), bool) if mask is None else mask[time, :, None]
        new_h, new_c = lstm_step(x[time], h, c, ff_weight, rec_weight, bias)
        y[time] = np.where(real, new_h, 0)
        h, c = np.where(real, new_h, h), np.where(real, new_c, c)
    return y, h, c


def lstm_step(x: Any, h: Any, c: Any, ff_weight: Any, rec_weight: Any, bias: Any | None) -> tuple[Any, Any]:
    """See `Backend.lstm_step_raw`."""
    gates = x @ ff_weight.T + h @ rec_weight.T + (0 if bias is None else bias)
    i, f, cell, o = np.split(gates, 4, axis=-1)
    c = sigmoid(f) * c + sigmoid(i) * np.tanh(cell)
    return sigmoid(o) * np.tanh(c), c


def gru(
    x: Any, h: Any, ff_weight: Any, rec_weight: Any, ff_bias: Any, rec_bias: Any, mask: Any | None
) -> tuple[Any, Any]:
    """See `Backend.gru_raw`."""

    def step(x: Any, h: Any) -> Any:
        r, z, n = np.split(x @ ff_weight.T + ff_bias, 3, axis=-1)
        rec_r, rec_z, rec_n = np.split(h @ rec_weight.T + rec_bias, 3, axis=-1)
        z = sigmoid(z + rec_z)
        return z * h + (1 - z) * np.tanh(n + sigmoid(r + rec_r) * rec_n)

    return _run(step, x, h, mask)


def rnn_tanh(x: Any, h: Any, ff_weight: Any, rec_weight: Any, bias: Any, mask: Any | None) -> tuple[Any, Any]:
    """See `Backend.rnn_tanh_raw`."""
    return _run(lambda x, h: np.tanh(x @ ff_weight.T + h @ rec_weight.T + bias), x, h, mask)


def _run(step: Callable[[Any, Any], Any], x: Any, h: Any, mask: Any | None) -> tuple[Any, Any]:
    y = np.zeros((*x.shape[:2], h.shape[-1]), h.dtype)
    for time in range(x.shape[0]):
        real = np.ones((x.shape[1], 1), bool) if mask is None else mask[time, :, None]
        new = step(x[time], h)
        y[time], h = np.where(real, new, 0), np.where(real, new, h)
    return y, h


def two_d_lstm(
    gates_x: Any, gates_y: Any, weight_h: Any, weight_v: Any, h: Any, c: Any, mask: Any | None
) -> tuple[Any, Any]:
    """See `Backend.two_d_lstm_raw`."""
    height, width = gates_y.shape[0], h.shape[0]
    all_h, all_c = (np.zeros((height, *part.shape), part.dtype) for part in (h, c))
    nothing = np.zeros(h.shape[1:], h.dtype)
    for y in range(height):
        above_h, above_c = (h, c) if y == 0 else (all_h[y - 1], all_c[y - 1])
        for x in range(width):
            left_h, left_c = (nothing, nothing) if x == 0 else (all_h[y, x - 1], all_c[y, x - 1])
            gates = gates_x[x] + gates_y[y] + left_h @ weight_h + above_h[x] @ weight_v
            i, f, mix, o, j = np.split(gates, 5, axis=-1)
            cell = sigmoid(i) * np.tanh(j)
            cell = cell + sigmoid(f) * (sigmoid(mix) * above_c[x] + (1 - sigmoid(mix)) * left_c)
            real = 1 if mask is None else mask[x][:, None]
            all_c[y, x] = cell * real
            all_h[y, x] = sigmoid(o) * np.tanh(cell) * real
    return all_h, all_c


def attention(query: Any, keys: Any, values: Any, bias: Any | None, causal: bool, scale: float) -> Any:
    """See `Backend.attention_raw`."""
    if causal:
        seen = np.tri(query.shape[-2], keys.shape[-2], dtype=np.bool_)
        bias = np.where(seen, 0, -np.inf)
    return attention_and_weights(query, keys.swapaxes(-1, -2), values, bias, scale)[0]


def attention_and_weights(query: Any, keys: Any, values: Any, bias: Any | None, scale: float) -> tuple[Any, Any]:
    """See `Backend.attention_and_weights_raw`."""
    with np.errstate(all="ignore"):  # queries in the padding may be NaN
        dtype = query.dtype
        if dtype == np.float16:  # in which large energies would be infinite
            query, keys, values = (raw.astype(np.float32) for raw in (query, keys, values))
        energy = query @ keys * scale
        if bias is not None:
            energy = energy + bias
        weights = np.exp(energy - energy.max(-1, keepdims=True))
        weights = weights / weights.sum(-1, keepdims=True)
        return (weights @ values).astype(dtype), weights.astype(dtype)
