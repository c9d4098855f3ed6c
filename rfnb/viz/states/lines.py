"""The lines below a strip of states: one number per step, of all units together."""

from __future__ import annotations

import numpy as np


def line_of(values: np.ndarray, *, gate: bool) -> np.ndarray:
    """Per step of {..., step, unit} the Euclidean norm; of a gate, which has no direction, its mean opening."""
    with np.errstate(over="ignore", invalid="ignore"):
        if gate:
            return np.asarray(values.sum(-1, dtype=np.float64) / max(values.shape[-1], 1))
        return np.asarray(np.sqrt(np.square(values, dtype=np.float64).sum(-1)))


def changes(values: np.ndarray, *, gate: bool) -> np.ndarray:
    """The norm of how far each step of {..., step, unit} is from the one before, of a gate its mean size. NaN in the first."""
    out = np.full(values.shape[:-1], np.nan)
    with np.errstate(over="ignore", invalid="ignore"):
        away = np.abs(np.diff(values.astype(np.float64), axis=-2))
    out[..., 1:] = line_of(away, gate=gate)
    return out


def name_of(*, gate: bool) -> str:
    """The name of the line."""
    return "mean opening" if gate else "norm"
