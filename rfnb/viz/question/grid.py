"""The rows and columns of a mask or of weights in a question: any input of `rf.viz.attention` with one map and one sequence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rfnb.core.errors import shape_error
from rfnb.core.foreign_arrays import is_array
from rfnb.core.tensor import Tensor
from rfnb.ops.cast import cast
from rfnb.viz.attention.spec import spec as attention_spec
from rfnb.viz.spec import host


def grid_of(what: str, value: Any, target: Any, source: Any, **options: Any) -> tuple[np.ndarray, list[str], list[str]]:
    """The array [row, column] without padding, and the labels of both.

    Args:
        what: The caller, for errors.
        value: {target, source}: a Tensor, an array, nested lists, or a view of attention.
        target, source: Labels. Default: numbers.

    Raises:
        ShapeError: If it has several sequences, heads or layers.
    """
    if hasattr(value, "spec") and getattr(value.spec, "kind", "") == "attention":
        made = value.spec
    else:
        if not isinstance(value, Tensor) and not is_array(value):
            value = np.asarray(value)
        made = attention_spec(_numbers(value), target=target, source=source, **options)
    head = made.head
    if len(head["maps"]) != 1 or len(head["seqs"]) != 1:
        raise shape_error(
            f"{what}: this is more than one grid.",
            {"maps": len(head["maps"]), "sequences": len(head["seqs"])},
            "An answer is drawn in one grid: one sequence, one layer and one head.",
            f"lesson.{what}(name, weights[0, 0])  # or rf.gather along these dims",
        )
    entry, seq = head["maps"][0], head["seqs"][0]
    rows, cols = int(seq["row_len"]), int(seq["col_len"])
    array = made.blocks[entry["block"]][0, :rows, :cols]
    return array, _labels(seq["rows"], rows), _labels(seq["cols"], cols)


def _labels(given: Sequence[str], count: int) -> list[str]:
    return [str(given[at]) if at < len(given) else str(at) for at in range(count)]


def _numbers(value: Any) -> Any:
    """A mask as weights of 0 and 1."""
    if isinstance(value, Tensor):
        return cast(value, "float32") if value.dtype == "bool" else value
    array = host(value)
    return array.astype(np.float32) if array.dtype == bool else array
