"""The rows of all hypotheses of a search, for views of the best one: the page shows the rows of the hypothesis under the pointer.

A map of the best hypothesis has rows by step. Its block of *slots* has rows by step and slot of the beam, `[seq, step,
slot, ...]`; a hypothesis is a slot per step, from the `beams` view. A page gets the block if it is small, and otherwise
requests single hypotheses.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rfnb.core.tensor import Tensor
from rfnb.viz.spec import Spec

_MOST = 1 << 25  # values per view; beyond, only the best hypothesis is available
MOST_LIVE = 1 << 18  # the same for a held run, which is redrawn in each step


def in_slots(
    history: Any, steps: Sequence[Tensor | None], *, fill_axis: int | None = None, most_values: int = _MOST
) -> np.ndarray | None:
    """float32 `[seq, step, slot, ...]`, NaN for missing slots; None if it is too large.

    Args:
        steps: The values of all slots in each step, or None.
        most_values: The size limit.
        fill_axis: The axis, after steps and slots, that may be shorter in some steps; it is padded with 0 (no attention).
    """
    arrays = history.in_slots(steps)
    there = [array for array in arrays if array is not None]
    if not there:
        return None
    most = [max(sizes) for sizes in zip(*(array.shape[1:] for array in there))]
    shape = [there[0].shape[0], len(arrays), *most]
    if np.prod(shape, dtype=np.int64) > most_values:
        return None
    out = np.full(shape, np.nan, np.float32)
    for step, array in enumerate(arrays):
        if array is None:
            continue
        slots = most[0] if array.shape[1] == 1 else array.shape[1]
        inside = [slice(0, size) for size in array.shape[2:]]
        if fill_axis is not None:
            zeros = [slice(None) if axis == fill_axis else one for axis, one in enumerate(inside)]
            place: tuple[Any, ...] = (slice(None), step, slice(0, slots), *zeros)
            out[place] = 0
        place = (slice(None), step, slice(0, slots), *inside)
        out[place] = array
    return out


def with_slots(
    entries: Sequence[dict[str, Any]], blocks: dict[str, np.ndarray], arrays: Sequence[np.ndarray], *, before: bool
) -> None:
    """Give the maps or tracks of a spec their block of slots, named by `slots` in their entries.

    Args:
        before: Whether these are the slots before the choice of each step.
    """
    for entry, array in zip(entries, arrays, strict=True):
        entry["slots"] = f"{entry['block']}/slots"
        if before:
            entry["before"] = True
        blocks[entry["slots"]] = np.ascontiguousarray(array, dtype=np.float32)


def without_slots(spec: Spec) -> Spec:
    """The spec without its blocks of slots; their names are kept, to request them."""
    entries = [*spec.head.get("maps", []), *spec.head.get("tracks", [])]
    names = {entry["slots"] for entry in entries if "slots" in entry} & spec.blocks.keys()
    if not names:
        return spec
    blocks = {name: block for name, block in spec.blocks.items() if name not in names}
    return Spec(spec.kind, spec.head, blocks, spec.codes)
