"""Dim: the identity of an axis, with a size or the lengths of each sequence.

    batch = Dim(3, name="batch")
    time = Dim(lengths, name="time")       # lengths: int Tensor {batch}; or ragged_dim([7, 5, 3], over=batch)
    time + 2, 2 * time, time // 2          # derived dims: the same expression is the same dim

A dim matches another by identity, never by name or size. Lengths live on the host, so nothing here makes a GPU wait.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rfnb.backends import protocol
from rfnb.core.dim_math import DimMath, intern
from rfnb.core.errors import DimError, message

if TYPE_CHECKING:
    from rfnb.core.tensor import Tensor

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


class Dim(DimMath):
    """The identity of an axis.

    Args:
        dimension: int (static), an int Tensor or integer sequence of lengths (ragged), a scalar Tensor (dynamic without
            padding), or None (a size that an op fills in later). A template Tensor only says over which dims the lengths
            will be.
        name: For messages and views; never part of equality.
        kind: None, "batch", "spatial" or "feature"; a hint for views.
        vocab: Labels of the indices into this dim, a list of str or None.

    Raises:
        DimError: Negative sizes, or lengths that are not integers.
    """

    def __init__(
        self,
        dimension: Any = None,
        *,
        name: str | None = None,
        kind: str | None = None,
        vocab: Sequence[str] | None = None,
        description: str | None = None,
        dyn_size_ext: Tensor | None = None,
        match_priority: int = 0,
    ):
        self.name = name or description or "dim"
        self.kind = kind
        self.vocab = vocab
        self.match_priority = match_priority
        self.twin_of = None
        self.expr = None
        self.created = _caller()
        self.size = None
        self.declared_length_dims: tuple[Dim, ...] = ()
        self._reset()
        if dimension is None and dyn_size_ext is not None:
            dimension = dyn_size_ext
        if isinstance(dimension, (int, np.integer)) and not isinstance(dimension, bool):
            if dimension < 0:
                raise DimError(
                    message(f'Dim "{self.name}": negative size.', [("size", dimension)], "Sizes are 0 or more.")
                )
            self.size = int(dimension)
        elif dimension is not None:
            self.dyn_size_ext = dimension

    def is_batch_dim(self) -> bool:
        return self.kind == "batch"

    def is_feature_dim(self) -> bool:
        return self.kind == "feature"

    def is_spatial_dim(self) -> bool:
        return self.kind == "spatial"

    def copy(self, *, match_priority: int | None = None, name: str | None = None, same_as_self: bool = True) -> Dim:
        """With `match_priority`: the twin of this dim, for tensors that need the dim twice (square weights); the same twin
        every time. Without: this dim, or with `same_as_self=False` a new independent dim of the same size."""
        if same_as_self:
            if match_priority is None or match_priority == self.match_priority:
                return self
            base = self.twin_of or self
            if match_priority == base.match_priority:
                return base
            return intern(("twin", base, match_priority), lambda: base._make_twin(match_priority))
        dim = Dim(self.size, name=name or self.name, kind=self.kind, vocab=self.vocab)
        if self.size is None:
            dim._lengths, dim._length_dims = self.lengths, self.length_dims
        return dim

    def _make_twin(self, match_priority: int) -> Dim:
        twin = Dim(self.size, name=self.name, kind=self.kind, vocab=self.vocab)
        twin.match_priority, twin.twin_of = match_priority, self
        return twin

    def __copy__(self) -> Dim:
        return self

    def __deepcopy__(self, memo: Any) -> Dim:
        return self

    def __repr__(self) -> str:
        return f"Dim{{{self.short_repr()}}}"

    def short_repr(self) -> str:
        """The name with the size as in messages: `batch=3`, `time<=7`, `time=?`."""
        if self.size is not None:
            return f"{self.name}={self.size}"
        lengths = self.lengths
        if lengths is None:
            return f"{self.name}=?"
        return f"{self.name}<={self.extent}" if self._length_dims else f"{self.name}={self.extent}"


def ragged_dim(lengths: Any, *, over: Dim, name: str | None = None) -> Dim:
    """A dim with one length per entry of `over`, in one line.

    Args:
        lengths: Integers, one per entry of `over`.
        over: Usually the batch dim; a static dim.

    Raises:
        DimError: If the count of lengths is not the size of `over`.
    """
    array = np.asarray(lengths)
    if over.is_batch_dim() and not over.is_dim_known() and array.ndim == 1:
        over.dyn_size_ext = np.int32(len(array))  # the batch dim takes its size from the data at hand
    if array.shape != (over.extent,):
        raise DimError(
            message(
                f'ragged_dim "{name}": as many lengths as {over.short_repr()} has entries are needed.',
                [("lengths", f"array {array.shape}"), ("over", over.short_repr())],
                "Each entry of `over` has one length.",
            )
        )
    from rfnb.core.tensor import Tensor

    raw = protocol.selected().from_numpy(array, dtype="int32", device="cpu") if array.dtype.kind in "iu" else array
    return Dim(Tensor("lengths", dims=(over,), raw_tensor=raw), name=name)


def _caller() -> str:
    """Where user code made this dim, as `file:line`."""
    frame = sys._getframe(2)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back
    return f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}"


batch_dim = Dim(None, name="batch", kind="batch")
single_step_dim = Dim(None, name="single_step")
"""Marker: one step, no axis. Accepted as `spatial_dim` by recurrent modules; never a dim of a tensor."""
