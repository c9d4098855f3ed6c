"""Finds indices that are out of range, and makes the errors for these and for invalid indices. Reads values: for errors and debugging
only.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rfnb.core.dim import Dim, Dims
from rfnb.core.dim_mask import real_entries, spread
from rfnb.core.errors import index_error, type_error
from rfnb.core.place import line_of, user_frame
from rfnb.core.tensor import Tensor
from rfnb.core.tensor_text import shape_of


def check_range(op: str, role: str, indices: Tensor, dim: Dim, *, kernel: bool = False) -> None:
    """Raise an IndexError for the first real index that is not in `dim`, or for a ragged dim not in its sequence.

    Args:
        kernel: Whether a kernel has failed, rather than the check being requested.
    """
    values = indices.numpy()
    limits = _limits(dim, indices.dims)
    bad = (values < 0) | (values >= limits)
    real = real_entries(indices.dims)
    bad = bad if real is None else bad & real
    if not bad.any():
        return
    place = tuple(int(index) for index in np.argwhere(bad)[0])
    where = ", ".join(f"{each.name} {index}" for each, index in zip(indices.dims, place)) or "the only one"
    limit = int(np.broadcast_to(limits, values.shape)[place])
    user, _ = user_frame(1)
    rows = [
        (role, shape_of(indices)),
        ("into", dim.short_repr()),
        ("first at", where),
        ("value", int(values[place])),
        ("allowed", f"0 to {limit - 1}" if limit else "none: it is empty"),
    ]
    rule, fix = "Indices count from 0, and real frames index real entries.", None
    if kernel:
        rule, fix = f"{rule} To have every op checked, on a GPU too:", _DEBUG
    raise index_error(f"{op}, called in {line_of(user)}: {int(bad.sum())} of the {role} out of range.", rows, rule, fix)


def check_not_negative(op: str, role: str, indices: Tensor, dim: Dim) -> None:
    """Raise an IndexError if a real index is negative."""
    values = indices.numpy()
    if values.size and values.min() < 0 and indices.copy_masked(0).numpy().min() < 0:
        check_range(op, role, indices, dim, kernel=True)


_DEBUG = "with rf.debug(indices=True):"


def check_integers(op: str, role: str, indices: Tensor, *operands: tuple[str, Tensor]) -> None:
    """Raise a TypeError unless the indices are integers."""
    if not indices.dtype.startswith(("int", "uint")):
        raise type_error(
            f"{op}: the {role} {'is' if role == 'target' else 'are'} {indices.dtype}.",
            [(label, shape_of(tensor)) for label, tensor in operands]
            + [(role, f"{shape_of(indices)} {indices.dtype}")],
            "Indices are integers.",
            f'rf.cast({role}, "int64")'
            + ("       # or rf.masked_select(source, mask=..., dims=[...])" if op == "gather" else ""),
        )


def explain_indices(
    error: Exception, op: str, role: str, indices: Tensor, dim: Dim, *operands: tuple[str, Tensor]
) -> None:
    """Raise a more informative error than that of the kernel that received these indices; return if there is nothing to add."""
    check_integers(op, role, indices, *operands)
    if on_host(indices.device):
        check_range(op, role, indices, dim, kernel=True)
    elif "device-side assert" in str(error):  # the GPU computes nothing after that, so the values cannot be read
        rows: list[tuple[str, Any]] = [(role, f"{shape_of(indices)} on {indices.device}"), ("into", dim.short_repr())]
        rule = "A GPU reports an error after the op that caused it, and computes nothing afterwards. Restart, and check every op:"
        raise index_error(f"{op}: some of the {role} may be out of range.", rows, rule, _DEBUG) from None


def on_host(device: str | None) -> bool:
    """True if a kernel on this device immediately reports an index out of range, so that indices in the padding need no mask."""
    return device in ("cpu", None)


def mended(error: Exception, op: str, role: str, indices: Tensor, dim: Dim, *operands: tuple[str, Tensor]) -> Tensor:
    """The indices with 0 in their padding, which kernels read too: for a retry after a failure.

    Raises:
        IndexError: If some index of a real frame is out of range.
        TypeError: If they are not integers.
        Exception: `error`, if it had another cause.
    """
    explain_indices(error, op, role, indices, dim, *operands)
    masked = indices.copy_masked(0)
    if not on_host(indices.device) or np.array_equal(masked.numpy(), indices.numpy()):
        raise error
    return masked


def _limits(dim: Dim, dims: Dims) -> np.ndarray:
    """The number of entries for each index; broadcastable to `dims`."""
    if dim.lengths is None or not set(dim.length_dims) <= set(dims):
        return np.asarray(dim.extent)
    return spread(dim.lengths, dim.length_dims, dims)
