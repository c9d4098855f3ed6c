"""Copies of a Tensor with its axes in another order, or with other dims. They share the raw array where they can."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rfnb.core.dim import Dim
from rfnb.core.errors import DimError, message
from rfnb.core.tensor_axes import TensorAxes
from rfnb.core.tensor_text import dims_text

if TYPE_CHECKING:
    from rfnb.core.tensor import Tensor


class TensorCopies(TensorAxes):
    """Part of Tensor: copies. Abstract."""

    if TYPE_CHECKING:  # of Tensor

        @property
        def backend(self) -> Any: ...
        def _like(self, raw: Any, dims: tuple[Dim, ...], name: str | None = None) -> Tensor: ...
        def _template(self, dims: Sequence[Dim], name: str | None = None, dtype: str | None = None) -> Tensor: ...

    def copy(self, name: str | None = None) -> Tensor:
        """Another Tensor of the same raw array."""
        return self._like(self._raw, self.dims, name)

    def copy_template(self, name: str | None = None, *, dtype: str | None = None) -> Tensor:
        """Same dims and marks, without raw array."""
        return self._template(self.dims, name, dtype)

    def copy_template_new_dim_tags(self, new_dims: Sequence[Dim], *, name: str | None = None) -> Tensor:
        return self._template(new_dims, name)

    def copy_template_replace_dim_tag(self, *, axis: int, new_dim_tag: Dim) -> Tensor:
        dims = list(self.dims)
        dims[axis] = new_dim_tag
        return self.copy_template_new_dim_tags(dims)

    def copy_transpose(self, perm: Sequence[Dim | int]) -> Tensor:
        """The same tensor with its axes in another order.

        Raises:
            DimError: If `perm` is not exactly the dims of this tensor.
        """
        order = [item if isinstance(item, int) else self.axis_of(item, "copy_transpose") for item in perm]
        if sorted(order) != list(range(len(self.dims))):
            raise DimError(
                message(
                    "copy_transpose: the order must name each dim once.",
                    [("tensor", dims_text(self.dims)), ("order", ", ".join(map(_show, perm)))],
                    "A transposition keeps all dims.",
                )
            )
        if order == list(range(len(order))):
            this: Any = self  # a Tensor
            return this
        dims = tuple(self.dims[axis] for axis in order)
        return self._like(None if self._raw is None else self.backend.transpose_raw(self._raw, order), dims)

    def copy_compatible_to_dims(self, dims: Sequence[Dim]) -> Tensor:
        """Axes in the order of `dims`, a superset; missing ones get a static dim of size 1."""
        raw = self.copy_compatible_to_dims_raw(dims)
        return self._like(raw, tuple(dim if dim in self.dims else Dim(1, name=f"{dim.name}:1") for dim in dims))

    def copy_compatible_to_dims_raw(self, dims: Sequence[Dim]) -> Any:
        """The raw array in the order of `dims`, with axes of length 1 for those that this tensor lacks."""
        out = self.copy_transpose([dim for dim in dims if dim in self.dims])._raw
        for axis, dim in enumerate(dims):
            if dim not in self.dims:
                out = self.backend.expand_dims_raw(out, axis)
        return out


def _show(item: Any) -> str:
    return item.short_repr() if isinstance(item, Dim) else str(item)
