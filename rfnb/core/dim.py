"""Dim: the identity of an axis, with a size or the lengths of each sequence.

    batch = Dim(3, name="batch")
    time = Dim(lengths, name="time")       # lengths: int Tensor {batch}; or ragged_dim([7, 5, 3], over=batch)
    time + 2, 2 * time, time // 2          # derived dims: the same expression is the same dim

A dim matches another by identity, never by name or size. Lengths live on the host, so nothing here makes a GPU wait.
"""

from __future__ import annotations

import os
import sys
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rfnb.backends import protocol
from rfnb.core import algebra
from rfnb.core.errors import DimError, message

if TYPE_CHECKING:
    from rfnb.core.tensor import Tensor

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_interned: weakref.WeakValueDictionary[Any, Dim] = weakref.WeakValueDictionary()
_on_resize: list[Callable[[], None]] = []  # plan caches: what they know is void when a known size changes


class Dim:
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
        self.twin_of: Dim | None = None
        self.expr: algebra.Sum | None = None
        self.created = _caller()
        self.size: int | None = None
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

    def _reset(self) -> None:
        self._lengths: np.ndarray | None = None
        self._length_dims: tuple[Dim, ...] = ()
        self._extent: int | None = None
        self._size_tensor: Tensor | None = None
        self._masks: dict[Any, Any] = {}

    # -- sizes ---------------------------------------------------------------------------------------------------------

    @property
    def dimension(self) -> int | None:
        """Static size, or None."""
        return self.size

    @property
    def description(self) -> str:
        return self.name

    @property
    def lengths(self) -> np.ndarray | None:
        """Lengths on the host, int32, axes in the order of `length_dims`; None if static or not known yet."""
        if self._lengths is None and self.size is None:
            if self.expr is not None:
                self._complete()
            elif self.twin_of is not None:
                self._lengths, self._length_dims = self.twin_of.lengths, self.twin_of.length_dims
        return self._lengths

    @property
    def length_dims(self) -> tuple[Dim, ...]:
        """The dims that the lengths are over, usually (batch,)."""
        return self._length_dims if self.lengths is not None else ()

    @property
    def extent(self) -> int:
        """Length of the axis in the raw array: the size, or the longest sequence."""
        if self._extent is None:
            if self.size is not None:
                self._extent = self.size
            else:
                lengths = self.lengths
                if lengths is None:
                    raise self._no_size()
                self._extent = int(_valid_lengths(lengths, self._length_dims).max(initial=0))
        return self._extent

    def _no_size(self) -> DimError:
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
        """The lengths as an int32 Tensor on the CPU, over `length_dims`; None if static or not known yet. Assignable."""
        backend = protocol.selected()
        if self.lengths is None:
            return None
        if self._size_tensor is None or self._size_tensor.backend is not backend:
            from rfnb.core.tensor import Tensor  # same layer: Tensor and Dim know each other

            raw = backend.from_numpy(np.asarray(self._lengths), dtype="int32", device="cpu")
            self._size_tensor = Tensor(f"{self.name}:size", dims=self._length_dims, raw_tensor=raw)
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
        if array.dtype.kind not in "iu" or (array.size and array.min() < 0):
            raise DimError(
                message(
                    f'Dim "{self.name}": lengths must be integers, 0 or more.',
                    [("lengths", f"{array.dtype}, smallest {array.min() if array.size else None}")],
                    "A length counts frames.",
                    'rf.cast(lengths, "int32")',
                )
            )
        self._reset()
        if known:
            self._resized()
        self._lengths, self._length_dims = array.astype(np.int32), tuple(dims)

    def is_dim_known(self) -> bool:
        """Whether the size is there or can be computed."""
        return self.size is not None or self.lengths is not None

    def is_static(self) -> bool:
        return self.size is not None

    def is_dynamic(self) -> bool:
        return self.size is None

    def is_dynamic_seq_length(self) -> bool:
        return self.need_masking()

    def need_masking(self) -> bool:
        """Whether sequences of this dim may have padding (the lengths are over other dims)."""
        return self.size is None and (self.lengths is None or bool(self._length_dims))

    def has_padding(self) -> bool:
        """Whether some sequence really is shorter than the longest one."""
        if not self.need_masking():
            return False
        lengths = self.lengths
        return lengths is not None and bool((_valid_lengths(lengths, self._length_dims) != self.extent).any())

    def is_batch_dim(self) -> bool:
        return self.kind == "batch"

    def is_feature_dim(self) -> bool:
        return self.kind == "feature"

    def is_spatial_dim(self) -> bool:
        return self.kind == "spatial"

    def get_dim_value(self) -> int:
        """Raw length of the axis (= `extent`)."""
        return self.extent

    def get_size_tensor(self) -> Tensor:
        """Lengths as a Tensor, also for a static dim (then a scalar)."""
        if self.size is None:
            tensor = self.dyn_size_ext
            if tensor is None:
                raise self._no_size()
            return tensor
        from rfnb.core.tensor import Tensor

        raw = protocol.selected().from_numpy(np.asarray(self.size, np.int32), dtype="int32", device="cpu")
        return Tensor(f"{self.name}:size", dims=(), raw_tensor=raw)

    def get_mask(self, dim_order: Sequence[Dim] | None = None, device: str | None = None) -> Tensor:
        """Boolean Tensor {length dims, this dim}: True for real frames, False for padding."""
        from rfnb.core.tensor import Tensor

        dims = tuple(dim_order) if dim_order is not None else (*self.length_dims, self)
        return Tensor(f"{self.name}:mask", dims=dims, raw_tensor=self.raw_mask(dims, protocol.selected(), device))

    def raw_mask(self, dims: tuple[Dim, ...], backend: Any, device: Any) -> Any:
        """The mask as raw array, axes in the order of `dims` (which holds this dim and its length dims), made once."""
        key = (dims, backend, device)
        mask = self._masks.get(key)
        if mask is None:
            lengths = self.lengths
            host = (
                np.arange(self.extent, dtype=np.int32)
                < np.asarray(self.size if lengths is None else lengths)[..., None]
            )
            own = (*self.length_dims, self)
            mask = backend.from_numpy(host.transpose([own.index(dim) for dim in dims]), dtype="bool", device=device)
            self._masks[key] = mask
        return mask

    def host_mask(self, dims: Sequence[Dim]) -> np.ndarray:
        """The mask of a ragged dim as NumPy array that broadcasts against `dims` (which hold this dim and its length dims)."""
        own = (*self.length_dims, self)
        mask = np.arange(self.extent) < np.asarray(self.lengths)[..., None]
        order = sorted(range(len(own)), key=lambda axis: list(dims).index(own[axis]))
        return mask.transpose(order).reshape([dim.extent if dim in own else 1 for dim in dims])

    def reset_eager(self) -> None:
        """Forget the lengths and everything cached; of a static dim the masks."""
        self._reset()
        self._resized()

    def _resized(self) -> None:
        """Void what was computed from the lengths that this dim had: plans, and the lengths of what is derived from it."""
        for clear in _on_resize:
            clear()
        for dim in list(_interned.values()):
            if dim.size is None and _depends_on(dim, self):
                dim._reset()

    reset_raw = reset_eager

    # -- identity ------------------------------------------------------------------------------------------------------

    def copy(self, *, match_priority: int | None = None, name: str | None = None, same_as_self: bool = True) -> Dim:
        """With `match_priority`: the twin of this dim, for tensors that need the dim twice (square weights); the same twin
        every time. Without: this dim, or with `same_as_self=False` a new independent dim of the same size."""
        if same_as_self:
            if match_priority is None or match_priority == self.match_priority:
                return self
            base = self.twin_of or self
            if match_priority == base.match_priority:
                return base
            return _intern(("twin", base, match_priority), lambda: base._make_twin(match_priority))
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

    # -- algebra -------------------------------------------------------------------------------------------------------

    def __add__(self, other: Dim | int) -> Dim:
        return _derive(algebra.add(_expr(self), _expr(other)))

    def __radd__(self, other: Dim | int) -> Dim:
        return _derive(algebra.add(_expr(other), _expr(self)))

    def __sub__(self, other: Dim | int) -> Dim:
        return _derive(algebra.add(_expr(self), algebra.neg(_expr(other))))

    def __rsub__(self, other: Dim | int) -> Dim:
        return _derive(algebra.add(_expr(other), algebra.neg(_expr(self))))

    sub_right = __sub__

    def sub_left(self, other: Dim | int) -> Dim:
        """Take `other` away in front: `(b + a).sub_left(b) == a`."""
        return _derive(algebra.add(algebra.neg(_expr(other)), _expr(self)))

    def __mul__(self, other: Dim | int) -> Dim:
        return _derive(algebra.mul(_expr(self), _expr(other), _derive))

    def __rmul__(self, other: Dim | int) -> Dim:
        return _derive(algebra.mul(_expr(other), _expr(self), _derive))

    def __neg__(self) -> Dim:
        return -1 * self

    def __floordiv__(self, other: Dim | int) -> Dim:
        return self._divide("floordiv_right", other)

    def __rfloordiv__(self, other: int) -> Dim:
        return _derive(algebra.constant(other))._divide("floordiv_right", self)

    div_right = __truediv__ = __floordiv__

    def div_left(self, other: Dim | int) -> Dim:
        """Undo a product from the left: `(b * a).div_left(b) == a`."""
        return self._divide("floordiv_left", other)

    def ceildiv_right(self, other: Dim | int) -> Dim:
        """Divide from the right, rounded up; by 2 and then by 3 is by 6."""
        return self._divide("ceildiv_right", other)

    def ceildiv_left(self, other: Dim | int) -> Dim:
        return self._divide("ceildiv_left", other)

    def _divide(self, kind: str, other: Dim | int) -> Dim:
        expr, divisor = _expr(self), _expr(other)
        left = kind.endswith("left")
        exact = algebra.div_left(expr, divisor) if left else algebra.div_right(expr, divisor, _derive)
        if exact is not None:
            return _derive(exact)
        number = algebra.as_int(divisor)
        if number == 0:
            raise DimError(
                message("Division of a dim by 0.", [("dim", self.short_repr())], "The divisor is 1 or more.")
            )
        inner = expr[0][1][0] if len(expr) == 1 and expr[0][0] == 1 and len(expr[0][1]) == 1 else None
        if (
            number is not None
            and isinstance(inner, algebra.Division)
            and inner.kind == kind
            and isinstance(inner.denominator, int)
        ):
            return _derive(algebra.atom(algebra.Division(kind, inner.numerator, inner.denominator * number)))
        return _derive(algebra.atom(algebra.Division(kind, self, number if number is not None else other)))

    def _complete(self) -> None:
        """Fill in the lengths of a derived dim, if those of its parts are known."""
        assert self.expr is not None
        parts = [dim for dim in _atoms(self.expr) if dim.size is None]
        if any(dim.lengths is None for dim in parts):
            return
        over: list[Dim] = []
        for dim in parts:
            over += [other for other in dim.length_dims if other not in over]
        value = np.maximum(_evaluate(self.expr, over), 0).astype(np.int32)
        shape = [dim.extent for dim in over]
        self._lengths, self._length_dims = np.broadcast_to(value, shape), tuple(over)


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


