"""The data a network is called with: what the dict declares of it, and how arrays and tensors become tensors with these dims."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from rfnb.backends import registry
from rfnb.core.dim import Dim
from rfnb.core.errors import DimError, ShapeError, message
from rfnb.core.tensor import Tensor, new_tensor
from rfnb.core.tensor_text import shape_of
from rfnb.interop.net.dims import CallDims, DeclaredDims
from rfnb.ops.const import convert_to_tensor, zeros
from rfnb.ops.dims import replace_dim

_KNOWN = ("dim", "shape", "sparse", "dtype", "dim_tags", "dims", "sparse_dim", "feature_dim", "time_dim_axis",
          "batch_dim_axis", "feature_dim_axis", "same_dim_tags_as", "available_for_inference", "vocab", "name")  # fmt: skip


class ExternData:
    """One declared input.

    Attributes:
        dims: Batch first; those without size get it in each call.
        dtype, sparse_dim, feature_dim: Of the tensor.
    """

    def __init__(self, key: str, options: Mapping[str, Any], batch: Dim):
        self.key = key
        unknown = [name for name in options if name not in _KNOWN]
        if unknown:
            raise ValueError(
                message(f'extern_data "{key}": unknown option.', [("given", ", ".join(unknown)), ("known", ", ".join(_KNOWN))],
                        "An input is described by these.", f'extern_data = {{"{key}": {{"dim": 40}}}}')
            )  # fmt: skip
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
            return
        shape = options.get("shape")
        if shape is None:
            has_time = options.get("time_dim_axis", 1) is not None
            shape = ((None,) if has_time else ()) + (() if sparse or size is None else (size,))
        inner = []
        for index, count in enumerate(shape):
            last = index == len(shape) - 1 and not sparse and count is not None
            name = (
                f"{key}:feature"
                if last
                else "time"
                if count is None and key == "data"
                else f"{key}:{'time' if count is None else index}"
            )
            inner.append(Dim(count, name=name, kind="feature" if last else None))
            if last and self.feature_dim is None and (size is not None or options.get("feature_dim_axis") is not None):
                self.feature_dim = inner[-1]
        for place, same in (options.get("same_dim_tags_as") or {}).items():
            times = [i for i, dim in enumerate(inner) if dim.size is None]
            inner[times[0] if str(place).lower() in ("t", "time") else int(place) - 1] = same
        batches = () if options.get("batch_dim_axis", 0) is None else (batch,)
        self.dims = (*batches, *inner)

    def dummy(self, dims: CallDims) -> Tensor:
        """Zeros of a small batch."""
        actual = [
            self._of_call(dim, dims, lambda dim: Dim(_host_lengths(np.array([2, 1]), dims), name=dim.name))
            for dim in self.dims
        ]
        return zeros(actual, dtype=self.dtype, sparse_dim=self.sparse_dim, feature_dim=self.feature_dim)

    def _of_call(self, dim: Dim, dims: CallDims, make: Any) -> Dim:
        found = dims(dim)
        if not found.is_dim_known():
            dims.bind(dim, make(dim))
            found = dims(dim)
        return found

    def bind(self, value: Any, lengths: Any, dims: CallDims) -> Tensor:
        """The tensor of a call; the declared dims without size are known from here on.

        Args:
            value: A Tensor, an array in the order of the declared dims, or (array, lengths).
            lengths: Per sequence, for the (first) dim without size; or one such per dim, by its name.

        Raises:
            ShapeError: If the array does not fit.
            DimError: If a Tensor does not.
        """
        if isinstance(value, Tensor):
            return self._of_tensor(value, dims)
        if isinstance(value, tuple) and len(value) == 2:
            value, lengths = value
        raw = _host(value)
        if raw.ndim != len(self.dims):
            raise self._misfit(raw)
        for index, dim in enumerate(self.dims):
            if not dims.is_known(dim) and not _is_batch(dim):
                dims.bind(dim, self._made(dim, raw, index, lengths, dims))
        actual = [dims(dim) for dim in self.dims]
        # Arrays may have more frames than the longest sequence.
        kept = tuple(slice(dim.extent if dim.size is None else None) for dim in actual)
        if any(dim.size is None and dim.extent < count for dim, count in zip(actual, raw.shape, strict=True)):
            raw = value = raw[kept]
        for dim, count in zip(actual, raw.shape, strict=True):
            if dim.extent != count:
                raise self._misfit(raw, actual)
        self._compare_lengths(lengths, dims)
        tensor = convert_to_tensor(
            value if not isinstance(value, (list, tuple)) else raw, dims=actual, sparse_dim=self.sparse_dim
        )
        if tensor.dtype != self.dtype:
            tensor = convert_to_tensor(raw.astype(self.dtype), dims=actual, sparse_dim=self.sparse_dim)
        if self.feature_dim is not None:
            tensor.feature_dim = self.feature_dim
        tensor.name = self.key
        return tensor

    def _made(self, dim: Dim, raw: np.ndarray, index: int, lengths: Any, dims: CallDims) -> Dim:
        given = lengths.get(dim.name) if isinstance(lengths, Mapping) else lengths
        if given is None:
            raise ValueError(
                message(f'Input "{self.key}": the lengths of {dim.name} are missing.', [("array", raw.shape)],
                        "They say which frames of each sequence are real.", f'net({{"{self.key}": (array, lengths), ...}})')
            )  # fmt: skip
        return Dim(_host_lengths(_host(given), dims), name=dim.name)

    def _compare_lengths(self, lengths: Any, dims: CallDims) -> None:
        """A dim that another input has had is the same there and here."""
        if lengths is None or isinstance(lengths, Mapping):
            return
        first = next((dim for dim in self.dims if dim.size is None and not _is_batch(dim)), None)
        before = None if first is None else dims(first).lengths
        if first is not None and before is not None and not np.array_equal(before, _host(lengths)):
            raise ValueError(
                message(f'Input "{self.key}": other lengths of {first.name} than another input.',
                        [("here", _host(lengths).tolist()), ("before", before.tolist())],
                        "Inputs that share a dim have the same lengths.")
            )  # fmt: skip

    def _of_tensor(self, value: Tensor, dims: CallDims) -> Tensor:
        left = list(value.dims)
        pairs: list[tuple[Dim, Dim]] = []
        rest = list(self.dims)
        for choose in (_identical, _same_kind, _in_order):
            for declared in list(rest):
                actual = choose(declared, left, value, dims)
                if actual is not None:
                    rest.remove(declared)
                    left.remove(actual)
                    pairs.append((declared, actual))
        if rest or left:
            raise DimError(
                message(f'Input "{self.key}": other dims than declared.',
                        [("given", shape_of(value)), ("declared", "[" + ", ".join(d.short_repr() for d in self.dims) + "]")],
                        "An input has the dims of extern_data.")
            )  # fmt: skip
        for declared, actual in pairs:
            if declared.size is not None:
                if actual is not declared:
                    value, _ = replace_dim(value, in_dim=actual, out_dim=declared)
            elif _is_batch(declared):
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

    def _misfit(self, raw: np.ndarray, actual: list[Dim] | None = None) -> ShapeError:
        needed = ", ".join(dim.short_repr() for dim in actual or self.dims)
        return ShapeError(
            message(f'Input "{self.key}": the array does not fit.', [("array", raw.shape), ("needed", f"({needed})")],
                    "The dims of an array are in the order of extern_data, batch first.")
        )  # fmt: skip


def bind_all(
    declared: Mapping[str, ExternData], data: Mapping[str, Any], lengths: Mapping[str, Any], dims: CallDims
) -> dict[str, Tensor]:
    """The tensors of a call by key; keys that are not declared are an error, missing ones are one when they are asked for."""
    unknown = [key for key in data if key not in declared]
    if unknown:
        raise ValueError(
            message(
                "The network got an input that it does not declare.",
                [("given", ", ".join(unknown)), ("declared", ", ".join(declared))],
                "Inputs are the keys of extern_data.",
            )
        )
    tensors = [value for value in data.values() if isinstance(value, Tensor)]
    for tensor in tensors:
        dims.batch = dims.batch or next((dim for dim in tensor.dims if dim.is_batch_dim()), None)
    if dims.batch is None and not tensors:
        for key, value in data.items():
            raw = _host(value[0] if isinstance(value, tuple) else value)
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


def _identical(declared: Dim, left: list[Dim], value: Tensor, dims: CallDims) -> Dim | None:
    return next((dim for dim in left if dim is declared or dim is dims(declared)), None)


def _same_kind(declared: Dim, left: list[Dim], value: Tensor, dims: CallDims) -> Dim | None:
    if _is_batch(declared):
        return next((dim for dim in left if dim.is_batch_dim()), None)
    if declared.size is not None and value.feature_dim in left and value.feature_dim.size == declared.size:
        return value.feature_dim
    return None


def _in_order(declared: Dim, left: list[Dim], value: Tensor, dims: CallDims) -> Dim | None:
    if declared.size is not None:
        return next((dim for dim in left if dim.size == declared.size), None)
    if _is_batch(declared):
        return next((dim for dim in left if dim.size is not None), None)
    ragged = [dim for dim in left if dim.need_masking() or dim.size is None]
    return next(iter(ragged or left), None)


def _host(value: Any) -> np.ndarray:
    if isinstance(value, Tensor):
        return value.numpy()
    if hasattr(value, "detach"):
        value = value.detach().cpu()
    return np.asarray(value)


def _host_lengths(lengths: np.ndarray, dims: CallDims) -> Tensor:
    assert dims.batch is not None
    if lengths.shape != (dims.batch.extent,):
        raise ShapeError(
            message("Lengths: one per sequence is needed.", [("lengths", lengths.shape), ("batch", dims.batch.short_repr())],
                    "Each sequence has one length.")
        )  # fmt: skip
    raw = registry.selected().from_numpy(lengths.astype(np.int32), dtype="int32", device="cpu")
    return new_tensor(raw, (dims.batch,))
