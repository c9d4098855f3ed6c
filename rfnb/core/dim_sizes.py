"""The sizes of a dim as Tensors, and the assignment of lengths."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rfnb.backends import registry
from rfnb.core.dim_math import resized
from rfnb.core.errors import dim_error
from rfnb.core.lengths import Lengths, check_lengths, valid_lengths
from rfnb.core.op import op

if TYPE_CHECKING:
    from rfnb.core.dim import Dim
    from rfnb.core.tensor import Tensor


def sizes(self: Dim) -> Tensor | None:
    """The Tensor `dim.dyn_size_ext`."""
    backend = registry.selected()
    if self.lengths is None:
        return self._declared
    if self._size_tensor is None or self._size_tensor.backend is not backend:
        lengths = self._known()
        assert lengths is not None
        raw = backend.from_numpy(np.asarray(lengths.array), dtype="int32", device="cpu")
        self._size_tensor = _of_dim(self, tensor_of(f"{self.name}:size", lengths.over, raw))
    return self._size_tensor


def assign_sizes(self: Dim, value: Any) -> None:
    """Set the lengths of a dim that is not static: from a Tensor, a template, or one number for all sequences."""
    if self.size is not None:
        raise dim_error(f'Dim "{self.name}" is static.', {"size": self.size}, "A static dim has no lengths.")
    if hasattr(value, "dims"):
        self.declared_length_dims = tuple(value.dims)
        if value.raw_tensor is None:  # a template says over which dims the lengths will be
            self._declared = _of_dim(self, value)
            return
        dims, array = value.dims, value.numpy()
    else:
        array = np.asarray(value)
        if array.ndim:
            raise dim_error(
                f'Dim "{self.name}": these lengths do not say over which dim they are.',
                {"lengths": f"array {array.shape}"},
                "Lengths are a Tensor, whose dims tell.",
                f'{self.name} = rf.ragged_dim(lengths, over=batch, name="{self.name}")',
            )
        dims = ()
    check_lengths(self.name, valid_lengths(array, tuple(dims)), is_tensor=hasattr(value, "dims"))
    raw = value._raw if value is self._declared and value is not None else None
    keep_lengths(self, array.astype(np.int32), dims)
    if raw is not None:
        value._raw = raw  # the template that this dim was made from has got its values


def keep_lengths(self: Dim, array: np.ndarray, over: Sequence[Dim]) -> None:
    """Set lengths that are known to be valid, int32; nothing else may write to this array."""
    known = self._lengths is not None
    self._reset()
    if known:
        resized(self)
    self._lengths = Lengths(array, over)


@op
def get_size_tensor(self: Dim, *, device: str | None = None) -> Tensor:
    """The lengths as a Tensor, for a static dim a scalar; on the CPU unless `device` is given.

    Raises:
        DimError: If there is no size yet.
    """
    if self.size is None:
        tensor = sizes(self)
        if tensor is None or self.lengths is None:
            raise self._no_size()
        return tensor if device is None else _on_device(self, tensor, device)
    return scalar(self, self.size, device or "cpu")


def scalar(self: Dim, value: int, device: str) -> Tensor:
    """A number as a Tensor without dims."""
    raw = registry.selected().from_numpy(np.asarray(value, np.int32), dtype="int32", device=device)
    return tensor_of(f"{self.name}:size", (), raw)


def tensor_of(name: str, dims: Sequence[Dim], raw: Any) -> Tensor:
    """A Tensor, imported late, since Tensor depends on Dim."""
    from rfnb.core.tensor import Tensor

    return Tensor(name, dims, raw_tensor=raw)


def _of_dim(self: Dim, tensor: Tensor) -> Tensor:
    """The tensor as the sizes of a dim: assigning a raw array to it sizes the dim."""
    from rfnb.core.size_tensor import SizeTensor

    return SizeTensor.of(self, tensor)


def _on_device(self: Dim, tensor: Tensor, device: str) -> Tensor:
    if tensor.device == device:
        return tensor
    key = ("lengths", tensor.backend, device)
    copied: Tensor | None = self._masks.get(key)
    if copied is None:
        copied = tensor._like(tensor.backend.to_device_raw(tensor.raw_tensor, device), tensor.dims)
        self._masks.keep(key, copied)
    return copied
