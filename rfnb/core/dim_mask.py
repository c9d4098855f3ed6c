"""Masks of ragged dims, which select the real frames; made once per order of dims and device.

The first three functions are methods of Dim; the others are queries of planning (`size_queries.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rfnb.backends import registry
from rfnb.core.dim_sizes import tensor_of
from rfnb.core.lengths import Lengths
from rfnb.core.op import op

if TYPE_CHECKING:
    from rfnb.core.dim import Dim, Dims
    from rfnb.core.tensor import Tensor


@op
def get_mask(self: Dim, dim_order: Sequence[Dim] | None = None, device: str | None = None) -> Tensor:
    """Boolean Tensor {length dims, this dim}: True for real frames, False for padding."""
    dims = tuple(dim_order) if dim_order is not None else _own(self)
    return tensor_of(f"{self.name}:mask", dims, self._raw_mask(dims, registry.selected(), device))


def raw_mask(self: Dim, dims: Dims, backend: Any, device: Any) -> Any:
    """The mask as a raw array, axes in the order of `dims` (which contain this dim and its length dims), made once."""
    own = _own(self)
    order = tuple(map(own.index, dims))
    key = (order, backend, device)  # no dims: they would hold themselves
    masks = self._masks
    mask = masks.get(key)
    if mask is None:
        host = _lengths(self).mask(self.extent).transpose(order)
        mask = masks.keep(key, backend.from_numpy(host, dtype="bool", device=device), host.nbytes)
    return mask


def host_mask(self: Dim, dims: Sequence[Dim]) -> np.ndarray:
    """The mask of a ragged dim as a NumPy array, broadcastable to `dims` (which contain this dim and its length dims)."""
    return spread(_lengths(self).mask(self.extent), _own(self), dims)


def real_entries(dims: Sequence[Dim]) -> np.ndarray | None:
    """The entries of an array over `dims` that are real, bool {dims}; None if no dim with its length dims among them has padding."""
    masked = [dim for dim in dims if dim.has_padding() and set(dim.length_dims) <= set(dims)]
    real = np.ones([dim.extent for dim in dims], bool)
    for dim in masked:
        real &= dim.host_mask(dims)
    return real if masked else None


def spread(array: np.ndarray, own: Sequence[Any], dims: Sequence[Any]) -> np.ndarray:
    """An array over `own`, which are among `dims`, with the axes of `dims`: of length 1 for those that it lacks."""
    order = sorted(range(len(own)), key=lambda axis: list(dims).index(own[axis]))
    sizes = iter(array.transpose(order).shape)
    return array.transpose(order).reshape([next(sizes) if dim in own else 1 for dim in dims])


def _own(dim: Dim) -> Dims:
    """The dims of the mask."""
    return (*dim.length_dims, dim)


def _lengths(dim: Dim) -> Lengths:
    """The lengths that determine its mask."""
    _ = dim.lengths  # a plan that is being made is for these lengths
    return dim._known() or Lengths(np.asarray(dim.extent, np.int32), ())


def has_padding(dim: Dim) -> bool:
    """True if some sequence is shorter than the longest one."""
    lengths = dim._known() if dim.need_masking() else None
    return lengths is not None and bool(lengths.array.size) and lengths.bounds()[0] != dim.extent


def is_empty(dim: Dim) -> bool:
    """The planning query behind `dim.is_empty()`."""
    return dim.extent == 0


def has_empty(dim: Dim) -> bool:
    """The planning query behind `dim.has_empty()`."""
    lengths = dim.lengths
    return lengths is not None and not bool(lengths.all())
