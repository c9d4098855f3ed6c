"""Copies of a Tensor with its axes in another order, or with other dims. They share the raw array where possible.

These functions are methods of Tensor.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rfnb.core.dim import Dim, Dims
from rfnb.core.errors import dim_error
from rfnb.core.op import op
from rfnb.core.tensor_text import dims_text, labels_of

if TYPE_CHECKING:
    from rfnb.core.tensor import Tensor


@op
def copy(self: Tensor, name: str | None = None) -> Tensor:
    """Another Tensor with the same raw array."""
    out = self._like(self._raw, self.dims, name)
    if not self.available_for_inference:
        out.available_for_inference = False
    return out


def copy_template(self: Tensor, name: str | None = None, *, dtype: str | None = None) -> Tensor:
    """The same dims and marks, without raw array."""
    return self._template(self.dims, name, dtype)


@op
def copy_transpose(self: Tensor, perm: Sequence[Dim | int], *, allow_int: bool = True) -> Tensor:
    """The same tensor with its axes in another order.

    Args:
        allow_int: Whether axes may be given by index.

    Raises:
        DimError: If `perm` is not exactly the dims of this tensor.
    """
    if not allow_int:
        for item in perm:
            if isinstance(item, int):
                self.axis_of(item, "copy_transpose")  # type: ignore[arg-type]  # raises
    order = [item if isinstance(item, int) else self.axis_of(item, "copy_transpose") for item in perm]
    if sorted(order) != list(range(len(self.dims))):
        places = [*dict.fromkeys(axis for axis in order if 0 <= axis < len(self.dims))]
        places += [axis for axis in range(len(self.dims)) if axis not in places]
        raise dim_error(
            "copy_transpose: the order must name each dim once.",
            {"tensor": self, "order": ", ".join(map(_show, perm))},
            "A transposition keeps all dims. Those that are missing last:",
            f"x.copy_transpose([{', '.join(f'x.dims[{axis}]' for axis in places)}])",
        )
    if order == list(range(len(order))):
        return self
    dims = tuple(self.dims[axis] for axis in order)
    out = self._like(None if self._raw is None else self.backend.transpose_raw(self._raw, order), dims)
    if self._roles is not None:
        out._roles = self._roles
    return out


@op
def copy_compatible_to_dims(
    self: Tensor, dims: Sequence[Dim], *, add_dims: bool = True, unbroadcast: bool = False
) -> Tensor:
    """Axes in the order of `dims`, a superset; missing ones get a static dim of size 1, or with `unbroadcast` the dim itself, with
    values repeated without copying. With `add_dims=False` missing ones are not added.

    Raises:
        DimError: If `dims` lacks a dim of this tensor.
    """
    if not add_dims:
        check_superset(self.dims, dims)
        return self.copy_transpose([dim for dim in dims if dim in self.dims])
    if self._raw is None:
        check_superset(self.dims, dims)
        raw = None
    else:
        raw = self.copy_compatible_to_dims_raw(dims)
    if unbroadcast:
        if raw is not None:
            raw = self.backend.broadcast_raw(raw, tuple(dim.extent for dim in dims))
        return self._like(raw, tuple(dims))
    return self._like(raw, tuple(dim if dim in self.dims else Dim(1, name=f"{dim.name}:1") for dim in dims))


def copy_compatible_to_dims_raw(
    self: Tensor, dims: Sequence[Dim], *, add_dims: bool = True, unbroadcast: bool = False
) -> Any:
    """The raw array in the order of `dims`, with axes of length 1 for missing dims (options as above)."""
    if unbroadcast or not add_dims:
        return self.copy_compatible_to_dims(dims, add_dims=add_dims, unbroadcast=unbroadcast)._raw
    check_superset(self.dims, dims)
    out = self.copy_transpose([dim for dim in dims if dim in self.dims])._raw
    for axis, dim in enumerate(dims):
        if dim not in self.dims:
            out = self.backend.expand_dims_raw(out, axis)
    return out


def check_superset(own: Dims, dims: Sequence[Dim]) -> None:
    """Raise a DimError if `dims` lacks one of `own`."""
    lacking = [dim for dim in own if dim not in dims]
    if lacking:
        labels = labels_of([*own, *dims])
        raise dim_error(
            f"copy_compatible_to_dims: the given dims lack {labels[lacking[0]]}.",
            {"tensor": dims_text(own, labels), "dims": dims_text(tuple(dims), labels)},
            "The given dims are all dims of the tensor and any further ones.",
        )


def _show(item: Any) -> str:
    return item.short_repr() if isinstance(item, Dim) else str(item)
