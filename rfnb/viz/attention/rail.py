"""The rail above a map whose columns are audio frames: a spectrogram or waveform on the same axis, and word boundaries.

    rf.viz.attention(weights, samples=waveform, sampling_rate=16000, frame_shift=0.02)

A rail is bytes, [seq, band, column], the highest band first: 0 without sound, 1 to 255 along the colour ramp. Its
columns have equal width and span the frames of the sequence.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from rfnb.core.errors import value_error
from rfnb.ops.mel import mel_matrix
from rfnb.viz.spec import Spec, host

KINDS = ("spectrogram", "waveform")
_BANDS, _MOST, _WINDOW, _STEP, _RANGE, _TOP = 32, 1600, 0.025, 0.01, 80.0, 8000.0
_EXAMPLE = "rf.viz.attention(weights)"
Words = Sequence[tuple[int, int, str]]


def with_rail(
    spec: Spec,
    samples: Any,
    sampling_rate: float | None,
    frame_shift: float | None,
    *,
    kind: str = "spectrogram",
    words: Sequence[Words] | None = None,
) -> Spec:
    """The spec of an attention view with the sound and the words of each sequence above its columns.

    Args:
        samples: (batch, samples) or a list of (samples,); for one sequence (samples,). None: only words.
        frame_shift: Seconds between frames. Default: the samples are spread over the frames, and the view says so.
        kind: "spectrogram" (log-mel, 80 dB) or "waveform" (the lowest and highest sample of each column).
        words: For each sequence: first frame, frame after the last, and text.

    Raises:
        ValueError: If samples do not fit the sequences, lack a rate, or contain NaN; if frame_shift is not a positive
            time; or for an unknown kind.
    """
    seqs = spec.head["seqs"]
    rail: dict[str, Any] = {"words": [list(map(list, own)) for own in words or [[] for _ in seqs]]}
    blocks = dict(spec.blocks)
    if samples is not None:
        _check_kind(kind)
        check_frame_shift("attention", frame_shift)
        places = _places(spec)
        rows = sounds("attention", _EXAMPLE, samples, sampling_rate, 1 + max(places.values(), default=-1))
        assert sampling_rate is not None
        draw = _spectrogram if kind == "spectrogram" else _waveform
        drawn = []
        for number, seq in enumerate(seqs):
            row, frames = rows[places[number]], seq["col_len"]
            step = len(row) / max(1, frames) if frame_shift is None else frame_shift * sampling_rate
            count = min(_MOST, frames * max(1, round(step / sampling_rate / _STEP)))
            drawn.append(draw(row, count, step * frames / max(1, count), sampling_rate))
        rail["cols"] = [made.shape[1] for made in drawn]
        block = np.zeros((len(drawn), _BANDS, max(rail["cols"], default=0)), np.uint8)
        for own, made in zip(block, drawn):
            own[:, : made.shape[1]] = made
        top = min(_TOP, sampling_rate / 2)
        what = (
            f"log-mel spectrogram, 0 to {top / 1000:.3g} kHz, {_RANGE:.0f} dB" if kind == "spectrogram" else "waveform"
        )
        rail["label"] = what + (", spread over the frames" if frame_shift is None else "")
        rail["block"] = "rail"
        blocks["rail"] = block
    if samples is None and not any(rail["words"]):
        return spec
    return Spec(spec.kind, {**spec.head, "rail": rail}, blocks)


def sounds(what: str, example: str, samples: Any, rate: float | None, count: int) -> list[np.ndarray]:
    """The sound of each sequence, float64 (samples,), one channel.

    Args:
        what: Name of the called function, for messages.
        example: An example call.

    Raises:
        ValueError: If there is not one per sequence, no rate, or NaN.
    """
    if rate is None or not rate > 0:
        raise value_error(
            f"{what}: samples without sampling_rate.",
            {"samples": type(samples).__name__, "sampling_rate": rate},
            "The position of a frame in the sound depends on the sampling rate.",
            f"{example[:-1]}, samples=samples, sampling_rate=16000)",
        )
    several = isinstance(samples, (list, tuple)) and len(samples) > 0 and np.ndim(host(samples[0])) > 0
    array = None if several else host(samples)
    rows = [host(row) for row in samples] if array is None else list(array) if array.ndim > 1 else [array]
    rows = [np.asarray(row, np.float64) for row in rows]
    rows = [row.mean(0) if row.ndim == 2 and row.shape[0] <= 8 else row for row in rows]  # channels
    if len(rows) != count or any(row.ndim != 1 for row in rows):
        raise value_error(
            f"{what}: the number of sounds differs from the number of sequences.",
            {"sequences": count, "samples": ", ".join(str(row.shape) for row in rows[:4])},
            "The samples are (batch, samples), or a list of (samples,); of one sequence (samples,).",
        )
    bad = next((seq for seq, row in enumerate(rows) if not np.isfinite(row).all()), None)
    if bad is not None:
        raise value_error(
            f"{what}: the samples have NaN or infinity.",
            {"sequence": bad, "samples": rows[bad].shape, "first": int(np.argmin(np.isfinite(rows[bad])))},
            "Samples are numbers, usually from -1 to 1.",
        )
    return rows


def _places(spec: Spec) -> dict[int, int]:
    """The batch index of each entry in the list of sequences; maps with other targets have their own entries.

    Raises:
        ValueError: If the number of sources of a sequence differs between maps, so that not all of them are its frames.
    """
    places: dict[int, int] = {}
    for entry in spec.head["maps"]:
        for place, number in enumerate(entry["seqs"]):
            places.setdefault(number, place)
    cols: dict[int, set[int]] = {}
    for number, place in places.items():
        cols.setdefault(place, set()).add(spec.head["seqs"][number]["col_len"])
    several = next((place for place, own in cols.items() if len(own) > 1), None)
    if several is not None:
        raise value_error(
            "attention: the sources of some maps are not frames of the sound.",
            {"sources": f"{' and '.join(map(str, sorted(cols[several])))}, of sequence {several}"},
            "The sound is drawn above all maps, so their sources must be its frames. Draw the other maps separately.",
            'rf.viz.attention(weights["cross"], samples=samples, sampling_rate=16000)',
        )
    return places


def check_frame_shift(what: str, frame_shift: float | None) -> None:
    """Raise a ValueError unless it is None or a positive time."""
    if frame_shift is not None and not frame_shift > 0:
        raise value_error(
            f"{what}: frame_shift is not a number of seconds.",
            {"frame_shift": frame_shift},
            "frame_shift is the distance between two frames, in seconds.",
            "frame_shift=0.02",
        )


def _check_kind(kind: str) -> None:
    if kind not in KINDS:
        raise value_error(
            "attention: unknown value of rail.",
            {"rail": repr(kind), "known": ", ".join(map(repr, KINDS))},
            "Above the columns is a spectrogram or a waveform.",
            f'{_EXAMPLE[:-1]}, samples=samples, sampling_rate=16000, rail="waveform")',
        )


def _spectrogram(samples: np.ndarray, count: int, step: float, rate: float) -> np.ndarray:
    """uint8 [band, column]: the power in each frequency band around the middle of each column."""
    if not count or not len(samples):
        return np.zeros((_BANDS, count), np.uint8)
    width = max(2, math.ceil(max(_WINDOW * rate, step)))
    size = 1 << (width - 1).bit_length()
    filters = mel_matrix(size, _BANDS, rate, 0, min(_TOP, rate / 2))
    window = np.hanning(width + 2)[1:-1]
    middles = (np.arange(count) + 0.5) * step
    power = np.empty((count, _BANDS))
    for start in range(0, count, 256):
        at = np.round(middles[start : start + 256])[:, None].astype(int) + np.arange(width) - width // 2
        inside = (at >= 0) & (at < len(samples))
        frames = np.where(inside, samples[np.clip(at, 0, len(samples) - 1)], 0) * window
        power[start : start + 256] = (np.abs(np.fft.rfft(frames, size)) ** 2) @ filters
    level = 10 * np.log10(np.maximum(power, 1e-300))
    share = np.clip((level - level.max()) / _RANGE + 1, 0, 1) if power.max() > 0 else np.zeros(level.shape)
    out = (1 + np.round(254 * share)).astype(np.uint8)
    out[middles >= len(samples)] = 0
    return out.T[::-1]


def _waveform(samples: np.ndarray, count: int, step: float, rate: float) -> np.ndarray:
    """uint8 [band, column]: 255 from the lowest to the highest sample of each column, 1 elsewhere."""
    out = np.zeros((_BANDS, count), np.uint8)
    most = float(np.abs(samples).max(initial=0)) or 1.0
    edges = np.round(np.arange(count + 1) * step).astype(int)
    for col, (start, stop) in enumerate(zip(edges, edges[1:])):
        own = samples[start : max(stop, start + 1)] / most
        if len(own):
            out[:, col] = 1
            high, low = ((1 - np.array([own.max(), own.min()])) * (_BANDS / 2)).tolist()
            first = min(int(high), _BANDS - 1)
            out[first : max(first + 1, math.ceil(low)), col] = 255
    return out
