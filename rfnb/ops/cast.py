"""Copies and dtype conversion."""

from __future__ import annotations

from typing import Never

from rfnb.backends import registry
from rfnb.core.errors import type_error
from rfnb.core.op import op
from rfnb.core.tensor import Tensor, new_tensor
from rfnb.core.tensor_text import dims_text
from rfnb.core.type_errors import not_a_tensor


@op
def copy(tensor: Tensor, *extra: Never, **unknown: Never) -> Tensor:
    """A copy with its own storage; {...} -> {...}."""
    if not isinstance(tensor, Tensor):
        raise not_a_tensor("copy", tensor)
    return tensor._like(tensor.backend.copy_raw(tensor._raw), tensor.dims)


@op
def cast(tensor: Tensor, dtype: str, *extra: Never, **unknown: Never) -> Tensor:
    """Convert to another dtype; the same object if it already has it. Marks are kept; {...} -> {...}."""
    if not isinstance(tensor, Tensor):
        raise not_a_tensor("cast", tensor)
    raw = tensor._raw
    if raw is None:
        return tensor if tensor.dtype == dtype else tensor._template(tensor.dims, dtype=dtype)
    backend = registry.BY_TYPE[raw.__class__]
    own = backend.get_dtype_name_raw(raw)
    if own == dtype:
        return tensor
    if own[0] == "c" and not dtype.startswith(("complex", "bool")):
        raise type_error(
            f"cast: {own} to {dtype}.",
            {"tensor": f"{dims_text(tensor.dims)} {own}", "dtype": dtype},
            "The imaginary parts would be lost. Take absolute values, or the two parts:",
            "rf.abs(tensor)\nparts, pair = rf.complex_as_real(tensor)",
        )
    out = new_tensor(backend.cast_raw(raw, dtype), tensor.dims, tensor)
    if tensor.name is not None:
        out.name = tensor.name
    return out
