"""Edit distance for torch: one row of the table after the other, all sequences and columns at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from rfnb.backends.torch_transfer import on_device


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
