"""A state where a run stands: read as numbers, changed by names of dims."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from rfnb.control.numbers import Numbers
from rfnb.core.dim import Dim
from rfnb.core.errors import dim_error, index_error, shape_error, type_error
from rfnb.core.tensor import Tensor, new_tensor
from rfnb.core.tensor_text import dims_text, shape_of
from rfnb.ops.where import where

Entries = Mapping["Dim | str", "int | slice"]


class StateValue:
    """A tensor among the states, as it is before the step.

        h = run.at.states["h"]
        h.tensor                                              # with its dims
        h.max() > 5                                           # numbers, as breakpoints want them; padding does not count
        h[{"batch": 0, "hidden": slice(3, 5)}] = 0.0          # some entries, by dim or its name
        h[...] = other                                        # all: a number, an array, a Tensor with these dims or fewer

    Args:
        name: The dotted path of the state.
        put: Changes entries of the state where it is.
    """

    def __init__(self, name: str, tensor: Tensor, put: Callable[[Any, Any], None]):
        self.name, self.tensor, self._put = name, tensor, put

    def __repr__(self) -> str:
        return f'<state "{self.name}": {shape_of(self.tensor)} {self.tensor.dtype}>'

    @property
    def dims(self) -> tuple[Dim, ...]:
        """The dims of the tensor."""
        return self.tensor.dims

    def numpy(self) -> np.ndarray:
        """All its entries, on the host, axes in the order of `dims`."""
        return self.tensor.numpy()

    # -- numbers over the entries that are no padding ----------------------------------------------------------------------

    def numbers(self) -> Numbers:
        """The entries with their dims, to compute with."""
        return Numbers.of(self.tensor)

    def entries(self) -> np.ndarray:
        """The entries that are no padding, in one axis."""
        return self.numbers().entries()

    def abs(self) -> Numbers:
        """The absolute values, as numbers with names of dims."""
        return self.numbers().abs()

    def max(self, axis: Any = None) -> Any:
        """The largest entry, a float; over an axis (a dim, its name, or several) one for each place that is left, as `Numbers`. NaN if
        there is one, or no entry."""
        return self.numbers().max(axis)

    def min(self, axis: Any = None) -> Any:
        """The smallest entry; as `max`."""
        return self.numbers().min(axis)

    def abs_max(self, axis: Any = None) -> Any:
        """The largest absolute value; as `max`."""
        return self.abs().max(axis)

    def mean(self, axis: Any = None) -> Any:
        """The mean of all entries; as `max`."""
        return self.numbers().mean(axis)

    def sum(self, axis: Any = None) -> Any:
        """The sum of all entries; as `max`, but 0 without any."""
        return self.numbers().sum(axis)

    def norm(self, axis: Any = None) -> Any:
        """The Euclidean norm; as `sum`."""
        return self.numbers().norm(axis)

    def is_finite(self) -> bool:
        """Whether no entry is NaN or infinite."""
        return self.numbers().is_finite()

    def __lt__(self, other: Any) -> Numbers:
        return self.numbers() < other

    def __le__(self, other: Any) -> Numbers:
        return self.numbers() <= other

    def __gt__(self, other: Any) -> Numbers:
        return self.numbers() > other

    def __ge__(self, other: Any) -> Numbers:
        return self.numbers() >= other

    # -- some of its entries -----------------------------------------------------------------------------------------------

    def __getitem__(self, entries: Any) -> np.ndarray:
        return self.numpy()[self._index(entries)]

    def __setitem__(self, entries: Any, value: Any) -> None:
        self._put(entries, value)

    def changed(self, entries: Any, value: Any) -> Tensor:
        """The tensor with other values in some entries.

        Raises:
            DimError, ShapeError, IndexError, TypeError: If they do not fit.
        """
        index, old = self._index(entries), self.tensor
        chosen = np.zeros([dim.extent for dim in self.dims], bool)
        chosen[index] = True
        if isinstance(value, StateValue):
            value = value.tensor
        new = value if isinstance(value, Tensor) else self._filled(index, value, chosen)
        self._check(new)
        if not chosen.all() or new.dims != old.dims:
            raw = old.backend.from_numpy(chosen, dtype="bool", device=old.device)
            new = where(new_tensor(raw, self.dims), new, old, allow_broadcast_all_sources=True)
            new = new.copy_transpose(old.dims)
        new.sparse_dim = old.sparse_dim
        return new

    def _index(self, entries: Any) -> tuple[Any, ...]:
        if entries is Ellipsis:
            return (slice(None),) * len(self.dims)
        if not isinstance(entries, Mapping):
            raise type_error(
                f'state "{self.name}": which entries?',
                [("given", repr(entries)), ("dims", dims_text(self.dims))],
                "An axis has a dim and no number.",
                f'run.at.states["{self.name}"][{{{", ".join(f"{dim.name!r}: 0" for dim in self.dims)}}}]',
            )
        index: list[Any] = [slice(None)] * len(self.dims)
        for key, at in entries.items():
            axis = self._axis(key)
            if not isinstance(at, (slice, list)):
                size = self.dims[axis].extent
                if not -size <= int(at) < size:
                    raise index_error(
                        f'state "{self.name}": no such entry.',
                        [("given", f"{self.dims[axis].name}: {at}"), ("dim", self.dims[axis].short_repr())],
                        f"Entries are 0 to {size - 1}.",
                    )
            index[axis] = at
        return tuple(index)

    def _axis(self, key: Dim | str) -> int:
        found = [axis for axis, dim in enumerate(self.dims) if dim is key or dim.name == key]
        if len(found) != 1:
            raise dim_error(
                f'state "{self.name}": {"which" if found else "no"} dim {key if isinstance(key, str) else key.short_repr()}?',
                [("state", shape_of(self.tensor))],
                "Two of its dims have this name: give the Dim itself." if found else "It has these dims.",
            )
        return found[0]

    def _filled(self, index: tuple[Any, ...], value: Any, chosen: np.ndarray) -> Tensor:
        """The value in the places of `index`, as a Tensor of all dims."""
        old, shape = self.tensor, chosen[index].shape
        if hasattr(value, "detach"):
            value = value.detach().cpu().numpy()
        value = np.asarray(value)
        self._check_kind(value)
        try:
            value = np.broadcast_to(value, shape)
        except ValueError:
            raise shape_error(
                f'state "{self.name}": the values do not fit.',
                [("entries", shape), ("values", value.shape)],
                "An array has one value for each entry, in the order of the state's dims; a number is for all of them.",
            ) from None
        host = np.zeros(chosen.shape, value.dtype)
        host[index] = value
        return new_tensor(old.backend.from_numpy(host, dtype=old.dtype, device=old.device), self.dims)

    def _check_kind(self, value: np.ndarray) -> None:
        whole, dtype = value.dtype.kind in "iub", self.tensor.dtype
        if (
            value.dtype.kind not in "iubf"
            or (not whole and "float" not in dtype)
            or (value.dtype.kind != "b" and dtype == "bool")
        ):
            raise type_error(
                f'state "{self.name}": values of another kind.',
                [("state", dtype), ("values", value.dtype)],
                "A state keeps its dtype.",
            )
        if self.tensor.sparse_dim is not None and value.size:
            labels = self.tensor.sparse_dim
            if not 0 <= value.min() <= value.max() < labels.extent:
                raise index_error(
                    f'state "{self.name}": no such label.',
                    [("values", f"{value.min()} to {value.max()}"), ("labels", labels.short_repr())],
                    f"Labels are 0 to {labels.extent - 1}.",
                )

    def _check(self, new: Tensor) -> None:
        old = self.tensor
        if set(new.dims) - set(old.dims) or new.dtype != old.dtype:
            raise dim_error(
                f'state "{self.name}": it keeps its dims and dtype.',
                [("state", f"{shape_of(old)} {old.dtype}"), ("given", f"{shape_of(new)} {new.dtype}")],
                "A Tensor that is put in has the dims of the state or fewer, and its dtype.",
            )
