"""Values of events as JSON with numbered arrays and dims, and back."""

from __future__ import annotations

import math
from hashlib import sha256
from typing import Any

import numpy as np

from rfnb.backends import registry
from rfnb.core.dim import Dim, single_step_dim
from rfnb.core.errors import type_error
from rfnb.core.strict_json import JsonObject
from rfnb.core.tensor import Tensor

_ARRAY_TYPES = "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64".split()


def of_type(value: Any, *types: type) -> Any:
    """The value, if it has one of these types.

    Raises:
        TypeError: If it does not.
    """
    if type(value) not in types:
        raise TypeError(f"{value!r:.50} is not {types[0].__name__}")
    return value


class Writer:
    """Collects the arrays and dims of values. Each dim gets one number.

    Args:
        share: Whether equal arrays are written once, since branches have many in common.
    """

    def __init__(self, *, share: bool = False) -> None:
        self._known: dict[Any, str] | None = {} if share else None
        self.arrays: dict[str, np.ndarray] = {}
        self.dims: list[JsonObject] = []
        self._numbers: dict[Any, int] = {}

    def value(self, value: Any, where: str) -> Any:
        """The value as JSON; a type that JSON lacks becomes an object with one key, its type.

        Args:
            where: For the message.

        Raises:
            TypeError: For anything but a Tensor, Dim, NumPy array or plain data.
        """
        if value is None or isinstance(value, (bool, int, str)):
            return value
        if isinstance(value, float):
            return value if math.isfinite(value) else {"float": repr(value)}
        if isinstance(value, Tensor):
            return {"tensor": self._tensor(value)}
        if isinstance(value, Dim):
            return {"dim": self.dim(value)}
        if isinstance(value, np.ndarray) and value.dtype.name in _ARRAY_TYPES:
            return {"array": self._array(value)}
        if isinstance(value, (list, tuple)):
            return {"list" if isinstance(value, list) else "tuple": [self.value(item, where) for item in value]}
        if isinstance(value, dict):
            return {"dict": [[self.value(key, where), self.value(item, where)] for key, item in value.items()]}
        found = f"array of {value.dtype}" if isinstance(value, np.ndarray) else type(value).__name__
        raise type_error(
            "trace.save: a value that a file cannot hold.",
            {"event": where, "value": found},
            "A file holds Tensors, Dims, arrays of numbers and plain data. Record without this kind of event:",
            'with rf.record(kinds={"attention", "states", "beams"}) as trace: ...',
        )

    def dim(self, dim: Dim | None, length: int | None = None) -> int | None:
        """The number of a dim.

        Args:
            length: Length of the array's axis. A dim whose sizes have changed since (`batch_dim` in the next batch) is written as a
                static dim of that length.
        """
        if dim is None:
            return None
        changed = length is not None and dim.is_dim_known() and dim.extent != length
        key = (dim, length) if changed else dim
        if key not in self._numbers:
            entry: JsonObject = {"name": dim.name, "kind": dim.kind, "created": dim.created}
            if changed:
                entry["size"] = length
            else:
                entry.update(self._sizes(dim))
            if dim.vocab is not None:
                entry["vocab"] = [str(label) for label in getattr(dim.vocab, "labels", dim.vocab)]
            self._numbers[key] = len(self.dims)  # after its lengths' dims: those are read first
            self.dims.append(entry)
        return self._numbers[key]

    def _sizes(self, dim: Dim) -> JsonObject:
        if dim is single_step_dim:
            return {"special": "single_step"}
        if dim.twin_of is not None:
            return {"twin_of": self.dim(dim.twin_of), "match_priority": dim.match_priority}
        if dim.size is not None:
            return {"size": dim.size}
        if dim.lengths is None:
            return {}
        lengths_over = [self.dim(other) for other in dim.length_dims]
        return {"lengths": self._array(dim.lengths), "lengths_over": lengths_over}

    def _tensor(self, tensor: Tensor) -> JsonObject:
        raw = tensor.raw_tensor
        shape = [None] * len(tensor.dims) if raw is None else tensor.backend.get_shape_tuple_raw(raw)
        out = {
            "name": tensor.name,
            "dtype": tensor.dtype,
            "dims": [self.dim(dim, length) for dim, length in zip(tensor.dims, shape)],
            "sparse_dim": self.dim(tensor.sparse_dim),
            "feature": tensor.dims.index(tensor.feature_dim) if tensor.feature_dim is not None else None,
        }
        if raw is not None:
            # Of bfloat16 and smaller floats NumPy has none, and float32 holds all.
            if tensor.dtype not in _ARRAY_TYPES:
                raw = tensor.backend.cast_raw(raw, "float32")
            out["array"] = self._array(tensor.backend.raw_to_numpy(raw))
        return out

    def _array(self, array: np.ndarray) -> str:
        name, array = str(len(self.arrays)), np.asarray(array, order="C")
        if self._known is not None:
            name = self._known.setdefault((array.dtype.name, array.shape, sha256(array.data).digest()), name)
        self.arrays[name] = array
        return name


