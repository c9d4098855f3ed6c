"""Label sequences for torch: CTC and the edit distance.

CTC is the fused loss where torch computes exactly the same function, else the forward recursion over all states at once. The states are
blank, label 1, blank, label 2, ..., blank: 2 * labels + 1 of them. From frame to frame a path stays, advances by one state, or skips the
blank between two labels. Everything is vectorised over sequences and states; lengths are known to the host, so nothing here makes a GPU
wait.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from rfnb.backends.torch_devices import on_device

# Stands for log 0. Finite, since the gradient of logsumexp over nothing but -inf is NaN.
_IMPOSSIBLE = -1e30
_INFINITY = float("inf")


def ctc_loss(
    logits: Any, targets: Any, input_lengths: np.ndarray, target_lengths: np.ndarray, *, blank: int, normalized: bool,
    max_approx: bool, label_loop: bool, zero_infinity: bool,
) -> Any:  # fmt: skip
    """See `Backend.ctc_loss_raw`."""
    log_probs, labels, frames, states = _prepare(logits, targets, input_lengths, target_lengths, blank, normalized)
    # torch's gradient takes for granted that a log_softmax is in front: else it is not that of its own loss.
    if label_loop and not (max_approx or normalized) and log_probs.numel():
        # The same values, but a class of probability 0 gets gradient 0 instead of NaN.
        log_probs = torch.where(log_probs == -_INFINITY, -_INFINITY, log_probs)
        lengths = torch.as_tensor(input_lengths, device="cpu"), torch.as_tensor(target_lengths, device="cpu")
        loss = F.ctc_loss(log_probs, labels, *lengths, blank=blank, reduction="none", zero_infinity=True)
        if not zero_infinity:  # torch's own infinity has a gradient of NaN
            with torch.no_grad():
                other = F.ctc_loss(log_probs, labels, *lengths, blank=blank, reduction="none", zero_infinity=False)
            loss = torch.where(torch.isinf(other), _INFINITY, loss)
        return loss.to(logits.dtype)
    over = _largest if max_approx else _log_sum
    states_labels, arcs = _topology(labels, blank, label_loop, log_probs.dtype)
    emissions = _emissions(log_probs, states_labels)
    alpha = _nowhere(emissions)
    for time, emission in enumerate(emissions):
        new = over(_moves(alpha, time) + arcs) + emission
        alpha = new if frames is None else torch.where(frames[time], new, alpha)
    total = over(_ends(alpha, states))
    return torch.where(total > _IMPOSSIBLE / 2, -total, 0 if zero_infinity else _INFINITY).to(logits.dtype)


def ctc_best_path(
    logits: Any, targets: Any, input_lengths: np.ndarray, target_lengths: np.ndarray, *, blank: int, normalized: bool,
    label_loop: bool,
) -> Any:  # fmt: skip
    """See `Backend.ctc_best_path_raw`."""
    with torch.no_grad():
        log_probs, labels, frames, states = _prepare(logits, targets, input_lengths, target_lengths, blank, normalized)
        states_labels, arcs = _topology(labels, blank, label_loop, log_probs.dtype)
        emissions = _emissions(log_probs, states_labels)
        alpha, moved = _nowhere(emissions), []
        for time, emission in enumerate(emissions):
            skip, step, stay = (_moves(alpha, time) + arcs).unbind(-1)
            # Compared by hand: which of equal ones argmax gives is not said.
            best, by = torch.maximum(stay, step), (step > stay).to(torch.int64)
            new, by = torch.maximum(best, skip) + emission, torch.where(skip > best, 2, by)
            alpha = new if frames is None else torch.where(frames[time], new, alpha)
            moved.append(by if frames is None else torch.where(frames[time], by, 0))
        last_label, last_blank = _ends(alpha, states).unbind(-1)
        state = (2 * states - (last_label > last_blank).to(torch.int64)).unsqueeze(1)
        path = []
        for by in reversed(moved):
            path.append(states_labels.gather(1, state))
            state = (state - by.gather(1, state)).clamp(min=0)
        if not path:
            return targets.new_zeros((*logits.shape[:2],))
        possible = (torch.maximum(last_label, last_blank) > _IMPOSSIBLE / 2).unsqueeze(1)
        real = possible if frames is None else possible & frames.squeeze(-1).transpose(0, 1)
        return torch.where(real, torch.cat(path[::-1], 1), blank).to(targets.dtype)


def _prepare(
    logits: Any, targets: Any, input_lengths: np.ndarray, target_lengths: np.ndarray, blank: int, normalized: bool
) -> tuple[Any, Any, Any | None, Any]:
    """log_probs [time, batch, classes] without padding, int64 labels [batch, target time], a mask of real frames [time, batch, 1]
    (None: all), number of labels [batch].
    """
    device = logits.device
    frames = None
    if (input_lengths != logits.shape[1]).any():
        frames = on_device(np.arange(logits.shape[1])[:, None, None] < input_lengths[:, None], device)
    logits = logits.transpose(0, 1)
    logits = logits.float() if logits.dtype in (torch.float16, torch.bfloat16) else logits
    logits = logits if frames is None else torch.where(frames, logits, 0)
    labels = targets.long()
    if (target_lengths != targets.shape[1]).any():
        real = on_device(np.arange(targets.shape[1]) < target_lengths[:, None], device)
        labels = torch.where(real, labels, blank)
    log_probs = logits if normalized else torch.log_softmax(logits, -1)
    return log_probs, labels, frames, on_device(target_lengths, device)


def _topology(labels: Any, blank: int, label_loop: bool, dtype: Any) -> tuple[Any, Any]:
    """The label of each state [batch, state], and for the moves skip, step, stay 0 or log 0 [batch, state, 3]."""
    batch, count = labels.shape[0], 2 * labels.shape[1] + 1
    states = labels.new_full((batch, count), blank)
    states[:, 1::2] = labels
    is_label = torch.arange(count, device=labels.device) % 2 == 1
    may = torch.ones((batch, count, 3), dtype=torch.bool, device=labels.device)
    may[..., 2] = ~is_label | label_loop
    may[..., 0] = is_label
    if label_loop:  # between two equal labels there has to be a blank: else they would be one
        may[:, 2:, 0] &= states[:, 2:] != states[:, :-2]
    return states, torch.where(may, 0.0, _IMPOSSIBLE).to(dtype)


def _emissions(log_probs: Any, states: Any) -> Any:
    """log_probs of the label of each state, [time, batch, state]."""
    if not log_probs.shape[-1]:
        return log_probs.new_zeros((log_probs.shape[0], *states.shape))
    return log_probs.clamp(min=_IMPOSSIBLE).gather(2, states.unsqueeze(0).expand(log_probs.shape[0], -1, -1))


def _nowhere(emissions: Any) -> Any:
    return emissions.new_full(emissions.shape[1:], _IMPOSSIBLE)


def _moves(alpha: Any, time: int) -> Any:
    """The scores of possible predecessors, [batch, state, (skip, step, stay)]: two states before, one before, the same."""
    before = F.pad(alpha, (2, 0), value=_IMPOSSIBLE)
    if time == 0:  # all paths start just before the first blank, which they may skip
        before[:, 1] = 0
    return before.unfold(1, 3, 1)


def _ends(alpha: Any, count: Any) -> Any:
    """The scores of the last label and of the blank after it, [batch, 2]."""
    last = torch.stack((2 * count - 1, 2 * count), 1)
    ends = alpha.gather(1, last.clamp(min=0))
    return torch.where(last < 0, _IMPOSSIBLE, ends)


def _log_sum(scores: Any) -> Any:
    return torch.logsumexp(scores, -1)


def _largest(scores: Any) -> Any:
    return torch.amax(scores, -1)


def edit_distance(a: Any, b: Any, a_lengths: np.ndarray, b_lengths: np.ndarray) -> Any:
    """See `Backend.edit_distance_raw`."""
    columns = torch.arange(b.shape[1] + 1, device=a.device)
    row = columns.expand(a.shape[0], -1)
    lengths = on_device(a_lengths, a.device).unsqueeze(1)
    for index in range(a.shape[1]):
        new = _next_row(row, row[:, :1] + 1, a[:, index : index + 1], b, columns)
        row = torch.where(index < lengths, new, row)
    ends = on_device(b_lengths, a.device).unsqueeze(1)
    return row.gather(1, ends).squeeze(1)


def next_edit_distance_row(row: Any, a: Any, n: Any, keep: Any, b: Any, b_lengths: np.ndarray) -> Any:
    """See `Backend.next_edit_distance_row_raw`."""
    columns = torch.arange(b.shape[1] + 1, device=a.device)
    new = _next_row(row, n.unsqueeze(1) + 1, a.unsqueeze(1), b, columns).to(row.dtype)
    new = torch.where(keep.unsqueeze(1), row, new)
    ends = on_device(b_lengths, a.device).unsqueeze(1)
    return torch.where(columns > ends, new.gather(1, ends), new)


def _next_row(row: Any, first: Any, a: Any, b: Any, columns: Any) -> Any:
    """The row after `row` {batch, column}, from its first column and the symbol `a` [batch, 1]."""
    other = (a != b).long()
    new = torch.cat((first, torch.minimum(row[:, 1:] + 1, row[:, :-1] + other)), 1)
    # Insertions: column j is reached from each column i before it by j - i of them.
    return (new - columns).cummin(1).values + columns
