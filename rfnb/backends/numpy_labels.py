"""Label sequences in NumPy, one after the other, written for readability: CTC and the edit distance."""

from __future__ import annotations

from typing import Any

import numpy as np

from rfnb.backends.numpy_functions import log_softmax


def ctc_loss(
    logits: Any, targets: Any, input_lengths: np.ndarray, target_lengths: np.ndarray, *, blank: int, normalized: bool,
    max_approx: bool, label_loop: bool, zero_infinity: bool,
) -> Any:  # fmt: skip
    """See `Backend.ctc_loss_raw`."""
    out = np.zeros(len(logits), logits.dtype)
    add = np.maximum if max_approx else np.logaddexp
    for seq, (frames, count) in enumerate(zip(input_lengths, target_lengths)):
        log_probs = logits[seq, :frames] if normalized else log_softmax(logits[seq, :frames], -1)
        states = _extended(targets[seq, :count], blank)
        alpha = _start(states)
        for emission in log_probs:
            alpha = [
                _sum(add, [alpha[before] for before in _predecessors(states, state, label_loop)]) + emission[label]
                for state, label in enumerate(states)
            ] + [-np.inf]
        total = _sum(add, [alpha[state] for state in _last(states)])
        out[seq] = -total if np.isfinite(total) else 0 if zero_infinity else np.inf
    return out


def ctc_best_path(
    logits: Any, targets: Any, input_lengths: np.ndarray, target_lengths: np.ndarray, *, blank: int, normalized: bool,
    label_loop: bool,
) -> Any:  # fmt: skip
    """See `Backend.ctc_best_path_raw`."""
    out = np.full(logits.shape[:2], blank, targets.dtype)
    for seq, (frames, count) in enumerate(zip(input_lengths, target_lengths)):
        log_probs = logits[seq, :frames] if normalized else log_softmax(logits[seq, :frames], -1)
        states = _extended(targets[seq, :count], blank)
        alpha, came_from = _start(states), []
        for emission in log_probs:
            # max gives the first of equal ones: rather stay than go on
            best = [
                max(_predecessors(states, state, label_loop), key=alpha.__getitem__) for state in range(len(states))
            ]
            alpha = [alpha[best[state]] + emission[label] for state, label in enumerate(states)] + [-np.inf]
            came_from.append(best)
        state = max(_last(states), key=alpha.__getitem__)
        if np.isfinite(alpha[state]):
            for time in reversed(range(frames)):
                out[seq, time] = states[state]
                state = came_from[time][state]
    return out


def _extended(labels: Any, blank: int) -> list[int]:
    states = [blank]
    for label in labels:
        states += [int(label), blank]
    return states


def _start(states: list[int]) -> list[Any]:
    """The scores before the first frame: no state is reached yet. The last entry, index -1, is the start of all paths."""
    return [-np.inf] * len(states) + [0.0]


def _predecessors(states: list[int], state: int, label_loop: bool) -> list[int]:
    """The states from which a path may come: the same, the previous one, or the one before that, skipping a blank."""
    is_label = state % 2 == 1
    before = [state] if label_loop or not is_label else []
    before.append(state - 1)
    if state == 1:
        before.append(-1)  # the first blank may be skipped
    elif is_label and (not label_loop or states[state] != states[state - 2]):
        before.append(state - 2)
    return before


def _last(states: list[int]) -> list[int]:
    """The states in which a path may end: the last blank or the last label."""
    return [len(states) - 1, len(states) - 2] if len(states) > 1 else [0]


def _sum(add: Any, scores: list[Any]) -> Any:
    total = -np.inf
    for score in scores:
        total = add(total, score)
    return total


def edit_distance(a: Any, b: Any, a_lengths: np.ndarray, b_lengths: np.ndarray) -> Any:
    """See `Backend.edit_distance_raw`."""
    out = np.zeros(len(a), np.int64)
    for seq, (rows, columns) in enumerate(zip(a_lengths, b_lengths)):
        table = np.zeros((rows + 1, columns + 1), np.int64)
        table[:, 0], table[0] = np.arange(rows + 1), np.arange(columns + 1)
        for i in range(1, rows + 1):
            for j in range(1, columns + 1):
                replaced = table[i - 1, j - 1] + (a[seq, i - 1] != b[seq, j - 1])
                table[i, j] = min(table[i - 1, j] + 1, table[i, j - 1] + 1, replaced)
        out[seq] = table[rows, columns]
    return out


def next_edit_distance_row(row: Any, a: Any, n: Any, keep: Any, b: Any, b_lengths: np.ndarray) -> Any:
    """See `Backend.next_edit_distance_row_raw`."""
    out = row.copy()
    for seq, length in enumerate(b_lengths):
        if not keep[seq]:
            out[seq, 0] = n[seq] + 1
            for j in range(1, length + 1):
                replaced = row[seq, j - 1] + (a[seq] != b[seq, j - 1])
                out[seq, j] = min(row[seq, j] + 1, out[seq, j - 1] + 1, replaced)
        out[seq, length:] = out[seq, length]
    return out
