"""Which axis of a Tensor is which dim."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rfnb.core.dim import Dim
from rfnb.core.tensor_operators import TensorOperators
from rfnb.core.tensor_text import missing_dim

if TYPE_CHECKING:
    pass


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
        """Index of `dim` in the raw array; the twin of a dim stands in for it where the dim itself is not there."""
        try:
            return self.dims.index(dim)
        except ValueError:
            pass
        this: Any = self  # a Tensor
        raise missing_dim(what, this, dim)

    get_axis_from_description = axis_of

    def has_axis(self, dim: Dim) -> bool:
        return dim in self.dims
