"""Assignment to some entries of a tensor, in place: `x[key] = value` by dims."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rfnb.core.dim import Dim
from rfnb.core.dim_mask import real_entries
from rfnb.core.errors import DimError, dim_error, type_error, value_error
from rfnb.core.op import op
from rfnb.core.tensor import Tensor, new_tensor
from rfnb.core.tensor_checks import check_unique
from rfnb.core.tensor_text import dims_text, shape_of
from rfnb.ops.const import convert_to_tensor
from rfnb.ops.operands import check_devices
from rfnb.ops.out_dim import define_size


class EntryPlaces:
    """Some entries of a tensor: an index for each of its axes, which together have the dims `dims`."""

    def __init__(self, target: Tensor, axis: Any, key: Any, key_dim: Any):
        keys = _by_axis(target, axis, key, key_dim)
        self.target = target
        self.indices = [_index(target, dim, *keys.get(dim, (slice(None), None))) for dim in target.dims]
        dims = [dim for index in self.indices if isinstance(index, Tensor) for dim in index.dims]
        self.dims = check_unique(tuple(dict.fromkeys(dims)), "Parameter.assign_key")
        for dim in self.dims:
            if dim.has_padding() and not set(dim.length_dims) <= set(self.dims):
                raise dim_error(
                    f"Parameter.assign_key: {dim.short_repr()} has lengths over other dims.",
                    {"parameter": target, "places": dims_text(self.dims)},
                    "Which of its entries are real is not known without those.",
                    f"key = rf.expand_dim(key, {dim.length_dims[0].name})",
                )

    @op
    def assign(self, raw: Any) -> None:
        """Write `raw`, which broadcasts to `dims`; entries in the padding of ragged dims are not written."""
        backend = self.target.backend
        raw_indices = tuple(
            index.copy_compatible_to_dims_raw(self.dims) if isinstance(index, Tensor) else index
            for index in self.indices
        )
        try:
            backend.assign_at_raw(self.target._raw, raw_indices, raw, real_entries(self.dims))
        except RuntimeError:
            keys = (index for index in self.indices if isinstance(index, Tensor))
            check_devices("Parameter.assign_key", self.target, *keys)
            raise


def _by_axis(target: Tensor, axis: Any, key: Any, key_dim: Any) -> dict[Dim, tuple[Any, Dim | None]]:
    """(key, key_dim) of each keyed axis."""
    if isinstance(axis, Dim):
        if isinstance(key_dim, (list, tuple)) and len(key_dim) == 1:
            (key_dim,) = key_dim
        axis, key, key_dim = (axis,), (key,), (key_dim,)
    axes, keys = tuple(axis), tuple(key) if isinstance(key, Sequence) else (key,)
    if key_dim is None:
        key_dim = [None] * len(axes)
    key_dims = (key_dim,) if isinstance(key_dim, Dim) else tuple(key_dim)
    if not len(axes) == len(keys) == len(key_dims) or len(set(axes)) != len(axes):
        raise value_error(
            "Parameter.assign_key: one key and one key_dim for each axis.",
            {"axis": len(axes), "key": len(keys), "key_dim": len(key_dims)},
            "Axes, keys and key dims belong together in order; the dim of an integer is None.",
            "p.assign_key([a, b], [0, slice(1, 3)], [None, part], value)",
        )
    for dim in axes:
        target.axis_of(dim, "Parameter.assign_key")
    return dict(zip(axes, zip(keys, key_dims)))


@op(of="Parameter.assign_key")
def _index(target: Tensor, axis: Dim, key: Any, key_dim: Dim | None) -> Tensor | int:
    """The positions along `axis`: a number, or a Tensor over the dims that replace it."""
    if isinstance(key, (int, np.integer)) and not isinstance(key, bool):
        if not -axis.extent <= key < axis.extent:
            raise IndexError(f"Parameter.assign_key: index {key} is outside of {axis.short_repr()}.")
        return int(key) % axis.extent
    if isinstance(key, slice):
        bounds = (int(bound) if isinstance(bound, Tensor) else bound for bound in (key.start, key.stop, key.step))
        positions = np.arange(axis.extent)[slice(*bounds)]
        if key_dim is None:
            everything = np.array_equal(positions, np.arange(axis.extent))
            key_dim = axis if everything else Dim(len(positions), name="key")
        else:
            define_size(key_dim, len(positions))
        key = positions
    if isinstance(key, (list, tuple, np.ndarray)):
        array = np.asarray(key)
        key_dim = key_dim or Dim(len(array), name="key")
        if array.shape != (key_dim.extent,):
            raise _other_key_dim(axis, f"{array.shape}", key_dim)
        key = convert_to_tensor(array, dims=[key_dim], device=target.device)
    if not isinstance(key, Tensor) or not key.dtype.startswith(("int", "uint")):
        raise type_error(
            "Parameter.assign_key: not a key.",
            {"axis": axis, "key": repr(key) if isinstance(key, Tensor) else type(key).__name__},
            "A key is an integer, a slice, or integers as list, array or Tensor.",
        )
    if key.sparse_dim not in (None, axis):
        raise dim_error(
            "Parameter.assign_key: indices into another dim.",
            {"axis": axis, "key": key, "sparse_dim": key.sparse_dim},
            "The sparse dim of the key says what its integers index.",
            f"key = rf.set_sparse_dim(key, {axis.name})",
        )
    if key_dim is not None and key_dim not in key.dims:
        raise _other_key_dim(axis, shape_of(key), key_dim)
    return new_tensor(key._raw, key.dims)


def _other_key_dim(axis: Dim, key: str, key_dim: Dim) -> DimError:
    return dim_error(
        "Parameter.assign_key: the key does not have its dim.",
        {"axis": axis, "key": key, "key_dim": key_dim},
        "key_dim is the dim of the key, and takes the place of the axis in the value.",
    )
