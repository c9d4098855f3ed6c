"""Parameter: a Tensor that a Module holds and an optimizer changes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rfnb.backends import protocol
from rfnb.core.dim import Dim
from rfnb.core.errors import DimError, message
from rfnb.core.layout import full_shape
from rfnb.core.tensor import Tensor, shape_of
from rfnb.nn.init import ParamInit
from rfnb.ops.default import get_default_device, get_default_float_dtype, is_float_dtype


class Parameter(Tensor):
    """A Tensor whose raw array is a parameter of the backend (torch.nn.Parameter), zero until `initial` is set.

    Args:
        dims_or_tensor: The dims, or a Tensor that is the initial value.
        trainable: Default: floats are, unless auxiliary.
        auxiliary: Not a weight, e.g. running statistics.
        initial: Number, Tensor or ParamInit, as when assigned to `initial`.

    Raises:
        DimError: A dim twice, or a ragged dim.
    """

    def __init__(
        self,
        dims_or_tensor: Sequence[Dim] | Tensor | None = None,
        dtype: str | None = None,
        *,
        dims: Sequence[Dim] | None = None,
        sparse_dim: Dim | None = None,
        trainable: bool | None = None,
        auxiliary: bool = False,
        non_critical_for_restore: bool = False,
        weight_decay: float | None = 0.0,
        initial: Any = None,
        raw_tensor: Any = None,
        device: str | None = None,
    ):
        if isinstance(dims_or_tensor, Tensor):
            dims, dtype, initial = dims_or_tensor.dims, dtype or dims_or_tensor.dtype, dims_or_tensor
            sparse_dim = sparse_dim or dims_or_tensor.sparse_dim
        elif dims_or_tensor is not None:
            dims = tuple(dims_or_tensor)
        dims = tuple(dims or ())
        for dim in dims:
            if dim.need_masking():
                raise DimError(
                    message(
                        "Parameter: a ragged dim.",
                        [("dims", ", ".join(d.short_repr() for d in dims))],
                        "A parameter has the same size in every batch.",
                    )
                )
        dtype = dtype or get_default_float_dtype()
        super().__init__("parameter", dims, dtype, sparse_dim=sparse_dim)
        self.auxiliary, self.non_critical_for_restore, self.weight_decay = (
            auxiliary,
            non_critical_for_restore,
            weight_decay,
        )
        self._trainable = trainable
        self._initial: Any = None
        backend = protocol.selected()
        if raw_tensor is None:
            raw_tensor = backend.full_raw(full_shape(dims), 0, dtype=dtype, device=device or get_default_device())
        self._raw = backend.create_parameter_raw(raw_tensor, self.trainable)
        if initial is not None:
            self.initial = initial

    @property
    def trainable(self) -> bool:
        if self._trainable is None:
            return is_float_dtype(self._dtype or self.dtype) and not self.auxiliary
        return self._trainable

    @trainable.setter
    def trainable(self, trainable: bool | None) -> None:
        self._trainable = trainable
        self.backend.set_requires_gradient_raw(self._raw, self.trainable)

    @property
    def initial(self) -> Any:
        """How this parameter was initialised; assigning initialises at once (None: zeros)."""
        return self._initial

    @initial.setter
    def initial(self, value: Any) -> None:
        self._initial = value
        if isinstance(value, ParamInit):
            value = value(self.dims, self.dtype, device=self.device)
        self.assign(0 if value is None else value)

    def assign(self, value: Tensor | float | int) -> None:
        """New values, in place, without gradient; dims are matched by name."""
        backend = self.backend
        if isinstance(value, Tensor):
            if set(value.dims) - set(self.dims):
                raise DimError(
                    message("Parameter.assign: other dims.", [("parameter", shape_of(self)), ("value", shape_of(value))],
                            "The value has dims that the parameter lacks.")
                )  # fmt: skip
            raw = backend.expand_raw(value.copy_compatible_to_dims_raw(self.dims), full_shape(self.dims))
        else:
            raw = backend.full_raw(full_shape(self.dims), value, dtype=self.dtype, device=self.device)
        backend.assign_raw(self._raw, raw)

    def assign_add(self, value: Tensor | float | int) -> None:
        """Add in place, without gradient."""
        detached = self._like(self.backend.detach_raw(self._raw), self.dims)
        self.assign(detached + value)

    def to(self, *, device: str | None = None, dtype: str | None = None) -> None:
        """Move or cast; the raw parameter is a new one."""
        backend, raw = self.backend, self.backend.detach_raw(self._raw)
        if dtype is not None and is_float_dtype(self.dtype):
            raw, self._dtype = backend.cast_raw(raw, dtype), dtype
        if device is not None:
            raw = backend.to_device_raw(raw, device)
        self._raw = backend.create_parameter_raw(raw, self.trainable)

    def __deepcopy__(self, memo: dict[int, Any]) -> Parameter:
        backend = self.backend
        raw = backend.copy_raw(backend.detach_raw(self._raw))
        new = Parameter(
            self.dims, self.dtype, sparse_dim=self.sparse_dim, trainable=self._trainable, auxiliary=self.auxiliary,
            non_critical_for_restore=self.non_critical_for_restore, weight_decay=self.weight_decay, raw_tensor=raw,
        )  # fmt: skip
        new._initial = self._initial
        memo[id(self)] = new
        return new
