"""Convert Tensors to xarray DataArrays; `rf.named(data_array)` converts back.

    array = rf.to_xarray(x)                                  # dims by name, labels and lengths as coordinates
    array.where(array.time < array.time_lengths)             # without padding
    x = rf.named(array)

xarray is imported at the first call.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rfnb.core.dim import Dim
from rfnb.core.errors import ErrorOf, value_error
from rfnb.core.tensor import Tensor
from rfnb.ops.operands import need_tensors


def to_xarray(x: Tensor) -> Any:
    """A DataArray for a Tensor: its values on the host, detached, in the order of its dims.

    Labels of a dim become its coordinate. A ragged dim has positions as its coordinate, and its lengths as
    `time_lengths` over their dims; padding is unchanged. Further dims with the same name are called `time_2`, ... The
    vocabulary of indices is in `attrs`.

    Args:
        x: {...}

    Raises:
        ModuleNotFoundError: If xarray is not installed.
        ValueError: For a template.
    """
    try:
        import xarray
    except ModuleNotFoundError as error:
        raise ErrorOf(ModuleNotFoundError)(
            "to_xarray: the package xarray is not installed.",
            {"x": x},
            "A DataArray is one of that package. Install it:",
            "pip install xarray",
        ) from error
    need_tensors("to_xarray", x)
    if x.raw_tensor is None:
        raise value_error(
            "to_xarray: a template has no values.", {"x": repr(x)}, "A DataArray holds values.", "x.raw_tensor = ..."
        )
    names = _names(x.dims)
    coordinates: dict[str, Any] = {}
    for dim, name in names.items():
        coordinates |= _coordinates(dim, name, names)
    attributes: dict[str, Any] = {}
    if x.sparse_dim is not None:
        attributes = {"sparse_dim": x.sparse_dim.name, "sparse_size": x.sparse_dim.extent}
        if x.sparse_dim.vocab is not None:
            attributes["sparse_labels"] = [str(label) for label in x.sparse_dim.vocab]
    return xarray.DataArray(
        np.asarray(x.numpy()), dims=list(names.values()), coords=coordinates, attrs=attributes, name=x.name
    )


def _names(dims: Sequence[Dim]) -> dict[Dim, str]:
    """A unique name for each dim."""
    out: dict[Dim, str] = {}
    for dim in dims:
        name, number = dim.name, 1
        while name in out.values():
            number += 1
            name = f"{dim.name}_{number}"
        out[dim] = name
    return out


def _coordinates(dim: Dim, name: str, names: dict[Dim, str]) -> dict[str, Any]:
    out: dict[str, Any] = {}
    if dim.vocab is not None and len(dim.vocab) >= dim.extent:
        out[name] = (name, [str(label) for label in dim.vocab[: dim.extent]])
    over = [names.get(other) for other in dim.length_dims]
    if dim.lengths is not None and over and None not in over:
        out.setdefault(name, (name, np.arange(dim.extent)))
        out[f"{name}_lengths"] = (over, np.array(dim.lengths))
    return out
