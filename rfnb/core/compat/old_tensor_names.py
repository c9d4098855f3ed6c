"""Names that a Tensor has for programs written before each axis had a Dim: the batch and the time dim found by what they are, axes by
index or name, templates. Nothing in this package uses them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rfnb.core.dim import Dim, Dims
from rfnb.core.errors import DimError, dim_error, type_error
from rfnb.core.not_specified import NotSpecified
from rfnb.core.op import op
from rfnb.core.tensor_copies import check_superset
from rfnb.core.tensor_text import dims_text

if TYPE_CHECKING:
    from rfnb.core.tensor import Tensor


class OldTensorNames:
    """A part of Tensor: what is there for older programs. Abstract.

    The batch dim is the one of kind "batch"; without such, the one dim that lengths are over. The time dim is the one that has
    lengths per sequence or is of kind "spatial". Where several could be meant nothing is guessed.
    """

    if TYPE_CHECKING:  # of Tensor
        dims: Dims
        sparse_dim: Dim | None
        feature_dim: Any
        _feature_dim: Dim | None
        _raw: Any
        dtype: Any

        @property
        def backend(self) -> Any: ...
        def _index(self, axis: Dim | int, what: str) -> int: ...
        def _like(self, raw: Any, dims: Dims, name: str | None = None) -> Tensor: ...
        def _template(self, dims: Sequence[Dim], name: str | None = None, dtype: str | None = None) -> Tensor: ...
        def axis_of(self, dim: Dim, what: str = "axis_of") -> int: ...
        def remaining_dims(self, remove: Dim | Sequence[Dim] | None = None) -> list[Dim]: ...
        def copy_template(self, name: str | None = None, *, dtype: str | None = None) -> Tensor: ...
        def copy_transpose(self, perm: Sequence[Dim | int]) -> Tensor: ...
        def copy_compatible_to_dims(
            self, dims: Sequence[Dim], *, add_dims: bool = True, unbroadcast: bool = False
        ) -> Tensor: ...
        def get_sequence_mask_tensor(self, axis: Dim | int) -> Tensor: ...

    @property
    def dim_tags(self) -> Dims:
        """Old name of `dims`."""
        return self.dims

    @property
    def batch_ndim(self) -> int:
        """The number of axes."""
        return len(self.dims)

    @property
    def batch_shape(self) -> tuple[int | None, ...]:
        """Static size of each axis, None where it is dynamic."""
        return tuple(dim.size for dim in self.dims)

    @property
    def feature_dim_or_sparse_dim(self) -> Dim | None:
        """The feature dim; without one the sparse_dim."""
        return self._feature_dim if self._feature_dim is not None else self.sparse_dim

    def get_axis_from_description(self, axis: Dim | int, allow_int: bool | type[NotSpecified] = NotSpecified) -> int:
        """The index of a dim in the raw array. Old descriptions ("T", "F") are refused: a dim says what it is.

        Args:
            axis: A dim; with `allow_int=True` also an index.

        Raises:
            DimError: If it is not there, or no Dim.
        """
        if allow_int is True and isinstance(axis, int):
            axis = self.dims[axis]
        return self.axis_of(axis, "get_axis_from_description")  # type: ignore[arg-type]

    def get_axes_from_description(
        self, axes: Dim | int | Sequence[Dim | int], allow_int: bool | type[NotSpecified] = NotSpecified
    ) -> list[int]:
        """`get_axis_from_description` of one dim or several, as a list."""
        axes = [axes] if isinstance(axes, (Dim, str, int)) else axes
        return [self.get_axis_from_description(axis, allow_int) for axis in axes]

    def get_dim_tag_from_description(self, axis: Dim) -> Dim:
        """The dim itself, if it is here."""
        return self.dims[self.axis_of(axis, "get_dim_tag_from_description")]

    def get_axes_by_tag_name(self, name: str, spatial_only: bool = False) -> list[int]:
        """Indices of the dims of this name, with `spatial_only` those that are neither batch nor feature dim. Names may occur
        more than once; prefer the Dim."""
        others = [dim for dim in self.dims if spatial_only and (dim.is_batch_dim() or dim is self._feature_dim)]
        return [axis for axis, dim in enumerate(self.dims) if dim.name == name and dim not in others]

    def get_axis_by_tag_name(self, name: str, spatial_only: bool = False) -> int:
        """The index of the one dim of this name.

        Raises:
            DimError: If there is none, or several.
        """
        axes = self.get_axes_by_tag_name(name, spatial_only)
        if len(axes) == 1:
            return axes[0]
        raise dim_error(
            f'get_axis_by_tag_name: {len(axes) or "no"} {"dims" if len(axes) > 1 else "dim"} named "{name}".',
            {"tensor": self},
            "A name does not identify a dim. Use the Dim:",
            "x.axis_of(dim)",
        )

    def get_dim_tag(self, axis: int) -> Dim:
        """The dim of an axis."""
        return self.dims[axis]

    def have_dim_tag(self, tag: Dim, include_implicit: bool = True, unique: bool = False) -> bool:
        """Whether the dim is here: as an axis, or, with `include_implicit`, as sparse_dim or as what lengths are over.

        Args:
            unique: Taken, without effect: a dim occurs once.
        """
        if tag in self.dims:
            return True
        return include_implicit and (tag is self.sparse_dim or any(tag in dim.length_dims for dim in self.dims))

    def have_feature_axis(self) -> bool:
        """Whether a feature dim is marked."""
        return self._feature_dim is not None

    def have_batch_axis(self) -> bool:
        """Whether a dim of kind "batch" is here."""
        return any(dim.is_batch_dim() for dim in self.dims)

    def is_axis_dynamic(self, axis: int) -> bool:
        """Whether the size of this axis is that of the data."""
        return self.dims[axis].is_dynamic()

    def get_dynamic_axes(self) -> list[int]:
        """The indices of the axes whose size is that of the data."""
        return [axis for axis, dim in enumerate(self.dims) if dim.is_dynamic()]

    def get_static_axes(self) -> list[int]:
        """The indices of the axes that have one size."""
        return [axis for axis, dim in enumerate(self.dims) if dim.is_static()]

    def get_dyn_size_tags(self) -> list[Dim]:
        """The dims that have lengths, or will have: not the batch, or another dim with one size."""
        return [dim for dim in self.dims if dim.is_dynamic_seq_length() and not dim.is_batch_dim()]

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

    @op
    def copy_move_axis(self, old_axis: Dim | int, new_axis: int) -> Tensor:
        """One axis at another place, the order of the others kept."""
        index = self._index(old_axis, "copy_move_axis")
        dims = [*self.dims[:index], *self.dims[index + 1 :]]
        dims.insert(new_axis % len(self.dims), self.dims[index])
        return self.copy_transpose(dims)

    @op
    def copy_swap_axes(self, axis1: Dim | int, axis2: Dim | int) -> Tensor:
        """Two axes exchanged."""
        first, second = self._index(axis1, "copy_swap_axes"), self._index(axis2, "copy_swap_axes")
        dims = list(self.dims)
        dims[first], dims[second] = dims[second], dims[first]
        return self.copy_transpose(dims)

    @op
    def copy_add_dim_by_tag(self, dim_tag: Dim, unbroadcast: bool = False, axis: int | None = None) -> Tensor:
        """One more axis, by default the first; of length 1, with a dim of size 1 of the same name, unless `unbroadcast`.

        Raises:
            DimError: If the dim is there already.
        """
        if dim_tag in self.dims:
            raise dim_error(
                "copy_add_dim_by_tag: the dim is there already.",
                {"tensor": self, "dim": dim_tag},
                "A dim occurs once.",
            )
        dims, axis = list(self.dims), axis or 0
        dims.insert(axis if axis >= 0 else axis + len(dims) + 1, dim_tag)
        return self.copy_compatible_to_dims(dims, unbroadcast=unbroadcast)

    @op
    def copy_squeeze_axes(self, axes: Sequence[Dim | int]) -> Tensor:
        """The Tensor without these axes.

        Raises:
            DimError: If one of them is longer than 1.
        """
        indices = {self._index(axis, "copy_squeeze_axes") for axis in axes}
        long = [self.dims[index] for index in sorted(indices) if self.dims[index].extent != 1]
        if long:
            raise dim_error(
                "copy_squeeze_axes: an axis that is not of size 1.",
                {"tensor": self, "axis": long[0]},
                "Only an axis of one entry can be removed without losing values.",
                f"rf.gather(x, indices=0, axis={long[0].name})",
            )
        dims = tuple(dim for index, dim in enumerate(self.dims) if index not in indices)
        return self._like(None if self._raw is None else self.backend.squeeze_raw(self._raw, tuple(indices)), dims)

    @op
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
            raise type_error(
                "copy_compatible_to: other values than those of the other tensor.",
                {"tensor": repr(self), "data": repr(data)},
                "sparse_dim and dtype are compared. If they may differ:",
                "x.copy_compatible_to(data, check_sparse=False, check_dtype=False)",
            )
        left_out = [data.feature_dim] if except_feature else []
        if except_axis is not None:
            left_out.append(data.dims[data._index(except_axis, "copy_compatible_to")])
        dims = [dim for dim in data.dims if dim not in left_out or dim in self.dims]
        return self.copy_compatible_to_dims(dims, add_dims=add_dims, unbroadcast=unbroadcast)

    def get_out_permutation_to_dims(self, dims: Sequence[Dim]) -> list[int]:
        """For each of `dims` the index of its axis, -1 where this tensor lacks it."""
        check_superset(self.dims, dims)
        return [self.dims.index(dim) if dim in self.dims else -1 for dim in dims]

    def get_sequence_mask_broadcast(self, axis: Dim | int | None = None) -> Any:
        """The same as a raw array that broadcasts against the one of this tensor; by default of the time dim."""
        if not isinstance(axis, Dim):
            axis = self.get_time_dim_tag() if axis is None else self.dims[axis]
        return self.get_sequence_mask_tensor(axis).copy_compatible_to_dims_raw(self.dims)

    @property
    def batch_dim_axis(self) -> int | None:
        """The index of the batch dim, or None. It can only be set to what it is.

        Raises:
            DimError: If several dims could be it.
        """
        return self._only("batch_dim_axis", self._batch_dims())

    @batch_dim_axis.setter
    def batch_dim_axis(self, axis: int | None) -> None:
        self._same_axis("batch_dim_axis", self.batch_dim_axis, axis)

    @property
    def time_dim_axis(self) -> int | None:
        """The index of the time dim, or None. It can only be set to what it is.

        Raises:
            DimError: If several dims could be it.
        """
        return self._only("time_dim_axis", self._time_dims())

    @time_dim_axis.setter
    def time_dim_axis(self, axis: int | None) -> None:
        self._same_axis("time_dim_axis", self.time_dim_axis, axis)

    def get_batch_dim_tag(self) -> Dim:
        """The batch dim.

        Raises:
            DimError: If there is none, or several dims could be it.
        """
        return self._needed("get_batch_dim_tag", "batch", self._batch_dims())

    def get_time_dim_tag(self) -> Dim:
        """The time dim.

        Raises:
            DimError: If there is none, or several dims could be it.
        """
        return self._needed("get_time_dim_tag", "time", self._time_dims())

    def get_batch_dim(self) -> int:
        """The size of the batch dim."""
        return self.get_batch_dim_tag().extent

    def get_static_batch_dim(self) -> int | None:
        """The size of the batch dim, if that is static."""
        return self.get_batch_dim_tag().size

    def time_dimension(self) -> int:
        """The longest length of the time dim."""
        return self.get_time_dim_tag().extent

    def have_time_axis(self) -> bool:
        """Whether there is a time dim."""
        return bool(self._time_dims())

    def is_time_axis_dynamic(self) -> bool:
        """Whether the time dim has lengths per sequence."""
        return self.get_time_dim_tag().is_dynamic()

    @property
    def is_batch_major(self) -> bool:
        """Whether the batch dim is first."""
        return self.batch_dim_axis == 0

    @property
    def is_time_major(self) -> bool:
        """Whether the time dim is first."""
        return self.time_dim_axis == 0

    def get_sequence_lengths(self) -> Any:
        """The lengths of the time dim, a raw array on the CPU; of a static one its size for each entry of the batch."""
        time = self.get_time_dim_tag()
        if time.is_dynamic():
            return time.dyn_size
        batch, backend = self.get_batch_dim_tag(), self.backend
        return backend.full_raw((batch.extent,), time.extent, dtype="int32", device="cpu")

    def get_sequence_mask(self) -> Any:
        """True for the real frames of the time dim: a raw array over it and what its lengths are over, in the order of `dims`."""
        return self.get_sequence_mask_tensor(self.get_time_dim_tag()).raw_tensor

    @op
    def copy_as_batch_major(self) -> Tensor:
        """The batch dim first."""
        return self.copy_move_axis(self.get_batch_dim_tag(), 0)

    @op
    def copy_as_time_major(self) -> Tensor:
        """The time dim first."""
        return self.copy_move_axis(self.get_time_dim_tag(), 0)

    @op
    def copy_as_time_batch_major(self) -> Tensor:
        """The time dim first, then the batch dim."""
        return self.copy_as_batch_major().copy_move_axis(self.get_time_dim_tag(), 0)

    @op
    def copy_as_batch_spatial_major(self) -> Tensor:
        """The batch dim first, then the time dim, the feature dim last."""
        out = self.copy_as_time_major().copy_move_axis(self.get_batch_dim_tag(), 0)
        return out.copy_with_feature_last()

    @op
    def copy_with_feature_last(self) -> Tensor:
        """The feature dim last; without one, as it is."""
        return self.copy_transpose(
            self.dims if self._feature_dim is None else [*self.remaining_dims(self._feature_dim), self._feature_dim]
        )

    @op
    def copy_with_batch_dim_axis(self, batch_dim_axis: int) -> Tensor:
        """The batch dim at this place."""
        return self.copy_move_axis(self.get_batch_dim_tag(), batch_dim_axis)

    @op
    def copy_with_time_dim_axis(self, time_dim_axis: int) -> Tensor:
        """The time dim at this place."""
        return self.copy_move_axis(self.get_time_dim_tag(), time_dim_axis)

    def get_placeholder_as_batch_major(self) -> Any:
        """The raw array of `copy_as_batch_major`."""
        return self.copy_as_batch_major()._raw

    def get_placeholder_as_time_major(self) -> Any:
        """The raw array of `copy_as_time_major`."""
        return self.copy_as_time_major()._raw

    def _batch_dims(self) -> list[Dim]:
        marked = [dim for dim in self.dims if dim.is_batch_dim()]
        over = {other for dim in self.dims for other in dim.length_dims}
        return marked or [dim for dim in self.dims if dim in over]

    def _time_dims(self) -> list[Dim]:
        return [
            dim
            for dim in self.dims
            if not dim.is_batch_dim() and (dim.is_spatial_dim() or bool(dim.length_dims or dim.declared_length_dims))
        ]

    def _only(self, what: str, found: list[Dim]) -> int | None:
        if len(found) > 1:
            raise self._unclear(what, found)
        return self.dims.index(found[0]) if found else None

    def _needed(self, what: str, kind: str, found: list[Dim]) -> Dim:
        if len(found) == 1:
            return found[0]
        if found:
            raise self._unclear(what, found)
        rule = {
            "batch": 'The batch dim is the one of kind "batch" (rf.batch_dim), or the one that lengths are over. Name the Dim:',
            "time": 'The time dim has lengths per sequence, or is of kind "spatial". Name the Dim:',
        }
        fix = f"{kind} = x.dims[0]    # or rather the Dim that the data was made with"
        raise dim_error(f"{what}: no dim is it.", {"tensor": self}, rule[kind], fix)

    def _unclear(self, what: str, found: list[Dim]) -> DimError:
        rows = [("tensor", dims_text(self.dims)), ("candidates", dims_text(found))]
        fix = "\n".join(f"x.dims[{self.dims.index(dim)}]    # {dim.name}" for dim in found)
        return dim_error(f"{what}: several dims could be it.", rows, "Nothing is guessed here. Name the Dim:", fix)

    def _same_axis(self, what: str, now: int | None, axis: int | None) -> None:
        if axis != now:
            raise dim_error(
                f"{what}: cannot be set to {axis}.",
                [("tensor", self), (what, now)],
                "Which dim is first is not what it means; the order of the raw array changes by a copy:",
                f"x.copy_with_{what}({axis})",
            )

    def reset(self) -> None:
        """Drop the raw array."""
        self._raw = None

    def get_batch_axes_short_description(self, special_axes: bool = True) -> str:
        """The dims, as in all messages: `[batch=3, time<=7]`. `special_axes`: taken, without effect."""
        return dims_text(self.dims)

    def get_description(
        self, with_name: bool = True, with_placeholder: bool = False, catch_exceptions: bool = False
    ) -> str:
        """The same as the repr: name, dims, dtype (unless float32), what it is sparse over, whether it is a template. The options
        are taken, without effect."""
        return repr(self)
