"""Probabilities of labels and blanks in frames, summed over all alignments: the forward-backward algorithm for CTC and transducers.

It runs on the host, for one sequence, in float64; scores are natural logs.
"""

from __future__ import annotations

import numpy as np


def ctc_posteriors(log_probs: np.ndarray, labels: np.ndarray, blank: int) -> tuple[np.ndarray, float]:
    """The probability of each label and each blank in each frame, given the labels.

    Args:
        log_probs: (frames, classes)
        labels: (labels,), without blanks.

    Returns:
        float32 (2 * labels + 1, frames): blank, label 1, blank, ..., each column sums to 1; and the log of the sum over all
        alignments. Without any alignment all zeros, and -inf.

    Source: Graves et al. 2006, "Connectionist Temporal Classification", equations (5) to (11) and (14).
    """
    states = np.full(2 * len(labels) + 1, blank)
    states[1::2] = labels
    if not len(log_probs):
        return np.zeros((len(states), 0), np.float32), 0.0 if not len(labels) else -np.inf
    scores = log_probs[:, states].astype(np.float64)
    jumps = np.zeros(len(states), bool)  # over the blank before it
    jumps[3::2] = states[3::2] != states[1:-2:2]
    forward = _ctc_forward(scores, jumps)
    backward = _ctc_forward(scores[::-1, ::-1], _jumps_back(jumps))[::-1, ::-1]
    total = float(np.logaddexp.reduce(forward[-1, -2:]))
    if total == -np.inf:
        return np.zeros((len(states), len(scores)), np.float32), total
    with np.errstate(invalid="ignore"):
        both = np.where(scores > -np.inf, forward + backward - scores, -np.inf)  # both have the score of their frame
    return np.exp(both - total).T.astype(np.float32), total


def _jumps_back(jumps: np.ndarray) -> np.ndarray:
    """The jumps for the states in reverse order."""
    return np.concatenate([[False, False], jumps[2:][::-1]])[: len(jumps)]


def _ctc_forward(scores: np.ndarray, jumps: np.ndarray) -> np.ndarray:
    """(frames, states): the log of the sum over all alignments that are in a state at a frame, up to that frame."""
    out = np.full(scores.shape, -np.inf)
    out[0, :2] = scores[0, :2]
    with np.errstate(invalid="ignore"):
        for frame in range(1, len(scores)):
            before = out[frame - 1]
            row = before.copy()
            row[1:] = np.logaddexp(row[1:], before[:-1])
            row[2:] = np.where(jumps[2:], np.logaddexp(row[2:], before[:-2]), row[2:])
            out[frame] = row + scores[frame]
    return out


def transducer_posteriors(blank: np.ndarray, label: np.ndarray) -> tuple[np.ndarray, float]:
    """The probability that each label is emitted in each frame, and that a frame is consumed after each number of labels.

    Args:
        blank: (frames, labels + 1), log probabilities of the blank.
        label: (frames, labels), log probabilities of the next label.

    Returns:
        float32 (2 * labels + 1, frames): blank after 0 labels, label 1, blank after 1 label, ...: a label's row sums to 1, and so do
            the blanks of a frame. Also the log of the sum over all alignments; if there are none, all zeros and -inf.

    Source: Graves 2012, "Sequence Transduction with Recurrent Neural Networks", section 2.4.
    """
    frames, count = label.shape
    out = np.zeros((2 * count + 1, frames), np.float32)
    if not frames:
        return out, -np.inf if count else 0.0
    blank, label = blank.astype(np.float64), label.astype(np.float64)
    forward = _transducer_forward(blank, label)
    total = float(forward[-1, -1] + blank[-1, -1])
    if total == -np.inf:
        return out, total
    # From the end: what is left after a step begins with the step before it, so the scores move by one.
    ends = np.concatenate([blank[::-1, ::-1][1:], blank[:1]])  # the last row is not read
    backward = _transducer_forward(ends, label[::-1, ::-1])[::-1, ::-1] + blank[-1, -1]
    after = np.concatenate([backward[1:], np.full((1, count + 1), -np.inf)])
    after[-1, -1] = 0
    out[0::2] = np.exp(forward + blank + after - total).T
    out[1::2] = np.exp(forward[:, :-1] + label + backward[:, 1:] - total).T
    return out, total


def _transducer_forward(blank: np.ndarray, label: np.ndarray) -> np.ndarray:
    """(frames, labels + 1): the log of the sum over all paths to a frame and number of labels, computed by diagonals."""
    frames, count = label.shape
    out = np.full((frames, count + 1), -np.inf)
    out[0, 0] = 0
    for diagonal in range(1, frames + count):
        frame = np.arange(max(0, diagonal - count), min(frames - 1, diagonal) + 1)
        place = diagonal - frame
        by_blank = np.where(frame > 0, out[frame - 1, place] + blank[frame - 1, place], -np.inf)
        by_label = np.full(len(frame), -np.inf)
        some = place > 0
        by_label[some] = out[frame[some], place[some] - 1] + label[frame[some], place[some] - 1]
        out[frame, place] = np.logaddexp(by_blank, by_label)
    return out
