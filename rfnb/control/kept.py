"""Kept: the states before the steps of a run, as many as a number of bytes allows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from rfnb.core.pickling import NotPicklable
from rfnb.core.tensor import Tensor
from rfnb.rec.nested import leaves
from rfnb.trace.event import bytes_of, keep

LIMIT = 64 << 20
"""bytes: of the states that a run keeps"""


class Kept(NotPicklable):
    """States by tick. When there are too many, every second one goes, and from then on only so many are taken.

    Args:
        limit: bytes.
    """

    def __init__(self, limit: int = LIMIT):
        self._limit, self._bytes, self._stride = limit, 0, 1
        self._states: dict[int, tuple[dict[str, Any], int]] = {}

    def add(self, tick: int, roots: Mapping[str, Any]) -> None:
        """The states before a step; kept without copy, since what an op gives is not changed in place."""
        if tick % self._stride:
            return
        tensors = {}
        for name, root in roots.items():
            if root.__class__ is Tensor:
                tensors[name] = keep(root)
            else:
                tensors.update((path, keep(leaf)) for path, leaf in leaves(root, name) if isinstance(leaf, Tensor))
        size = bytes_of(tensors)
        self._states[tick] = tensors, size
        self._bytes += size
        while self._bytes > self._limit and len(self._states) > 1:
            self._stride *= 2
            for other in [other for other in self._states if other % self._stride]:
                self._bytes -= self._states.pop(other)[1]

    def ticks(self) -> list[int]:
        """The ticks that are kept, in order."""
        return list(self._states)

    def at(self, tick: int) -> dict[str, Tensor] | None:
        """The states before a step, by dotted path; None: they were not kept."""
        found = self._states.get(tick)
        return None if found is None else found[0]

    def difference(self, tick: int, roots: Mapping[str, Any]) -> str | None:
        """The first state that is another one than that which was kept here; None: there is none, or nothing was kept."""
        before = self.at(tick)
        if before is None:
            return None
        now = {path: leaf for path, leaf in leaves(dict(roots)) if isinstance(leaf, Tensor)}
        if before.keys() != now.keys():
            return ", ".join(sorted(before.keys() ^ now.keys()))
        for path, value in now.items():
            a, b = before[path].numpy(), value.numpy()
            if a.shape != b.shape or a.dtype != b.dtype or a.tobytes() != b.tobytes():
                if a.shape != b.shape or not np.array_equal(a, b, equal_nan=a.dtype.kind == "f"):
                    return path
        return None
