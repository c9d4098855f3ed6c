"""Checks that indices are within the dim that they index into, at the ops that take indices."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FunctionType
from typing import Any, cast

import numpy as np

from rfnb.core.dim import Dim
from rfnb.core.errors import message
from rfnb.core.intercept import intercept
from rfnb.core.place import line_of, user_frame
from rfnb.core.tensor import Tensor
from rfnb.core.tensor_text import shape_of
from rfnb.ops.gather import gather
from rfnb.ops.loss import cross_entropy
from rfnb.ops.one_hot import sparse_to_dense
from rfnb.ops.scatter import scatter

# op -> its arguments with the indices and with the dim that they index; that dim is else the sparse_dim
_ARGUMENTS: dict[str, tuple[str, str]] = {
    "gather": ("indices", "axis"),
    "scatter": ("indices", "out_dim"),
    "sparse_to_dense": ("labels", "axis"),
    "cross_entropy": ("target", "axis"),
}


@contextmanager
def check_indices() -> Iterator[None]:
    """While this is active, these ops check their indices first (in this context)."""
    with intercept([cast(FunctionType, fn) for fn in (gather, scatter, sparse_to_dense, cross_entropy)], _checked):
        yield


def _checked(original: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    name = original.__name__
    role, dim_role = _ARGUMENTS[name]
    # Only `sparse_to_dense` takes its indices by position.
    indices = kwargs.get(role, args[0] if args and name == "sparse_to_dense" else None)
    if isinstance(indices, Tensor) and indices.raw_tensor is not None and not kwargs.get("clip_to_valid"):
        dim = kwargs.get(dim_role) or indices.sparse_dim
        if dim is not None and dim not in indices.dims and indices.dtype.startswith(("int", "uint")):
            _check(name, role, indices, dim)
    return original(*args, **kwargs)


def _check(op: str, role: str, indices: Tensor, dim: Dim) -> None:
    """Raise an IndexError for the first real index that is not in the dim, and of a ragged dim in its sequence."""
    values = indices.numpy()
    limits = _limits(dim, indices.dims)
    bad = (values < 0) | (values >= limits)
    for other in indices.dims:
        if other.has_padding() and all(over in indices.dims for over in other.length_dims):
            bad = bad & other.host_mask(indices.dims)
    if not bad.any():
        return
    place = tuple(int(axis[0]) for axis in np.nonzero(bad))
    where = ", ".join(f"{each.name} {index}" for each, index in zip(indices.dims, place)) or "the only one"
    limit = int(np.broadcast_to(limits, values.shape)[place])
    allowed = f"0 to {limit - 1}" if limit else "none: it is empty"
    user, _ = user_frame(3)
    raise IndexError(
        message(
            f"{op}, called in {line_of(user)}: {int(bad.sum())} of the {role} out of range.",
            [
                (role, shape_of(indices)),
                ("into", dim.short_repr()),
                ("first at", where),
                ("value", int(values[place])),
                ("allowed", allowed),
            ],
            "Indices count from 0, and real frames index real entries.",
        )
    )


def _limits(dim: Dim, dims: tuple[Dim, ...]) -> np.ndarray:
    """How many entries there are for each index; broadcasts against `dims`."""
    if dim.lengths is None or not set(dim.length_dims) <= set(dims):
        return np.asarray(dim.extent)
    own = dim.length_dims
    order = sorted(range(len(own)), key=lambda axis: dims.index(own[axis]))
    return dim.lengths.transpose(order).reshape([each.extent if each in own else 1 for each in dims])
