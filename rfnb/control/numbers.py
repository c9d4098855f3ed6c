"""Numbers of a Tensor on the host, as conditions ask for them: with the names of its dims, and without its padding."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from rfnb.core.dim import Dim
from rfnb.core.errors import dim_error, index_error, value_error
from rfnb.core.tensor import Tensor
from rfnb.core.tensor_text import dims_text
from rfnb.rec.selection import align_host


class Numbers:
    """The entries of a tensor; padding does not count in what is made of them.

        h = run.at.states["h"].abs()
        h.max() > 5                       # of all entries
        (h.mean(axis="feat") > 1).any()   # by the name of a dim

    Args:
        host: The values, axes in the order of `dims`.
        real: bool, the entries that are no padding; None: all.
    """

    __hash__ = None  # type: ignore[assignment]  # == compares the entries

    def __init__(self, host: np.ndarray, dims: tuple[Dim, ...], real: np.ndarray | None = None):
        self.host, self.dims, self.real = host, dims, real

    @classmethod
    def of(cls, tensor: Tensor) -> Numbers:
        """The numbers of a Tensor; small ones in 32 bits, so that sums and products of them do not overflow."""
        host = tensor.numpy()
        if host.dtype.itemsize < 4 and host.dtype.kind in "fiu":
            host = host.astype(np.float32 if host.dtype.kind == "f" else np.int32)
        return cls(host, tensor.dims, real_entries(tensor.dims))

    def __repr__(self) -> str:
        return f"<numbers {dims_text(self.dims)} {self.host.dtype}>"

    def entries(self) -> np.ndarray:
        """The entries that are no padding, in one axis."""
        return self.host.reshape(-1) if self.real is None else self.host[self.real]

    def without(self, out: np.ndarray) -> Numbers:
        """The same where further entries do not count: those that are True in `out`, which broadcasts."""
        real = np.broadcast_to(~out, self.host.shape)
        return Numbers(self.host, self.dims, real if self.real is None else self.real & real)

    def at(self, entries: Mapping[Dim | str, int]) -> Numbers:
        """The numbers at some places of some dims.

        Raises:
            DimError, IndexError: If there is no such dim or place.
        """
        index: list[Any] = [slice(None)] * len(self.dims)
        for key, at in entries.items():
            axis = axis_of(self.dims, key, "numbers")
            size = self.dims[axis].extent
            if not -size <= at < size:
                raise index_error(
                    "numbers: no such entry.",
                    [("given", f"{self.dims[axis].name}: {at}"), ("dim", self.dims[axis].short_repr())],
                    f"Entries are 0 to {size - 1}.",
                )
            index[axis] = at
        rest = tuple(dim for dim, at in zip(self.dims, index) if not isinstance(at, int))
        real = None if self.real is None else np.asarray(self.real[tuple(index)])
        return Numbers(np.asarray(self.host[tuple(index)]), rest, real)

    # -- made of them ------------------------------------------------------------------------------------------------------

    def abs(self) -> Numbers:
        """The absolute values."""
        return Numbers(np.abs(self.host), self.dims, self.real)

    def max(self, axis: Dim | str | Sequence[Dim | str] | None = None) -> Any:
        """The largest entries over an axis (a dim, its name, or several), None: a float, over all. NaN if there is one, or no entry."""
        return self._reduced(np.max, axis)

    def min(self, axis: Dim | str | Sequence[Dim | str] | None = None) -> Any:
        """The smallest entries; as `max`."""
        return self._reduced(np.min, axis)

    def mean(self, axis: Dim | str | Sequence[Dim | str] | None = None) -> Any:
        """The means; as `max`."""
        return self._reduced(np.mean, axis)

    def sum(self, axis: Dim | str | Sequence[Dim | str] | None = None) -> Any:
        """The sums; as `max`, but 0 without any entry."""
        return self._reduced(np.sum, axis, 0.0)

    def norm(self, axis: Dim | str | Sequence[Dim | str] | None = None) -> Any:
        """The Euclidean norms; as `sum`."""
        return self._reduced(lambda entries: np.sqrt(np.sum(np.square(np.abs(entries), dtype=np.float64))), axis, 0.0)

    def any(self, axis: Dim | str | Sequence[Dim | str] | None = None) -> Any:
        """Whether one of them is True, or not 0."""
        return self._reduced(np.any, axis, False)

    def all(self, axis: Dim | str | Sequence[Dim | str] | None = None) -> Any:
        """Whether all of them are."""
        return self._reduced(np.all, axis, True)

    def is_finite(self) -> bool:
        """Whether no entry is NaN or infinite."""
        entries = self.entries()
        return entries.dtype.kind not in "fc" or bool(np.isfinite(entries).all())

    def first(self) -> str:
        """The place of the first entry that is True, or not 0, in words: "batch 1, feat 3"; "" if there is none."""
        found = np.argwhere(self.host.astype(bool) if self.real is None else self.host.astype(bool) & self.real)
        return place_words(self.dims, found[0]) if len(found) else ""

    def __bool__(self) -> bool:
        if self.host.size == 1 and self.real is None:
            return bool(self.host.reshape(-1)[0])
        raise value_error(
            "numbers: which of them?",
            [("numbers", f"{dims_text(self.dims)} {self.host.dtype}")],
            "Several are neither True nor False. Say whether one of them is enough:",
            '(run.at.states["h"] > 5).any()',
        )

    def __lt__(self, other: Any) -> Numbers:
        return self.with_(other, operator.lt)

    def __le__(self, other: Any) -> Numbers:
        return self.with_(other, operator.le)

    def __gt__(self, other: Any) -> Numbers:
        return self.with_(other, operator.gt)

    def __ge__(self, other: Any) -> Numbers:
        return self.with_(other, operator.ge)

    def __eq__(self, other: Any) -> Numbers:  # type: ignore[override]
        return self.with_(other, operator.eq)

    def __ne__(self, other: Any) -> Numbers:  # type: ignore[override]
        return self.with_(other, operator.ne)

    def __add__(self, other: Any) -> Numbers:
        return self.with_(other, operator.add)

    def __sub__(self, other: Any) -> Numbers:
        return self.with_(other, operator.sub)

    def __mul__(self, other: Any) -> Numbers:
        return self.with_(other, operator.mul)

    def __truediv__(self, other: Any) -> Numbers:
        return self.with_(other, operator.truediv)

    def __radd__(self, other: Any) -> Numbers:
        return self.with_(other, lambda a, b: b + a)

    def __rsub__(self, other: Any) -> Numbers:
        return self.with_(other, lambda a, b: b - a)

    def __rmul__(self, other: Any) -> Numbers:
        return self.with_(other, lambda a, b: b * a)

    def __rtruediv__(self, other: Any) -> Numbers:
        return self.with_(other, lambda a, b: b / a)

    def __neg__(self) -> Numbers:
        return Numbers(-self.host, self.dims, self.real)

    def with_(self, other: Any, fn: Callable[[Any, Any], Any]) -> Numbers:
        """An operation with a number, or with numbers over dims of which one side has all.

        Raises:
            DimError: If each has a dim that the other lacks.
        """
        numbers = getattr(other, "numbers", None)
        if numbers is not None and not isinstance(other, Numbers):
            other = numbers()
        if not isinstance(other, Numbers):
            with np.errstate(all="ignore"):
                return Numbers(np.asarray(fn(self.host, other)), self.dims, self.real)
        dims = self.dims if set(other.dims) <= set(self.dims) else other.dims
        if not set(self.dims) <= set(dims):
            raise dim_error(
                "numbers: their dims do not fit together.",
                [("left", dims_text(self.dims)), ("right", dims_text(other.dims))],
                "One of both has all dims. Reduce the others before:",
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


def real_entries(dims: tuple[Dim, ...]) -> np.ndarray | None:
    """The entries of a tensor of these dims that are no padding, bool; None: all."""
    real: np.ndarray | None = None
    for dim in dims:
        if dim.has_padding() and set(dim.length_dims) <= set(dims):
            mask = np.broadcast_to(dim.host_mask(dims), [each.extent for each in dims])
            real = mask if real is None else real & mask
    return real


def axis_of(dims: tuple[Dim, ...], key: Dim | str, what: str) -> int:
    """The axis of a dim that is given as such or by its name.

    Raises:
        DimError: If there is none, or the name is that of several.
    """
    found = [axis for axis, dim in enumerate(dims) if dim is key or dim.name == key]
    if len(found) != 1:
        raise dim_error(
            f"{what}: {'which' if found else 'no'} dim {key if isinstance(key, str) else key.short_repr()}?",
            [("dims", dims_text(dims))],
            "Two of its dims have this name: give the Dim itself." if found else "It has these dims.",
        )
    return found[0]


def place_words(dims: Sequence[Dim], index: Iterable[Any]) -> str:
    """A place, in words: "batch 1, feat 3"."""
    return ", ".join(f"{dim.name} {int(at)}" for dim, at in zip(dims, index))


def _number(fn: Callable[..., Any], entries: np.ndarray, empty: Any) -> Any:
    """A Python number, so that what is computed with it has no surprises of its dtype."""
    if not entries.size:
        return empty
    out = fn(entries)
    return out if isinstance(out, bool) else bool(out) if isinstance(out, np.bool_) else float(out)
