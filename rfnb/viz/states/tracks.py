"""The tracks of a states view: the state first, the gates last; and merging the tracks of several specs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rfnb.viz.spec import Spec

_STATE = ("c", "h")
MOST_ROWS, CHANGING = 48, 24  # units that can be taken in at a glance; of more, only those with the largest changes


def is_gate(label: str, low: float, high: float) -> bool:
    """Whether a track with these bounds is a gate: it has the name of one, and stays within 0 to 1."""
    return label.lower().endswith("gate") and 0 <= low and high <= 1


def without_prefix(labels: Sequence[str]) -> list[str]:
    """Labels without their common prefix: "h" for "decoder.lstm.h"."""
    parts = [label.split(".") for label in labels]
    shared, most = 0, min((len(part) - 1 for part in parts), default=0) if len(parts) > 1 else 0
    while shared < most and len({part[shared] for part in parts}) == 1:
        shared += 1
    return [".".join(part[shared:]) for part in parts]


def changing(values: np.ndarray) -> np.ndarray:
    """The units of {step, unit} that change most over the steps, ordered by when they are farthest from their mean; all
    units if there are few.
    """
    units = values.shape[1]
    if units <= MOST_ROWS or len(values) < 2:
        return np.arange(units)
    away = np.abs(np.diff(values.astype(np.float64), axis=0))
    moved = np.where(np.isfinite(away), away, 0.0).sum(0)
    most = np.sort(np.argsort(-moved, kind="stable")[:CHANGING])
    known = np.where(np.isfinite(values[:, most]), values[:, most], 0.0).astype(np.float64)
    farthest = np.abs(known - known.mean(0)).argmax(0)
    return most[np.argsort(farthest, kind="stable")]


def is_held(label: str) -> bool:
    """Whether a track keeps its last value after the end: gates and the cell input may change, since they then have no effect."""
    return not label.lower().endswith(("gate", "cell_input"))


def asides(tracks: Sequence[tuple[str, int]]) -> list[bool]:
    """Whether each track (label, number of units) is drawn only as a line: gates with many units, beside their state."""
    held = [is_held(label) for label, _ in tracks]
    return [not keeps and units > MOST_ROWS and any(held) for keeps, (_, units) in zip(held, tracks)]


def rank_of(label: str) -> int:
    """The sort key of a track: c and h, then other states, then gates."""
    return 0 if label.rpartition(".")[2] in _STATE else 2 if label.lower().endswith("gate") else 1


def joined(specs: Sequence[tuple[str, Spec]], title: str) -> Spec:
    """The tracks of several specs over the same steps and sequences in one; labels are prefixed by the name of the spec."""
    given = [(name, spec, track) for name, spec in specs for track in spec.head["tracks"]]
    labels = [".".join(filter(None, [name, track["label"]])) for name, _, track in given]
    tracks: list[dict[str, Any]] = []
    blocks: dict[str, np.ndarray] = {}
    for index in sorted(range(len(given)), key=lambda index: rank_of(labels[index])):
        _, spec, track = given[index]
        old, new = track["block"], f"track{len(tracks)}"
        slots = {"slots": new + track["slots"][len(old) :]} if "slots" in track else {}
        tracks.append({**track, "label": labels[index], "block": new, **slots})
        blocks |= {
            new + name[len(old) :]: block for name, block in spec.blocks.items() if (name + "/").startswith(old + "/")
        }
    return Spec("states", {**specs[0][1].head, "title": title, "tracks": tracks}, blocks)


def line_of(values: np.ndarray, *, gate: bool) -> np.ndarray:
    """The Euclidean norm per step of {..., step, unit}; for a gate the mean opening."""
    with np.errstate(over="ignore", invalid="ignore"):
        if gate:
            return np.asarray(values.sum(-1, dtype=np.float64) / max(values.shape[-1], 1))
        return np.asarray(np.sqrt(np.square(values, dtype=np.float64).sum(-1)))


def changes(values: np.ndarray, *, gate: bool) -> np.ndarray:
    """The norm of the change of {..., step, unit} from the previous step, for a gate its mean magnitude. NaN in the first step."""
    out = np.full(values.shape[:-1], np.nan)
    with np.errstate(over="ignore", invalid="ignore"):
        away = np.abs(np.diff(values.astype(np.float64), axis=-2))
    out[..., 1:] = line_of(away, gate=gate)
    return out


def name_of(*, gate: bool) -> str:
    """The name of the line."""
    return "mean opening" if gate else "norm"
