"""Numbers of a Tensor on the host, for conditions: with the names of its dims, without its padding."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from rfnb.control.named_entries import NamedEntries, axis_of
from rfnb.core.dim import Dim, Dims
from rfnb.core.dim_mask import real_entries
from rfnb.core.errors import dim_error, value_error
from rfnb.core.tensor import Tensor
from rfnb.core.tensor_text import dims_text
from rfnb.rec.selection import align_host

Axis = Dim | str | Sequence[Dim | str] | None
"""a dim, its name, or several of them; None: all"""


def _operator(fn: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Numbers]:
    return lambda value, other: value.numbers().with_(other, fn)


def _reflected(fn: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Numbers]:
    return _operator(lambda a, b: fn(b, a))


class Reductions:
    """Reductions and comparisons of entries, without padding. Abstract: a subclass provides the entries as `numbers()`."""

    def numbers(self) -> Numbers:
        """The entries with their dims, for computation."""
        raise NotImplementedError

    def entries(self) -> np.ndarray:
        """The entries without padding, in one axis."""
        numbers = self.numbers()
        return numbers.host.reshape(-1) if numbers.real is None else numbers.host[numbers.real]

    def abs(self) -> Numbers:
        """The absolute values, as numbers with names of dims."""
        numbers = self.numbers()
        return Numbers(np.abs(numbers.host), numbers.dims, numbers.real)

    def max(self, axis: Axis = None) -> Any:
        """The largest entry, a float; over an axis (a dim, its name, or several) one for each remaining place, as `Numbers`. NaN if any
        entry is NaN, or there are none.
        """
        return self.numbers()._reduced(np.max, axis)

    def min(self, axis: Axis = None) -> Any:
        """The smallest entry; as `max`."""
        return self.numbers()._reduced(np.min, axis)

    def abs_max(self, axis: Axis = None) -> Any:
        """The largest absolute value; as `max`."""
        return self.abs().max(axis)

    def mean(self, axis: Axis = None) -> Any:
        """The mean of all entries; as `max`."""
        return self.numbers()._reduced(np.mean, axis)

    def sum(self, axis: Axis = None) -> Any:
        """The sum of all entries; as `max`, but 0 without any."""
        return self.numbers()._reduced(np.sum, axis, 0.0)

    def norm(self, axis: Axis = None) -> Any:
        """The Euclidean norm; as `sum`."""
        fn = lambda entries: np.sqrt(np.sum(np.square(np.abs(entries), dtype=np.float64)))  # noqa: E731
        return self.numbers()._reduced(fn, axis, 0.0)

    def is_finite(self) -> bool:
        """True if no entry is NaN or infinite."""
        entries = self.entries()
        return entries.dtype.kind not in "fc" or bool(np.isfinite(entries).all())

    __lt__, __le__ = _operator(operator.lt), _operator(operator.le)
    __gt__, __ge__ = _operator(operator.gt), _operator(operator.ge)


class Numbers(Reductions):
    """The entries of a tensor; computations ignore padding.

        h = run.at.states["h"].abs()
        h.max() > 5                       # of all entries
        (h.mean(axis="feat") > 1).any()   # by the name of a dim

    Args:
        host: The values, axes in the order of `dims`.
        real: bool, the entries that are not padding; None means all.
    """

    __hash__ = None  # type: ignore[assignment]  # == compares the entries

    def __init__(self, host: np.ndarray, dims: Dims, real: np.ndarray | None = None):
        self.host, self.dims, self.real = host, dims, real

    @classmethod
    def of(cls, tensor: Tensor) -> Numbers:
        """The numbers of a Tensor; small integers as 32 bits, so that sums and products do not overflow."""
        host = tensor.numpy()
        if host.dtype.itemsize < 4 and host.dtype.kind in "fiu":
            host = host.astype(np.float32 if host.dtype.kind == "f" else np.int32)
        return cls(host, tensor.dims, real_entries(tensor.dims))

    def __repr__(self) -> str:
        return f"<numbers {dims_text(self.dims)} {self.host.dtype}>"

    def numbers(self) -> Numbers:
        return self

    def without(self, out: np.ndarray) -> Numbers:
        """The numbers without further entries: those that are True in `out`, which broadcasts."""
        real = np.broadcast_to(~out, self.host.shape)
        return Numbers(self.host, self.dims, real if self.real is None else self.real & real)

    def at(self, entries: Mapping[Dim | str, int]) -> Numbers:
        """The numbers at some places of some dims.

        Raises:
            DimError, IndexError: If there is no such dim or place.
        """
        chosen = NamedEntries("numbers", entries, self.dims, "numbers")
        return Numbers(chosen.of(self.host), chosen.dims, None if self.real is None else chosen.of(self.real))

    # -- made of them ------------------------------------------------------------------------------------------------------

    def any(self, axis: Axis = None) -> Any:
        """True if any entry is True or nonzero."""
        return self._reduced(np.any, axis, False)

    def all(self, axis: Axis = None) -> Any:
        """True if all entries are True or nonzero."""
        return self._reduced(np.all, axis, True)

    def first(self) -> str:
        """The place of the first True or nonzero entry, as text: "batch 1, feat 3"; "" if there is none."""
        found = np.argwhere(self.host.astype(bool) if self.real is None else self.host.astype(bool) & self.real)
        return place_words(self.dims, found[0]) if len(found) else ""

    def __bool__(self) -> bool:
        if self.host.size == 1 and self.real is None:
            return bool(self.host.reshape(-1)[0])
        raise value_error(
            "numbers: several values have no truth value.",
            {"numbers": f"{dims_text(self.dims)} {self.host.dtype}"},
            "Reduce them first, for example by any():",
            '(run.at.states["h"] > 5).any()',
        )

    __eq__, __ne__ = _operator(operator.eq), _operator(operator.ne)  # type: ignore[assignment]
    __add__, __radd__ = _operator(operator.add), _reflected(operator.add)
    __sub__, __rsub__ = _operator(operator.sub), _reflected(operator.sub)
    __mul__, __rmul__ = _operator(operator.mul), _reflected(operator.mul)
    __truediv__, __rtruediv__ = _operator(operator.truediv), _reflected(operator.truediv)

    def __neg__(self) -> Numbers:
        return Numbers(-self.host, self.dims, self.real)

    def with_(self, other: Any, fn: Callable[[Any, Any], Any]) -> Numbers:
        """A binary operation with a number, or with numbers over dims that are all present on one side.

        Raises:
            DimError: If each side has a dim that the other lacks.
        """
        other = other.numbers() if isinstance(other, Reductions) else other
        if not isinstance(other, Numbers):
            with np.errstate(all="ignore"):
                return Numbers(np.asarray(fn(self.host, other)), self.dims, self.real)
        dims = self.dims if set(other.dims) <= set(self.dims) else other.dims
        if not set(self.dims) <= set(dims):
            raise dim_error(
                "numbers: their dims do not fit together.",
                {"left": dims_text(self.dims), "right": dims_text(other.dims)},
                "One of them must have all dims. Reduce the other first:",
                'run.at.states["h"].max(axis="feat")',
            )
        with np.errstate(all="ignore"):
            host = np.asarray(fn(align_host(self.host, self.dims, dims), align_host(other.host, other.dims, dims)))
        real = [
            np.broadcast_to(align_host(x.real, x.dims, dims), host.shape) for x in (self, other) if x.real is not None
        ]
        return Numbers(host, dims, None if not real else np.asarray(np.logical_and.reduce(real)))

    def _reduced(self, fn: Callable[..., Any], axis: Any, empty: Any = float("nan")) -> Any:
        if axis is None:
            return _number(fn, self.entries(), empty)
        over = self._axes(axis)
        rest = tuple(dim for dim in self.dims if dim not in over)
        order = [self.dims.index(dim) for dim in (*rest, *over)]
        shape = [dim.extent for dim in rest]
        host = self.host.transpose(order).reshape(*shape, -1)
        real = None if self.real is None else self.real.transpose(order).reshape(*shape, -1)
        out = np.array(
            [_number(fn, host[at] if real is None else host[at][real[at]], empty) for at in np.ndindex(*shape)]
        )
        return Numbers(out.reshape(shape), rest, None if real is None else np.asarray(real.any(-1)))

    def _axes(self, axis: Any) -> list[Dim]:
        given = [axis] if isinstance(axis, (Dim, str)) else list(axis)
        return [self.dims[axis_of(self.dims, each, "numbers")] for each in given]


def place_words(dims: Sequence[Dim], index: Iterable[Any]) -> str:
    """A place as text: "batch 1, feat 3"."""
    return ", ".join(f"{dim.name} {int(at)}" for dim, at in zip(dims, index))


def _number(fn: Callable[..., Any], entries: np.ndarray, empty: Any) -> Any:
    """A Python number, so that further computation is not affected by the dtype."""
    if not entries.size:
        return empty
    out = fn(entries)
    return out if isinstance(out, bool) else bool(out) if isinstance(out, np.bool_) else float(out)
