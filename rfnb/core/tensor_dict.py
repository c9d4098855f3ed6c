"""TensorDict: Tensors by name, e.g. the inputs or outputs of a model.

data = TensorDict([Tensor("x", [batch_dim, time, feat]), Tensor("y", [batch_dim], "int32", sparse_dim=classes)])
data.assign_from_raw_tensor_dict_({"x": raw, "x:size1": lengths, "y": ids})     # one batch
data.reset_content()                                                            # before the next one
"""

from __future__ import annotations

import difflib
import operator
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from rfnb.backends import registry
from rfnb.core.dim import Dim, Dims
from rfnb.core.errors import ShapeError, index_error, missing_key_error, shape_error, type_error, value_error
from rfnb.core.tensor import Tensor
from rfnb.core.tensor_options import tensor_of
from rfnb.core.tensor_text import dims_text

_OPTIONS = (
    "dims", "dtype", "sparse_dim", "feature_dim", "feature_dim_axis", "raw_tensor", "version", "available_for_inference",
    "vocab",
)  # fmt: skip


class TensorDict:
    """Tensors by name.

    Args:
        data: name -> Tensor, or Tensors with names. Each is copied; the raw arrays are shared.
    """

    def __init__(self, data: TensorDict | Mapping[str, Tensor] | Sequence[Tensor] | None = None):
        self.data: dict[str, Tensor] = {}
        if data is not None:
            self.update(data)

    def update(self, data: TensorDict | Mapping[str, Any] | Sequence[Tensor], *, auto_convert: bool = False) -> None:
        """Add Tensors, or replace those of the same name.

        Args:
            auto_convert: Also make Tensors from dicts of options, e.g. `{"x": {"dims": [batch_dim, time], "dtype": "int32"}}`, and
                of their old form, `{"x": {"dim": 9}}`: {batch, time, feature}, or with "sparse" {batch, time} over 9 classes;
                "shape" has the sizes without the batch, None for lengths.

        Raises:
            TypeError: If a value is not a Tensor, or an option is unknown.
            ValueError: If a Tensor of a sequence has no name, or options contradict each other.
        """
        if isinstance(data, TensorDict):
            data = data.data
        items = list(data.items()) if isinstance(data, Mapping) else [(_name_of(tensor), tensor) for tensor in data]
        for name, value in items:
            if not isinstance(value, Tensor):
                value = _from_options(name, value, auto_convert)
            self.data[name] = value.copy(name)

    def __getitem__(self, name: str) -> Tensor:
        try:
            return self.data[name]
        except KeyError:
            near = difflib.get_close_matches(str(name), self.data, n=1)
            raise missing_key_error(
                f'TensorDict: no "{name}".',
                {"has": ", ".join(self.data) or "nothing"},
                "An entry is found by the name of its Tensor.",
                f'data["{near[0]}"]' if near else None,
            ) from None

    def __contains__(self, name: object) -> bool:
        return name in self.data

    def __iter__(self) -> Iterator[str]:
        return iter(self.data)

    def __len__(self) -> int:
        return len(self.data)

    def __repr__(self) -> str:
        return f"TensorDict({', '.join(map(repr, self.data.values()))})"

    def all_dims(self) -> list[Dim]:
        """The dims of all Tensors, each once, in order."""
        return list(dict.fromkeys(dim for tensor in self.data.values() for dim in tensor.dims))

    def copy_template(self) -> TensorDict:
        """The same names and dims, without raw arrays."""
        return TensorDict({name: tensor.copy_template() for name, tensor in self.data.items()})

    def sequence(self, index: int, *, batch: Dim | None = None) -> TensorDict:
        """One sequence of the batch, as NumPy arrays: without the batch dim, and its ragged dims cut to its own length.

        for index, tag in enumerate(tags):
            callback.process_seq(seq_tag=tag, outputs=run.outputs.sequence(index))

        Lengths over more than the batch, such as those of hypotheses {batch, beam}, remain lengths over the rest. A value without a
        batch dim is the same for each sequence. Results have no padding, unless lengths still differ.

        Args:
            index: Index from 0; negative indices count from the end.
            batch: The batch dim; default: the only one of the Tensors.

        Raises:
            ValueError: If there is no such dim, or several.
            IndexError: If the batch has no such sequence.
        """
        found = [dim for dim in self.all_dims() if dim.is_batch_dim()]
        batch = batch or (found[0] if len(found) == 1 else None)
        if batch is None or batch not in self.all_dims():
            raise value_error(
                "TensorDict.sequence: which dim is the batch?",
                {"has": dims_text(self.all_dims()), "batch": "not given" if batch is None else batch},
                "A sequence is one entry of the batch dim; without `batch` that is the only dim of this kind.",
                "outputs.sequence(0, batch=dim)",
            )
        size, index = batch.get_dim_value(), operator.index(index)
        if not -size <= index < size:
            raise index_error(
                f"TensorDict.sequence: no sequence {index}.",
                {"batch": batch, "index": index},
                f"A batch of {size} has the sequences 0 to {size - 1}.",
            )
        one = _Sequence(batch, index % size)
        return TensorDict({name: one.of(name, tensor) for name, tensor in self.data.items()})

    def reset_content(self) -> None:
        """Drop the raw arrays and the sizes of all dims that are not static, including the dims of lengths.

        A ragged dim keeps the dims that its lengths are over.
        """
        for tensor in self.data.values():
            tensor.reset()
        for dim in _with_length_dims(self.all_dims()):
            if dim.is_dynamic() and dim.expr is None:
                dim.reset_eager()

    def as_raw_tensor_dict(
        self,
        *,
        include_const_sizes: bool = False,
        include_scalar_dyn_sizes: bool = True,
        exclude_duplicate_dims: bool = False,
        expected_value_type: type | Sequence[type] = object,
    ) -> dict[str, Any]:
        """`{name: raw, "name:size<i>": sizes of axis i}`; sizes are int32 raw arrays on the CPU.

        Args:
            include_const_sizes: Include static sizes.
            include_scalar_dyn_sizes: Include sizes that are not static but have no dims, such as that of `batch_dim`.
            exclude_duplicate_dims: Include the sizes of a dim only at its first occurrence.
            expected_value_type: The required type of every value, e.g. np.ndarray.

        Raises:
            TypeError: If a value is not of the expected type.
            ValueError: If a Tensor has no raw array.
        """
        out: dict[str, Any] = {}
        seen: set[Dim] = set()
        for name, tensor in self.data.items():
            if tensor.raw_tensor is None:
                raise value_error(
                    "as_raw_tensor_dict: a template has no values.",
                    {name: repr(tensor)},
                    "Every Tensor needs its array:",
                    f'data["{name}"].raw_tensor = ...',
                )
            out[name] = tensor.raw_tensor
            for axis, dim in enumerate(tensor.dims):
                wanted = include_const_sizes if dim.is_static() else include_scalar_dyn_sizes or bool(dim.length_dims)
                if wanted and not (exclude_duplicate_dims and dim in seen):
                    out[f"{name}:size{axis}"] = dim.get_size_tensor()._raw
                seen.add(dim)
        expected = expected_value_type if isinstance(expected_value_type, type) else tuple(expected_value_type)
        for name, value in out.items():
            if not isinstance(value, expected):
                raise _other_type(name, value, expected)
        return out

    def assign_from_raw_tensor_dict_(
        self,
        raw_tensor_dict: Mapping[str, Any],
        *,
        with_scalar_dyn_sizes: bool = True,
        duplicate_dims_are_excluded: bool = False,
    ) -> None:
        """Assign raw arrays and sizes, in the form of `as_raw_tensor_dict`; earlier sizes are cleared.

        The batch dim takes its size from the arrays. Lengths of one axis are over the dim that was declared
        (`Dim(Tensor("lengths", [batch_dim], "int32"))`), else over the batch dim of the Tensor, or its first dim.
        Sizes of a static dim are compared with it.

        Args:
            raw_tensor_dict: Raw arrays of a backend; NumPy arrays are converted to the selected one.
            with_scalar_dyn_sizes: Whether scalar sizes are included; otherwise they are taken from the arrays.
            duplicate_dims_are_excluded: Whether the sizes of a dim are included only at its first occurrence. Both forms are
                accepted.

        Raises:
            MissingKeyError: If the array of a Tensor is missing.
            ShapeError: If an array does not match.
        """
        missing = [name for name in self.data if name not in raw_tensor_dict]
        if missing:
            raise missing_key_error(
                f"assign_from_raw_tensor_dict_: no {', '.join(missing)}.",
                {"needs": ", ".join(self.data), "given": ", ".join(raw_tensor_dict) or "nothing"},
                "There is an array for each entry of the TensorDict, under its name.",
            )
        self.reset_content()
        for with_lengths in (False, True):  # lengths need the size of what they are over first
            for name, tensor in self.data.items():
                for axis, dim in enumerate(tensor.dims):
                    sizes = raw_tensor_dict.get(f"{name}:size{axis}")
                    if sizes is not None and (np.ndim(_host(sizes)) > 0) is with_lengths:
                        _set_sizes(name, tensor, dim, _host(sizes))
                    elif sizes is None and not with_lengths and _of_the_array(dim, with_scalar_dyn_sizes):
                        dim.dyn_size_ext = np.int32(_shape(raw_tensor_dict[name])[axis])
        for name, tensor in self.data.items():
            tensor.raw_tensor = _on_backend(raw_tensor_dict[name])