class Reader:
    """Rebuilds values written by a Writer."""

    def __init__(self, dims: list[JsonObject], arrays: dict[str, np.ndarray]):
        self._arrays = arrays
        self._dims: list[Dim] = []
        for entry in dims:
            self._dims.append(self._make_dim(entry))

    def dim(self, number: int | None) -> Dim | None:
        """The dim with a number."""
        return None if number is None else self._dim(number)

    def guess(self, number: Any) -> Dim:
        """The dim with a number, whose name is a guess."""
        dim = self._dim(number)
        if dim is single_step_dim:
            raise ValueError("the dim of a single step has no guessed name")
        dim.guessed = True
        return dim

    def _dim(self, number: Any) -> Dim:
        if type(number) is not int or number < 0:
            raise ValueError(f"{number!r:.50} is not the number of a dim")
        return self._dims[number]

    def value(self, value: Any) -> Any:
        """A value from JSON."""
        if not isinstance(value, dict):
            return value
        ((kind, content),) = value.items()
        if kind == "tensor":
            return self._tensor(content)
        if kind == "dim":
            return self._dim(content)
        if kind == "array":
            return self._arrays[content]
        if kind == "dict":
            return {self.value(key): self.value(item) for key, item in content}
        if kind == "float":
            return float(content)
        if kind not in ("list", "tuple") or not isinstance(content, list):
            raise ValueError(f"{kind!r:.50} is no kind of value")
        items = [self.value(item) for item in content]
        return items if kind == "list" else tuple(items)

    def _make_dim(self, entry: JsonObject) -> Dim:
        if entry.get("special") == "single_step":
            return single_step_dim
        if "twin_of" in entry:
            return self._dim(entry["twin_of"]).copy(match_priority=entry["match_priority"])
        size, vocab = entry.get("size"), entry.get("vocab")
        texts = [
            entry["name"],
            entry["created"],
            *(text for text in (entry["kind"],) if text is not None),
            *(vocab or ()),
        ]
        if not all(isinstance(text, str) for text in texts) or (size is not None and type(size) is not int):
            raise TypeError("a dim with another name, size or vocab than texts and a number")
        dim = Dim(size, name=entry["name"], kind=entry["kind"], vocab=vocab)
        dim.created = entry["created"]
        if "lengths" in entry:
            raw = registry.selected().from_numpy(self._arrays[entry["lengths"]], dtype="int32", device="cpu")
            over = tuple(self._dim(number) for number in entry["lengths_over"])
            dim.dyn_size_ext = Tensor("lengths", over, raw_tensor=raw)  # compares the shape
        return dim

    def _tensor(self, entry: JsonObject) -> Tensor:
        dims = tuple(self._dim(number) for number in entry["dims"])
        name, dtype = of_type(entry["name"], str, type(None)), of_type(entry["dtype"], str)
        out = Tensor(name, dims, dtype, sparse_dim=self.dim(entry["sparse_dim"]))
        if entry["feature"] is not None:
            out.feature_dim = dims[entry["feature"]]
        if "array" in entry:
            out.raw_tensor = registry.selected().from_numpy(
                self._arrays[entry["array"]], dtype=entry["dtype"], device="cpu"
            )
        return out
