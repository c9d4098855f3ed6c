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
        other = (a[:, index : index + 1] != b).long()
        new = torch.cat((row[:, :1] + 1, torch.minimum(row[:, 1:] + 1, row[:, :-1] + other)), 1)
        # Insertions: column j is reached from each column i before it by j - i of them.
        new = (new - columns).cummin(1).values + columns
        row = torch.where(index < lengths, new, row)
    ends = on_device(b_lengths, a.device).unsqueeze(1)
    return row.gather(1, ends).squeeze(1)
