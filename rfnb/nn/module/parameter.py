"""Parameter: a Tensor that a Module holds and an optimizer changes."""

from __future__ import annotations

import contextvars
import dis
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from rfnb.backends import registry
from rfnb.core.block import Setting, block
from rfnb.core.device_errors import device_name
from rfnb.core.dim import Dim, Dims
from rfnb.core.errors import dim_error, not_one_of, type_error, value_error
from rfnb.core.fill_values import plain_number
from rfnb.core.layout import full_shape
from rfnb.core.op import op
from rfnb.core.tensor import Tensor
from rfnb.core.tensor_checks import dims_of
from rfnb.nn.init import ParamInit, ParamInitType
from rfnb.nn.module.assign_key import EntryPlaces
from rfnb.nn.module.types import ItemKeyType, RawTensorTypes
from rfnb.ops.const import convert_to_tensor
from rfnb.ops.defaults import device_of_new, get_default_float_dtype, is_float_dtype
from rfnb.ops.operands import check_devices


class Parameter(Tensor):
    """A Tensor whose raw array is a parameter of the backend (torch.nn.Parameter), zero until `initial` is set.

    Args:
        dims_or_tensor: The dims, or a Tensor that is the initial value.
        dtype: Default: that of the raw or initial tensor, else the default float dtype.
        sparse_dim: The dim that its integers index into.
        trainable: Default: floats are, unless auxiliary.
        auxiliary: Marks values that are not weights, e.g. running statistics.
        non_critical_for_restore: A checkpoint may omit it (`rf.check_params_complete`).
        weight_decay: Weight decay factor of this parameter, for the optimizer.
        initial: Number, array, Tensor or ParamInit, as assigned to `initial`.
        raw_tensor: The array to hold, with its values; a torch.nn.Parameter is kept as the same object.
        device: Default: the default device.

    Raises:
        DimError: A dim twice, or a ragged dim.
        ShapeError: If raw_tensor does not fit the dims or the dtype.
        ValueError: If integers or bools are to be trainable.
    """

    _finite = True  # a parameter has no padding

    @op
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
        initial: ParamInitType | None = None,
        raw_tensor: Any = None,
        device: str | None = None,
    ):
        feature_dim = None
        if isinstance(dims_or_tensor, Tensor):
            like = dims_or_tensor
            dims, dtype = like.dims, dtype or like.dtype
            sparse_dim, feature_dim = sparse_dim or like.sparse_dim, like.feature_dim
            if initial is None and like.raw_tensor is not None:
                initial = like
        elif dims_or_tensor is not None:
            dims = dims_or_tensor
        dims = dims_of("Parameter", dims or ())
        for dim in dims:
            if dim.need_masking():
                raise dim_error(
                    "Parameter: a ragged dim.",
                    {"dims": ", ".join(d.short_repr() for d in dims)},
                    "A parameter has the same size in every batch.",
                )
        if dtype is None and raw_tensor is None:
            dtype = get_default_float_dtype()
        super().__init__(
            "parameter", dims, dtype, sparse_dim=sparse_dim, feature_dim=feature_dim, raw_tensor=raw_tensor
        )
        if raw_tensor is None:
            backend, device = registry.selected(), device_of_new(device)
            raw_tensor = backend.full_raw(full_shape(dims), 0, dtype=self.dtype, device=device)
        elif device is not None:
            raw_tensor = self.backend.to_device_raw(raw_tensor, device_name(device))
        self._raw = raw_tensor
        self._dtype = self.dtype
        self.non_critical_for_restore, self.weight_decay = non_critical_for_restore, weight_decay
        self._auxiliary, self._trainable = auxiliary, trainable
        self._initial: Any = None
        self._raw = self.backend.parameter_raw(raw_tensor, self._checked_trainable())
        if initial is not None:
            self.initial = initial

    @property
    def trainable(self) -> bool:
        """Whether an optimizer changes it. Assign None for the default: floats are trainable, unless auxiliary."""
        if self._trainable is None:
            return is_float_dtype(self._dtype or self.dtype) and not self.auxiliary
        return self._trainable

    @trainable.setter
    def trainable(self, trainable: bool | None) -> None:
        before, self._trainable = self._trainable, trainable
        try:
            self._raw = self.backend.parameter_raw(self._raw, self._checked_trainable())
        except ValueError:
            self._trainable = before
            raise

    @property
    def auxiliary(self) -> bool:
        """Whether it is not a weight, e.g. running statistics."""
        return self._auxiliary

    @auxiliary.setter
    def auxiliary(self, auxiliary: bool) -> None:
        self._auxiliary = auxiliary
        self.trainable = self._trainable

    # Attributes that torch code uses on parameters refer to the raw parameter.
    @property
    def requires_grad(self) -> bool:
        """Whether its raw parameter gets a gradient; assignment sets `trainable`. An auxiliary one does not change: torch
        code loops over all parameters, but holds such values as buffers.
        """
        return bool(getattr(self._raw, "requires_grad", False))

    @requires_grad.setter
    def requires_grad(self, requires_grad: bool) -> None:
        if not self.auxiliary:
            self.trainable = bool(requires_grad)

    def requires_grad_(self, requires_grad: bool = True) -> Parameter:
        """Set `requires_grad`; returns self."""
        self.requires_grad = requires_grad
        return self

    @property
    def grad(self) -> Any:
        """The gradient of the raw parameter, a raw array or None; assignment sets it."""
        return getattr(self._raw, "grad", None)

    @grad.setter
    def grad(self, grad: Any) -> None:
        self._raw.grad = grad.raw_tensor if isinstance(grad, Tensor) else grad

    def _checked_trainable(self) -> bool:
        if self.trainable and not is_float_dtype(self.dtype):
            raise value_error(
                f"Parameter: {self.dtype} is not trainable.",
                {"parameter": self},
                "Only floats have gradients. Leave trainable out, which means not trainable here.",
            )
        return self.trainable

    @property
    def initial(self) -> Any:
        """The initial values of this parameter; assignment initialises it at once (None: zeros)."""
        return self._initial

    @initial.setter
    def initial(self, value: ParamInitType | None) -> None:
        self._initial = value
        if isinstance(value, ParamInit) or callable(value):
            value = value(self.dims, self.dtype, sparse_dim=self.sparse_dim, device=self.device)
        self.assign(0 if value is None else value)

    @op(changes_state=True)
    def assign(self, value: Tensor | RawTensorTypes) -> None:
        """Set new values in place, without gradient; dims are matched by identity, missing ones broadcast. Values are
        copied, also from another device: the parameter stays on its own.

        Args:
            value: Tensor {any of the dims}, number, or array (in the order of the dims).

        Raises:
            DimError: If the value has a dim that the parameter lacks.
            TypeError: If floats are assigned to integers.
        """
        self.backend.assign_raw(self._raw, self._fitting("assign", value, self.dims))

    @op(changes_state=True)
    def assign_add(self, value: Tensor | RawTensorTypes) -> None:
        """Add in place, without gradient. See `assign`."""
        raw = self._fitting("assign_add", value, self.dims)
        try:
            total = self.backend.combine_raw(self.backend.detach_raw(self._raw), "add", raw)
        except RuntimeError:
            if isinstance(value, Tensor):
                check_devices("Parameter.assign_add", self, value)
            raise
        self.backend.assign_raw(self._raw, total)

    @op(changes_state=True)
    def assign_key(
        self,
        axis: Dim | Sequence[Dim],
        key: ItemKeyType,
        key_dim: Dim | Sequence[Dim | None] | None,
        value: Tensor | RawTensorTypes,
    ) -> None:
        """In place and without gradient, `parameter[key] = value` along `axis`.

            table.assign_key(vocab, 3, None, row)                       # one row
            table.assign_key(vocab, slice(0, 2), first_two, rows)       # rows {first_two, model}
            table.assign_key(vocab, ids, batch, rows)                   # ids {batch}, rows {batch, model}
            table.assign_key([vocab, model], [ids, 0], [batch, None], 1.0)

        Args:
            axis: A dim of the parameter, or several.
            key: For each axis an integer, a slice, or integers as list, array or Tensor. Tensors with a common dim are
                paired along it: entry i of one with entry i of the other.
            key_dim: For each axis the dim that replaces it in value: None for an integer, if it is unambiguous (the
                dims of a Tensor; the axis itself for a full slice), or if value has no such dim.
            value: Tensor {key dims, further dims of the parameter}; missing dims broadcast. Padding of a ragged key dim
                is not written. If two keys name the same entry, it is unspecified which value remains.

        Raises:
            DimError: No such axis, a key_dim of another size, or a value with further dims.
            IndexError: An integer outside of its axis.
            TypeError, ValueError: Another type of key; not one key for each axis.
        """
        places = EntryPlaces(self, axis, key, key_dim)
        places.assign(self._fitting("assign_key", value, places.dims))

    def _fitting(self, what: str, value: Any, dims: Dims) -> Any:
        """The raw array of `value` over `dims`, on the backend of this parameter."""
        backend = self.backend
        value = plain_number(value)
        if isinstance(value, (bool, int, float, complex)):
            if isinstance(value, complex) and not self.dtype.startswith("complex"):
                raise self._other_kind(what, "complex")
            if isinstance(value, float) and not _holds(self.dtype, "float") and not value.is_integer():
                raise self._other_kind(what, "float")
            return backend.full_raw(full_shape(dims), value, dtype=self.dtype, device=self.device)
        if not isinstance(value, Tensor):
            value = convert_to_tensor(value, dims=dims)
        if set(value.dims) - set(dims):
            operands = {"parameter": self, "value": value}
            rule = "The value has dims that the parameter lacks."
            if what == "assign_key":
                operands = {"parameter": self, "places": Tensor("places", dims), "value": value}
                rule = (
                    "The value has dims that the indexed entries lack; key_dim names the dim that replaces each axis."
                )
            raise dim_error(f"Parameter.{what}: other dims.", operands, rule)
        if not _holds(self.dtype, value.dtype):
            raise self._other_kind(what, value.dtype)
        raw = value.backend.broadcast_raw(value.copy_compatible_to_dims_raw(dims), full_shape(dims))
        if value.backend is not backend:
            raw = backend.from_numpy(value.backend.raw_to_numpy(raw), device=self.device)
        return raw

    def _other_kind(self, what: str, got: str) -> TypeError:
        of_complex = got.startswith("complex")
        return type_error(
            f"Parameter.{what}: {'complex numbers to real ones' if of_complex else 'floats to integers'}.",
            {"parameter": self.dtype, "value": got},
            f"The {'imaginary parts' if of_complex else 'fractions'} would be lost. If this is intended, say so:",
            "parts, pair = rf.complex_as_real(value)\nreal, imag = rf.unstack(parts, axis=pair)"
            if of_complex
            else f'rf.cast(value, "{self.dtype}")',
        )

    @op
    def to(self, *, device: str | None = None, dtype: str | None = None) -> None:
        """Move the parameter, and cast it if it holds floats. As in torch the raw parameter stays the same object, so
        optimizers keep working. Their state stays on the old device;
        `optimizer.load_state_dict(optimizer.state_dict())` moves it to the parameters.
        """
        device = None if device is None else device_name(device)
        if dtype is not None and not is_float_dtype(self.dtype):
            dtype = None
        self._raw = self.backend.convert_parameter_raw(self._raw, dtype, device)
        self._dtype = dtype or self._dtype

    @property
    def __name__(self) -> str:
        """Raises: a Tensor has no `__name__`. torch reads it to report a parameter that its optimizer does not accept, so
        the error says what to pass.
        """
        asks = sys._getframe(1)
        if asks.f_code.co_name == "typename" and asks.f_globals.get("__name__") == "torch":
            raise type_error(
                "torch: a Parameter of rfnb is not a torch.Tensor.",
                {"parameter": self},
                "torch works on raw arrays. Pass the parameters of a module, or a list of raw arrays:",
                "torch.optim.AdamW(model.parameters())\n"
                "torch.optim.AdamW([parameter.raw_tensor for parameter in parameters if parameter.trainable])",
            )
        raise AttributeError("__name__")

    @op
    def __deepcopy__(self, memo: dict[int, Any]) -> Parameter:
        """Copy as set by `set_parameter_copy_behavior_ctx`."""
        mode = _copy_behavior.get()
        if mode == "share":
            memo[id(self)], memo[id(self._raw)] = self, self._raw
            return self
        backend = self.backend
        raw = memo.get(id(self._raw))  # a torch module that holds it is being copied too
        raw = backend.copy_raw(backend.detach_raw(self._raw)) if raw is None else raw
        new = Parameter(
            self.dims, self.dtype, sparse_dim=self.sparse_dim, trainable=self._trainable, auxiliary=self.auxiliary,
            non_critical_for_restore=self.non_critical_for_restore, weight_decay=self.weight_decay, raw_tensor=raw,
        )  # fmt: skip
        new.name, new._feature_dim, new._initial = self.name, self._feature_dim, self._initial
        memo[id(self._raw)] = new._raw
        if mode == "fresh":
            new.initial = self._initial
        memo[id(self)] = new
        return new


