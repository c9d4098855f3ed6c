"""Linear recurrences in plain torch, one frame after the other, as their papers write them: to compare with.

`edit(state, t)` gives what the state behind step t is put to.
"""

import torch


def unedited(state, t):
    return state


def delta_rule(q, k, v, alpha, beta, state=None, edit=unedited):
    """S_t = alpha S_{t-1} (1 - beta k k^T) + beta v k^T, read by q: Gated Delta Networks, equation (10).

    q, k are [time, head, key], v is [time, head, value], alpha [time, head] (or [time, head, key]) and beta [time, head].
    Gives what is read [time, head, value], and the states [time, head, key, value].
    """
    state = v.new_zeros(q.shape[1], q.shape[2], v.shape[2]) if state is None else state
    alpha = alpha if alpha.ndim == 3 else alpha[..., None]
    read, states = [], []
    for t in range(len(q)):
        transition = torch.eye(q.shape[2], dtype=q.dtype) - beta[t, :, None, None] * k[t, :, :, None] * k[t, :, None, :]
        state = (
            transition @ (alpha[t, ..., None] * state) + beta[t, :, None, None] * k[t, :, :, None] * v[t, :, None, :]
        )
        state = edit(state, t)
        states.append(state)
        read.append((q[t, :, None] @ state)[:, 0])
    return torch.stack(read), torch.stack(states)


def diagonal(decay, write, state=None, edit=unedited):
    """S_t = decay_t S_{t-1} + write_t, entry by entry: the states [time, ...]."""
    states, last = [], torch.zeros_like(write[0] * decay[0]) if state is None else state
    for t in range(len(write)):
        last = edit(decay[t] * last + write[t], t)
        states.append(last)
    return torch.stack(states)
