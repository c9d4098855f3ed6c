"""Entries of a tensor selected by names of its dims: {"batch": 0, "feat": slice(3, 5)}."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rfnb.control.changes import as_given
from rfnb.core.beam_dim import is_beam
from rfnb.core.dim import Dim
from rfnb.core.errors import dim_error, index_error, type_error
from rfnb.core.tensor import Tensor
from rfnb.core.tensor_text import dims_text
from rfnb.search.labels import text_index

HYPOTHESIS = "hypothesis"
"""stands for the dim over hypotheses, whatever its name"""

Key = Any
"""a name, or a name and which of the dims of this name"""


def by_name(entries: Any, dims: Sequence[Dim]) -> Any:
    """A copy of the entries with names in place of Dims, which differ between runs."""
    if not isinstance(entries, Mapping):
        return entries
    named: dict[Key, Any] = {}
    for key, at in entries.items():
        if isinstance(key, Dim):
            same = [dim for dim in dims if dim.name == key.name]
            key = (key.name, same.index(key)) if len(same) > 1 and key in same else key.name
        named[key] = as_given(at)
    return named


class NamedEntries:
    """A selection of a tensor's entries.

    Args:
        what: Name for messages, such as `state "h"`.
        entries: By dim name an index, a list of indices, a slice, or texts of its vocabulary; `...`: all.
        dims: Dims of the tensor.
        code: The code that denotes the tensor, for messages.

    Attributes:
        shape: Shape of the selection, without dims from which one entry was selected.
        dims: The dims of this shape.

    Raises:
        TypeError, DimError, IndexError: If there are no such entries.
    """

    def __init__(self, what: str, entries: Any, dims: Sequence[Dim], code: str):
        self._what, self._all, self._code = what, tuple(dims), code
        if entries is not Ellipsis and not isinstance(entries, Mapping):
            raise type_error(
                f"{what}: entries without dims.",
                {"given": repr(entries), "dims": dims_text(dims)},
                "Axes are selected by dim, not by number.",
                f"{code}[{{{', '.join(f'{dim.name!r}: 0' for dim in dims)}}}]",
            )
        chosen: list[Any] = [None] * len(self._all)
        for key, at in (entries if isinstance(entries, Mapping) else {}).items():
            axis = axis_of(self._all, key, what)
            chosen[axis] = self._places(self._all[axis], at)
        self._single = [isinstance(places, int) for places in chosen]
        arrays = [
            np.arange(dim.extent) if places is None else np.atleast_1d(np.asarray(places, np.int64))
            for dim, places in zip(self._all, chosen)
        ]
        self._mesh = np.ix_(*arrays)
        self._full = tuple(map(len, arrays))
        self.dims = tuple(dim for dim, single in zip(self._all, self._single) if not single)
        self.shape = tuple(size for size, single in zip(self._full, self._single) if not single)

    def of(self, host: np.ndarray) -> np.ndarray:
        """The selected entries of an array over the dims and trailing axes."""
        found: np.ndarray = host[self._mesh]
        return found.reshape((*self.shape, *host.shape[len(self._all) :]))

    def put(self, host: np.ndarray, value: np.ndarray) -> None:
        """Write values over `dims` into an array over all dims and trailing axes."""
        host[self._mesh] = value.reshape((*self._full, *host.shape[len(self._all) :]))

    def mask(self) -> np.ndarray:
        """The selected entries, bool over all dims."""
        out = np.zeros([dim.extent for dim in self._all], bool)
        out[self._mesh] = True
        return out

    def _places(self, dim: Dim, at: Any) -> Any:
        size = dim.extent
        if isinstance(at, slice):
            if all(part is None or isinstance(part, (int, np.integer)) for part in (at.start, at.stop, at.step)):
                return np.arange(size)[at]
        elif isinstance(at, str):
            return text_index(at, dim, self._what)
        elif isinstance(at, (list, tuple, range, np.ndarray)):
            return np.asarray([self._one(dim, each) for each in at], np.int64)
        return self._one(dim, at)

    def _one(self, dim: Dim, at: Any) -> int:
        if isinstance(at, str):
            return text_index(at, dim, self._what)
        size = dim.extent
        whole = isinstance(at, (int, np.integer)) and not isinstance(at, (bool, np.bool_))
        if not whole or not -size <= at < size:
            raise index_error(
                f"{self._what}: index out of range.",
                {"given": f"{dim.name}: {at!r}", "dim": dim},
                f"Entries are 0 to {size - 1}." if size else "It has no entries.",
            )
        return int(at) % size


def axis_of(dims: Sequence[Dim], key: Key, what: str) -> int:
    """The axis of a dim given as a Dim or by name.

    Raises:
        DimError: If there is none, or the name is ambiguous.
    """
    name, nth = key if isinstance(key, tuple) else (key, None)
    found = [axis for axis, dim in enumerate(dims) if dim is name or dim.name == name]
    if not found and name == HYPOTHESIS:
        found = [axis for axis, dim in enumerate(dims) if is_beam(dim)]
    if nth is not None:
        found = found[nth : nth + 1]
    if len(found) != 1:
        raise dim_error(
            f"{what}: {'ambiguous' if found else 'no'} dim {name.short_repr() if isinstance(name, Dim) else name}.",
            {"dims": dims_text(dims)},
            "Two of its dims have this name: give the Dim itself." if found else "It has these dims.",
        )
    return found[0]


def under_names(value: Tensor, like: Sequence[Dim]) -> Tensor:
    """A Tensor from another run, with its dims replaced by those of the same names."""
    if set(value.dims) <= set(like):
        return value
    names = {dim.name: dim for dim in like}
    dims = [names.get(dim.name, dim) for dim in value.dims]
    same = all(old.extent == new.extent for old, new in zip(value.dims, dims)) and len(set(dims)) == len(dims)
    return value._like(value._raw, tuple(dims)) if same else value
