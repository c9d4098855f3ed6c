"""The mask of a Tensor: real values versus padding. The first three functions are methods of Tensor."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rfnb.core.dim import Dim
from rfnb.core.fill_values import check_entries_to_fill, number_to_fill
from rfnb.core.not_specified import NotSpecified
from rfnb.core.op import op
from rfnb.core.tensor_checks import check_lengths_here

if TYPE_CHECKING:
    from rfnb.core.tensor import Tensor

_USUAL = 100  # a product of some numbers up to this is finite in every dtype but float16, where the frames have that limit too


@op
def copy_masked(
    self: Tensor,
    mask_value: float | int | bool | Tensor | Any,
    *,
    dims: Sequence[Dim | int] | None = None,
    allow_int: bool | type[NotSpecified] = NotSpecified,
) -> Tensor:
    """A copy whose padding (of all dims, or of `dims`) is `mask_value`.

    A dim is masked only if the dims of its lengths are present.

    Args:
        mask_value: A number, a Tensor {any of the dims}, or a raw scalar.
        dims: The dims to mask; default: all. Indices are accepted unless `allow_int` is False.

    Raises:
        TypeError: For a value that the dtype cannot hold, such as 0.5 in integers.
    """
    from rfnb.core.finite_padding import padding_mask  # Tensor has this as method

    raw, backend, of = self._raw, self.backend, None
    value: Any = mask_value
    if hasattr(value, "dims"):
        check_entries_to_fill("copy_masked", self, value)
        value = backend.cast_raw(value.copy_compatible_to_dims_raw(self.dims), self.dtype)
    else:
        value = number_to_fill("copy_masked", self, value, "mask_value")
    if dims is not None:
        axis_of = self.axis_of if allow_int is False else self._index
        of = tuple([self.dims[axis_of(item, "copy_masked")] for item in dims])  # type: ignore[arg-type]
    mask = padding_mask(self.dims, backend, of)
    if mask is not None:
        try:
            raw = backend.where_raw(mask(raw), raw, value)
        except RuntimeError:
            from rfnb.core.device_errors import on_two_devices

            operands: Any = [("x", self), *([("mask_value", mask_value)] if hasattr(mask_value, "dims") else [])]
            error = on_two_devices("copy_masked", operands, numbers=True)
            if error is None:
                raise
            raise error from None
    out = self._like(raw, self.dims)
    if dims is None and isinstance(value, (int, float)) and abs(value) <= _USUAL:
        # Else what is put there would be masked by the next product, while gradients are tracked.
        out._finite = True
    return out


def get_sequence_mask_tensor(self: Tensor, axis: Dim | int) -> Tensor:
    """Boolean Tensor, True for the real frames of `axis`; {axis, and the dims of this tensor that its lengths are over}.

    Raises:
        DimError: If axis, or a dim that its lengths are over, is not a dim of this tensor.
    """
    axis = self.dims[self._index(axis, "get_sequence_mask_tensor")]
    check_lengths_here("get_sequence_mask_tensor", [("tensor", self.dims)], axis, always=True)
    own = [dim for dim in self.dims if dim is axis or dim in axis.length_dims]
    return axis.get_mask(own, self.device)


def num_elements(self: Tensor) -> int:
    """The number of real (unpadded) elements.

    Raises:
        DimError: If the lengths of a dim are over a missing dim.
    """
    for dim in self.dims:
        check_lengths_here("num_elements", [("tensor", self.dims)], dim)
    raggeds = [dim for dim in self.dims if dim.has_padding() and set(dim.length_dims) <= set(self.dims)]
    masked = {other for dim in raggeds for other in (dim, *dim.length_dims)}
    order = [dim for dim in self.dims if dim in masked]
    real = np.ones([dim.extent for dim in order], dtype=bool)
    for dim in raggeds:
        real &= dim.host_mask(order)
    return int(real.sum()) * math.prod(dim.extent for dim in self.dims if dim not in masked)
