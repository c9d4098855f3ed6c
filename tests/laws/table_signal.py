"""The entries of the table for complex numbers and signals. Complex results are compared by their parts."""

from __future__ import annotations

from typing import Any

from table import case
from world import World

import rfnb as rf
from rfnb import Dim, Tensor


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
