"""Defaults for new tensors: device and dtypes; moving between devices."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rfnb.core.layout import clear_plans
from rfnb.core.tensor import Tensor

_device: str | None = None
_float_dtype = "float32"


def get_default_device() -> str | None:
    """The device of new tensors; None: that of the backend."""
    return _device


def set_default_device(device: str | None) -> None:
    """Make new tensors on `device`, e.g. "cuda"."""
    global _device
    _device = device


@contextmanager
def set_default_device_ctx(device: str | None) -> Iterator[None]:
    """`set_default_device` for a with-block."""
    before = _device
    set_default_device(device)
    try:
        yield
    finally:
        set_default_device(before)


def get_default_dim_size_device() -> str:
    """Lengths live on the host."""
    return "cpu"


def get_default_float_dtype() -> str:
    """dtype of new float tensors and parameters."""
    return _float_dtype


def set_default_float_dtype(dtype: str) -> None:
    """Make new float tensors and parameters of `dtype`, e.g. "bfloat16"; also floats that an op makes from integers."""
    global _float_dtype
    if dtype != _float_dtype:
        clear_plans()  # a plan knows in which dtype the mean of integers is
    _float_dtype = dtype


@contextmanager
def set_default_float_dtype_ctx(dtype: str) -> Iterator[None]:
    """`set_default_float_dtype` for a with-block."""
    before = _float_dtype
    set_default_float_dtype(dtype)
    try:
        yield
    finally:
        set_default_float_dtype(before)


def get_default_int_dtype() -> str:
    """dtype of new integer tensors."""
    return "int32"


def get_default_array_index_dtype() -> str:
    """dtype of new tensors of indices."""
    return "int32"


def is_float_dtype(dtype: str) -> bool:
    """Whether a dtype of this name is a (real) float."""
    return dtype.startswith(("float", "bfloat"))


def copy_to_device(x: Tensor, device: str | None = None) -> Tensor:
    """x on `device` (default: the default device); x itself if it is there or there is no such device."""
    device = device or _device
    if device is None or x.device == device:
        return x
    return x._like(x.backend.to_device_raw(x._raw, device), x.dims)
