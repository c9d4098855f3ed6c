"""The components of the scores in a `beams` spec: the contribution of each model to the score of each token.

A search records the outputs of its models (`log_probs`, `part:NAME`), without their weights. The weights follow from
the scores: over all hypotheses together they are the unique solution of `score - parent's score = sum of weight *
part`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

_UNSCALED = " (unscaled)"
_CLOSE = 2e-3  # nats; scores are float32, and may be several hundred
_ENOUGH = 4000  # hypotheses used to solve for the weights; all are used to verify them

Steps = Sequence[Mapping[str, np.ndarray]]


class Parts:
    """The components of all scores in a search.

    Args:
        steps: Arrays [batch, entry]; scores without the extra score of an end.

    Attributes:
        names: Names of the parts to show: none if a score is a single log probability. Each with its weight ("0.3 ×
            lm"), or with a note if the parts do not add up to the scores.
    """

    def __init__(self, steps: Steps):
        fields = {name: None for step in steps for name in step if name == "log_probs" or name.startswith("part:")}
        self._fields = list(fields)
        self._scales = factors(steps, self._fields) if self._fields else None
        self._ends = any(np.any(step["end_scores"]) for step in steps if "end_scores" in step)
        plain = self._scales is not None and self._fields == ["log_probs"] and self._scales[0] == 1
        if not self._ends and (plain or not self._fields):
            self._fields = []
        self.names = [self._name(place) for place in range(len(self._fields))]
        if self.names and self._ends:
            self.names.append("end")

    def of(self, step: Mapping[str, np.ndarray], seq: int, prefix: str = "") -> list[list[float]]:
        """The values of each part, for the slots or (prefix "cand_") for the candidates of a step."""
        like = step[f"{prefix}scores"][seq]
        scales = self._scales if self._scales is not None else np.ones(len(self._fields))
        none = np.zeros(len(like))
        rows = [
            step[prefix + name][seq] * s if prefix + name in step else none for name, s in zip(self._fields, scales)
        ]
        if self.names and self._ends:
            rows.append(step["end_scores"][seq] if not prefix and "end_scores" in step else none)
        return [[round(float(value), 4) if np.isfinite(value) else 0.0 for value in row] for row in rows]

    def _name(self, place: int) -> str:
        field = self._fields[place]
        name = "log_prob" if field == "log_probs" else field.removeprefix("part:")
        if self._scales is None:
            return name + _UNSCALED
        return name if self._scales[place] == 1 else f"{self._scales[place]:g} × {name}"


def factors(steps: Steps, fields: Sequence[str]) -> np.ndarray | None:
    """The weight of each field; None if no weights explain the scores, or they are not unique."""
    rows, gains = [], []
    for step in steps:
        if "base" not in step or any(name not in step for name in fields):
            return None
        table = np.stack([np.asarray(step[name], np.float64) for name in (*fields, "base", "scores")], -1)
        table = table[np.isfinite(table).all(-1)]
        rows.append(table[:, :-2])
        gains.append(table[:, -1] - table[:, -2])
    parts, gain = np.concatenate(rows), np.concatenate(gains)
    found = np.ones(len(fields))
    if len(fields) > 1 or np.abs(parts[:, 0] - gain).max(initial=0) > _CLOSE:
        used = np.flatnonzero(parts.any(0))  # a part that is always 0 may have any weight
        every = -(-len(parts) // _ENOUGH) or 1
        solved, _, rank, _ = np.linalg.lstsq(parts[::every, used], gain[::every], rcond=1e-6)
        if rank < len(used):
            return None
        found[used] = np.round(solved, 3)
    return found if np.abs(parts @ found - gain).max(initial=0) <= _CLOSE else None


def adds_up(names: Sequence[str]) -> bool:
    """Whether parts with these names add up to the scores."""
    return not any(name.endswith(_UNSCALED) for name in names)


def columns(seq: Mapping[str, Any]) -> list[str]:
    """The names of the parts of one sequence of a spec."""
    return [str(name) for name in seq.get("parts") or []]
