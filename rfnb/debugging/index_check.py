"""Checks that indices are within the dim that they index into, at the ops that take indices."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rfnb.core.intercept import Intercepted, outside
from rfnb.core.op import Op
from rfnb.core.tensor import Tensor
from rfnb.ops.gather import gather
from rfnb.ops.index_range import check_range
from rfnb.ops.loss import cross_entropy
from rfnb.ops.one_hot import sparse_to_dense
from rfnb.ops.scatter import scatter

# op -> its arguments with the indices and with the dim that they index; that dim is else the sparse_dim
_ARGUMENTS: dict[Any, tuple[str, str]] = {
    gather: ("indices", "axis"),
    scatter: ("indices", "out_dim"),
    sparse_to_dense: ("labels", "axis"),
    cross_entropy: ("target", "axis"),
}


@contextmanager
def check_indices() -> Iterator[None]:
    """While this is active, these ops check their indices first (in this context)."""
    with Intercepted(_checked, _ARGUMENTS):
        yield


def _checked(op: Op, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    role, dim_role = _ARGUMENTS[op.fn]
    # Only `sparse_to_dense` takes its indices by position.
    indices = kwargs.get(role, args[0] if args and op.fn is sparse_to_dense else None)
    if isinstance(indices, Tensor) and indices.raw_tensor is not None and not kwargs.get("clip_to_valid"):
        dim = kwargs.get(dim_role) or indices.sparse_dim
        if dim is not None and dim not in indices.dims and indices.dtype.startswith(("int", "uint")):
            check_range(op.name, role, indices, dim)
    return outside(op)(*args, **kwargs)
