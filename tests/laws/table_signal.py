"""The entries of the table for complex numbers and signals. Complex results are compared by their parts."""

from __future__ import annotations

from typing import Any

from table import case, exempt
from world import World

import rfnb as rf
from rfnb import Dim, Tensor

exempt("random: the values differ by design; tests/nn/test_specaugment.py", "specaugment")


@case("make_complex")
def _make_complex(w: World) -> Any:
    call = lambda re, im: rf.complex_as_real(rf.make_complex(re, im))  # noqa: E731
    return call, [w.floats(w.batch, w.time, w.feat), w.floats(w.time, w.batch)]


@case("complex_as_real")
def _complex_as_real(w: World) -> Any:
    pair = Dim(2, name="pair")
    call = lambda re: rf.complex_as_real(rf.make_complex(re, -1.5), out_dim=pair)  # noqa: E731
    return call, [w.floats(w.batch, w.time, w.feat)]


@case("real_as_complex")
def _real_as_complex(w: World) -> Any:
    pair = Dim(2, name="pair")

    def call(x: Tensor) -> Any:
        number = rf.real_as_complex(x, pair_dim=pair)
        return rf.complex_as_real(number * number + number), rf.abs(number)

    return call, [w.floats(w.batch, pair, w.time, w.feat)]


@case("stft")
def _stft(w: World) -> Any:
    samples = w.time * 3
    options: dict[str, Any] = {
        "frame_step": int(w.rng.integers(1, 4)),
        "frame_length": int(w.rng.integers(2, 6)),
        "fft_length": [None, 5, 8][w.rng.integers(3)],
    }
    for name in ("window_use_frame_length", "align_window_left", "window_enforce_even"):
        options[name] = bool(w.rng.random() < 0.5)

    def call(x: Tensor) -> Any:
        out, time, frequency = rf.stft(x, in_spatial_dim=samples, **options)
        return rf.complex_as_real(out)[0], time, frequency

    return call, [w.floats(w.batch, samples, w.feat)]


@case("mel_filterbank")
def _mel_filterbank(w: World) -> Any:
    frequency = Dim(17, name="frequency")
    bounds = {"f_min": 100, "f_max": 3000} if w.rng.random() < 0.5 else {}
    call = lambda x: rf.mel_filterbank(x, in_dim=frequency, out_dim=w.feat, sampling_rate=8000, **bounds)  # noqa: E731
    return call, [w.floats(w.batch, w.time, frequency, low=0)]


@case("log_mel_filterbank_from_raw")
def _log_mel_filterbank_from_raw(w: World) -> Any:
    samples = w.time * 5

    def call(x: Tensor) -> Any:
        return rf.log_mel_filterbank_from_raw(
            x, in_spatial_dim=samples, out_dim=w.feat, sampling_rate=100, window_len=0.08, step_len=0.03
        )

    return call, [w.floats(w.batch, samples)]


@case("random_mask", "with `mask`, of one frame")
def _mask(w: World) -> Any:
    call = lambda x, pos: rf.audio.mask(x, mask_axis=w.time, pos=pos, max_amount=1, mask_value=7)  # noqa: E731
    return call, [w.floats(w.batch, w.time, w.feat), w.ints(w.batch, low=-1, high=4)]
