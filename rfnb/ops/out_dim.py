"""The dim of an op's result: checked or filled in."""

from __future__ import annotations

from typing import Any

import numpy as np

from rfnb.core.dim import Dim
from rfnb.core.errors import dim_error
from rfnb.core.size_queries import asked
from rfnb.core.tensor import Tensor
from rfnb.core.tensor_text import dims_text


def define_size(dim: Dim, size: int | Dim) -> None:
    """Give the dim this size, or the sizes of another dim, if it has none so far."""
    if not dim.is_dim_known():
        dim.dyn_size_ext = size.get_size_tensor() if isinstance(size, Dim) else np.int32(size)


def settle_size(what: str, out_dim: Dim, size: int | Dim) -> None:
    """`define_size`, and `check_size`."""
    define_size(out_dim, size)
    check_size(what, out_dim, size)


def check_size(what: str, out_dim: Dim, size: int | Dim, label: str = "out_dim") -> None:
    """Raise a DimError unless out_dim has this size; for a ragged dim, the same in each sequence.

    Args:
        label: Its name in the message.
    """
    shown: tuple[Any, ...]
    if isinstance(size, Dim) and size.need_masking():
        fits = out_dim is size or asked(_same_lengths, out_dim, size)
        shown = () if fits else (dim_and_lengths(out_dim), dim_and_lengths(size))
    else:
        number = size.extent if isinstance(size, Dim) else size
        fits, shown = out_dim.extent == number, (out_dim.short_repr(), number)
    if fits:
        return
    raise dim_error(
        f"{what}: {label} has another size.",
        list(zip((label, "needed"), shown)),
        f"An {label} fits, or has no size yet and takes it over.",
        f'Dim(None, name="{out_dim.name}")',
    )


def _same_lengths(a: Dim, b: Dim) -> bool:
    """True if two dims have the same frames: with different lengths frames would be lost or padding would count."""
    if a.extent != b.extent:
        return False
    own, other = a._known(), b._known()
    if own is None or other is None or set(own.over) != set(other.over):
        return not (a.has_padding() or b.has_padding())
    order = [other.over.index(dim) for dim in own.over]
    return np.array_equal(own.valid(), other.valid().transpose(order))


def dim_and_lengths(dim: Dim) -> str:
    """The dim for a message, with its lengths."""
    return dim.short_repr() if dim.lengths is None else f"{dim.short_repr()} {dim.lengths.tolist()}"


def check_movable(what: str, tensor: Tensor, axis: Dim) -> None:
    """Check that frames may change places within an axis: the lengths of no other dim may be over it."""
    for dim in tensor.dims:
        if axis in dim.length_dims:
            raise dim_error(
                f"{what}: the lengths of {dim.short_repr()} are over {axis.short_repr()}.",
                {"tensor": tensor, "axis": axis, "lengths": dims_text(dim.length_dims)},
                "Frames that move would lose their lengths. Work on a copy of the axis with its own lengths, or "
                f"without {dim.name}.",
            )
