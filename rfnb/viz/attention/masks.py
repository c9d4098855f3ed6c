"""Masked positions: by a mask of the caller, or by a causal mask inferred from the weights.

A masked cell is not a weight of 0: it has no colour, and does not enter the statistics of a head.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from rfnb.core.errors import dim_error, shape_error
from rfnb.core.tensor import Tensor
from rfnb.viz.axes import Axis, NamedArray
from rfnb.viz.spec import host

CAUSAL = "causal"
_MOST_KEPT = 1 << 22  # cached cells, one byte each


def hidden_cells(
    mask: Any, named: NamedArray, seqs: list[Axis], maps: list[Axis], target: Axis | None, source: Axis
) -> np.ndarray | None:
    """The cells that a mask (true: visible) hides, bool [seq, map or 1, row, col]; None without a mask.

    Args:
        mask: A Tensor with dims of the weights, or an array that broadcasts against the weights.

    Raises:
        DimError: If the mask has a dim that the weights lack.
        ShapeError: If an array does not broadcast.
    """
    if mask is None or isinstance(mask, str):
        return None
    shape = tuple(axis.size for axis in named.axes)
    if isinstance(mask, Tensor):
        foreign = [dim for dim in mask.dims if not any(axis.dim is dim for axis in named.axes)]
        if foreign:
            raise dim_error(
                f"attention: the mask has {foreign[0].short_repr()}, which the weights lack.",
                {"weights": named.describe(), "mask": NamedArray.of(mask).describe()},
                "A mask marks the visible positions of the weights; its dims are some of theirs.",
                "rf.viz.attention(weights, mask=mask)",
            )
        own = [dim for axis in named.axes for dim in mask.dims if axis.dim is dim]
        array = host(mask.copy_transpose(own).raw_tensor)
        array = array.reshape([axis.size if any(axis.dim is dim for dim in own) else 1 for axis in named.axes])
    else:
        array = host(mask)
        array = array.reshape((1,) * (len(shape) - array.ndim) + array.shape)
    if array.ndim != len(shape) or any(size not in (1, full) for size, full in zip(array.shape, shape)):
        raise shape_error(
            "attention: the mask does not fit the weights.",
            {
                "weights": named.describe(),
                "mask": host(mask.raw_tensor if isinstance(mask, Tensor) else mask).shape,
            },
            "A mask without names broadcasts against the weights, from the last axis on.",
            "rf.viz.attention(weights, mask=numpy.tril(numpy.ones((targets, sources), bool)))",
        )
    hides = ~array.astype(bool)
    at = {id(axis): index for index, axis in enumerate(named.axes)}
    if all(hides.shape[at[id(axis)]] == 1 for axis in maps):  # one mask for all heads
        groups, sizes = [seqs, [], [target] if target is not None else [], [source]], dict.fromkeys(map(id, maps), 1)
    else:
        groups, sizes = [seqs, maps, [target] if target is not None else [], [source]], {}
    order = [axis for group in (seqs, maps, groups[2], [source]) for axis in group]
    full = np.broadcast_to(hides, [sizes.get(id(axis), axis.size) for axis in named.axes])
    full = full.transpose([at[id(axis)] for axis in order])
    return full.reshape([int(np.prod([axis.size for axis in group], dtype=int)) for group in groups])


def is_causal(values: np.ndarray, row_lens: np.ndarray, col_lens: np.ndarray) -> bool:
    """Whether a map [seq, row, col] is causal: exactly 0 above the diagonal, and almost never 0 on and below it.

    The last row is aligned with the last column. A mask cannot be inferred if only the diagonal (or a few cells) has
    weight, nor from columns that are 0 in all rows (padding) or NaN.
    """
    told = False
    for array, rows, cols in zip(values, row_lens.tolist(), col_lens.tolist()):
        if rows < 2:
            continue
        if cols < rows or not _first_rows_fit(array, rows, cols):
            return False
        part = array[:rows, :cols]
        ahead = above(rows, cols)
        computed = ~np.isnan(part).all(-1)
        if (part[ahead & computed[:, None]] != 0).any():  # NaN counts as a violation
            return False
        seen = ~ahead & computed[:, None]
        weight = np.nan_to_num(part) != 0
        # The last weight of each row is where the next row continues: the boundary of the zeros follows the diagonal.
        edge = np.diagonal(weight, cols - rows)[computed]
        told = told or (len(edge) >= 3 and float(weight[seen].mean()) > 0.5 and float(edge.mean()) > 0.5)
    return told


def _first_rows_fit(array: np.ndarray, rows: int, cols: int) -> bool:
    """Whether the first row has no weight ahead: a fast rejection of most non-causal maps."""
    first = array[0, cols - rows + 1 : cols]
    return bool((first == 0).all() or np.isnan(array[0, :cols]).all())


def above(rows: int, cols: int) -> np.ndarray:
    """The cells ahead of their row, bool [rows, cols]. Read-only, since maps of one size share it."""
    return (_ahead if rows * cols <= _MOST_KEPT else _ahead.__wrapped__)(rows, cols)


@lru_cache(maxsize=4)
def _ahead(rows: int, cols: int) -> np.ndarray:
    made = np.arange(cols)[None, :] > np.arange(rows)[:, None] + (cols - rows)
    made.setflags(write=False)
    return made


def hidden_of(spec: Any, entry: dict[str, Any], index: int) -> np.ndarray | None:
    """The masked cells of one sequence of a map, without its padding, bool [row, col]; None if no cell is masked."""
    seq = spec.head["seqs"][entry["seqs"][index]]
    rows, cols = seq["row_len"], seq["col_len"]
    if entry.get("mask"):
        block = spec.blocks[entry["mask"]]
        return np.asarray(block[index if block.shape[0] > 1 else 0, :rows, :cols], bool)
    return above(rows, cols) if entry.get("causal") else None
