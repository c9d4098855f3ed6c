"""The reference of an output: the right label of each step, as indices into the vocabulary."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rfnb.core.errors import dim_error, shape_error, value_error
from rfnb.core.foreign import is_array
from rfnb.core.tensor import Tensor
from rfnb.viz.axes import Axis, NamedArray
from rfnb.viz.spec import host

_NONE = -1  # no reference in this step


def reference_of(given: Any, seqs: Sequence[Axis], step: Axis | None, labels: Sequence[str] | None) -> np.ndarray:
    """int64 [seq, step]; below 0 where there is none.

    Args:
        given: A Tensor whose dims are among those of the scores; else indices or labels: for all sequences, or a list of them for each.
        labels: Of the vocabulary.

    Raises:
        DimError, ShapeError, ValueError: If it does not fit the scores.
    """
    shape = (int(np.prod([axis.size for axis in seqs], dtype=np.int64)), step.size if step is not None else 1)
    if isinstance(given, Tensor):
        return _of_tensor(given, [*seqs, *([step] if step is not None else [])], shape)
    if is_array(given):
        ids = host(given)
        if ids.ndim == 1 and step is None and len(ids) == shape[0]:
            ids = ids[:, None]
    else:
        ids = _of_lists(given, labels)
    if (
        ids.dtype.kind not in "iu"
        or ids.ndim not in (1, 2)
        or ids.shape[-1] > shape[1]
        or (ids.ndim == 2 and ids.shape[0] != shape[0])
    ):
        raise shape_error(
            "distribution: the reference does not fit the scores.",
            [("scores", f"{shape[0]} sequences, {shape[1]} steps"), ("reference", f"{ids.dtype} {ids.shape}")],
            "The reference has one index into the vocabulary per step: one list for all sequences, or one list per sequence.",
            "reference=[[...], [...]]",
        )  # fmt: skip
    out = np.full(shape, _NONE, np.int64)
    out[:, : ids.shape[-1]] = ids
    return out


def _of_tensor(given: Tensor, axes: list[Axis], shape: tuple[int, int]) -> np.ndarray:
    named = NamedArray.of(given)
    foreign = [axis for axis in named.axes if all(axis.dim is not other.dim for other in axes)]
    if foreign:
        dims = ", ".join(axis.describe() for axis in axes)
        raise dim_error(
            f"distribution: the reference has a dim {foreign[0].describe()} that the scores do not have.",
            [("scores", f"[{dims}], without the vocabulary"), ("reference", named.describe())],
            "The dims of the reference are among those of the scores.",
            "rf.viz.distribution(scores, reference=targets)    # of the same batch and the same steps",
        )
    if named.array.dtype.kind not in "iu":
        raise value_error(
            "distribution: the reference holds no indices.",
            [("reference", f"{named.describe()} {given.dtype}")],
            "The reference is of integers, sparse over the vocabulary.",
            "rf.viz.distribution(scores, reference=rf.reduce_argmax(targets, axis=vocab))",
        )
    found = [next((axis for axis in named.axes if axis.dim is other.dim), None) for other in axes]
    array = named.array.transpose([named.axes.index(axis) for axis in found if axis is not None])
    array = array.reshape([1 if axis is None else axis.size for axis in found])
    return np.broadcast_to(array, [axis.size for axis in axes]).reshape(shape).astype(np.int64)


def _of_lists(given: Any, labels: Sequence[str] | None) -> np.ndarray:
    rows = [
        list(row) if isinstance(row, (list, tuple)) or (is_array(row) and len(row.shape)) else None for row in given
    ]
    nested = bool(rows) and all(row is not None for row in rows)
    table: dict[str, int] = {}
    for index, label in enumerate(labels or ()):
        table.setdefault(label, index)
    lists = [[_index(item, table) for item in row] for row in (rows if nested else [list(given)]) if row is not None]
    out = np.full((len(lists), max(map(len, lists), default=0)), _NONE, np.int64)
    for row, items in zip(out, lists):
        row[: len(items)] = items
    return out if nested else out[0]


def _index(item: Any, table: dict[str, int]) -> int:
    if item is None:
        return _NONE
    if not isinstance(item, str):
        return int(item)
    if item not in table:
        raise value_error(
            f"distribution: the reference has a label {item!r} that the vocabulary does not have.",
            [("vocabulary", f"{len(table)} labels" if table else "without labels")],
            "The reference has labels of the vocabulary, or indices into it.",
            "rf.viz.distribution(scores, reference=..., labels=[...])",
        )
    return table[item]
