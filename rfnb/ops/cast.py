"""Values as they are: a copy, another dtype."""

from __future__ import annotations

from rfnb.core.tensor import Tensor
from rfnb.ops.operands import not_a_tensor


def copy(tensor: Tensor) -> Tensor:
    """A real copy; {...} -> {...}."""
    if not isinstance(tensor, Tensor):
        raise not_a_tensor("copy", tensor)
    return tensor._like(tensor.backend.copy_raw(tensor._raw), tensor.dims)


def cast(tensor: Tensor, dtype: str) -> Tensor:
    """Another dtype; the same object if it is that already. Marks are kept; {...} -> {...}."""
    if not isinstance(tensor, Tensor):
        raise not_a_tensor("cast", tensor)
    if tensor.dtype == dtype:
        return tensor
    return tensor._like(tensor.backend.cast_raw(tensor._raw, dtype), tensor.dims)
