"""Which values of a Tensor are real, and which are padding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rfnb.core.dim import Dim
from rfnb.core.tensor_copies import TensorCopies

if TYPE_CHECKING:
    from rfnb.core.tensor import Tensor


class TensorMask(TensorCopies):
    """Part of Tensor: masks. Abstract."""

    def copy_masked(self, mask_value: float | int | bool, *, dims: Sequence[Dim] | None = None) -> Tensor:
        """A copy in which the padding (of all dims, or of `dims`) is `mask_value`.

        A dim is only masked where the dims that its lengths are over are here.
        """
        raw = self._raw
        for dim in self.dims if dims is None else dims:
            if dim.has_padding() and all(over in self.dims for over in dim.length_dims):
                mask = raw_mask_for(self, dim)
                raw = self.backend.where_raw(mask, raw, mask_value)
        return self._like(raw, self.dims)

    def num_elements(self) -> int:
        """Number of valid (not padding) elements."""
        total = 1
        for dim in self.dims:
            total *= dim.extent
        raggeds = [dim for dim in self.dims if dim.has_padding()]
        if not raggeds:
            return total
        ones = np.ones([dim.extent for dim in self.dims], dtype=bool)
        for dim in raggeds:
            if set(dim.length_dims) <= set(self.dims):
                ones &= dim.host_mask(self.dims)
        return int(ones.sum())


def raw_mask_for(tensor: TensorMask, dim: Dim) -> Any:
    """The mask of `dim` as raw array that broadcasts against `tensor`."""
    backend = tensor.backend
    own = tuple(other for other in tensor.dims if other is dim or other in dim.length_dims)
    mask = dim.raw_mask(own, backend, backend.get_device_raw(tensor._raw))
    for axis, other in enumerate(tensor.dims):
        if other not in own:
            mask = backend.expand_dims_raw(mask, axis)
    return mask
