"""Dim: the identity of an axis, with a size or the lengths of each sequence.

    batch = Dim(3, name="batch")
    time = Dim(lengths, name="time")       # lengths: int Tensor {batch}; or ragged_dim([7, 5, 3], over=batch)
    time + 2, 2 * time, time // 2          # derived dims: the same expression is the same dim

A dim matches another by identity, never by name or size. Lengths live on the host, so nothing here makes a GPU wait.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from itertools import count
from typing import TYPE_CHECKING, Any

import numpy as np

from rfnb.core.absent import put_absent
from rfnb.core.dim_lengths import check_lengths, valid_lengths
from rfnb.core.dim_relations import DimRelations
from rfnb.core.errors import DimError, message
from rfnb.core.memo import Memo
from rfnb.core.pickling import reduce_dim
from rfnb.core.place import Place, place_above, place_text

if TYPE_CHECKING:
    from rfnb.core.tensor import Tensor


_serials = count()


def dims_so_far() -> int:
    """A number that is larger than the `serial` of the dims there are, and smaller than those of later ones."""
    return next(_serials)


class Dim(DimRelations):
    """The identity of an axis.

    Args:
        dimension: int (static), an int Tensor or integer sequence of lengths (ragged), a scalar Tensor (dynamic without
            padding), or None (a size that an op fills in later). A template Tensor only says over which dims the lengths
            will be.
        name: For messages and views; never part of equality.
        kind: None, "batch", "spatial" or "feature"; a hint for views.
        vocab: Labels of the indices into this dim, a list of str or None.
        capacity, bounded_by: For storage of a fixed size; taken, without effect: storage is as long as the longest sequence.

    Raises:
        DimError: Negative sizes, or lengths that are not integers.
    """

    special = False  # of no axis, see `single_step_dim`
    by_user = False  # whether user code made it itself, by `Dim(...)` or `ragged_dim(...)`
    # Class-level defaults: ops make dims in each call, and most have no more than a name and a size.
    kind: str | None = None
    vocab: Sequence[str] | None = None
    match_priority = 0

    class Types:
        """The values of `kind`."""

        Batch = "batch"
        Spatial = Time = "spatial"
        Feature = "feature"

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
        capacity: int | None = None,
        bounded_by: Dim | None = None,
    ):
        self.name = name or description or "dim"
        self.serial = next(_serials)  # a later dim has a larger one: a recorded loop asks which dims a step has made
        made_in = sys._getframe(1)
        self._place: Place | str = place_above(made_in)
        self.by_user = self._place[0] is made_in.f_code
        self._masks = Memo()
        if kind is not None:
            self.kind = kind
        if vocab is not None:
            self.vocab = vocab
        if match_priority:
            self.match_priority = match_priority
        if capacity is not None:
            self.capacity = capacity
        if dimension.__class__ is int and dimension >= 0:
            self.size = self._extent = dimension
            return
        self.size = None
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

    @property
    def created(self) -> str:
        """The place where user code made this dim, as `file:line`."""
        return place_text(self._place)

    @created.setter
    def created(self, place: str) -> None:
        self._place = place

    def is_batch_dim(self) -> bool:
        return self.kind == "batch"

    def is_feature_dim(self) -> bool:
        return self.kind == "feature"

    def is_spatial_dim(self) -> bool:
        return self.kind == "spatial"

    @property
    def description(self) -> str:
        return self.name

    def can_be_used_as_dim(self) -> bool:
        """Whether a tensor may have it; not so `single_step_dim`."""
        return not self.special

    def __lt__(self, other: Dim) -> bool:
        """The order by name, kind and size, only for sorting."""
        return self._sort_key() < other._sort_key()

    def __gt__(self, other: Dim) -> bool:
        return self._sort_key() > other._sort_key()

    def _sort_key(self) -> tuple[str, str, int]:
        return self.name, self.kind or "", self.extent if self.is_dim_known() else -1

    def __reduce_ex__(self, protocol: Any) -> Any:
        special = next((name for name, dim in _SPECIAL.items() if dim is self), None)
        return reduce_dim(self, special)

    def __setstate__(self, state: dict[str, Any]) -> None:
        # With a number of its own: a recorded loop takes larger ones for dims that its step has made.
        self.__dict__.update(state, serial=next(_serials))
        if self.same_as is not None:
            self._forward_to(self.same_as)

    def __copy__(self) -> Dim:
        return self

    def __deepcopy__(self, memo: Any) -> Dim:
        return self

    def __repr__(self) -> str:
        return f"Dim{{{self.short_repr()}{self._lengths_text()}}}"

    def _lengths_text(self) -> str:
        """`: 7, 5, 3 over batch=3, 29 % padding` of a ragged dim; the first eight lengths."""
        lengths = self.lengths
        if lengths is None or not self._length_dims:
            return ""
        real = valid_lengths(lengths, self._length_dims)
        shown = ", ".join(map(str, real.ravel()[:8])) + (", ..." if real.size > 8 else "")
        over = ", ".join(dim.short_repr() for dim in self._length_dims)
        cells = real.size * self.extent
        waste = f", {100 * (1 - int(real.sum()) / cells):.0f} % padding" if cells else ""
        return f": {shown} over {over}{waste}"


def ragged_dim(lengths: Any, *, over: Dim, name: str | None = None) -> Dim:
    """A dim with one length per entry of `over`, in one line.

    Args:
        lengths: Integers, one per entry of `over`.
        over: Usually the batch dim; a static dim.

    Raises:
        DimError: If the count of lengths is not the size of `over`.
    """
    if not isinstance(over, Dim):
        raise DimError(
            message(
                f'ragged_dim "{name}": over is not a Dim.',
                [("over", type(over).__name__)],
                "Lengths are one per entry of another dim, usually the batch:",
                'batch = Dim(3, name="batch")',
            )
        )
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
    check_lengths(name, array)
    dim = Dim(None, name=name)
    dim._lengths, dim._length_dims, dim.declared_length_dims = array.astype(np.int32), (over,), (over,)
    dim.by_user = dim._place[0] is sys._getframe(1).f_code
    return dim


put_absent(
    Dim,
    "A Dim",
    "Values are computed at once, and belong to no graph and no batch info:",
    {
        "batch": "dim.length_dims             # what its lengths are over",
        "control_flow_ctx": "# leave it out",
        "get_dyn_size_ext_for_batch_ctx": "dim.dyn_size_ext",
        "get_for_batch_ctx": "dim",
        "get_tag_from_size_tensor": "# keep the Dim",
        "is_dim_known_in_batch_ctx": "dim.is_dim_known()",
        "is_same_size_tensor": "# keep the Dim",
        "reset_batch_ctx": "dim.reset_eager()",
        "set_dyn_size_ext_for_batch_ctx": "dim.dyn_size_ext = lengths",
        "set_tag_on_size_tensor": "# keep the Dim",
    },
)
put_absent(
    Dim,
    "A Dim",
    "Dims match by identity: the same object is the same dim, and nothing is searched among similar ones.",
    {
        "auto_generated": "# leave it out",
        "axis_split_info": "dim.get_derived_bases_set()",
        "derived_from_op": "dim.get_derived_bases_set()",
        "derived_from_tag": "dim.get_same_derived_base()",
        "get_all_dimension_tags": "data.all_dims()             # of a TensorDict",
        "get_existing_tag_from_collection": "dim in dims",
        "get_uniq_collection": "list(dict.fromkeys(dims))",
        "is_equal": "a is b                      # or a.get_same_base() is b.get_same_base()",
    },
)
batch_dim = Dim(None, name="batch", kind="batch")
single_step_dim = Dim(None, name="single_step")
single_step_dim.special = True
"""Marker: one step, no axis. Accepted as `spatial_dim` by recurrent modules; never a dim of a tensor."""

_SPECIAL = {"batch_dim": batch_dim, "single_step_dim": single_step_dim}  # one of each in a process, see `pickling.py`
