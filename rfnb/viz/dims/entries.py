"""The dims that a spec names, numbered in the order in which they come up."""

from __future__ import annotations

from typing import Any

from rfnb.core.dim import Dim
from rfnb.viz.dims.origin import name_of, origin_of
from rfnb.viz.dims.values import lengths_of


class Entries:
    """The *dim entries* of a spec.

    Attributes:
        entries: So far, each at the place that its `id` says.
    """

    def __init__(self) -> None:
        self.entries: list[dict[str, Any]] = []
        self._ids: dict[int, int] = {}
        self._alive: list[Dim] = []  # keeps the identities valid while we number them

    def id_of(self, dim: Dim, kind: str | None = None) -> int:
        """The number of a dim.

        Args:
            kind: Of a dim that does not know its own.
        """
        if id(dim) not in self._ids:
            self._ids[id(dim)] = len(self.entries)
            self._alive.append(dim)
            lengths = lengths_of(dim)
            size = dim.extent if lengths is None and dim.is_dim_known() else None
            kind = dim.kind or kind or ("spatial" if lengths is not None else None)
            kind = kind if kind in ("batch", "spatial", "feature", "beam") else None
            entry = {"name": name_of(dim), "size": size, "lengths": lengths, "kind": kind, "id": len(self.entries)}
            origin = origin_of(dim)
            self.entries.append(entry if origin is None else entry | {"origin": origin})
            for over in dim.length_dims:
                self.id_of(over)
        return self._ids[id(dim)]
