"""Arrays of any library: recognition, values on the host, raw arrays for a backend, and what they know about their axes.

An array is anything with `__array__` or `__dlpack__` (NumPy, torch, JAX, CuPy, ...), a packed sequence, a nested tensor, an xarray
DataArray, or nested lists of numbers. No library is imported that is not loaded already.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from rfnb.backends import registry
from rfnb.core.errors import type_error, value_error


@dataclass(frozen=True, eq=False)
class Foreign:
    """A raw array with its metadata.

    Attributes:
        raw: The raw array of a backend.
        lengths: The lengths of the sequences by axis, over axis 0.
        names: Names of the axes, where known.
        labels: Labels by axis name.
        over: By axis name: (its lengths, the names of the axes of these lengths).
        sparse: For indices: the name of the dim they index into, its size, its labels or None.
    """

    raw: Any
    lengths: dict[int, np.ndarray] = field(default_factory=dict)
    names: list[str | None] | None = None
    labels: dict[str, list[str]] = field(default_factory=dict)
    over: dict[str, tuple[np.ndarray, tuple[str, ...]]] = field(default_factory=dict)
    sparse: tuple[Any, Any, Any] | None = None

    def called(self, names: Sequence[str | None]) -> Foreign:
        """A copy with renamed axes; None for an axis that is split or dropped."""
        if self.names is None or not (self.labels or self.over):
            return self
        new = {str(old): name for old, name in zip(self.names, names) if name is not None}
        labels = {new[name]: each for name, each in self.labels.items() if name in new}
        over = {
            new[name]: (lengths, tuple(new[other] for other in inner))
            for name, (lengths, inner) in self.over.items()
            if all(each in new for each in (name, *inner))
        }
        return replace(self, labels=labels, over=over)


def knows_axes(value: Any) -> bool:
    """True if an array carries names or lengths of its axes: a packed sequence, a nested or named tensor, a DataArray."""
    torch = _torch(value)
    return is_data_array(value) or (torch is not None and torch.knows_axes(value))


def is_data_array(value: Any) -> bool:
    """True for an xarray DataArray."""
    kind = type(value)
    return kind.__module__.partition(".")[0] == "xarray" and kind.__name__ == "DataArray"


def is_array(value: Any) -> bool:
    """True for a single array of any library; lists do not count."""
    return _torch(value) is not None or (
        (hasattr(value, "__array__") or hasattr(value, "__dlpack__")) and hasattr(value, "shape")
    )


def refusal(value: Any) -> str | None:
    """The reason why an array has no readable values (sparse, quantised, on the meta device), as text; None if it has."""
    torch = _torch(value)
    reason = None if torch is None else torch.refusal(value) or torch.without_values(value)
    return None if reason is None else reason[0]


def is_many(value: Any) -> bool:
    """True for a tuple, list or dict of arrays, of any depth; numbers, including arrays without axes, form a single array."""
    if is_array(value):
        return False
    items = value.values() if isinstance(value, Mapping) else value if isinstance(value, (list, tuple)) else ()
    return any(is_many(item) or (is_array(item) and len(getattr(item, "shape", (0,))) > 0) for item in items)


def array_of(value: Any, where: str) -> Foreign:
    """The raw array of an array or of nested lists of numbers.

    Raises:
        TypeError: If it is not an array, or its entries are missing or not numbers.
        ValueError: If it is a DataArray whose lengths have another order.
    """
    torch = _torch(value)
    if torch is not None:
        _refuse(torch.refusal(value), value, where)
        return Foreign(*torch.plain(value))
    if is_data_array(value):
        return _of_data_array(value, where)
    backend = registry.selected()
    if hasattr(value, "__dlpack__") and not isinstance(value, (np.ndarray, np.generic)) and backend.name == "torch":
        from rfnb.backends import torch_conversion

        shared = torch_conversion.from_dlpack(value)
        if shared is not None:
            return Foreign(shared)
    array = host_array(value, where)
    floats = array.dtype.kind == "f" and not hasattr(value, "dtype")  # numbers of Python
    return Foreign(backend.from_numpy(array, dtype="float32" if floats else array.dtype.name))


def host_array(value: Any, where: str) -> np.ndarray:
    """An array or nested lists of numbers as a NumPy array; dtypes that NumPy lacks (bfloat16, float8) as float32.

    Raises:
        TypeError: If it is not an array, or its entries are missing or not numbers.
    """
    torch = _torch(value)
    if torch is not None:
        _refuse(torch.refusal(value) or torch.without_values(value), value, where)
        return np.asarray(torch.on_host(torch.plain(value)[0]))
    if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
        raise type_error(
            f"{where}: some entries of the array are masked.",
            {"given": _described(value), "masked": int(np.ma.getmaskarray(value).sum())},
            "What is under a mask is no value. Say what is there:",
            "x.filled(numpy.nan)    # or mask=~numpy.ma.getmaskarray(x) of rf.viz.attention",
        )
    tensors = _tensors_in(value)
    leaves = _with_host_leaves(value, iter(together(tensors)), where) if tensors else value
    try:
        array = np.asarray(leaves)
    except (ValueError, TypeError):  # lists of different lengths; an array on a GPU that does not move by itself
        array = np.asarray(None)
    if array.dtype.kind == "O" and hasattr(value, "__dlpack__"):
        from rfnb.backends import torch_conversion

        shared = torch_conversion.from_dlpack(value)
        array = array if shared is None else np.asarray(torch_conversion.on_host(shared))
    if array.dtype.kind == "V" and "float" in array.dtype.name:  # of ml_dtypes, as JAX has them
        array = array.astype(np.float32)
    if array.dtype.kind not in "biufc":
        raise type_error(
            f"{where}: this is no array of numbers.",
            {"given": _described(value)},
            "Arrays are those of torch, NumPy and others (`__array__`, `__dlpack__`), and nested lists of numbers;\n"
            "the lists of one level are equally long.",
            _as_numbers(value),
        )
    return array


def _as_numbers(value: Any) -> str:
    """The line of code that converts a value to an array, or shows it."""
    rows = value if isinstance(value, list) and all(isinstance(row, list) for row in value) else []
    if rows and all(isinstance(each, (int, float)) for row in rows for each in row):
        return f"np.array([row + [0] * ({max(map(len, rows))} - len(row)) for row in values])    # filled up; lengths=[...] says how long"
    if type(value).__module__.startswith("rfnb.trace."):
        return f"rf.show({type(value).__name__.lower()})"
    return "np.asarray(values, dtype='float32')"


def together(values: Sequence[Any]) -> list[Any]:
    """The same values, with torch tensors on a device copied to NumPy in a single transfer, since each one waits for the device."""
    if "torch" not in sys.modules:
        return list(values)
    from rfnb.backends import torch_conversion

    return torch_conversion.together(values)


def _tensors_in(value: Any) -> list[Any]:
    """The torch tensors in nested lists, such as scalars that serve as numbers."""
    if isinstance(value, (list, tuple)):
        return [tensor for item in value for tensor in _tensors_in(item)]
    return [] if _torch(value) is None else [value]


def _with_host_leaves(value: Any, tensors: Iterator[Any], where: str) -> Any:
    """Nested lists with these values in their place."""
    if isinstance(value, (list, tuple)):
        return [_with_host_leaves(item, tensors, where) for item in value]
    return value if _torch(value) is None else host_array(next(tensors), where)


def _torch(value: Any) -> Any:
    """The module that handles torch, if the value belongs to torch."""
    if type(value).__module__.partition(".")[0] != "torch" and not (
        "torch" in sys.modules and any(base.__module__.partition(".")[0] == "torch" for base in type(value).__mro__)
    ):
        return None
    from rfnb.backends import torch_conversion

    return torch_conversion if torch_conversion.is_torch(value) else None


def _refuse(reason: tuple[str, str] | None, value: Any, where: str) -> None:
    if reason is not None:
        what, fix = reason
        raise type_error(
            f"{where}: the tensor {what}.",
            {"given": _described(value)},
            "What is named and drawn are plain arrays of numbers.",
            fix,
        )


def _described(value: Any) -> str:
    kind = f"{type(value).__module__}.{type(value).__qualname__}".removeprefix("builtins.")
    shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
    return " ".join([kind, *([] if shape is None else [str(tuple(shape))]), *([] if dtype is None else [str(dtype)])])


def _of_data_array(value: Any, where: str) -> Foreign:
    names = [str(name) for name in value.dims]
    labels, over = {}, {}
    for key, coordinate in value.coords.items():
        inner = [str(name) for name in coordinate.dims]
        if inner == [str(key)] and not _counts(coordinate.values):
            labels[str(key)] = [str(label) for label in coordinate.values]
        of = str(key).removesuffix("_lengths")
        if of != str(key) and of in names and of not in inner and coordinate.dtype.kind in "iu":
            over[of] = _lengths_left(np.asarray(coordinate.values), value, of, where), tuple(inner)
    found = array_of(value.data, where)
    sparse = value.attrs.get("sparse_dim"), value.attrs.get("sparse_size"), value.attrs.get("sparse_labels")
    return Foreign(found.raw, {}, list(names), labels, over, sparse if isinstance(sparse[1], int) else None)


def _lengths_left(lengths: np.ndarray, value: Any, of: str, where: str) -> np.ndarray:
    """The lengths of an axis, of which `isel` may have selected a part: its positions then tell how much is left.

    Raises:
        ValueError: If the selection has padding before real entries.
    """
    at = np.asarray(value.coords[of].values) if of in value.coords else np.arange(0)
    if at.dtype.kind not in "iu" or at.ndim != 1 or not at.size or not lengths.size:
        return lengths
    left, in_order = lengths, bool((at[1:] > at[:-1]).all())
    if lengths.max() > len(at):
        real = at < lengths[..., None]
        left = real.sum(-1)
        in_order = bool((real == (np.arange(len(at)) < left[..., None])).all())
    if not in_order:
        raise value_error(
            f"{where}: {of} is in another order than that of its lengths.",
            [("given", _described(value)), (of, f"{len(at)} positions"), (f"{of}_lengths", lengths.shape)],
            "Lengths count from the start on, in the order of the positions.",
            f'x.sortby("{of}")    # or x.drop_vars("{of}_lengths")',
        )
    return left


def _counts(coordinate: np.ndarray) -> bool:
    """True if a coordinate is 0, 1, 2, ..., which is not a label."""
    return coordinate.dtype.kind in "iu" and np.array_equal(coordinate, np.arange(len(coordinate)))
