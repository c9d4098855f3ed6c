"""Short-time Fourier transform for torch."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F


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
