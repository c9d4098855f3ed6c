"""A number written into a tensor is cast to the tensor's dtype, whether or not this batch has padding to fill; and raw scalars become
Python numbers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rfnb.backends import registry
from rfnb.core.errors import type_error

if TYPE_CHECKING:
    from rfnb.core.tensor import Tensor

_KINDS = {"bool": 0, "int": 1, "uint": 1, "float": 2, "bfloat": 2, "complex": 3}


def plain_number(value: Any) -> Any:
    """A raw scalar, of NumPy or of a backend, as a Python number; anything else unchanged."""
    if isinstance(value, (bool, int, float)) or hasattr(type(value), "dims"):
        return value
    backend = registry.BY_TYPE.get(type(value))
    if backend is not None and backend.get_shape_tuple_raw(value) == ():
        return backend.raw_to_numpy(value).item()
    return value if backend is not None or getattr(value, "shape", None) != () else value.item()


def number_to_fill(what: str, tensor: Tensor, value: Any, name: str = "value") -> Any:
    """`value`, a Python number or raw scalar, converted to a number that the dtype of `tensor` can hold: 0 is False in a bool tensor,
    2.0 is 2 in an int one.

    Raises:
        TypeError: If the dtype cannot hold it: 0.5 in integers, 2 in bool. Promotion would change the dtype of the result, and only
            in batches with padding.
    """
    value, kind = plain_number(value), kind_of_dtype(tensor.dtype)
    if kind >= 2 or (kind == 1 and type(value) is int):
        return value
    kept = bool(value) if kind == 0 else int(value) if value == value and abs(value) != float("inf") else None
    if kept != value:
        dtype = "float32" if isinstance(value, float) else "int32"
        raise type_error(
            f"{what}: {value} is not {tensor.dtype}.",
            [("tensor", f"{tensor.get_batch_axes_short_description()} {tensor.dtype}"), (name, repr(value))],
            "What is put into a tensor has its dtype. Cast first, if the result is meant to have another:",
            f'rf.cast(x, "{dtype}")',
        )
    return kept


def check_entries_to_fill(what: str, tensor: Tensor, value: Tensor) -> None:
    """Check that `value`, a Tensor, may be cast to the dtype of `tensor`.

    Raises:
        TypeError: For floats in integers, or numbers in bool.
    """
    if kind_of_dtype(value.dtype) > kind_of_dtype(tensor.dtype):
        operands = [
            (label, f"{x.get_batch_axes_short_description()} {x.dtype}")
            for label, x in (("tensor", tensor), ("value", value))
        ]
        raise type_error(
            f"{what}: {value.dtype} into {tensor.dtype}.",
            operands,
            "What is put into a tensor has its dtype. Cast one of them first:",
            f'rf.cast(value, "{tensor.dtype}")',
        )


def kind_of_dtype(dtype: str) -> int:
    """The rank of bool, integers, floats, complex numbers: each can hold the values of the earlier ones."""
    return _KINDS.get(dtype.rstrip("0123456789"), 2)  # float8_e4m3fn
