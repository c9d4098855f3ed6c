"""Which axis of a Tensor is which dim."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rfnb.core.dim import Dim
from rfnb.core.errors import DimError, message
from rfnb.core.not_specified import NotSpecified, is_specified
from rfnb.core.tensor_operators import TensorOperators
from rfnb.core.tensor_text import dims_text, missing_dim


class TensorAxes(TensorOperators):
    """Part of Tensor: looking up dims. Abstract."""

    name: str | None
    dims: tuple[Dim, ...]
    sparse_dim: Dim | None
    _feature_dim: Dim | None
    _raw: Any

    @property
    def dims_set(self) -> set[Dim]:
        return set(self.dims)

    @property
    def batch_ndim(self) -> int:
        """Number of axes."""
        return len(self.dims)

    @property
    def batch_shape(self) -> tuple[int | None, ...]:
        """Static size of each axis, None where it is dynamic."""
        return tuple(dim.size for dim in self.dims)

    @property
    def feature_dim_axis(self) -> int | None:
        """Index of the feature dim. Assigning an index, or None, marks that dim."""
        return None if self._feature_dim is None else self.dims.index(self._feature_dim)

    @feature_dim_axis.setter
    def feature_dim_axis(self, axis: int | None) -> None:
        if axis is None or is_specified(axis):
            this: Any = self  # a Tensor
            this.feature_dim = None if axis is None else self.dims[axis]

    @property
    def feature_dim_or_sparse_dim(self) -> Dim | None:
        return self._feature_dim if self._feature_dim is not None else self.sparse_dim

    @property
    def sparse(self) -> bool:
        """Whether the values are indices into `sparse_dim`. Assigning False drops that mark."""
        return self.sparse_dim is not None

    @sparse.setter
    def sparse(self, sparse: bool) -> None:
        if not sparse:
            self.sparse_dim = None
        elif self.sparse_dim is None:
            raise self._no_sparse_dim("sparse")

    def _no_sparse_dim(self, what: str) -> DimError:
        return DimError(
            message(
                f"{what}: the tensor has no sparse_dim.",
                [("tensor", dims_text(self.dims))],
                "Into what the values are indices is a Dim:",
                'x.sparse_dim = Dim(n, name="vocab")',
            )
        )

    @property
    def vocab(self) -> Any:
        """Labels of the indices, or None. Assigning gives them to the sparse_dim."""
        return None if self.sparse_dim is None else self.sparse_dim.vocab

    @vocab.setter
    def vocab(self, labels: Any) -> None:
        if self.sparse_dim is None:
            raise self._no_sparse_dim("vocab")
        self.sparse_dim.vocab = labels

    def remaining_dims(self, remove: Dim | Sequence[Dim] | None = None) -> list[Dim]:
        """The dims without those of `remove`, in order.

        Raises:
            DimError: If one of `remove` is not there.
        """
        remove = [] if remove is None else [remove] if isinstance(remove, Dim) else list(remove)
        for dim in remove:
            self.axis_of(dim, "remaining_dims")
        return [dim for dim in self.dims if dim not in remove]

    def axis_of(self, dim: Dim, what: str = "axis_of") -> int:
        """Index of `dim` in the raw array.

        Raises:
            DimError: If it is not there.
        """
        try:
            return self.dims.index(dim)
        except ValueError:
            pass
        this: Any = self  # a Tensor
        raise missing_dim(what, this, dim)

    def get_axis_from_description(self, axis: Dim | int, allow_int: bool | type[NotSpecified] = NotSpecified) -> int:
        """Index of a dim in the raw array. Old descriptions ("T", "F") are refused: a dim says what it is.

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
        """Index of the one dim of this name.

        Raises:
            DimError: If there is none, or several.
        """
        axes = self.get_axes_by_tag_name(name, spatial_only)
        if len(axes) == 1:
            return axes[0]
        raise DimError(
            message(
                f'get_axis_by_tag_name: {len(axes) or "no"} {"dims" if len(axes) > 1 else "dim"} named "{name}".',
                [("tensor", dims_text(self.dims))],
                "A name does not identify a dim. Use the Dim:",
                "x.axis_of(dim)",
            )
        )

    def get_dim_tag(self, axis: int) -> Dim:
        """The dim of an axis."""
        return self.dims[axis]

    def has_axis(self, axis: Dim) -> bool:
        return axis in self.dims

    def have_dim_tag(self, tag: Dim, include_implicit: bool = True, unique: bool = False) -> bool:
        """Whether the dim is here: as an axis, or, with `include_implicit`, as sparse_dim or as what lengths are over.

        Args:
            unique: Taken, without effect: a dim occurs once.
        """
        if tag in self.dims:
            return True
        return include_implicit and (tag is self.sparse_dim or any(tag in dim.length_dims for dim in self.dims))

    def have_feature_axis(self) -> bool:
        return self._feature_dim is not None

    def have_batch_axis(self) -> bool:
        """Whether a dim of kind "batch" is here."""
        return any(dim.is_batch_dim() for dim in self.dims)

    def is_axis_dynamic(self, axis: int) -> bool:
        return self.dims[axis].is_dynamic()

    def get_dynamic_axes(self) -> list[int]:
        return [axis for axis, dim in enumerate(self.dims) if dim.is_dynamic()]

    def get_static_axes(self) -> list[int]:
        return [axis for axis, dim in enumerate(self.dims) if dim.is_static()]

    def get_dyn_size_tags(self) -> list[Dim]:
        """The dims that have lengths, or will have: not the batch, or another dim with one size."""
        return [dim for dim in self.dims if dim.is_dynamic_seq_length() and not dim.is_batch_dim()]
