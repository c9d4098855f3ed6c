"""The size of a dim, or the lengths of its sequences. They live on the host, so nothing here makes a GPU wait."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rfnb.backends import registry
from rfnb.core.errors import DimError, message
from rfnb.core.memo import Memo
from rfnb.core.watch import asked, lengths_read, watching

if TYPE_CHECKING:
    from rfnb.core.dim import Dim
    from rfnb.core.tensor import Tensor

_LONGEST = np.iinfo(np.int32).max
_on_resize: list[Callable[[], None]] = []  # plan caches: what they know is void when a known size changes
resizes = [0]  # how often that happened


class DimLengths:
    """A part of Dim: size, lengths, extent. Abstract."""

    name: str
    created: Any
    expr: Any = None
    twin_of: Dim | None = None
    same_as: Dim | None = None  # where its sizes come from
    declared_as: Dim | None = None  # what represents the two, see `declare_same_as`
    declared_length_dims: tuple[Dim, ...] = ()
    size: int | None
    _capacity: int | None = None
    _lengths: np.ndarray | None = None
    _length_dims: tuple[Dim, ...] = ()
    _extent: int | None = None
    _size_tensor: Tensor | None = None
    _declared: Tensor | None = None  # the template that it was made from
    _masks: Memo
    _structure: Any = None  # see `core/structure.py`

    def _reset(self) -> None:
        self._lengths = self._extent = self._size_tensor = self._structure = None
        self._length_dims = ()
        self._masks = Memo()
        if self._declared is not None:
            self._declared._raw = None

    @property
    def capacity(self) -> int | None:
        """The capacity that was given, else the static size or None. Storage is never larger than the size."""
        return self._capacity or self.size

    @capacity.setter
    def capacity(self, capacity: int | None) -> None:
        self._capacity = capacity

    @property
    def dimension(self) -> int | None:
        """Static size, or None."""
        return self.size

    @property
    def lengths(self) -> np.ndarray | None:
        """Lengths on the host, int32, axes in the order of `length_dims`; None if static or not known yet."""
        if watching and self.size is None:
            lengths_read()
        return self._known_lengths()

    def _known_lengths(self) -> np.ndarray | None:
        if self._lengths is None and self.size is None:
            if self.expr is not None:
                self._complete()
            elif self.twin_of is not None or self.same_as is not None:
                base = self.twin_of or self.same_as
                assert base is not None
                self._lengths, self._length_dims = base._known_lengths(), base.length_dims
        return self._lengths

    @property
    def length_dims(self) -> tuple[Dim, ...]:
        """The dims that the lengths are over, usually (batch,)."""
        return self._length_dims if self._known_lengths() is not None else ()

    @property
    def extent(self) -> int:
        """The length of the axis in the raw array: the size, or the longest sequence."""
        if self._extent is None or watching:
            extent: int = self._known_extent() if self.size is not None else asked(DimLengths._known_extent, self)
            return extent
        return self._extent

    def _known_extent(self) -> int:
        if self._extent is None:
            lengths = self._known_lengths()
            if self.size is not None:
                self._extent = self.size
            elif lengths is None:
                raise self._no_size()
            elif lengths.size == 0 and self.expr is not None:
                self._extent = self._extent_of_parts()  # no sequence, but `time + 2` still is 2 longer than `time`
            else:
                self._extent = self._bounds()[1]
        return self._extent

    def _bounds(self) -> tuple[int, int]:
        """The shortest and the longest sequence; (0, 0) if there is none."""
        lengths = self._known_lengths()
        assert lengths is not None
        lengths = valid_lengths(lengths, self._length_dims)
        if lengths.size > 256:
            return int(lengths.min()), int(lengths.max())
        few = lengths.ravel().tolist()  # quicker than two functions of NumPy
        return (min(few), max(few)) if few else (0, 0)

    def _extent_of_parts(self) -> int:
        raise NotImplementedError

    def _no_size(self) -> DimError:
        from rfnb.core.dim import batch_dim, single_step_dim  # Dim is made of this

        if self is single_step_dim:
            return DimError(
                "single_step_dim has no size: it is no axis.\n"
                "It says that there is one step and no axis for it. What needs an axis is left out for one step, or gets another dim."
            )
        if self is batch_dim:
            return DimError(
                message(
                    "batch_dim has no size yet.",
                    [],
                    "It takes its size from the first array or lengths that it is used with.",
                    "rf.convert_to_tensor(array, dims=[batch_dim, ...])    # before what is made of no array",
                )
            )
        return DimError(
            message(
                f'Dim "{self.name}" has no size yet.',
                [("created", self.created)],
                "A dim made without size gets it from the op that it is passed to as out_dim, or by hand.",
                f"{self.name}.dyn_size_ext = lengths",
            )
        )

    @property
    def dyn_size_ext(self) -> Tensor | None:
        """The lengths as an int32 Tensor on the CPU, over `length_dims`; of a dim made from a template the template, until it has
        sizes; None if static or not known yet. Assignable, and so is its raw array."""
        backend = registry.selected()
        if self.lengths is None:
            return self._declared
        if self._size_tensor is None or self._size_tensor.backend is not backend:
            from rfnb.core.size_tensor import SizeTensor  # same layer: Tensor and Dim know each other
            from rfnb.core.tensor import Tensor

            raw = backend.from_numpy(np.asarray(self._lengths), dtype="int32", device="cpu")
            self._size_tensor = SizeTensor.of(
                self._dim(), Tensor(f"{self.name}:size", self._length_dims, raw_tensor=raw)
            )
        return self._size_tensor

    @dyn_size_ext.setter
    def dyn_size_ext(self, value: Any) -> None:
        if self.size is not None:
            raise DimError(
                message(f'Dim "{self.name}" is static.', [("size", self.size)], "A static dim has no lengths.")
            )
        known = self._lengths is not None
        if hasattr(value, "dims"):
            self.declared_length_dims = tuple(value.dims)
            if value.raw_tensor is None:  # a template says over which dims the lengths will be
                from rfnb.core.size_tensor import SizeTensor

                self._declared = SizeTensor.of(self._dim(), value)
                return
            dims, array = value.dims, value.numpy()
        else:
            array = np.asarray(value)
            if array.ndim:
                raise DimError(
                    message(
                        f'Dim "{self.name}": these lengths do not say over which dim they are.',
                        [("lengths", f"array {array.shape}")],
                        "Lengths are a Tensor, whose dims tell.",
                        f'{self.name} = rf.ragged_dim(lengths, over=batch, name="{self.name}")',
                    )
                )
            dims = ()
        check_lengths(self.name, valid_lengths(array, tuple(dims)), is_tensor=hasattr(value, "dims"))
        raw = value._raw if value is self._declared and value is not None else None
        self._reset()
        if raw is not None:
            value._raw = raw  # the template that this dim was made from has got its values
        if known:
            self._resized()
        self._lengths, self._length_dims = array.astype(np.int32), tuple(dims)

    def check_assignable(self, what: str) -> None:
        """Raise a DimError if the lengths are computed from those of other dims."""
        if self.expr is not None or self.twin_of is not None:
            raise DimError(
                message(
                    f'{what}: the lengths of "{self.name}" are computed from those of other dims.',
                    [("dim", self.short_repr())],
                    "Change the dims that it is made of.",
                )
            )

    def is_dim_known(self) -> bool:
        """Whether the size is there or can be computed."""
        return self.size is not None or self._known_lengths() is not None

    @property
    def undefined(self) -> bool:
        """Whether there is no size, and none can be computed."""
        return not self.is_dim_known()

    def is_static(self) -> bool:
        """Whether it has one size for all sequences."""
        return self.size is not None

    def is_dynamic(self) -> bool:
        """Whether its size is that of the data: lengths per sequence, or one number."""
        return self.size is None

    def reset_eager(self) -> None:
        """Forget the lengths and everything cached; of a static dim the masks."""
        self._reset()
        self._resized()

    reset_batch_and_raw = reset_eager

    def reset_raw(self, *, only_self: bool = False, include_parents: bool = False) -> None:
        """The same as `reset_eager`; dims that are computed from this one forget their lengths in any case.

        Args:
            only_self: Taken, without effect: what is computed from a dim without size has none.
            include_parents: Also of the dims that this one is computed from.
        """
        for dim in self.get_derived_bases_set() if include_parents else [self]:
            dim.reset_eager()

    def get_derived_bases_set(self) -> set[Dim]:
        """This dim and all that its sizes are computed from."""
        raise NotImplementedError

    def short_repr(self) -> str:
        """The name with the size."""
        raise NotImplementedError

    def _dim(self) -> Dim:
        this: Any = self  # every one is a Dim
        return this

    def _complete(self) -> None:
        """Fill in the lengths, if this dim is derived from known ones."""
        raise NotImplementedError

    def _resized(self) -> None:
        """Void what was computed from the lengths that this dim had."""
        raise NotImplementedError

    def has_padding(self) -> bool:
        """Whether some sequence is shorter than the longest."""
        raise NotImplementedError

    def host_mask(self, dims: Sequence[Dim]) -> np.ndarray:
        """The mask as NumPy array that broadcasts against `dims`."""
        raise NotImplementedError


def check_lengths(name: str | None, array: np.ndarray, *, is_tensor: bool = True) -> None:
    """Raise a DimError unless all are integers from 0 to what an int32 holds."""
    integers = array.dtype.kind in "iu"
    if not array.size or (integers and array.min() >= 0 and array.max() <= _LONGEST):
        return
    if not is_tensor and array.ndim == 0 and not integers:
        fix = f"Dim({int(array)})" if array.dtype.kind == "f" and np.isfinite(array) else f'Dim(3, name="{name}")'
        rule = "A size is an int; lengths are a Tensor of ints; None is a size that comes later."
        raise DimError(message(f'Dim "{name}": this is no size.', [("got", array.dtype.type.__name__)], rule, fix))
    found, fix = str(array.dtype), 'rf.cast(lengths, "int32")'
    if array.dtype.kind == "f" and np.isnan(array).any():
        found += f", {int(np.isnan(array).sum())} of them NaN"
        fix = 'lengths = rf.reduce_sum(rf.cast(mask, "int32"), axis=time)    # count the real frames'
    elif array.size and array.dtype.kind == "f":
        found += f", smallest {array.min()}"
    elif array.size and integers:
        found += f", smallest {array.min()}, largest {array.max()}"
        fix = f"rf.clip_by_value(lengths, 0, {min(int(array.max()), _LONGEST)})"
    rule = f"A length counts frames; {_LONGEST} is the most." if integers else "A length counts frames."
    raise DimError(message(f'Dim "{name}": lengths must be integers, 0 or more.', [("lengths", found)], rule, fix))


def on_resize(clear: Callable[[], None]) -> None:
    """Register what has to be forgotten when a known size changes."""
    _on_resize.append(clear)


def tell_resized() -> None:
    """Forget all that is void because a known size has changed."""
    resizes[0] += 1
    for clear in _on_resize:
        clear()


def valid_lengths(lengths: np.ndarray, dims: tuple[Dim, ...]) -> np.ndarray:
    """The lengths that are not themselves in the padding of a ragged dim."""
    for dim in dims:
        if dim.has_padding() and set(dim.length_dims) <= set(dims):
            lengths = np.where(dim.host_mask(dims), lengths, 0)
    return lengths
