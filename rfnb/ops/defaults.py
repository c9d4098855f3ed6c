"""Defaults for new tensors: device and dtypes; moving between devices.

They belong to the context: a thread has its own, unless it was started with a copy of another's (`contextvars`).
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from contextvars import ContextVar
from functools import partial
from typing import Never

from rfnb.backends import registry
from rfnb.core.block import Setting
from rfnb.core.device_errors import device_name
from rfnb.core.errors import type_error
from rfnb.core.op import op
from rfnb.core.tensor import Tensor
from rfnb.core.type_errors import not_a_tensor

FLOAT_DTYPES = "bfloat16", "float16", "float32", "float64"
_device: ContextVar[str | None] = ContextVar("rfnb_default_device", default=None)
_float_dtype: ContextVar[str] = ContextVar("rfnb_default_float_dtype", default="float32")
_set = [False]  # whether anybody has set one: before, nobody asks the context, which torch.compile could not


def get_default_device(*extra: Never, **unknown: Never) -> str | None:
    """The device of new tensors; None: the backend's default."""
    return _device.get() if _set[0] else None


def set_default_device(device: str | None, *extra: Never, **unknown: Never) -> None:
    """Create new tensors on `device`, e.g. "cuda"; a torch.device is converted to its name.

    Raises:
        TypeError: For anything else.
        RuntimeError: For a name unknown to the backend; with NumPy a ValueError.
    """
    device = None if device is None else device_name(device)
    if device is not None:
        registry.selected().check_device_name(device)
    _set[0] = True
    _device.set(device)


def device_of_new(device: str | None) -> str | None:
    """The device of a new tensor: the requested one, else the default device.

    Raises:
        TypeError: For anything that is not a device.
    """
    return get_default_device() if device is None else device_name(device)


def set_default_device_ctx(device: str | None) -> AbstractContextManager[None]:
    """`set_default_device` for a with-block."""
    return Setting(_device, partial(set_default_device, device))


def get_default_dim_size_device(*extra: Never, **unknown: Never) -> str:
    """The device of lengths: the host."""
    return "cpu"


def get_default_float_dtype(*extra: Never, **unknown: Never) -> str:
    """The dtype of new float tensors and parameters."""
    return _float_dtype.get() if _set[0] else "float32"


def set_default_float_dtype(dtype: str, *extra: Never, **unknown: Never) -> None:
    """Create new float tensors and parameters in `dtype`, e.g. "bfloat16"; also floats that an op makes from integers.

    Raises:
        TypeError: For another dtype.
    """
    if dtype not in FLOAT_DTYPES:
        raise type_error(
            "set_default_float_dtype: this is no dtype of floats.",
            {"dtype": repr(dtype), "known": " ".join(FLOAT_DTYPES)},
            "A dtype is the name that NumPy and torch have for it.",
            f'rf.set_default_float_dtype("{next((name for name in FLOAT_DTYPES if str(dtype).endswith(name)), "float32")}")',
        )
    _set[0] = True
    _float_dtype.set(dtype)


def set_default_float_dtype_ctx(dtype: str) -> AbstractContextManager[None]:
    """`set_default_float_dtype` for a with-block."""
    return Setting(_float_dtype, partial(set_default_float_dtype, dtype))


def get_default_int_dtype(*extra: Never, **unknown: Never) -> str:
    """The dtype of new integer tensors."""
    return "int32"


def get_default_array_index_dtype(*extra: Never, **unknown: Never) -> str:
    """The dtype of new tensors of indices."""
    return "int32"


def is_float_dtype(dtype: str, *extra: Never, **unknown: Never) -> bool:
    """True if this is the name of a (real) float dtype."""
    return dtype.startswith(("float", "bfloat"))


def has_fractions(dtype: str) -> bool:
    """True if this is the name of a float or complex dtype."""
    return dtype.startswith(("float", "bfloat", "complex"))


@op
def copy_to_device(x: Tensor, device: str | None = None, *extra: Never, **unknown: Never) -> Tensor:
    """x on `device` (default: the default device); x itself if it is already there or there is no such device."""
    if not isinstance(x, Tensor):
        raise not_a_tensor("copy_to_device", x)
    device = device_of_new(device)
    if device is None or x.device == device:
        return x
    raw = x.backend.to_device_raw(x._raw, device)
    if raw is x._raw:  # "cuda" is the one that torch works on now: it may be there
        return x
    out = x._like(raw, x.dims)
    if x._roles is not None:
        out._roles = x._roles
    return out
