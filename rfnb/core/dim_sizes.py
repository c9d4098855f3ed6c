"""The sizes of a dim as Tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from rfnb.backends import registry
from rfnb.core.dim_mask import DimMask
from rfnb.core.op import op

if TYPE_CHECKING:
    from rfnb.core.tensor import Tensor


class DimSizes(DimMask):
    """A part of Dim: its sizes for use in a computation. Abstract."""

    @property
    def dyn_size(self) -> Any:
        """The lengths as a raw array on the CPU; None if static or not known yet. Assigning needs to know over which dims they are:
        from lengths that were there, or from the template that the dim was made with."""
        sizes = self.dyn_size_ext
        return None if sizes is None else sizes.raw_tensor

    @dyn_size.setter
    def dyn_size(self, sizes: Any) -> None:
        over = self.length_dims or self.declared_length_dims
        if over and not hasattr(sizes, "dims"):
            from rfnb.core.tensor import Tensor  # same layer: Tensor and Dim know each other

            sizes = Tensor(f"{self.name}:size", over, raw_tensor=sizes)
        self.dyn_size_ext = sizes

    @op
    def get_size_tensor(self, *, device: str | None = None) -> Tensor:
        """Lengths as a Tensor, also for a static dim (then a scalar); on the CPU unless `device` is given.

        Raises:
            DimError: If there is no size yet.
        """
        if self.size is None:
            tensor = self.dyn_size_ext
            if tensor is None or self.lengths is None:
                raise self._no_size()
            return tensor if device is None else self._on_device(tensor, device)
        return self._scalar(self.size, device or "cpu")

    @op
    def get_size_tensor_or_int(self, *, device: str | None = None) -> Tensor | int:
        """The size of a static dim, else the lengths as a Tensor."""
        return self.size if self.size is not None else self.get_size_tensor(device=device)

    @op
    def get_dyn_size_ext_for_device(self, device: str | None) -> Tensor | None:
        """The lengths on a device, copied there once; None if static or not known yet."""
        return None if self.lengths is None else self.get_size_tensor(device=device or "cpu")

    def get_dim_value(self) -> int:
        """The length of the axis in the raw array (= `extent`); always an int, since lengths are on the host."""
        return self.extent

    @op
    def get_dim_value_tensor(self) -> Tensor | int:
        """The size of a static dim, else `extent` as a scalar Tensor."""
        return self.size if self.size is not None else self._scalar(self.extent, "cpu")

    def transform_tensors(self, func: Callable[[Tensor], Tensor | None]) -> None:
        """Change the lengths by `func`; what was computed from the old ones is forgotten.

        Args:
            func: Gives the lengths their new raw array (`sizes.raw_tensor = ...`), or returns other lengths.

        Raises:
            DimError: Of a derived dim, whose lengths are computed.
        """
        if self.lengths is None:
            return
        self.check_assignable("transform_tensors")
        other = func(self.get_size_tensor())
        if other is not None:
            self.dyn_size_ext = other

    def complete_dyn_size(self, *, template_only: bool = False) -> None:
        """Compute the lengths of a derived dim now, if those of its parts are known; asking for them does so too.

        Args:
            template_only: Only over which dims they will be, which is always known here.
        """
        if not template_only:
            _ = self.lengths

    def short_repr(self) -> str:
        """The name with the size as in messages: `batch=3`, `time<=7`, `time=?`."""
        if self.size is not None:
            return f"{self.name}={self.size}"
        lengths = self.lengths
        if lengths is None:
            return f"{self.name}=?"
        return f"{self.name}<={self.extent}" if self._length_dims else f"{self.name}={self.extent}"

    def _scalar(self, value: int, device: str) -> Tensor:
        from rfnb.core.tensor import Tensor

        raw = registry.selected().from_numpy(np.asarray(value, np.int32), dtype="int32", device=device)
        return Tensor(f"{self.name}:size", dims=(), raw_tensor=raw)

    def _on_device(self, tensor: Tensor, device: str) -> Tensor:
        if tensor.device == device:
            return tensor
        key = ("lengths", tensor.backend, device)
        copied: Tensor | None = self._masks.get(key)
        if copied is None:
            copied = tensor._like(tensor.backend.to_device_raw(tensor.raw_tensor, device), tensor.dims)
            self._masks.keep(key, copied)
        return copied
