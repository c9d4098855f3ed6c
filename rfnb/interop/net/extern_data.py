"""The inputs of a network: their declarations in the dict, and the conversion of arrays and tensors to these dims."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from rfnb.backends import registry
from rfnb.core.dim import Dim
from rfnb.core.errors import DimError, ShapeError, message, shape_error, value_error
from rfnb.core.tensor import Tensor, new_tensor
from rfnb.core.tensor_text import shape_of
from rfnb.interop.net.call_dims import CallDims, DeclaredDims
from rfnb.ops.cast import cast
from rfnb.ops.const import convert_to_tensor, zeros
from rfnb.ops.dims import replace_dim
from rfnb.trace.host_copies import values_of

_KNOWN = ("dim", "shape", "sparse", "dtype", "dim_tags", "dims", "sparse_dim", "feature_dim", "time_dim_axis",
          "batch_dim_axis", "feature_dim_axis", "same_dim_tags_as", "available_for_inference", "vocab", "name")  # fmt: skip


class ExternData:
    """One declared input.

    Attributes:
        dims: Batch first; dims without size get one in each call.
        dtype, sparse_dim, feature_dim: Those of the tensor.
        time: Its time dim, or None.
    """

    def __init__(self, key: str, options: Mapping[str, Any], batch: Dim):
        self.key = key
        unknown = [name for name in options if name not in _KNOWN]
        if unknown:
            raise value_error(
                f'extern_data "{key}": unknown option.',
                {"given": ", ".join(unknown), "known": ", ".join(_KNOWN)},
                "extern_data accepts these options.",
                f'extern_data = {{"{key}": {{"dim": 40}}}}',
            )
        tags = options.get("dim_tags") or options.get("dims")
        self.sparse_dim: Dim | None = options.get("sparse_dim")
        sparse = bool(options.get("sparse", self.sparse_dim is not None))
        self.dtype: str = options.get("dtype") or ("int32" if sparse else "float32")
        size = options.get("dim")
        if sparse and self.sparse_dim is None and size is not None:
            vocab = options.get("vocab")
            labels = vocab.get("labels") if isinstance(vocab, Mapping) else None
            self.sparse_dim = Dim(size, name=f"{key}:labels", vocab=labels)
        self.feature_dim: Dim | None = (
            options.get("feature_dim") if isinstance(options.get("feature_dim"), Dim) else None
        )
        if tags is not None:
            self.dims = tuple(batch if isinstance(tag, Dim) and _is_batch(tag) else tag for tag in tags)
            if self.feature_dim is None and not sparse:
                static = [dim for dim in self.dims if dim.size is not None and not _is_batch(dim)]
                self.feature_dim = static[-1] if static else None
            self.time = self._time(options.get("time_dim_axis"))
            return
        shape = options.get("shape")
        if shape is None:
            has_time = options.get("time_dim_axis", 1) is not None
            shape = ((None,) if has_time else ()) + (() if sparse or size is None else (size,))
        inner = []
        for index, count in enumerate(shape):
            last = index == len(shape) - 1 and not sparse and count is not None
            name = f"{key}:{'feature' if last else 'time' if count is None else index}"
            if count is None and key == "data":
                name = "time"
            inner.append(Dim(count, name=name, kind="feature" if last else None))
            if last and self.feature_dim is None and (size is not None or options.get("feature_dim_axis") is not None):
                self.feature_dim = inner[-1]
        for place, same in (options.get("same_dim_tags_as") or {}).items():
            times = [i for i, dim in enumerate(inner) if dim.size is None]
            inner[times[0] if str(place).lower() in ("t", "time") else int(place) - 1] = same
        batches = () if options.get("batch_dim_axis", 0) is None else (batch,)
        self.dims = (*batches, *inner)
        self.time = self._time(options.get("time_dim_axis", len(batches)))

    def _time(self, axis: int | None) -> Dim | None:
        """The first dim without size, else the one declared as time."""
        found = next((dim for dim in self.dims if dim.size is None and not _is_batch(dim)), None)
        if found is None and axis is not None and axis < len(self.dims) and self.dims[axis] is not self.feature_dim:
            found = self.dims[axis]
        return found

    def dummy(self, dims: CallDims) -> Tensor:
        """Zeros with a small batch."""
        actual = [
            self._of_call(dim, dims, lambda dim: Dim(_host_lengths(np.array([2, 1]), dims), name=dim.name))
            for dim in self.dims
        ]
        self._note_time(dims)
        return zeros(actual, dtype=self.dtype, sparse_dim=self.sparse_dim, feature_dim=self.feature_dim)

    def _note_time(self, dims: CallDims) -> None:
        if self.time is not None:
            dims.times.add(dims(self.time))

    def _of_call(self, dim: Dim, dims: CallDims, make: Any) -> Dim:
        found = dims(dim)
        if not found.is_dim_known():
            dims.bind(dim, make(dim))
            found = dims(dim)
        return found

    def bind(self, value: Any, lengths: Any, dims: CallDims) -> Tensor:
        """The tensor for a call; it also determines the declared dims without size.

        Args:
            value: A Tensor, an array in the order of the declared dims, or (array, lengths).
            lengths: Lengths per sequence, for the (first) dim without size; or a dict of them by name of the dim.

        Raises:
            ShapeError: If the array does not fit.
            DimError: If a Tensor does not fit.
        """
        if isinstance(value, Tensor):
            tensor = self._of_tensor(value, dims)
            self._note_time(dims)
            return tensor
        if isinstance(value, tuple) and len(value) == 2:
            value, lengths = value
        raw = value if hasattr(value, "ndim") else np.asarray(value)
        if raw.ndim != len(self.dims):
            raise self._misfit(raw)
        for index, dim in enumerate(self.dims):
            if not dims.is_known(dim) and not _is_batch(dim):
                dims.bind(dim, self._made(dim, raw, index, lengths, dims))
        self._note_time(dims)
        actual = [dims(dim) for dim in self.dims]
        # Arrays may have more frames than the longest sequence.
        kept = tuple(slice(dim.extent if dim.size is None else None) for dim in actual)
        if any(dim.size is None and dim.extent < count for dim, count in zip(actual, raw.shape, strict=True)):
            raw = raw[kept]
        for dim, count in zip(actual, raw.shape, strict=True):
            if dim.extent != count:
                raise self._misfit(raw, actual)
        self._compare_lengths(lengths, dims)
        tensor = cast(convert_to_tensor(raw, dims=actual, sparse_dim=self.sparse_dim), self.dtype)
        if self.feature_dim is not None:
            tensor.feature_dim = self.feature_dim
        tensor.name = self.key
        return tensor

    def _made(self, dim: Dim, raw: Any, index: int, lengths: Any, dims: CallDims) -> Dim:
        given = lengths.get(dim.name) if isinstance(lengths, Mapping) else lengths
        if given is None:
            raise value_error(
                f'Input "{self.key}": the lengths of {dim.name} are missing.',
                {"array": tuple(raw.shape)},
                "They determine which frames of each sequence are real.",
                f'net({{"{self.key}": (array, lengths), ...}})',
            )
        return Dim(_host_lengths(values_of(given), dims), name=dim.name)

    def _compare_lengths(self, lengths: Any, dims: CallDims) -> None:
        """Check that a dim has the same lengths as in another input."""
        if lengths is None or isinstance(lengths, Mapping):
            return
        first = next((dim for dim in self.dims if dim.size is None and not _is_batch(dim)), None)
        before = None if first is None else dims(first).lengths
        if first is not None and before is not None and not np.array_equal(before, values_of(lengths)):
            raise value_error(
                f'Input "{self.key}": other lengths of {first.name} than another input.',
                {"here": values_of(lengths).tolist(), "before": before.tolist()},
                "Inputs that share a dim have the same lengths.",
            )

    def _of_tensor(self, value: Tensor, dims: CallDims) -> Tensor:
        pairs = self._pairs(value, dims)
        for declared, actual in pairs:
            if declared.size is not None:
                if actual is not declared:
                    value, _ = replace_dim(value, in_dim=actual, out_dim=declared)
            elif _is_batch(declared):
                actual.kind = (
                    "batch"  # whatever its kind was: the notation distinguishes other axes from the batch by it
                )
                dims.batch = dims.batch or actual
            elif not dims.is_known(declared):
                dims.bind(declared, actual)
            if declared.size is None and dims(declared) is not actual:
                value, _ = replace_dim(value, in_dim=actual, out_dim=dims(declared))
        out = new_tensor(value.raw_tensor, value.dims)
        out.name = self.key
        if self.sparse_dim is not None:
            out.sparse_dim = self.sparse_dim
        if self.feature_dim is not None:
            out.feature_dim = self.feature_dim
        return out

    def _pairs(self, value: Tensor, dims: CallDims) -> list[tuple[Dim, Dim]]:
        """Each declared dim with its dim in the tensor: the same dim, the batch, the features, by name, or the remaining one.

        Raises:
            DimError: If none or several match.
        """
        left, rest = list(value.dims), list(self.dims)
        pairs: list[tuple[Dim, Dim]] = []

        def take(declared: Dim, found: list[Dim]) -> bool:
            if len(found) != 1:
                return False
            rest.remove(declared)
            left.remove(found[0])
            pairs.append((declared, found[0]))
            return True

        for declared in list(rest):
            take(declared, [dim for dim in left if dim in (declared, dims(declared))])
        for declared in [dim for dim in rest if _is_batch(dim)]:
            over = {dim for other in value.dims if other.size is None for dim in other.length_dims}
            if not take(declared, [dim for dim in left if dim.is_batch_dim()]):
                take(declared, [dim for dim in left if dim in over])  # lengths are per sequence
        feature = self.feature_dim
        if feature is not None and feature in rest:
            take(feature, [dim for dim in _fitting(feature, left) if dim is value.feature_dim])
        for declared in list(rest):
            take(declared, [dim for dim in _fitting(declared, left) if dim.name == declared.name])
        while any(take(declared, _fitting(declared, left)) for declared in list(rest)):
            pass
        if rest or left:
            several = [dim for dim in rest if _fitting(dim, left)]
            given, own = shape_of(value), "[" + ", ".join(d.short_repr() for d in self.dims) + "]"
            raise DimError(
                message(f'Input "{self.key}": it is ambiguous which dim is {several[0].name}.', {"given": given, "declared": own},
                        "Dims are matched by batch, features, names, lengths and sizes, never by their order.",
                        f'x, _ = rf.replace_dim(x, in_dim=..., out_dim=Dim(..., name="{several[0].name}"))')
                if several and len(rest) == len(left)
                else message(f'Input "{self.key}": its dims differ from the declared ones.', {"given": given, "declared": own},
                             "An input needs the dims declared in extern_data.")
            )  # fmt: skip
        return pairs

    def _misfit(self, raw: Any, actual: list[Dim] | None = None) -> ShapeError:
        needed = ", ".join(dim.short_repr() for dim in actual or self.dims)
        return shape_error(
            f'Input "{self.key}": the array does not match its declaration.',
            {"array": tuple(raw.shape), "needed": f"({needed})"},
            "The axes of an array are in the order of extern_data, batch first.",
        )


def bind_all(
    declared: Mapping[str, ExternData], data: Mapping[str, Any], lengths: Mapping[str, Any], dims: CallDims
) -> dict[str, Tensor]:
    """The tensors of a call by key; undeclared keys are an error, missing ones only when they are read."""
    unknown = [key for key in data if key not in declared]
    if unknown:
        raise value_error(
            "The network got an input that it does not declare.",
            {"given": ", ".join(unknown), "declared": ", ".join(declared)},
            "extern_data declares the inputs by name.",
        )
    tensors = [value for value in data.values() if isinstance(value, Tensor)]
    for tensor in tensors:
        dims.batch = dims.batch or next((dim for dim in tensor.dims if dim.is_batch_dim()), None)
    if dims.batch is None and not tensors:
        for key, value in data.items():
            given = value[0] if isinstance(value, tuple) else value
            raw = given if hasattr(given, "ndim") else np.asarray(given)
            if any(_is_batch(dim) for dim in declared[key].dims) and raw.ndim:
                dims.batch = Dim(
                    raw.shape[[_is_batch(dim) for dim in declared[key].dims].index(True)], name="batch", kind="batch"
                )
                break
    return {key: declared[key].bind(value, lengths.get(key), dims) for key, value in data.items()}


def declare(extern_data: Mapping[str, Mapping[str, Any]], as_dims: DeclaredDims, batch: Dim) -> dict[str, ExternData]:
    """The declared inputs by key."""
    return {key: ExternData(key, as_dims(dict(options)), batch) for key, options in extern_data.items()}


def _is_batch(dim: Dim) -> bool:
    return dim.is_batch_dim() or (dim.size is None and dim.name in ("batch", "global batch"))


def _fitting(declared: Dim, left: list[Dim]) -> list[Dim]:
    """The dims that match the declared one."""
    if declared.size is not None:
        return [dim for dim in left if dim.size == declared.size]
    ragged = [dim for dim in left if dim.need_masking() or dim.size is None]
    static = [dim for dim in left if dim not in ragged]
    return static if _is_batch(declared) else ragged or static


def _host_lengths(lengths: np.ndarray, dims: CallDims) -> Tensor:
    assert dims.batch is not None
    if lengths.shape != (dims.batch.extent,):
        raise shape_error(
            "The lengths need one entry per sequence.",
            {"lengths": lengths.shape, "batch": dims.batch},
            "Lengths have the shape (batch,).",
        )
    raw = registry.selected().from_numpy(lengths.astype(np.int32), dtype="int32", device="cpu")
    return new_tensor(raw, (dims.batch,))