def _holds(dtype: str, other: str) -> bool:
    """Whether numbers of a dtype can be cast to that of a parameter without loss."""
    if other.startswith("complex"):
        return dtype.startswith("complex")
    return not is_float_dtype(other) or is_float_dtype(dtype) or dtype.startswith("complex")


def _in_place(name: str) -> Any:
    """`p += 1` would replace the parameter by a Tensor, so it is refused; `module.p += 1` gets a warning from the module."""

    def operator(self: Parameter, value: Any) -> Any:
        frame = sys._getframe(1)
        stored = [each.opname for each in dis.get_instructions(frame.f_code) if each.offset > frame.f_lasti][:2]
        if "STORE_ATTR" in stored:
            return NotImplemented
        raise type_error(
            "Parameter: += and the like.",
            {"parameter": self, "value": value if isinstance(value, Tensor) else repr(value)},
            "They would put a Tensor in its place, and no optimizer would reach it. New values, or a Tensor with a name of its own:",
            "parameter.assign_add(value)    # or parameter.assign(parameter * value)\nx = parameter + value",
        )

    operator.__name__ = operator.__qualname__ = name
    return operator


for _name in "add sub mul truediv floordiv mod pow and or xor matmul lshift rshift".split():
    setattr(Parameter, f"__i{_name}__", _in_place(f"__i{_name}__"))

_copy_behavior = contextvars.ContextVar("rfnb_parameter_copy_behavior", default="copy")
_COPY_BEHAVIORS = ("copy", "fresh", "share")


@block
def set_parameter_copy_behavior_ctx(mode: str) -> Iterator[None]:
    """Choose how `copy.deepcopy` treats parameters (and so modules) in a with-block.

    Args:
        mode: "copy" (the default): the same values. "fresh": initialised again by the scheme in `initial`, so with
            other random values, as for repeated layers. "share": the same Parameter object.

    Raises:
        ValueError: Another mode.

    RETURNN's default is "fresh"; here a deep copy equals its original by default.
    """
    if mode not in _COPY_BEHAVIORS:
        what = f'set_parameter_copy_behavior_ctx: unknown mode "{mode}".'
        raise not_one_of(what, "mode", mode, _COPY_BEHAVIORS, "A mode is one of these.")
    with Setting(_copy_behavior, partial(_copy_behavior.set, mode)):
        yield