class _Sequence:
    """One entry of a batch dim, and the dims of its arrays that replace those over the batch."""

    def __init__(self, batch: Dim, index: int):
        self._batch, self._index = batch, index
        self._dims: dict[Dim, Dim] = {}

    def of(self, name: str, tensor: Tensor) -> Tensor:
        """The part of a Tensor that belongs to the sequence."""
        if tensor.raw_tensor is None:
            raise value_error(
                "TensorDict.sequence: a template has no values.",
                {name: repr(tensor)},
                "Sequences are cut out of arrays. Mark the outputs of a batch, or put its arrays in:",
                "data.assign_from_raw_tensor_dict_({...})",
            )
        raw, dims = tensor.numpy(), [self._dim(dim) for dim in tensor.dims]
        if self._batch in tensor.dims:
            raw = raw.take(self._index, tensor.dims.index(self._batch))
        kept = [dim for dim in dims if dim is not None]
        raw = raw[tuple(slice(dim.get_dim_value()) for dim in kept)]
        feature, sparse = (dim and self._dim(dim) for dim in (tensor.feature_dim, tensor.sparse_dim))
        return Tensor(name, kept, tensor.dtype, raw_tensor=raw, feature_dim=feature, sparse_dim=sparse)

    def _dim(self, dim: Dim) -> Dim | None:
        """The replacement for a dim over the batch; None for the batch itself."""
        if dim == self._batch:
            return None
        if dim not in self._dims:
            self._dims[dim] = dim
            over = dim.length_dims
            if self._batch in over or any(self._dim(each) is not each for each in over):
                lengths = self.of(dim.name, dim.get_size_tensor())
                size: Any = lengths if lengths.dims else int(lengths.raw_tensor)
                self._dims[dim] = Dim(size, name=dim.name, kind=dim.kind)
        return self._dims[dim]


