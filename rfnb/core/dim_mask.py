"""The real frames of a dim: masks of ragged dims, made once per order of dims and device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rfnb.backends import registry
from rfnb.core.dim_lengths import DimLengths
from rfnb.core.op import op
from rfnb.core.watch import asked

if TYPE_CHECKING:
    from rfnb.core.dim import Dim
    from rfnb.core.tensor import Tensor


class DimMask(DimLengths):
    """A part of Dim: masks. Abstract."""

    def need_masking(self) -> bool:
        """Whether sequences of this dim may have padding (the lengths are over other dims)."""
        return self.size is None and (self._known_lengths() is None or bool(self._length_dims))

    def is_dynamic_seq_length(self) -> bool:
        return self.need_masking()

    def has_padding(self) -> bool:
        """Whether some sequence really is shorter than the longest one."""
        if self.size is not None:
            return False
        return bool(asked(has_padding, self))

    def is_empty(self) -> bool:
        """Whether no sequence has a frame."""
        return self.size == 0 if self.size is not None else bool(asked(is_empty, self))

    def has_empty(self) -> bool:
        """Whether some sequence has no frame."""
        return self.size == 0 if self.size is not None else bool(asked(has_empty, self))

    @op
    def get_mask(self, dim_order: Sequence[Dim] | None = None, device: str | None = None) -> Tensor:
        """Boolean Tensor {length dims, this dim}: True for real frames, False for padding."""
        from rfnb.core.tensor import Tensor

        dims = tuple(dim_order) if dim_order is not None else self._own()
        return Tensor(f"{self.name}:mask", dims=dims, raw_tensor=self.raw_mask(dims, registry.selected(), device))

    def raw_mask(self, dims: tuple[Dim, ...], backend: Any, device: Any) -> Any:
        """The mask as raw array, axes in the order of `dims` (which holds this dim and its length dims), made once."""
        own = self._own()
        order = tuple(map(own.index, dims))
        key = (order, backend, device)  # no dims: they would hold themselves
        mask = self._masks.get(key)
        if mask is None:
            lengths = np.asarray(self.size if self.lengths is None else self.lengths)
            host = (np.arange(self.extent, dtype=np.int32) < lengths[..., None]).transpose(order)
            mask = self._masks.keep(key, backend.from_numpy(host, dtype="bool", device=device), host.nbytes)
        return mask

    def host_mask(self, dims: Sequence[Dim]) -> np.ndarray:
        """The mask of a ragged dim as NumPy array that broadcasts against `dims` (which hold this dim and its length dims)."""
        own = self._own()
        mask = np.arange(self.extent) < np.asarray(self.lengths)[..., None]
        order = sorted(range(len(own)), key=lambda axis: list(dims).index(own[axis]))
        return mask.transpose(order).reshape([dim.extent if dim in own else 1 for dim in dims])

    def _own(self) -> tuple[Dim, ...]:
        """The dims of the mask."""
        this: Any = self  # a Dim
        return (*self.length_dims, this)


def has_padding(dim: DimMask) -> bool:
    """What planning asks by `dim.has_padding()`."""
    lengths = dim._known_lengths() if dim.need_masking() else None
    return lengths is not None and bool(lengths.size) and dim._bounds()[0] != dim.extent


def is_empty(dim: DimMask) -> bool:
    """What planning asks by `dim.is_empty()`."""
    return dim.extent == 0


def has_empty(dim: DimMask) -> bool:
    """What planning asks by `dim.has_empty()`."""
    lengths = dim.lengths
    return lengths is not None and not bool(lengths.all())
