"""Marked dims for `Tensor.verify_out_shape`: dims that a tensor has without an axis, and dims that may be missing.

ids.verify_out_shape({batch, time, ImplicitSparseDim(vocab)})
frame.verify_out_shape({time, ImplicitDynSizeDim(batch)})       # the lengths of time are over batch
x.verify_out_shape({batch, OptionalDim(beam), feat})
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from rfnb.core.dim import Dim

if TYPE_CHECKING:
    from rfnb.core.tensor import Tensor


class MarkedDim:
    """A dim with a mark; equal to one of the same class and dim."""

    def __init__(self, tag: Dim):
        self.tag = tag

    def __eq__(self, other: Any) -> bool:
        return type(self) is type(other) and self.tag is other.tag

    def __hash__(self) -> int:
        return hash((type(self), self.tag))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.tag.name})"


class ImplicitDim(MarkedDim):
    """A dim that the tensor depends on without an axis: its sparse dim, or a dim of lengths."""


class ImplicitSparseDim(ImplicitDim):
    """The dim that the integers of the tensor index into."""


class ImplicitDynSizeDim(ImplicitDim):
    """A dim that the lengths of a dim of the tensor are over."""


class OptionalDim(MarkedDim):
    """A dim that the tensor may have or not."""


def implicit_dims(tensor: Tensor) -> list[ImplicitDim]:
    """The dims that a tensor depends on without an axis: the sparse dim, and the dims that lengths are over."""
    found: list[ImplicitDim] = []
    if tensor.sparse_dim is not None and tensor.sparse_dim not in tensor.dims:
        found.append(ImplicitSparseDim(tensor.sparse_dim))
    return found + [ImplicitDynSizeDim(dim) for dim in dims_of_lengths(tensor.dims) if dim not in tensor.dims]


def dims_of_lengths(dims: Iterable[Dim]) -> list[Dim]:
    """The dims that the lengths of these dims are over, recursively."""
    found: list[Dim] = []
    for dim in dims:
        over = dim.length_dims or dim.declared_length_dims
        found += [other for other in (*over, *dims_of_lengths(over)) if other not in found]
    return found


def differences(
    tensor: Tensor, out_shape: Iterable[Dim | MarkedDim], allow_missing_implicit_dims: bool
) -> list[tuple[str, str]]:
    """The differences between the dims of a tensor and the promised ones, as rows of a message; empty if there are none."""
    promised = list(out_shape)
    plain = [dim for dim in promised if isinstance(dim, Dim)]
    optional = [mark.tag for mark in promised if isinstance(mark, OptionalDim)]
    marks = [mark for mark in promised if isinstance(mark, ImplicitDim)]
    implicit = implicit_dims(tensor)
    missing = [_label(dim) for dim in plain if dim not in tensor.dims]
    missing += [_label(mark) for mark in marks if not any(_fits(mark, real) for real in implicit)]
    more = [_label(dim) for dim in tensor.dims if dim not in plain and dim not in optional]
    if not allow_missing_implicit_dims:
        more += [_label(real) for real in implicit if not any(_fits(mark, real) for mark in marks)]
    rows = [("missing", ", ".join(sorted(missing))), ("not expected", ", ".join(more))]
    return [row for row in rows if row[1]]


def _fits(mark: ImplicitDim, real: ImplicitDim) -> bool:
    return mark.tag is real.tag and isinstance(real, type(mark))


def text(tensor: Tensor, out_shape: Iterable[Dim | MarkedDim]) -> str:
    """The promised dims for a message: those of the tensor in its order, then the others by name."""
    promised = list(out_shape)
    others = sorted(_label(dim) for dim in promised if dim not in tensor.dims)
    return f"{{{', '.join([_label(dim) for dim in tensor.dims if dim in promised] + others)}}}"


def code(tensor: Tensor) -> str:
    """The set to type for the dims of a tensor."""
    dims: list[Dim | MarkedDim] = [*tensor.dims, *implicit_dims(tensor)]
    return f"{{{', '.join(map(_name, dims))}}}"


def _label(dim: Dim | MarkedDim) -> str:
    return dim.short_repr() if isinstance(dim, Dim) else f"{type(dim).__name__}({dim.tag.short_repr()})"


def _name(dim: Dim | MarkedDim) -> str:
    return dim.name if isinstance(dim, Dim) else repr(dim)
