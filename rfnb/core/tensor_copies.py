"""Copies of a Tensor with its axes in another order, or with other dims. They share the raw array where they can."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rfnb.core.dim import Dim
from rfnb.core.errors import DimError, message
from rfnb.core.tensor_axes import TensorAxes
from rfnb.core.tensor_text import dims_text, labels_of

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

    def copy_template_dense(self, name: str | None = None) -> Tensor:
        """A template of what the indices stand for: dims and sparse_dim, which is the feature dim; the default dtype. Without a
        sparse_dim `copy_template`."""
        if self.sparse_dim is None:
            return self.copy_template(name)
        out = self._template((*self.dims, self.sparse_dim), name, "float32")
        out.sparse_dim = None
        out.feature_dim = self.sparse_dim
        return out

    def copy_template_excluding_axis(self, exclude_axis: Dim | int, name: str | None = None) -> Tensor:
        """A template without one of the dims."""
        axis = self._index(exclude_axis, "copy_template_excluding_axis")
        return self._template(self.dims[:axis] + self.dims[axis + 1 :], name)

    def copy_template_new_dim_tags(
        self, new_dims: Sequence[Dim], *, name: str | None = None, keep_special_axes: bool = False
    ) -> Tensor:
        """A template with other dims. `keep_special_axes`: what is at the place of the feature dim is the feature dim."""
        out = self._template(tuple(new_dims), name)
        if keep_special_axes and self._feature_dim is not None:
            out.feature_dim = new_dims[self.dims.index(self._feature_dim)]
        return out

    def copy_template_replace_dim_tag(self, axis: Dim | int, new_dim_tag: Dim, *, name: str | None = None) -> Tensor:
        """A template with one dim replaced; a feature dim stays one."""
        index = self._index(axis, "copy_template_replace_dim_tag")
        dims = (*self.dims[:index], new_dim_tag, *self.dims[index + 1 :])
        return self.copy_template_new_dim_tags(dims, name=name, keep_special_axes=True)

    copy_template_replace_dim = copy_template_replace_dim_tag

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

    def copy_move_axis(self, old_axis: Dim | int, new_axis: int) -> Tensor:
        """One axis at another place, the order of the others kept."""
        index = self._index(old_axis, "copy_move_axis")
        dims = [*self.dims[:index], *self.dims[index + 1 :]]
        dims.insert(new_axis % len(self.dims), self.dims[index])
        return self.copy_transpose(dims)

    def copy_swap_axes(self, axis1: Dim | int, axis2: Dim | int) -> Tensor:
        """Two axes exchanged."""
        first, second = self._index(axis1, "copy_swap_axes"), self._index(axis2, "copy_swap_axes")
        dims = list(self.dims)
        dims[first], dims[second] = dims[second], dims[first]
        return self.copy_transpose(dims)

    def copy_add_dim_by_tag(self, dim_tag: Dim, *, unbroadcast: bool = False, axis: int = 0) -> Tensor:
        """One more axis; of length 1, with a dim of size 1 of the same name, unless `unbroadcast`.

        Raises:
            DimError: If the dim is there already.
        """
        if dim_tag in self.dims:
            raise DimError(
                message(
                    "copy_add_dim_by_tag: the dim is there already.",
                    [("tensor", dims_text(self.dims)), ("dim", dim_tag.short_repr())],
                    "A dim occurs once.",
                )
            )
        dims = list(self.dims)
        dims.insert(axis if axis >= 0 else axis + len(dims) + 1, dim_tag)
        return self.copy_compatible_to_dims(dims, unbroadcast=unbroadcast)

    def copy_squeeze_axes(self, axes: Sequence[Dim | int]) -> Tensor:
        """Without these axes.

        Raises:
            DimError: If one of them is longer than 1.
        """
        indices = {self._index(axis, "copy_squeeze_axes") for axis in axes}
        long = [self.dims[index] for index in sorted(indices) if self.dims[index].extent != 1]
        if long:
            raise DimError(
                message(
                    "copy_squeeze_axes: an axis that is not of size 1.",
                    [("tensor", dims_text(self.dims)), ("axis", long[0].short_repr())],
                    "Only an axis of one entry can go without losing values.",
                    f"rf.gather(x, indices=0, axis={long[0].name})",
                )
            )
        dims = tuple(dim for index, dim in enumerate(self.dims) if index not in indices)
        return self._like(None if self._raw is None else self.backend.squeeze_raw(self._raw, tuple(indices)), dims)

    def copy_compatible_to(self, data: Tensor, *, unbroadcast: bool = False) -> Tensor:
        """`copy_compatible_to_dims` of the dims of another Tensor."""
        return self.copy_compatible_to_dims(data.dims, unbroadcast=unbroadcast)

    def copy_compatible_to_dims(self, dims: Sequence[Dim], *, unbroadcast: bool = False) -> Tensor:
        """Axes in the order of `dims`, a superset; missing ones get a static dim of size 1, or with `unbroadcast` the dim
        itself, the values repeated without copying.

        Raises:
            DimError: If `dims` lacks one of this tensor.
        """
        if self._raw is None:
            self._check_superset(dims)
            raw = None
        else:
            raw = self.copy_compatible_to_dims_raw(dims)
        if unbroadcast:
            if raw is not None:
                raw = self.backend.broadcast_raw(raw, tuple(dim.extent for dim in dims))
            return self._like(raw, tuple(dims))
        return self._like(raw, tuple(dim if dim in self.dims else Dim(1, name=f"{dim.name}:1") for dim in dims))

    def copy_compatible_to_dims_raw(self, dims: Sequence[Dim]) -> Any:
        """The raw array in the order of `dims`, with axes of length 1 for those that this tensor lacks."""
        self._check_superset(dims)
        out = self.copy_transpose([dim for dim in dims if dim in self.dims])._raw
        for axis, dim in enumerate(dims):
            if dim not in self.dims:
                out = self.backend.expand_dims_raw(out, axis)
        return out

    def get_out_permutation_to_dims(self, dims: Sequence[Dim]) -> list[int]:
        """For each of `dims` the index of its axis, -1 where this tensor lacks it."""
        self._check_superset(dims)
        return [self.dims.index(dim) if dim in self.dims else -1 for dim in dims]

    def _check_superset(self, dims: Sequence[Dim]) -> None:
        lacking = [dim for dim in self.dims if dim not in dims]
        if lacking:
            labels = labels_of([*self.dims, *dims])
            raise DimError(
                message(
                    f"copy_compatible_to_dims: the given dims lack {labels[lacking[0]]}.",
                    [("tensor", dims_text(self.dims, labels)), ("dims", dims_text(tuple(dims), labels))],
                    "The given dims are all dims of the tensor and any further ones.",
                )
            )

    def _index(self, axis: Dim | int, what: str) -> int:
        """Index of a dim; an index is checked."""
        if isinstance(axis, int):
            if not -len(self.dims) <= axis < len(self.dims):
                raise DimError(
                    message(f"{what}: no axis {axis}.", [("tensor", dims_text(self.dims))], "Axes are counted from 0.")
                )
            return axis % len(self.dims)
        return self.axis_of(axis, what)


def _show(item: Any) -> str:
    return item.short_repr() if isinstance(item, Dim) else str(item)
