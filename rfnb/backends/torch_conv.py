"""Convolution, pooling and the short-time Fourier transform for torch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F

_CONV: tuple[Any, ...] = (None, F.conv1d, F.conv2d, F.conv3d)
Pads = Sequence[tuple[int, int]]


def conv(
    x: Any, filter: Any, bias: Any | None, pads: Pads, strides: Sequence[int], dilation: Sequence[int], groups: int
) -> Any:
    """See `Backend.conv_raw`."""
    if 0 in filter.shape[:2]:  # torch takes no features for another number
        out, wide = filter.shape[0], _with_features(filter, groups, 1)
        room = None if bias is None else F.pad(bias, (0, wide.shape[0] - out))
        return conv(_with_features(x, 0, wide.shape[1] * groups), wide, room, pads, strides, dilation, groups)[:, :out]
    reach = [(size - 1) * rate for size, rate in zip(filter.shape[2:], dilation)]
    short = _short(x, pads, reach)
    if not short and all(left == right for left, right in pads) and 0 not in x.shape:  # torch pads no axis of length 0
        return _CONV[len(pads)](x, filter, bias, tuple(strides), tuple(left for left, _ in pads), dilation, groups)
    out = _CONV[len(pads)](_padded(x, pads, short, 0), filter, bias, tuple(strides), 0, dilation, groups)
    return _cut(out, short)


def _with_features(raw: Any, first: int, second: int) -> Any:
    """The array with zeros appended to its first two axes up to these lengths."""
    more = [max(least - size, 0) for least, size in zip((first, second), raw.shape)]
    return F.pad(raw, [0, 0] * (raw.ndim - 2) + [0, more[1], 0, more[0]])


def _short(x: Any, pads: Pads, reach: Sequence[int]) -> dict[int, int]:
    """For each spatial axis that is too short: how many frames are missing for one output frame."""
    lack = (most + 1 - length - left - right for length, (left, right), most in zip(x.shape[-len(pads) :], pads, reach))
    return {axis: count for axis, count in enumerate(lack) if count > 0}


def _padded(x: Any, pads: Pads, short: dict[int, int], value: float) -> Any:
    """Extend the input where it is shorter than the filter, which torch refuses; `_cut` removes the result."""
    flat: list[int] = []
    for axis, (left, right) in enumerate(pads):
        flat = [left, right + short.get(axis, 0), *flat]
    return F.pad(x, flat, value=value)


def _cut(out: Any, short: dict[int, int]) -> Any:
    """Remove the frames where the input was too short. A slice, so that gradients (of 0) still flow."""
    for axis in short:
        out = out.narrow(2 + axis, 0, 0)
    return out


_TRANSPOSED: tuple[Any, ...] = (None, F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)


def transposed_conv(
    x: Any, filter: Any, bias: Any | None, strides: Sequence[int], starts: Sequence[int], shape: Sequence[int]
) -> Any:
    """See `Backend.transposed_conv_raw`."""
    nd = len(shape)
    if 0 in filter.shape[:2]:
        out, wide = filter.shape[1], _with_features(filter, 1, 1)
        room = None if bias is None else F.pad(bias, (0, wide.shape[1] - out))
        return transposed_conv(_with_features(x, 0, wide.shape[0]), wide, room, strides, starts, shape)[:, :out]
    if 0 in x.shape[2:]:  # torch refuses; a frame of zeros puts zeros
        x = F.pad(x, [width for length in reversed(x.shape[2:]) for width in (0, int(length == 0))])
    out = _TRANSPOSED[nd](x, filter, None, tuple(strides))
    for axis, (start, length) in enumerate(zip(starts, shape), 2):
        start = min(start, out.shape[axis])
        out = out.narrow(axis, start, min(length, out.shape[axis] - start))
    missing = [length - have for length, have in zip(shape, out.shape[2:])]
    if any(missing):
        out = F.pad(out, [width for count in reversed(missing) for width in (0, count)])
    return out if bias is None else out + bias.view(-1, *(1 for _ in shape))


_MAX: tuple[Any, ...] = (None, F.max_pool1d, F.max_pool2d, F.max_pool3d)
_MEAN: tuple[Any, ...] = (None, F.avg_pool1d, F.avg_pool2d, F.avg_pool3d)


def _lacks_mean(ndim: int, x: Any) -> bool:
    """True if torch cannot average over windows: for complex numbers, and for three axes in half precision on a CPU."""
    return x.is_complex() or ndim == 3 and x.device.type == "cpu" and x.dtype in (torch.bfloat16, torch.float16)


def pool(
    x: Any, kind: str, size: Sequence[int], pads: Pads, strides: Sequence[int], dilation: Sequence[int], neutral: float
) -> Any:
    """See `Backend.pool_raw`."""
    short = _short(x, pads, [(count - 1) * rate for count, rate in zip(size, dilation)])
    if short or any(left or right for left, right in pads):
        x = _padded(x, pads, short, neutral)
    x = x.unsqueeze(1)
    if kind == "max" and x.is_floating_point():
        out = _MAX[len(size)](x, size, strides, 0, dilation)
    elif kind == "sum" and all(rate == 1 for rate in dilation) and not _lacks_mean(len(size), x):
        out = _MEAN[len(size)](x, size, strides) * math.prod(size)
    else:  # torch has no maximum of integers and no mean with dilation, among others
        reduce: Any = torch.amax if kind == "max" else torch.sum
        out = x
        for axis, (count, stride, rate) in enumerate(zip(size, strides, dilation), 2):
            out = reduce(out.unfold(axis, (count - 1) * rate + 1, stride)[..., ::rate], -1)
    return _cut(out, short).squeeze(1)


def stft(x: Any, window: Any, step: int, left: int, fft_length: int) -> Any:
    """See `Backend.stft_raw`."""
    short = window.shape[0] - x.shape[1]
    if short > 0:
        x = F.pad(x, (0, short))
    frames = x.unfold(1, window.shape[0], step) * window
    if short > 0:
        frames = frames[:, :0]
    if left:
        frames = F.pad(frames, (left, 0))
    if not frames.numel():  # the FFT of nothing is an error
        return torch.complex(*(2 * [F.pad(frames, (0, fft_length // 2 + 1 - frames.shape[2]))]))
    return torch.fft.rfft(frames, fft_length)
