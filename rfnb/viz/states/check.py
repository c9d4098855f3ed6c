"""The faults of the values of a state, in words: NaN, infinity, and values that move after the end of their sequence.

After the end a state keeps its last value, is zero, or NaN where there is nothing; anything else means that padding was read as frames.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rfnb.viz.states.flags import moving_after


def judge(values: np.ndarray, length: int, *, live: bool = False) -> str:
    """The faults of one sequence of a track [step, unit], as a sentence without its end; "" if nothing is.

    Args:
        live: Whether steps of nothing but NaN are still to come.
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
    """Some steps of a sequence in words: "from step 3 on"."""
    if len(steps) > 1 and len(steps) == length - steps[0]:
        return f"from step {steps[0]} on"
    return f"in step {steps[0]}" if len(steps) == 1 else f"in {len(steps)} steps, first in step {steps[0]}"


def warnings(spec: Any, most: int = 4) -> list[str]:
    """The faults of all tracks and sequences, as sentences with their place; the first ones, and how many more."""
    out = [
        f"{track['label']}, {spec.head['seqs'][int(seq)]['label']}: {note}."
        for track in spec.head["tracks"]
        for seq, note in (track.get("notes") or {}).items()
    ]
    return out if len(out) <= most + 1 else [*out[:most], f"The same in {len(out) - most} more tracks or sequences."]
