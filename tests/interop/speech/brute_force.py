"""All alignments of a few labels to a few frames, one by one: what the sums and the best of them have to be."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np


def ctc_rows(labels: list[int], frames: int, blank: int) -> Iterator[tuple[int, ...]]:
    """The rows (blank 0, label 1, blank 2, ...) of the frames of each alignment."""
    states = [blank]
    for label in labels:
        states += [label, blank]
    for rows in itertools.product(range(len(states)), repeat=frames):
        path = [states[row] for row in rows]
        merged = [label for label, _ in itertools.groupby(path) if label != blank]
        # the same path may be one of several rows where labels repeat: rows go up by one, or over a blank
        steps = all(0 <= b - a <= 2 for a, b in zip(rows, rows[1:]))
        over = all(states[b] != states[a] and b % 2 for a, b in zip(rows, rows[1:]) if b - a == 2)
        if merged == labels and steps and over and rows[0] <= 1 and rows[-1] >= len(states) - 2:
            yield rows


def ctc(log_probs: np.ndarray, labels: list[int], blank: int) -> tuple[np.ndarray, float, float]:
    """Posteriors (rows, frames), log of the sum, log of the best."""
    states = [blank]
    for label in labels:
        states += [label, blank]
    posteriors, scores = np.zeros((len(states), len(log_probs))), []
    for rows in ctc_rows(labels, len(log_probs), blank):
        score = sum(log_probs[frame, states[row]] for frame, row in enumerate(rows))
        scores.append(score)
        for frame, row in enumerate(rows):
            posteriors[row, frame] += np.exp(score)
    total = np.logaddexp.reduce(scores)
    return posteriors / np.exp(total), float(total), float(max(scores))


def transducer(log_probs: np.ndarray, labels: list[int], blank: int) -> tuple[np.ndarray, float, float]:
    """The same of (frames, labels + 1, classes)."""
    frames = len(log_probs)
    posteriors, scores = np.zeros((2 * len(labels) + 1, frames)), []
    for at in itertools.combinations_with_replacement(range(frames), len(labels)):  # the frame of each label
        score, cells, count = 0.0, [], 0
        for frame in range(frames):
            while count < len(labels) and at[count] == frame:
                score += log_probs[frame, count, labels[count]]
                cells.append((2 * count + 1, frame))
                count += 1
            score += log_probs[frame, count, blank]
            cells.append((2 * count, frame))
        scores.append(score)
        for cell in cells:
            posteriors[cell] += np.exp(score)
    total = np.logaddexp.reduce(scores)
    return posteriors / np.exp(total), float(total), float(max(scores))
