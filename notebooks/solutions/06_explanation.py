"""Solutions of 06_explanation."""

import numpy as np


def total_variation(p, q):
    return np.abs(np.asarray(p) - np.asarray(q)).sum(-1) / 2


def move_mass(row, position, mass):
    moved = (1 - mass) * np.asarray(row)  # a new array
    moved[..., position] += mass
    return moved


steal = {"step": 6, "mass": 0.46}


def most_monotonic(weights):
    positions = weights @ np.arange(weights.shape[2])  # (heads, target): expected
    apart = positions - positions.mean(1, keepdims=True)
    rows = np.arange(weights.shape[1]) - (weights.shape[1] - 1) / 2
    spread = np.sqrt((apart**2).sum(1) * (rows**2).sum())
    return int(np.argmax(np.where(spread > 1e-9, apart @ rows / np.maximum(spread, 1e-9), 0)))


PREDICTIONS = {
    "all_uniform": "another word",
    "stays": "6 to 9 times",
    "one_head": "less than 5",
    "all_heads": "more than 30",
    "century": "6",
    "on_not": "more than twice as much",
}