def on_resize(clear: Callable[[], None]) -> None:
    """Register what has to be forgotten when a known size changes."""
    _on_resize.append(clear)


def _expr(value: Dim | int) -> algebra.Sum:
    if isinstance(value, Dim):
        if value.expr is not None:
            return value.expr
        return algebra.atom(value)
    if isinstance(value, (int, np.integer)):
        return algebra.constant(int(value))
    raise DimError(
        message("Arithmetic of dims takes dims and ints.", [("got", type(value).__name__)], "Sizes are whole numbers.")
    )


def _derive(expr: algebra.Sum) -> Dim:
    expr = algebra.flatten(expr)
    if len(expr) == 1 and expr[0][0] == 1 and len(expr[0][1]) == 1 and isinstance(expr[0][1][0], Dim):
        return expr[0][1][0]
    return _intern(expr, lambda: _make_derived(expr))


def _intern(key: Any, make: Callable[[], Dim]) -> Dim:
    dim = _interned.get(key)
    if dim is None:
        dim = make()
        _interned[key] = dim
    return dim


def _make_derived(expr: algebra.Sum) -> Dim:
    dim = Dim(name=_name_of(expr))
    dim.expr = expr
    atoms = list(_atoms(expr))
    if all(part.size is not None for part in atoms):
        dim.size = max(int(_evaluate(expr, [])), 0)
    return dim


