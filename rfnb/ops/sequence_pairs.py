"""Brings two tensors with a sequence each to one batch axis, for kernels that compare two sequences."""

from __future__ import annotations

from typing import Any

import numpy as np

from rfnb.core.dim import Dim, Dims
from rfnb.core.dim_mask import real_entries, spread
from rfnb.core.errors import dim_error
from rfnb.core.layout import full_shape
from rfnb.core.tensor import Tensor
from rfnb.core.tensor_checks import check_lengths_here
from rfnb.core.tensor_text import dims_text, labels_of


def common_batch(what: str, a: tuple[str, Tensor, Dims], b: tuple[str, Tensor, Dims]) -> Dims:
    """The dims of both tensors except their own ones (the sequence, its classes); one must have all of them, or both share some.

    Args:
        what: Name of the op, for the message.
        a, b: Label for the message, tensor, own dims.

    Raises:
        DimError: If the two share no batch dim, or each brings its own ragged one.
    """
    left, right = (tuple(dim for dim in tensor.dims if dim not in own) for _, tensor, own in (a, b))
    only_left, only_right = [d for d in left if d not in right], [d for d in right if d not in left]
    ragged = any(d.need_masking() for d in only_left) and any(d.need_masking() for d in only_right)
    disjoint = len(only_left) == len(left) or len(only_right) == len(right)
    if only_left and only_right and (disjoint or ragged):
        labels = labels_of((*a[1].dims, *b[1].dims))
        raise dim_error(
            f"{what}: the batch dims of {a[0]} and {b[0]} do not match.",
            [(label, dims_text(tensor.dims, labels)) for label, tensor, _ in (a, b)],
            f"This would compare every {labels[only_left[0]]} with every {labels[only_right[0]]}.\n"
            "If they are the same axis, replace one first; if all with all is meant, say so:",
            f"{b[0]}, _ = rf.replace_dim({b[0]}, in_dim=..., out_dim=...)\n{b[0]} = rf.expand_dim({b[0]}, dim=...)",
        )
    return left + tuple(only_right)


def flat_batch(tensor: Tensor, batch: Dims, own: Dims) -> Any:
    """A raw array [batch, *own], with one axis for all batch dims; missing dims are expanded."""
    backend, shape = tensor.backend, full_shape(batch)
    raw = backend.broadcast_raw(tensor.copy_compatible_to_dims_raw((*batch, *own)), (*shape, *full_shape(own)))
    return backend.reshape_raw(raw, (volume(batch), *full_shape(own)))


def flat_lengths(what: str, dim: Dim, batch: Dims) -> np.ndarray:
    """The length of each sequence of `dim`, int64 [batch] on the host; 0 for lengths that are themselves in the padding of a batch dim.

    Raises:
        DimError: If the lengths are over a dim that is not among the batch dims.
    """
    check_lengths_here(what, [("batch dims", batch)], dim, always=True)
    lengths = np.asarray(dim.extent if dim.lengths is None else dim.lengths)
    out = np.broadcast_to(spread(lengths, dim.length_dims, batch), full_shape(batch))
    real = real_entries(batch)
    return (out if real is None else np.where(real, out, 0)).reshape(-1).astype(np.int64)


def volume(dims: Dims) -> int:
    """The number of entries of a raw array over `dims`."""
    total = 1
    for dim in dims:
        total *= dim.extent
    return total
