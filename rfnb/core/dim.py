"""Dim: the identity of an axis, with a size or the lengths of each sequence.

    batch = Dim(3, name="batch")
    time = Dim(lengths, name="time")       # lengths: int Tensor {batch}; or ragged_dim([7, 5, 3], over=batch)
    time + 2, 2 * time, time // 2          # derived dims: the same expression is the same dim

A dim matches another by identity, never by name or size. Lengths live on the host, so nothing here makes a GPU wait.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from itertools import count
from types import CodeType
from typing import TYPE_CHECKING, Any

import numpy as np

from rfnb.core import algebra, dim_mask, dim_math, dim_relations, dim_sizes
from rfnb.core.compat.attribute_hints import put_all_absent
from rfnb.core.compat.old_dim_names import OldDimNames
from rfnb.core.dim_math import DimOperators
from rfnb.core.errors import DimError, dim_error
from rfnb.core.lengths import Lengths, check_lengths
from rfnb.core.memo import Memo
from rfnb.core.op import op_on_way
from rfnb.core.pickling import reduce_dim
from rfnb.core.place import Place, place_and_way, place_text
from rfnb.core.size_queries import asked, lengths_read, watching

if TYPE_CHECKING:
    from rfnb.core.tensor import Tensor


_serials = count()


def dims_so_far() -> int:
    """A number that is larger than the `serial` of all existing dims, and smaller than that of later ones."""
    return next(_serials)


class Dim(DimOperators, OldDimNames):
    """The identity of an axis.

    Args:
        dimension: int (static), an int Tensor or integer sequence of lengths (ragged), a scalar Tensor (dynamic without padding), or
            None (a size that an op fills in later). A template Tensor only gives the dims that the lengths will be over.
        name: For messages and views; never part of equality. Objects made from the dim (plans, derived dims) keep the name that it
            had then.
        kind: None, "batch", "spatial" or "feature"; a hint for views.
        vocab: Labels of the indices into this dim, a list of str or None.
        capacity, bounded_by: For storage of a fixed size; accepted without effect: storage is as long as the longest sequence.

    Raises:
        DimError: For negative sizes, or lengths that are not integers.
    """

    # Class-level defaults: ops make dims in each call, and most have no more than a name and a size.
    expr: algebra.Sum | None = None
    twin_of: Dim | None = None
    same_as: Dim | None = None  # where its sizes come from
    declared_as: Dim | None = None  # what represents the two, see `declare_same_as`
    declared_length_dims: tuple[Dim, ...] = ()
    size: int | None = None
    # What is made of the size or the lengths, and void with them.
    _lengths: Lengths | None = None
    _extent: int | None = None
    _size_tensor: Tensor | None = None
    _structure: Any = None  # see `structure.py`
    _plans: Any = None  # see `counterparts.py`
    _memo: Memo | None = None
    _declared: Tensor | None = None  # the template that it was made from
    special = False  # of no axis, see `single_step_dim`
    padded_parts: tuple[str, ...] = ()  # what was merged to this dim of plain size, and has padding
    by_user = False  # whether user code made it itself, by `Dim(...)` or `ragged_dim(...)`
    _way: tuple[CodeType, ...] | str | None = ()  # the functions of this package that were running, see `made_by`
    kind: str | None = None
    vocab: Sequence[str] | None = None
    match_priority = 0
    # Of an axis of a model of another library: its name follows from sizes or places, and nobody has said it; what views say of it.
    guessed = False
    remark: str | None = None

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
        vocab: Sequence[str] | str | None = None,
        description: str | None = None,
        dyn_size_ext: Tensor | None = None,
        match_priority: int = 0,
        capacity: int | None = None,
        bounded_by: Dim | None = None,
    ):
        self.name = name or description or "dim"
        self.serial = next(_serials)  # a later dim has a larger one: a recorded loop asks which dims a step has made
        made_in = sys._getframe(1)
        self._place: Place | str
        self._place, self._way = place_and_way(made_in)
        self.by_user = self._place[0] is made_in.f_code
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
                raise dim_error(f'Dim "{self.name}": negative size.', {"size": dimension}, "Sizes are 0 or more.")
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

    @property
    def made_by(self) -> str | None:
        """The name of the op that made this dim, e.g. "merge_dims"; None if user code did, or arithmetic on dims."""
        return op_on_way(self._way) if isinstance(self._way, tuple) else self._way

    def is_batch_dim(self) -> bool:
        return self.kind == "batch"

    def is_spatial_dim(self) -> bool:
        return self.kind == "spatial"

    def _reset(self) -> None:
        self._lengths = self._extent = self._size_tensor = self._structure = self._plans = self._memo = (
            self._clipped
        ) = None
        if self._declared is not None:
            self._declared._raw = None

    @property
    def _masks(self) -> Memo:
        """The arrays computed from its lengths, by device and order of axes."""
        if self._memo is None:
            self._memo = Memo()
        return self._memo

    @property
    def lengths(self) -> np.ndarray | None:
        """The lengths on the host, int32, axes in the order of `length_dims`; None if static or unknown so far."""
        if watching and self.size is None:
            lengths_read()
        lengths = self._lengths or self._known()
        return None if lengths is None else lengths.array

    def _known(self) -> Lengths | None:
        """The lengths; None if static or unknown so far."""
        if self._lengths is None and self.size is None:
            if self.expr is not None:
                self._lengths = dim_math.lengths_of_parts(self)
            else:
                base = self.twin_of or self.same_as
                if base is not None:
                    self._lengths = base._known()
        return self._lengths

    @property
    def length_dims(self) -> tuple[Dim, ...]:
        """The dims of the lengths, usually (batch,)."""
        lengths = self._lengths or self._known()
        return () if lengths is None else lengths.over

    @property
    def extent(self) -> int:
        """The length of the axis in the raw array: the size, or the longest sequence."""
        if self._extent is None or watching:
            extent: int = self._known_extent() if self.size is not None else asked(Dim._known_extent, self)
            return extent
        return self._extent

    def _known_extent(self) -> int:
        if self._extent is None:
            lengths = self._known()
            if self.size is not None:
                self._extent = self.size
            elif lengths is None:
                raise self._no_size()
            elif lengths.array.size == 0 and self.expr is not None:
                # No sequence, but `time + 2` still is 2 longer than `time`.
                self._extent = dim_math.extent_of_parts(self)
            else:
                self._extent = lengths.bounds()[1]
        return self._extent

    def _no_size(self) -> DimError:
        if self is single_step_dim:
            return DimError(
                "single_step_dim has no size: it is no axis.\n"
                "It says that there is one step and no axis for it. What needs an axis is left out for one step, or gets another dim."
            )
        if self is batch_dim:
            return dim_error(
                "batch_dim has no size yet.",
                [],
                "It takes its size from the first array or lengths that it is used with.",
                "rf.convert_to_tensor(array, dims=[batch_dim, ...])    # before what is made of no array",
            )
        return dim_error(
            f'Dim "{self.name}" has no size yet.',
            {"created": self.created},
            "A dim made without size gets it from the op that it is passed to as out_dim, or by hand.",
            f"{self.name}.dyn_size_ext = lengths",
        )

    @property
    def dyn_size_ext(self) -> Tensor | None:
        """The lengths as an int32 Tensor on the CPU, over `length_dims`; for a dim made from a template, the template until it has
        sizes; None if static or unknown so far. Assignable, and so is its raw array.
        """
        return dim_sizes.sizes(self)

    @dyn_size_ext.setter
    def dyn_size_ext(self, value: Any) -> None:
        dim_sizes.assign_sizes(self, value)

    def check_assignable(self, what: str) -> None:
        """Raise a DimError if the lengths are computed from those of other dims."""
        if self.expr is not None or self.twin_of is not None:
            raise dim_error(
                f'{what}: the lengths of "{self.name}" are computed from those of other dims.',
                {"dim": self},
                "Change the dims that it is made of.",
            )

    def is_dim_known(self) -> bool:
        """True if the size is known or can be computed."""
        return self.size is not None or self._known() is not None

    def is_static(self) -> bool:
        """True if all sequences have the same fixed size."""
        return self.size is not None

    def is_dynamic(self) -> bool:
        """True if the size comes from the data: lengths per sequence, or one number."""
        return self.size is None

    def reset_eager(self) -> None:
        """Clear the lengths and all caches; for a static dim only the masks."""
        self._reset()
        dim_math.resized(self)

    reset_batch_and_raw = reset_eager

    def need_masking(self) -> bool:
        """True if sequences of this dim may have padding (the lengths are over other dims)."""
        return self.size is None and ((lengths := self._known()) is None or bool(lengths.over))

    def has_padding(self) -> bool:
        """True if some sequence is actually shorter than the longest one."""
        if self.size is not None:
            return False
        return bool(asked(dim_mask.has_padding, self))

    def is_empty(self) -> bool:
        """True if no sequence has a frame."""
        return self.size == 0 if self.size is not None else bool(asked(dim_mask.is_empty, self))

    def has_empty(self) -> bool:
        """True if some sequence has no frame."""
        return self.size == 0 if self.size is not None else bool(asked(dim_mask.has_empty, self))

    get_mask = dim_mask.get_mask
    _raw_mask = dim_mask.raw_mask
    host_mask = dim_mask.host_mask
    get_size_tensor = dim_sizes.get_size_tensor

    def _extent_tensor(self) -> Tensor:
        return dim_sizes.scalar(self, self.extent, "cpu")

    copy = dim_relations.copy
    declare_same_as = dim_relations.declare_same_as
    copy_from = dim_relations.copy_from
    get_same_base = dim_relations.get_same_base
    get_derived_bases_set = dim_relations.get_derived_bases_set
    depends_on = dim_math.depends_on

    def short_repr(self) -> str:
        """The name with the size as in messages: `batch=3`, `time<=7`, `time=?`."""
        if self.size is not None:
            return f"{self.name}={self.size}"
        lengths = self.lengths
        if lengths is None:
            return f"{self.name}=?"
        return f"{self.name}<={self.extent}" if self.length_dims else f"{self.name}={self.extent}"

    def __lt__(self, other: Dim) -> bool:
        """Order by name, kind and size, for sorting only."""
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
            dim_relations.forward_to(self, self.same_as)

    def __copy__(self) -> Dim:
        return self

    def __deepcopy__(self, memo: Any) -> Dim:
        return self

    def __repr__(self) -> str:
        lengths = self._known()
        text = f": {lengths.text(self.extent)}" if lengths is not None and lengths.over else ""
        return f"Dim{{{self.short_repr()}{text}}}"


_blank = partial(Dim.__new__, Dim)


def new_dim(size: int, name: str) -> Dim:
    """`Dim(size, name=name)` in a third of the time, for ops that create a dim in each call."""
    dim = _blank()
    dim.name = name
    dim.serial = next(_serials)
    dim._place, dim._way = place_and_way(sys._getframe(1))
    dim.size = dim._extent = size
    return dim


def ragged_dim(lengths: Any, *, over: Dim, name: str | None = None) -> Dim:
    """A dim with one length per entry of `over`, in one line.

    Args:
        lengths: Integers, one per entry of `over`.
        over: Usually the batch dim; a static dim.

    Raises:
        DimError: If the number of lengths differs from the size of `over`.
    """
    if not isinstance(over, Dim):
        raise dim_error(
            f'ragged_dim "{name}": over is not a Dim.',
            {"over": "not given" if type(over).__name__ == "MissingDim" else type(over).__name__},
            "Lengths are one per entry of another dim, usually the batch:",
            'batch = Dim(3, name="batch")',
        )
    array = np.asarray(lengths)
    if over.is_batch_dim() and not over.is_dim_known() and array.ndim == 1:
        over.dyn_size_ext = np.int32(len(array))  # the batch dim takes its size from the data at hand
    if array.shape != (over.extent,):
        raise dim_error(
            f'ragged_dim "{name}": as many lengths as {over.short_repr()} has entries are needed.',
            {"lengths": f"array {array.shape}", "over": over},
            "Each entry of `over` has one length.",
            f'batch = Dim({len(array)}, name="batch")' if array.ndim == 1 else None,
        )
    longest = check_lengths(name, array, is_tensor=hasattr(lengths, "dims"))
    dim = Dim(None, name=name)
    if over.size is not None:  # else some lengths may themselves be padding
        dim._extent = longest
    dim._lengths, dim.declared_length_dims = Lengths(array.astype(np.int32), (over,)), (over,)
    dim.by_user = dim._place[0] is sys._getframe(1).f_code
    return dim


put_all_absent(Dim)
batch_dim = Dim(None, name="batch", kind="batch")
single_step_dim = Dim(None, name="single_step")
single_step_dim.special = True
"""Marker: one step, no axis. Accepted as `spatial_dim` by recurrent modules; never a dim of a tensor."""

Dims = tuple[Dim, ...]
HostArray = tuple[np.ndarray, Dims]  # an array on the host, and its dims
_SPECIAL = {"batch_dim": batch_dim, "single_step_dim": single_step_dim}  # one of each in a process, see `pickling.py`
