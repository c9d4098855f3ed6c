"""A trace over several batches: dims change size (`batch_dim`, those of a TensorDict), while recorded values keep the sizes they had.

Nothing is copied while recording. When a dim is about to take another size, the values recorded with the old one get a dim of that size,
shared by all values of that batch.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from rfnb.backends import registry
from rfnb.core.dim import Dim, HostArray
from rfnb.core.size_queries import resizes
from rfnb.core.tensor import Tensor
from rfnb.core.tree import map_nested, values_in
from rfnb.trace.event import Event
from rfnb.trace.probe import Later


class RecordedSizes:
    """The sizes of the dims of recorded values, and the events that have them."""

    def __init__(self) -> None:
        self._sizes: dict[Dim, HostArray] = {}
        self._events: list[Event] = []
        # Dims that are static or in `_sizes`, dims of Tensors, ids of values, with only such.
        self._noted: set[Any] = set()
        self._resizes = -1

    def note(self, event: Event) -> None:
        """Remember the current sizes of an event's dims."""
        self._events.append(event)
        if self._resizes != resizes[0]:
            self._noted.clear()
            self._resizes = resizes[0]
        values = event.values  # some events share them, and the event keeps them, so that their id stays theirs
        if values.__class__ is Later and values.like is not None:
            values = values.like
        if id(values) not in self._noted and self._note(values):
            self._noted.add(id(values))
        if event.loop_dim is not None:
            self._note_dim(event.loop_dim)

    def knows(self, values: Any) -> bool:
        """Whether the sizes of these values are noted, and none has changed since."""
        return self._resizes == resizes[0] and id(values) in self._noted

    def _note(self, value: Any) -> bool:
        """True if the value needs no further notes until some size changes."""
        done = True
        for leaf in values_in(value):
            if isinstance(leaf, Tensor):
                dims = leaf.dims
                if dims not in self._noted:
                    if all([self._note_dim(dim) for dim in dims]):
                        self._noted.add(dims)
                    else:
                        done = False
                leaf = leaf.sparse_dim
            if isinstance(leaf, Dim):
                done = self._note_dim(leaf) and done
        return done

    def _note_dim(self, dim: Dim) -> bool:
        """True if the dim needs no further notes until some size changes."""
        if dim in self._noted:
            return True
        if dim.size is None and dim not in self._sizes:
            if dim.lengths is None:
                return False
            self._sizes[dim] = dim.lengths, dim.length_dims
            for other in dim.length_dims:
                self._note_dim(other)
        self._noted.add(dim)
        return True

    def settle(self) -> bool:
        """Give new dims to values whose dims have changed size; return whether there were any."""
        changed = {dim for dim, (lengths, _) in self._sizes.items() if _array(dim) is not lengths}
        if not changed:
            return False
        more = changed
        while more:  # what is computed from these, or has lengths over them
            more = {dim for dim in set(self._sizes) - changed if self._depends_on(dim, changed)}
            changed |= more
        made: dict[Dim, Dim] = {}
        for dim in changed:
            self._kept(dim, changed, made)
        for event in self._events:
            event.values = map_nested(partial(_with_dims, made=made), event.values)
            event.loop_dim = made.get(event.loop_dim, event.loop_dim) if event.loop_dim is not None else None
        self._sizes = {dim: sizes for dim, sizes in self._sizes.items() if dim not in changed}
        self._noted.clear()
        if not self._sizes:
            self._events = []
        return True

    def _depends_on(self, dim: Dim, changed: set[Dim]) -> bool:
        return not changed.isdisjoint(dim.get_derived_bases_set()) or not changed.isdisjoint(self._sizes[dim][1])

    def _kept(self, dim: Dim, changed: set[Dim], made: dict[Dim, Dim]) -> Dim:
        """A dim of the size that `dim` had."""
        if dim not in changed:
            return dim
        if dim not in made:
            lengths, over = self._sizes[dim]
            size: Any = int(lengths) if lengths.ndim == 0 else Tensor(
                f"{dim.name}:size", [self._kept(other, changed, made) for other in over],
                raw_tensor=registry.selected().from_numpy(lengths, dtype="int32", device="cpu"),
            )  # fmt: skip
            made[dim] = Dim(size, name=dim.name, kind=dim.kind, vocab=dim.vocab)
            made[dim].created = dim.created
        return made[dim]


def _with_dims(value: Any, made: Mapping[Dim, Dim]) -> Any:
    """A leaf with its dims replaced by those made for them."""
    if isinstance(value, Tensor):
        if made.keys().isdisjoint((*value.dims, value.sparse_dim)):
            return value
        dims = [made.get(dim, dim) for dim in value.dims]
        out = Tensor(
            value.name, dims, value.dtype, raw_tensor=value._raw,
            sparse_dim=None if value.sparse_dim is None else made.get(value.sparse_dim, value.sparse_dim),
        )  # fmt: skip
        if value.feature_dim is not None:
            out.feature_dim = made.get(value.feature_dim, value.feature_dim)
        return out
    if isinstance(value, Later):
        return Later(
            lambda: map_nested(partial(_with_dims, made=made), dict(value.made())), value.num_bytes, value.host
        )
    return made.get(value, value) if isinstance(value, Dim) else value


def _array(dim: Dim) -> np.ndarray | None:
    """The current lengths of a dim, without computing any."""
    return None if dim._lengths is None else dim._lengths.array