def _atoms(expr: algebra.Sum) -> Iterator[Dim]:
    for _, factors in expr:
        for factor in factors:
            for part in (factor.numerator, factor.denominator) if isinstance(factor, algebra.Division) else (factor,):
                if isinstance(part, Dim):
                    yield part


def _depends_on(dim: Dim, part: Dim) -> bool:
    """Whether the lengths of `dim` are computed from those of `part`."""
    sources = [dim.twin_of] if dim.twin_of is not None else [] if dim.expr is None else list(_atoms(dim.expr))
    return any(source is part or _depends_on(source, part) for source in sources)


def _evaluate(expr: algebra.Sum, over: list[Dim]) -> Any:
    total: Any = 0
    for coefficient, factors in expr:
        product: Any = coefficient
        for factor in factors:
            product = product * _value_of(factor, over)
        total = total + product
    return total


def _value_of(factor: Any, over: list[Dim]) -> Any:
    if isinstance(factor, int):
        return factor
    if isinstance(factor, Dim):
        if factor.size is not None:
            return factor.size
        lengths, dims = factor.lengths, factor.length_dims
        assert lengths is not None
        order = sorted(range(len(dims)), key=lambda axis: over.index(dims[axis]))
        shape = [dim.extent if dim in dims else 1 for dim in over]
        return lengths.transpose(order).reshape(shape).astype(np.int64)
    numerator, denominator = _value_of(factor.numerator, over), _value_of(factor.denominator, over)
    return -(-numerator // denominator) if factor.kind.startswith("ceil") else numerator // denominator


def _name_of(expr: algebra.Sum) -> str:
    def of_factor(factor: Any) -> str:
        if isinstance(factor, algebra.Division):
            sign = "⌈/⌉" if factor.kind.startswith("ceil") else "//"
            return f"({of_factor(factor.numerator)}{sign}{of_factor(factor.denominator)})"
        if isinstance(factor, Dim):
            return f"({factor.name})" if factor.expr and len(factor.expr) > 1 else factor.name
        return str(factor)

    def of_term(term: algebra.Term) -> str:
        coefficient, factors = term
        parts = [of_factor(factor) for factor in factors]
        if not parts:
            return str(coefficient)
        sign = {1: "", -1: "-"}.get(coefficient, f"{coefficient}*")
        return sign + "*".join(parts)

    return "+".join(of_term(term) for term in expr).replace("+-", "-") or "0"


def _valid_lengths(lengths: np.ndarray, dims: tuple[Dim, ...]) -> np.ndarray:
    """Those lengths that are not themselves in the padding of a ragged dim."""
    for dim in dims:
        if dim.has_padding() and set(dim.length_dims) <= set(dims):
            lengths = np.where(dim.host_mask(dims), lengths, 0)
    return lengths


def _caller() -> str:
    """Where user code made this dim, as `file:line`."""
    frame = sys._getframe(2)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back
    return f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}"


batch_dim = Dim(None, name="batch", kind="batch")
single_step_dim = Dim(None, name="single_step")
"""Marker: one step, no axis. Accepted as `spatial_dim` by recurrent modules; never a dim of a tensor."""
