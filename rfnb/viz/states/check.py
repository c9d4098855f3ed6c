"""Problems in the values of a state, as text: NaN, infinity, and values that change after the end of their sequence.

After the end a state keeps its last value, or is zero or NaN; anything else means that padding was processed as frames.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rfnb.viz.pool import bounds


def judge(values: np.ndarray, length: int, *, live: bool = False) -> str:
    """The problems of one sequence of a track [step, unit], as a sentence without its end; "" if there are none.

    Args:
        live: Whether steps of all NaN are steps that are not computed yet.
    """
    said = []
    real = values[:length]
    for words, where in (("NaN", np.isnan(real)), ("infinity", np.isinf(real))):
        if live:
            where = where & ~np.isnan(real).all(-1, keepdims=True)
        if where.any():
            said.append(f"{words} {since(np.flatnonzero(where.any(-1)), length)}")
    moves = moving_after(values, length)
    if len(moves):
        said.append(f"moves after the end, from step {int(moves[0])} on")
        if not np.isfinite(values[moves]).all():
            said.append("NaN or infinity after the end")
    return "; ".join(said)


def since(steps: np.ndarray, length: int) -> str:
    """A range of a sequence's steps as text: "from step 3 on"."""
    if len(steps) > 1 and len(steps) == length - steps[0]:
        return f"from step {steps[0]} on"
    return f"in step {steps[0]}" if len(steps) == 1 else f"in {len(steps)} steps, first in step {steps[0]}"


def warnings(spec: Any, most: int = 4) -> list[str]:
    """The problems of all tracks and sequences, as sentences with their location; the first ones, and the number of further ones."""
    out = [
        f"{track['label']}, {spec.head['seqs'][int(seq)]['label']}: {note}."
        for track in spec.head["tracks"]
        for seq, note in (track.get("notes") or {}).items()
    ]
    return out if len(out) <= most + 1 else [*out[:most], f"The same in {len(out) - most} more tracks or sequences."]


NAN, INFINITY, SATURATED, DEAD, UNCHANGED, AFTER_END = 1, 2, 4, 8, 16, 32

WORDS = {NAN: "NaN", INFINITY: "infinity", DEAD: "dead", UNCHANGED: "unchanged", SATURATED: "saturated"}

_NEAR = 1e-6  # rounding tolerance, relative to the span
_EDGE = 0.05
_MOSTLY = 0.9


def flags_of(
    values: np.ndarray, lengths: Sequence[int], *, span: float, gate: bool, live: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """Flags as bits for each unit [seq, unit] and each step [seq, step], uint8.

    Args:
        values: [seq, step, unit]
        lengths: Steps of each sequence.
        span: The largest magnitude of the track.
        gate: Whether these are gate values from 0 to 1.
        live: Whether steps of all NaN are steps that are not computed yet.
    """
    units = np.zeros((values.shape[0], values.shape[2]), np.uint8)
    steps = np.zeros(values.shape[:2], np.uint8)
    bounded = gate or span <= 1
    for seq, length in enumerate(lengths):
        real = values[seq, :length]
        if live:
            real = real[: _known(real)]
        if real.size:
            units[seq], steps[seq, : len(real)] = _flags(real, _NEAR * span, gate=gate, bounded=bounded)
        steps[seq, moving_after(values[seq], length)] |= AFTER_END
    return units, steps


def _known(real: np.ndarray) -> int:
    there = np.flatnonzero(~np.isnan(real).all(-1))
    return int(there[-1]) + 1 if len(there) else 0


def _flags(real: np.ndarray, near: float, *, gate: bool, bounded: bool) -> tuple[np.ndarray, np.ndarray]:
    units, steps = np.zeros(real.shape[1], np.uint8), np.zeros(len(real), np.uint8)
    for bit, where in ((NAN, np.isnan(real)), (INFINITY, np.isinf(real))):
        if where.any():
            units[where.any(0)] |= bit
            steps[where.any(1)] |= bit
    if bounded:
        full = (real <= _EDGE) | (real >= 1 - _EDGE) if gate else np.abs(real) >= 1 - _EDGE
        steps[2 * full.sum(1) >= real.shape[1]] |= SATURATED
        if len(real) > 1:
            units[full.sum(0) >= _MOSTLY * len(real)] |= SATURATED
    if len(real) > 1:
        with np.errstate(invalid="ignore", over="ignore"):
            dead = np.abs(real).max(0) <= near
            units[dead] |= DEAD
            units[(np.ptp(real, axis=0) <= near) & ~dead] |= UNCHANGED
            still = (np.abs(np.diff(real, axis=0)) <= near).all(1)
        steps[1:][still] |= UNCHANGED
    return units, steps


def moving_after(values: np.ndarray, length: int) -> np.ndarray:
    """The steps [step] after the end in which the values of a sequence [step, unit] are neither the last ones, nor 0, nor missing."""
    real, after = values[:length], values[length:]
    there = np.flatnonzero(~np.isnan(after).all(-1))
    if not len(there) or not values.shape[1]:
        return np.zeros(0, np.int64)
    after = after[there].astype(np.float64)
    held = real[-1] if length else after[0]
    span = max(map(abs, bounds(real)))
    with np.errstate(invalid="ignore"):
        same = (after == held) | (np.abs(after - held) <= 1e-5 * span) | (np.isnan(after) & np.isnan(held))
    return np.asarray(length + there[~same.all(-1) & (after != 0).any(-1)])


def summary(units: np.ndarray, steps: np.ndarray) -> str:
    """The flags of one sequence as text: "2 units dead, 1 saturated; 3 steps unchanged"; "" if there are none."""
    said = []
    for name, bits in (("unit", units), ("step", steps)):
        counts = [(int((bits & bit > 0).sum()), word) for bit, word in WORDS.items()]
        words = [f"{count} {word}" for count, word in counts if count]
        if words:
            count = next(count for count, _ in counts if count)
            words[0] = words[0].replace(" ", f" {name}{'s' * (count > 1)} ", 1)
            said.append(", ".join(words))
    return "; ".join(said)
