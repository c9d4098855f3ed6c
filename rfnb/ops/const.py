"""Tensors from values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Never

import numpy as np

from rfnb.backends import registry
from rfnb.core.device_errors import device_name
from rfnb.core.dim import Dim, Dims
from rfnb.core.errors import dim_error, shape_error, type_error
from rfnb.core.fill_values import plain_number
from rfnb.core.layout import full_shape
from rfnb.core.op import op
from rfnb.core.tensor import Tensor, new_tensor
from rfnb.core.tensor_checks import check_unique, dims_of
from rfnb.core.tensor_text import dims_text
from rfnb.ops.defaults import (
    copy_to_device,
    device_of_new,
    get_default_float_dtype,
    get_default_int_dtype,
)
from rfnb.ops.operands import need_tensors


@op
def full(
    *extra: Never,
    dims: Sequence[Dim],
    fill_value: Any,
    dtype: str | None = None,
    device: str | None = None,
    sparse_dim: Dim | None = None,
    feature_dim: Dim | None = None,
    **unknown: Never,
) -> Tensor:
    """A constant Tensor {dims}; the dtype follows from the value by default. Ragged dims get their longest length.

    Args:
        fill_value: A Python number, a raw scalar, or a Tensor {some of the dims}.

    Raises:
        DimError: If the value is a Tensor with a dim that is not among the dims.
    """
    dims = check_unique(dims_of("full", dims), "full")
    if isinstance(fill_value, Tensor):
        return _with(_spread(fill_value, dims, dtype, device), sparse_dim, feature_dim)
    fill_value = plain_number(fill_value)
    if dtype is None:
        dtype = _dtype_of(fill_value)
    raw = registry.selected().full_raw(full_shape(dims), fill_value, dtype=dtype, device=device_of_new(device))
    return _with(new_tensor(raw, dims), sparse_dim, feature_dim)


def _spread(value: Tensor, dims: Dims, dtype: str | None, device: str | None) -> Tensor:
    """A Tensor expanded to further dims, with its own storage."""
    if not set(value.dims) <= set(dims):
        raise dim_error(
            "full: the value has other dims.",
            {"fill_value": value, "dims": dims_text(dims)},
            "A value that is a Tensor has some of the dims of the result. To keep its own as well:",
            "rf.expand_dims(fill_value, dims)",
        )
    value = convert_to_tensor(value, dtype=dtype, device=device)
    raw = value.copy_compatible_to_dims_raw(dims, unbroadcast=True)
    return new_tensor(value.backend.copy_raw(raw), dims)


fill = full


@op
def constant(
    fill_value: Any,
    *extra: Never,
    dims: Sequence[Dim] = (),
    dtype: str | None = None,
    device: str | None = None,
    sparse_dim: Dim | None = None,
    feature_dim: Dim | None = None,
    **unknown: Never,
) -> Tensor:
    """`full` with the value first; a list or array is passed to `convert_to_tensor`; {dims}."""
    make: Any = convert_to_tensor if isinstance(fill_value, Tensor) or np.ndim(fill_value) > 0 else _full_of
    return make(fill_value, dims=dims, dtype=dtype, device=device, sparse_dim=sparse_dim, feature_dim=feature_dim)


def _full_of(fill_value: Any, **options: Any) -> Tensor:
    return full(fill_value=fill_value, **options)


@op
def zeros(
    dims: Sequence[Dim],
    *extra: Never,
    dtype: str | None = None,
    device: str | None = None,
    sparse_dim: Dim | None = None,
    feature_dim: Dim | None = None,
    **unknown: Never,
) -> Tensor:
    """Zeros {dims}, in the default float dtype."""
    dtype = dtype or get_default_float_dtype()
    return full(dims=dims, fill_value=0, dtype=dtype, device=device, sparse_dim=sparse_dim, feature_dim=feature_dim)


@op
def ones(
    dims: Sequence[Dim],
    *extra: Never,
    dtype: str | None = None,
    device: str | None = None,
    sparse_dim: Dim | None = None,
    feature_dim: Dim | None = None,
    **unknown: Never,
) -> Tensor:
    """Ones {dims}, in the default float dtype."""
    dtype = dtype or get_default_float_dtype()
    return full(dims=dims, fill_value=1, dtype=dtype, device=device, sparse_dim=sparse_dim, feature_dim=feature_dim)


@op
def zeros_like(other: Tensor, *extra: Never, **unknown: Never) -> Tensor:
    """Zeros with the dims, dtype, device and marks of `other`; {...} -> {...}."""
    need_tensors("zeros_like", other)
    return _fill_like(other, 0)


@op
def ones_like(other: Tensor, *extra: Never, **unknown: Never) -> Tensor:
    """Ones with the dims, dtype, device and marks of `other`; {...} -> {...}."""
    need_tensors("ones_like", other)
    return _fill_like(other, 1)


def _fill_like(other: Tensor, value: int) -> Tensor:
    raw = other.backend.full_raw(full_shape(other.dims), value, dtype=other.dtype, device=other.device)
    return other._like(raw, other.dims)


@op
def convert_to_tensor(
    value: Any,
    *extra: Never,
    dims: Sequence[Dim] | None = None,
    dtype: str | None = None,
    sparse_dim: Dim | None = None,
    feature_dim: Dim | None = None,
    shape: Sequence[Dim] | None = None,
    device: str | None = None,
    keep_scalar_on_cpu: bool = False,
    name: str | None = None,
    **unknown: Never,
) -> Tensor:
    """A number, nested list, NumPy array or raw tensor as a Tensor; a Tensor is passed through (cast or moved on request).

    {dims}.

    Args:
        value: An array whose axes are in the order of `dims`.
        dims: Without them, new dims are made from the shape.
        shape: Older spelling of dims.
        keep_scalar_on_cpu: A number stays on the host, even with a default device.

    Raises:
        ShapeError: If the shape does not match the dims.
        TypeError: If the value is not a regular array of numbers.
    """
    dims = shape if dims is None else dims
    dims = None if dims is None else dims_of("convert_to_tensor", dims)
    if isinstance(value, Tensor):
        out = value
        if dtype is not None and out.dtype != dtype:
            out = out._like(out.backend.cast_raw(out._raw, dtype), out.dims)
        return out if device is None else copy_to_device(out, device)
    backend = registry.selected()
    if not isinstance(value, backend.RawTensorType):
        array = _as_array(value)
        if array.ndim == 0 and dims:
            raise shape_error(
                "convert_to_tensor: one number for several entries.",
                {"value": "()", "dims": dims_text(dims)},
                "A number has no dims. To fill a tensor with it:",
                f"rf.full(dims=[{', '.join(dim.name for dim in dims)}], fill_value=...)",
            )
        if keep_scalar_on_cpu and array.ndim == 0:
            device = "cpu"
        value = backend.from_numpy(array, dtype=dtype or _dtype_of_array(value, array), device=device_of_new(device))
    else:
        if dtype is not None and backend.get_dtype_name_raw(value) != dtype:
            value = backend.cast_raw(value, dtype)
        if device is not None:
            value = backend.to_device_raw(value, device_name(device))
    if dims is None:
        dims = [Dim(length, name=f"axis{axis}") for axis, length in enumerate(backend.get_shape_tuple_raw(value))]
    return Tensor(name, tuple(dims), sparse_dim=sparse_dim, feature_dim=feature_dim, raw_tensor=value)


def _as_array(value: Any) -> np.ndarray:
    try:
        array = np.asarray(value)
    except ValueError:  # rows of different lengths
        array = np.empty((), object)
    if array.dtype.kind not in "biufc":
        raise type_error(
            "convert_to_tensor: not a regular array of numbers.",
            {"got": type(value).__name__},
            "All rows need the same length; a ragged batch is padded, and its dim has lengths.",
            'time = rf.ragged_dim([7, 5, 3], over=batch, name="time")',
        )
    return array


def _dtype_of(value: Any) -> str:
    if isinstance(value, (bool, np.bool_)):
        return "bool"
    if isinstance(value, int):
        return get_default_int_dtype()
    if isinstance(value, float):
        return get_default_float_dtype()
    return np.asarray(value).dtype.name


def _dtype_of_array(value: Any, array: np.ndarray) -> str | None:
    if isinstance(value, (np.ndarray, np.generic)):
        return array.dtype.name
    return {"f": get_default_float_dtype(), "i": get_default_int_dtype(), "b": "bool"}.get(array.dtype.kind)


def _with(out: Tensor, sparse_dim: Dim | None, feature_dim: Dim | None) -> Tensor:
    if sparse_dim is not None:
        out.sparse_dim = sparse_dim
    if feature_dim is not None:
        out.feature_dim = feature_dim
    return out
