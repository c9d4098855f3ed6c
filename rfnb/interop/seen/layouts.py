"""Layouts: which Dims are the axes of a view (shape and strides) of some memory.

An equal view of known memory is the same tensor; and an axis with the size and stride of a known axis is that axis:
`x.transpose(0, 1)` and `x.view(batch, time, heads, -1)` keep dims reliably, even if sizes are equal. No tensor is kept
alive.
"""

from __future__ import annotations

import itertools
import weakref
from typing import Any

import torch

from rfnb.core.dim import Dim, Dims
from rfnb.interop.seen.snapshot import version_of

_MOST_LOOKS = 4  # of views with other shapes: the first ones have explicit names

Look = tuple[Any, Any, Any]
_STRIDED = torch.strided


MOST_DEAD = 1024


def without_dead(known: dict[Any, tuple[Any, ...]]) -> int:
    """Drop the entries whose references (their first part) are dead; returns the number of entries at which the next call pays off.

    A callback for each reference would do it at once, at ten times the cost.
    """
    for key in [key for key, each in known.items() if each[0]() is None]:
        del known[key]
    return 2 * len(known) + MOST_DEAD


class _Object:
    """Stands for a tensor with several equal views."""


class Layouts:
    """The dims of memory views.

    Attributes:
        state: A number that changes when a known fact about a dim or a memory changes.
    """

    def __init__(self) -> None:
        self.state = 0
        self._known: dict[int, tuple[weakref.ref[Any], dict[Look, Dims]]] = {}
        self._most = MOST_DEAD
        self._objects: dict[Any, tuple[weakref.ref[Any], _Object]] = {}

    def put(self, raw: torch.Tensor, dims: Dims) -> None:
        """From now on, equal views of this memory have these dims."""
        if self.put_new(raw, dims):
            return
        looks, look = self.looks(raw), (raw.shape, raw.stride(), raw.storage_offset())
        if looks is not None and looks.setdefault(look, dims) != dims:
            looks[look] = dims
            self.state += 1

    def of(self, raw: torch.Tensor) -> Dims | None:
        """The dims of an equal view of this memory, or None."""
        try:  # as `looks`, inlined: this runs for every result of a module
            if raw.layout is not _STRIDED or raw.is_nested:
                return None
            storage = raw.untyped_storage()
        except (NotImplementedError, RuntimeError):
            return None
        known = self._known.get(id(storage))
        if known is None or known[0]() is not storage:
            return None
        return known[1].get((raw.shape, raw.stride(), raw.storage_offset()))

    def put_new(self, raw: torch.Tensor, dims: Dims) -> bool:
        """Like `put`, but only if nothing is known of this memory; returns whether it was done."""
        storage = memory_of(raw)
        if storage is None:
            return True
        key = id(storage)
        known = self._known.get(key)
        if known is not None and known[0]() is storage:
            return False
        if len(self._known) >= self._most:
            self._most = without_dead(self._known)
        self._known[key] = weakref.ref(storage), {(raw.shape, raw.stride(), raw.storage_offset()): dims}
        return True

    def stands_for(self, raw: torch.Tensor) -> Any:
        """The object that represents all equal views of this memory, until an in-place change."""
        storage = memory_of(raw)
        key = id(storage), raw.shape, raw.stride(), raw.storage_offset(), version_of(raw)
        known = self._objects.get(key)
        if known is None or known[0]() is not storage:
            forget = lambda _: self._objects.pop(key, None)  # noqa: E731
            known = self._objects[key] = weakref.ref(raw if storage is None else storage, forget), _Object()
        return known[1]

    def axes(self, raw: torch.Tensor) -> list[Dim | None]:
        """For each axis of another view of known memory its dim, or None."""
        looks = self.looks(raw)
        out: list[Dim | None] = [None] * raw.ndim
        if not looks:
            return out
        sizes, strides = raw.shape, raw.stride()
        for (shape, steps, _), dims in itertools.islice(looks.items(), _MOST_LOOKS):
            for axis, stride in enumerate(strides):
                if stride in steps and stride and out[axis] is None and (size := sizes[axis]) > 1:
                    for dim, length, step in zip(dims, shape, steps):
                        if step == stride and length == size and dim not in out:
                            out[axis] = dim
                            break
        return out

    def looks(self, raw: torch.Tensor) -> dict[Look, Dims] | None:
        """The dims of a tensor's memory, by view; None if nothing is known of it."""
        storage = memory_of(raw)
        known = None if storage is None else self._known.get(id(storage))
        return known[1] if known is not None and known[0]() is storage else None


def memory_of(raw: torch.Tensor) -> Any:
    """The memory of a tensor, the same object for all its views; None for tensors without memory (sparse, nested, vmap)."""
    try:
        return raw.untyped_storage() if raw.layout is torch.strided and not raw.is_nested else None
    except (NotImplementedError, RuntimeError):
        return None
