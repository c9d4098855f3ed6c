"""Edit distance for NumPy: the table of all prefixes, cell by cell."""

from __future__ import annotations

from typing import Any

import numpy as np


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
