"""The dim of an op's result: what is checked about it, or filled in."""

from __future__ import annotations

import numpy as np

from rfnb.core.dim import Dim
from rfnb.core.errors import dim_error
from rfnb.core.tensor import Tensor
from rfnb.core.tensor_text import dims_text, shape_of


def define_size(dim: Dim, size: int | Dim) -> None:
    """Give the dim this size, or the sizes of another dim, if it has none yet."""
    if not dim.is_dim_known():
        dim.dyn_size_ext = size.get_size_tensor() if isinstance(size, Dim) else np.int32(size)


def settle_size(what: str, out_dim: Dim, size: int | Dim) -> None:
    """`define_size`, and raise a DimError if out_dim has another size already."""
    define_size(out_dim, size)
    check_size(what, out_dim, size.extent if isinstance(size, Dim) else size)


def check_size(what: str, out_dim: Dim, size: int) -> None:
    """Raise a DimError unless out_dim has this size."""
    if out_dim.extent != size:
        raise dim_error(
            f"{what}: out_dim has another size.",
            [("out_dim", out_dim.short_repr()), ("needed", size)],
            "An out_dim fits, or has no size yet and takes it over.",
            f'Dim(None, name="{out_dim.name}")',
        )


def dim_and_lengths(dim: Dim) -> str:
    """The dim for a message, with its lengths."""
    return dim.short_repr() if dim.lengths is None else f"{dim.short_repr()} {dim.lengths.tolist()}"


def check_movable(what: str, tensor: Tensor, axis: Dim) -> None:
    """Frames cannot change places within an axis that the lengths of another dim are over."""
    for dim in tensor.dims:
        if axis in dim.length_dims:
            raise dim_error(
                f"{what}: the lengths of {dim.short_repr()} are over {axis.short_repr()}.",
                [("tensor", shape_of(tensor)), ("axis", axis.short_repr()), ("lengths", dims_text(dim.length_dims))],
                "Frames that change places would leave their lengths behind. Work on a copy of the axis with its own lengths, or "
                f"without {dim.name}.",
            )