def _of_the_array(dim: Dim, with_scalar_dyn_sizes: bool) -> bool:
    """True if a dim takes its size from the array."""
    if dim.is_dim_known() or dim.expr is not None or dim.declared_length_dims:
        return False
    return dim.is_batch_dim() or not with_scalar_dyn_sizes


def _other_type(name: str, value: Any, expected: Any) -> TypeError:
    names = [kind.__name__ for kind in (expected if isinstance(expected, tuple) else (expected,))]
    return type_error(
        "as_raw_tensor_dict: a value of another type.",
        {"name": name, "got": type(value).__name__, "expected": ", ".join(names)},
        "Raw arrays are those of the backend. For NumPy:",
        "data[name].numpy()",
    )


def _name_of(tensor: Any) -> str:
    if not isinstance(tensor, Tensor) or not tensor.name:
        raise value_error(
            "TensorDict: an entry without name.",
            {"entry": repr(tensor)},
            "In a sequence every entry is a Tensor with a name. Name it here:",
            'TensorDict({"x": tensor})',
        )
    return tensor.name


def _from_options(name: str, options: Any, auto_convert: bool) -> Tensor:
    if not auto_convert or not isinstance(options, Mapping):
        got = f"options {', '.join(map(str, options))}" if isinstance(options, Mapping) else type(options).__name__
        fix = "data.update({...}, auto_convert=True)" if isinstance(options, Mapping) else None
        raise type_error(
            f'TensorDict: "{name}" is no Tensor.',
            {"got": got, "options": ", ".join(_OPTIONS)},
            "An entry is a Tensor, or with auto_convert a dict of these options.",
            fix,
        )
    return tensor_of(name, options)


