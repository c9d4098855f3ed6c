"""Values as they are: a copy, another dtype."""

from __future__ import annotations

from rfnb.backends import registry
from rfnb.core.op import op
from rfnb.core.tensor import Tensor
from rfnb.ops.operands import not_a_tensor


@op
def copy(tensor: Tensor) -> Tensor:
    """A real copy; {...} -> {...}."""
    if not isinstance(tensor, Tensor):
        raise not_a_tensor("copy", tensor)
    return tensor._like(tensor.backend.copy_raw(tensor._raw), tensor.dims)


@op
def cast(tensor: Tensor, dtype: str) -> Tensor:
    """Another dtype; the same object if it is that already. Marks are kept; {...} -> {...}."""
    if not isinstance(tensor, Tensor):
        raise not_a_tensor("cast", tensor)
    raw = tensor._raw
    if raw is None:
        return tensor if tensor.dtype == dtype else tensor._template(tensor.dims, dtype=dtype)
    backend = registry.BY_TYPE[raw.__class__]
    if backend.get_dtype_name_raw(raw) == dtype:
        return tensor
    return tensor._like(backend.cast_raw(raw, dtype), tensor.dims)
