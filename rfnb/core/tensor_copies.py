"""Copies of a Tensor with its axes in another order, or with other dims. They share the raw array where they can."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
        available_for_inference: bool

        @property
        def dtype(self) -> str: ...

        _roles: Mapping[str, Dim] | None

        @property
        def backend(self) -> Any: ...
        def _like(self, raw: Any, dims: tuple[Dim, ...], name: str | None = None) -> Tensor: ...
        def _template(self, dims: Sequence[Dim], name: str | None = None, dtype: str | None = None) -> Tensor: ...

    def copy(self, name: str | None = None) -> Tensor:
        """Another Tensor of the same raw array."""
        out = self._like(self._raw, self.dims, name)
        if not self.available_for_inference:
            out.available_for_inference = False
        return out

    def copy_template(self, name: str | None = None, *, dtype: str | None = None) -> Tensor:
        """Same dims and marks, without raw array."""
        return self._template(self.dims, name, dtype)

    def copy_template_dense(self, name: str | None = None, dtype: str | None = None) -> Tensor:
        """A template of what the indices stand for: dims and sparse_dim, which is the feature dim; float32, if no dtype is given.
        Without a sparse_dim `copy_template`."""
        if self.sparse_dim is None:
            return self.copy_template(name, dtype=dtype)
        out = self._template((*self.dims, self.sparse_dim), name, dtype or "float32")
        out.sparse_dim = None
        out.feature_dim = self.sparse_dim
        return out

    def copy_template_excluding_axis(self, exclude_axis: Dim | int, name: str | None = None) -> Tensor:
        """A template without one of the dims."""
        axis = self._index(exclude_axis, "copy_template_excluding_axis")
        return self._template(self.dims[:axis] + self.dims[axis + 1 :], name)

    def copy_template_new_dim_tags(
        self, new_dim_tags: Sequence[Dim], name: str | None = None, keep_special_axes: bool = False
    ) -> Tensor:
        """A template with other dims. `keep_special_axes`: what is at the place of the feature dim is the feature dim."""
        out = self._template(tuple(new_dim_tags), name)
        if keep_special_axes and self._feature_dim is not None:
            out.feature_dim = new_dim_tags[self.dims.index(self._feature_dim)]
        return out

    def copy_template_replace_dim_tag(self, axis: Dim | int, new_dim_tag: Dim, name: str | None = None) -> Tensor:
        """A template with one dim replaced; a feature dim stays one."""
        index = self._index(axis, "copy_template_replace_dim_tag")
        dims = (*self.dims[:index], new_dim_tag, *self.dims[index + 1 :])
        return self.copy_template_new_dim_tags(dims, name=name, keep_special_axes=True)

    def copy_template_replace_dim(self, axis: Dim | int, new_dim: Dim | int | None, new_size: Any = None) -> Tensor:
        """A template with one dim replaced: by a Dim, by a new one of this size, or by a new one of the lengths `new_size`."""
        if not isinstance(new_dim, Dim):
            name = self.dims[self._index(axis, "copy_template_replace_dim")].name
            new_dim = Dim(new_size if new_dim is None else new_dim, name=name)
        return self.copy_template_replace_dim_tag(axis, new_dim)

    def copy_transpose(self, perm: Sequence[Dim | int], *, allow_int: bool = True) -> Tensor:
        """The same tensor with its axes in another order.

        Args:
            allow_int: Whether axes may be given by their index.

        Raises:
            DimError: If `perm` is not exactly the dims of this tensor.
        """
        if not allow_int:
            for item in perm:
                if isinstance(item, int):
                    self.axis_of(item, "copy_transpose")  # type: ignore[arg-type]  # raises
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
        out = self._like(None if self._raw is None else self.backend.transpose_raw(self._raw, order), dims)
        if self._roles is not None:
            out._roles = self._roles
        return out

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

    def copy_add_dim_by_tag(self, dim_tag: Dim, unbroadcast: bool = False, axis: int | None = None) -> Tensor:
        """One more axis, by default the first; of length 1, with a dim of size 1 of the same name, unless `unbroadcast`.

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
        dims, axis = list(self.dims), axis or 0
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

    def copy_compatible_to(
        self,
        data: Tensor,
        add_dims: bool = True,
        unbroadcast: bool = False,
        except_feature: bool = False,
        except_axis: Dim | int | None = None,
        check_sparse: bool = True,
        check_dtype: bool = True,
    ) -> Tensor:
        """`copy_compatible_to_dims` of the dims of another Tensor.

        Args:
            except_feature, except_axis: Dims of `data` that are left out if this tensor lacks them.
            check_sparse, check_dtype: Both must agree with `data`, in the first case if one of them is sparse.

        Raises:
            DimError: If `data` lacks a dim of this tensor.
            TypeError: If sparse_dim or dtype differ.
        """
        if (check_sparse and self.sparse_dim is not data.sparse_dim) or (check_dtype and self.dtype != data.dtype):
            this: Any = self  # a Tensor
            raise TypeError(
                message(
                    "copy_compatible_to: other values than those of the other tensor.",
                    [("tensor", repr(this)), ("data", repr(data))],
                    "sparse_dim and dtype are compared. If they may differ:",
                    "x.copy_compatible_to(data, check_sparse=False, check_dtype=False)",
                )
            )
        left_out = [data.feature_dim] if except_feature else []
        if except_axis is not None:
            left_out.append(data.dims[data._index(except_axis, "copy_compatible_to")])
        dims = [dim for dim in data.dims if dim not in left_out or dim in self.dims]
        return self.copy_compatible_to_dims(dims, add_dims=add_dims, unbroadcast=unbroadcast)

    def copy_compatible_to_dims(
        self, dims: Sequence[Dim], *, add_dims: bool = True, unbroadcast: bool = False
    ) -> Tensor:
        """Axes in the order of `dims`, a superset; missing ones get a static dim of size 1, or with `unbroadcast` the dim
        itself, the values repeated without copying. With `add_dims=False` missing ones stay away.

        Raises:
            DimError: If `dims` lacks one of this tensor.
        """
        if not add_dims:
            self._check_superset(dims)
            return self.copy_transpose([dim for dim in dims if dim in self.dims])
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

    def copy_compatible_to_dims_raw(
        self, dims: Sequence[Dim], *, add_dims: bool = True, unbroadcast: bool = False
    ) -> Any:
        """The raw array in the order of `dims`, with axes of length 1 for those that this tensor lacks (options as above)."""
        if unbroadcast or not add_dims:
            return self.copy_compatible_to_dims(dims, add_dims=add_dims, unbroadcast=unbroadcast)._raw
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