def _with_length_dims(dims: Sequence[Dim]) -> list[Dim]:
    found: dict[Dim, None] = {}
    for dim in dims:
        found.update(dict.fromkeys((dim, *_with_length_dims(dim.length_dims or dim.declared_length_dims))))
    return list(found)


def _set_sizes(name: str, tensor: Tensor, dim: Dim, sizes: np.ndarray) -> None:
    if sizes.ndim == 0:
        if not dim.is_dim_known() and not dim.declared_length_dims:
            dim.dyn_size_ext = sizes
        elif dim.extent != int(sizes):
            raise _wrong_size(name, dim, str(int(sizes)))
        return
    over = dim.declared_length_dims or _guess_over(tensor, dim, sizes.ndim)
    if dim.is_static() or len(over) != sizes.ndim:
        raise _wrong_size(name, dim, f"lengths over {sizes.ndim} dims")
    lengths = Tensor(f"{dim.name}:size", over, raw_tensor=sizes)  # NumPy on purpose: lengths live on the host
    if dim.is_dim_known() and not np.array_equal(dim.lengths, sizes):  # type: ignore[arg-type]
        raise _wrong_size(name, dim, f"other lengths, over {dims_text(over)}")
    dim.dyn_size_ext = lengths


def _guess_over(tensor: Tensor, dim: Dim, count: int) -> Dims:
    batch = [other for other in tensor.dims if other.is_batch_dim()]
    return tuple((batch + [other for other in tensor.dims if other is not dim and other not in batch])[:count])


def _wrong_size(name: str, dim: Dim, got: str) -> ShapeError:
    return shape_error(
        f'TensorDict: the sizes given with "{name}" do not fit.',
        {"dim": dim, "got": got},
        "A dim has one size, in all Tensors.",
    )


def _host(raw: Any) -> np.ndarray:
    if isinstance(raw, (np.ndarray, np.generic, int)):
        return np.asarray(raw)
    return registry.get_backend_by_raw_tensor_type(type(raw)).raw_to_numpy(raw)


def _shape(raw: Any) -> tuple[int, ...]:
    return registry.get_backend_by_raw_tensor_type(type(raw)).get_shape_tuple_raw(raw)


def _on_backend(raw: Any) -> Any:
    backend = registry.selected()
    if not isinstance(raw, np.ndarray) or backend.RawTensorType is np.ndarray or raw.dtype.kind in "USO":  # text
        return raw
    return backend.from_numpy(raw)
