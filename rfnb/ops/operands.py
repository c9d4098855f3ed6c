"""Checks of an op's operands: Tensors with values, or numbers where allowed; all on one backend."""

from __future__ import annotations

import re
import sys
from itertools import cycle
from typing import Any

from rfnb.backends import registry
from rfnb.core.device_errors import about_devices, on_two_devices
from rfnb.core.errors import runtime_error, type_error, value_error
from rfnb.core.fill_values import plain_number
from rfnb.core.tensor import Tensor, new_tensor
from rfnb.core.tensor_text import dims_text
from rfnb.core.type_errors import not_a_tensor


def need_values(kind: str, *tensors: Tensor) -> None:
    """Raise a TypeError for operands that are not Tensors, a ValueError for templates."""
    for tensor in tensors:
        if not isinstance(tensor, Tensor):
            raise not_a_tensor(kind, tensor)
        if tensor._raw is None:
            raise value_error(
                f"{kind}: a template has no values.", {"tensor": repr(tensor)}, "Assign x.raw_tensor first."
            )


def need_tensors(kind: str, *values: Any) -> None:
    """Raise a TypeError for operands that are not Tensors; templates pass."""
    for value in values:
        if not isinstance(value, Tensor):
            raise not_a_tensor(kind, value)


def common_backend(kind: str, *tensors: Tensor) -> Any:
    """The backend of all operands; raises a TypeError if there are several."""
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
    """Raise a RuntimeError if operands are on several devices. A scalar may be on the CPU, unless a kernel has refused it: this is
    called while that error is handled.
    """
    handled = sys.exc_info()[1]
    refused = isinstance(handled, RuntimeError) and about_devices(handled)
    error = on_two_devices(kind, list(zip(cycle("abcdefghijklmnopqrstuvwxyz"), tensors)), numbers=refused)
    if error is not None:
        raise error from None


_WIDTHS = "bool uint8 int8 int16 int32 int64 bfloat16 float16 float32 float64".split()


def check_dtypes(kind: str, **operands: Any) -> None:
    """Raise a TypeError if the dtypes of the operands (those that are Tensors) caused a kernel's error: called while that error is
    handled.
    """
    text = str(sys.exc_info()[1])
    if re.search("memory|allocate", text):
        return
    tensors = {label: x for label, x in operands.items() if isinstance(x, Tensor)}
    dtypes = dict.fromkeys(x.dtype for x in tensors.values())
    name = next(iter(tensors), "x")
    rows = [(label, f"{dims_text(x.dims)} {x.dtype}") for label, x in tensors.items()]
    if "ZeroDivision" in text:
        rule = "Integers have no infinity. Take floats, or replace zeros before:"
        raise runtime_error(f"{kind}: integers divided by 0.", rows, rule, f'rf.cast({name}, "float32")') from None
    if any(dtype.startswith("complex") for dtype in dtypes):
        rule = "It is not defined for complex numbers, which have no order. Take absolute values, or the two parts:"
        fix = f"rf.abs({name})\nparts, pair = rf.complex_as_real({name})"
    elif len(dtypes) > 1:
        rule, to = "It is computed in one dtype. Choose it:", max(dtypes, key=_WIDTHS.index)
        other = next(label for label, x in tensors.items() if x.dtype != to)
        fix = f'{other} = rf.cast({other}, "{to}")'
    elif "bool" in dtypes:
        rule, fix = "True and False are no numbers here. Say that they count as 1 and 0:", f'rf.cast({name}, "int32")'
    elif not dtypes or next(iter(dtypes)).startswith(("float", "bfloat")):
        return
    else:
        rule, fix = "It is a function of floats:", f'rf.cast({name}, "float32")'
    raise type_error(f"{kind}: not of {', '.join(dtypes)}.", rows, rule, fix) from None


def check_number(kind: str, x: Tensor, number: Any) -> None:
    """`check_dtypes` for a Tensor and a Python number."""
    if isinstance(number, complex) and not x.dtype.startswith("complex"):
        rows = [("a", f"{dims_text(x.dims)} {x.dtype}"), ("number", number)]
        raise type_error(
            f"{kind}: not of a complex number.", rows, "Such numbers have no order.", "abs(number)"
        ) from None
    check_dtypes(kind, a=x)


def as_tensor(value: Any, kind: str) -> Tensor:
    """A Python number or raw scalar as a Tensor without dims.

    Raises:
        TypeError: If it is not a number.
    """
    value = plain_number(value)
    if isinstance(value, (bool, int, float)):
        dtype = "bool" if isinstance(value, bool) else "int32" if isinstance(value, int) else "float32"
        return new_tensor(registry.selected().full_raw((), value, dtype=dtype), ())
    raise not_a_tensor(kind, value)
