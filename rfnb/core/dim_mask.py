"""Which frames of a dim are real: masks of ragged dims, made once per order of dims and device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rfnb.backends import registry
from rfnb.core.dim_lengths import DimLengths, valid_lengths
from rfnb.core.op import op

if TYPE_CHECKING:
    from rfnb.core.dim import Dim
    from rfnb.core.tensor import Tensor


class DimMask(DimLengths):
    """Part of Dim: masks. Abstract."""

    def need_masking(self) -> bool:
        """Whether sequences of this dim may have padding (the lengths are over other dims)."""
        return self.size is None and (self.lengths is None or bool(self._length_dims))

    def is_dynamic_seq_length(self) -> bool:
        return self.need_masking()

    def has_padding(self) -> bool:
        """Whether some sequence really is shorter than the longest one."""
        if not self.need_masking():
            return False
        lengths = self.lengths
        return lengths is not None and bool((valid_lengths(lengths, self._length_dims) != self.extent).any())

    @op
    def get_mask(self, dim_order: Sequence[Dim] | None = None, device: str | None = None) -> Tensor:
        """Boolean Tensor {length dims, this dim}: True for real frames, False for padding."""
        from rfnb.core.tensor import Tensor

        dims = tuple(dim_order) if dim_order is not None else self._own()
        return Tensor(f"{self.name}:mask", dims=dims, raw_tensor=self.raw_mask(dims, registry.selected(), device))

    def raw_mask(self, dims: tuple[Dim, ...], backend: Any, device: Any) -> Any:
        """The mask as raw array, axes in the order of `dims` (which holds this dim and its length dims), made once."""
        key = (dims, backend, device)
        mask = self._masks.get(key)
        if mask is None:
            lengths = self.lengths
            host = (
                np.arange(self.extent, dtype=np.int32)
                < np.asarray(self.size if lengths is None else lengths)[..., None]
            )
            own = self._own()
            mask = backend.from_numpy(host.transpose([own.index(dim) for dim in dims]), dtype="bool", device=device)
            self._masks[key] = mask
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
