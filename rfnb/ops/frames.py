"""The individual frames of a tensor, for loops, and the reverse."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rfnb.core.dim import Dim
from rfnb.core.layout import full_shape
from rfnb.core.op import op
from rfnb.core.tensor import Tensor


@op
def frames(source: Tensor, *, axis: Dim, masked: bool = True) -> list[Tensor]:
    """{axis, ...} -> {...} for each frame; with `masked`, 0 in the padding.

    Raises:
        DimError: If source does not have the axis.
    """
    return Frames(source, axis=axis, masked=masked).all()


class Frames(Sequence[Tensor]):
    """The frames of a tensor, as from `frames`, created on demand.

    Attributes:
        raws: The raw array of each.
    """

    def __init__(self, source: Tensor, *, axis: Dim, masked: bool = True):
        index = source.axis_of(axis, "frames")
        if masked and axis.has_padding() and set(axis.length_dims) <= set(source.dims):
            # What an ended sequence would do with NaN is not used, but 0 * NaN comes back as gradient.
            source = source.copy_masked(False if source.dtype == "bool" else 0, dims=[axis])
        self._dims = source.dims[:index] + source.dims[index + 1 :]
        self.raws: Sequence[Any] = source.backend.unbind_raw(source._raw, index)
        self._source, self._made = source, dict[int, Tensor]()

    def all(self) -> list[Tensor]:
        """All of them."""
        return [self._source._like(raw, self._dims) for raw in self.raws]

    def __len__(self) -> int:
        return len(self.raws)

    def __getitem__(self, index: Any) -> Any:
        found = self._made.get(index)
        if found is None:
            found = self._made[index] = self._source._like(self.raws[index], self._dims)
        return found


@op
def no_frame(source: Tensor, *, axis: Dim) -> Tensor:
    """A frame of a tensor without frames: {axis, ...} -> {...}, zeros."""
    dims = tuple(dim for dim in source.dims if dim is not axis)
    raw = source.backend.full_raw(full_shape(dims), 0, dtype=source.dtype, device=source.device)
    return source._like(raw, dims)


@op
def from_frames(values: Sequence[Tensor], *, axis: Dim, like: Tensor, further: Sequence[Any] = ()) -> Tensor:
    """{...} for each frame -> {axis, ...}, in the order of dims and with the marks of `like`; all have its dims.

    Args:
        further: Raw arrays of the following frames, in the same order of dims. Surplus frames are dropped.
    """
    backend, dims = like.backend, (axis, *like.dims)
    if not values:
        raw = backend.full_raw((0, *full_shape(like.dims)), 0, dtype=like.dtype, device=like.device)
    else:
        own = like.dims
        raws = [value._raw if value.dims == own else value.copy_transpose(own)._raw for value in values]
        raw = backend.stack_raw([*raws, *further][: axis.extent] if further else raws, 0)
    return like._like(raw, dims)


@op
def marked_like(values: Tensor, like: Tensor) -> Tensor:
    """`values` with the sparse_dim, feature_dim and name of `like`."""
    return like._like(values._raw, values.dims)
