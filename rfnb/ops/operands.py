"""The operands that an op may get: a Tensor with values, a number where that is allowed; all on one backend."""

from __future__ import annotations

import sys
from typing import Any

from rfnb.backends import registry
from rfnb.core.call_errors import MissingArgument
from rfnb.core.errors import type_error, value_error
from rfnb.core.fill import plain_number
from rfnb.core.tensor import Tensor, new_tensor
from rfnb.core.tensor_text import dims_text
from rfnb.core.two_devices import about_devices, on_two_devices


def need_values(kind: str, *tensors: Tensor) -> None:
    """Raise a TypeError for what is no Tensor, a ValueError for a template."""
    for tensor in tensors:
        if not isinstance(tensor, Tensor):
            raise not_a_tensor(kind, tensor)
        if tensor._raw is None:
            raise value_error(
                f"{kind}: a template has no values.", [("tensor", repr(tensor))], "Assign x.raw_tensor first."
            )


def need_tensors(kind: str, *values: Any) -> None:
    """Raise a TypeError for what is no Tensor; templates may pass."""
    for value in values:
        if not isinstance(value, Tensor):
            raise not_a_tensor(kind, value)


def common_backend(kind: str, *tensors: Tensor) -> Any:
    """The one backend of all operands; a TypeError if there are several."""
    backends = {tensor.backend for tensor in tensors}
    if len(backends) > 1:
        raise type_error(
            f"{kind}: operands of different backends.",
            [(tensor.name or "operand", f"{tensor.backend.name} {dims_text(tensor.dims)}") for tensor in tensors],
            "An op works on one backend.",
            "rf.convert_to_tensor(x.numpy(), dims=x.dims)",
        )
    check_devices(kind, *tensors)
    return backends.pop()


def check_devices(kind: str, *tensors: Tensor) -> None:
    """Raise a RuntimeError if operands are on several devices. One without dims may be on the CPU, unless a kernel has refused it:
    called while that error is handled."""
    handled = sys.exc_info()[1]
    refused = isinstance(handled, RuntimeError) and about_devices(handled)
    letters = ("abcdefghijklmnopqrstuvwxyz"[place % 26] for place in range(len(tensors)))
    error = on_two_devices(kind, list(zip(letters, tensors)), numbers=refused)
    if error is not None:
        raise error from None


def as_tensor(value: Any, kind: str) -> Tensor:
    """A number, of Python or raw, as Tensor without dims.

    Raises:
        TypeError: If it is no number.
    """
    value = plain_number(value)
    if isinstance(value, (bool, int, float)):
        dtype = "bool" if isinstance(value, bool) else "int32" if isinstance(value, int) else "float32"
        return new_tensor(registry.selected().full_raw((), value, dtype=dtype), ())
    raise not_a_tensor(kind, value)


def not_a_tensor(kind: str, value: Any) -> TypeError:
    """The error for what should be a Tensor: nothing, several values, a raw array, ..."""
    if isinstance(value, MissingArgument):
        return value.error()
    if isinstance(value, (list, tuple)) and any(isinstance(each, Tensor) for each in value):
        names = ["x" if place == 0 else "_" for place in range(len(value))]
        return type_error(
            f"{kind}: this operand is several values.",
            [("got", f"{type(value).__name__}: {', '.join(_shown(each) for each in value)}")],
            "What gives back several values, as a layer with a state or with a new dim does, is taken apart first:",
            f"{', '.join(names)} = value",
        )
    return type_error(
        f"{kind}: this operand is not a Tensor.",
        [("got", type(value).__name__ if type(value).__module__ == "builtins" else _full_name(type(value)))],
        "Raw arrays and lists do not say which axis is which.",
        "rf.convert_to_tensor(value, dims=[...])",
    )


def _shown(value: Any) -> str:
    return dims_text(value.dims) if isinstance(value, Tensor) else type(value).__name__


def _full_name(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"  # there are Tensors of torch too
