"""Helpers for tests of tensors: make them, fill their padding, compare them by dim.

from asserting import assert_same, ragged, randn, with_nan_padding
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import rfnb as rf
from rfnb import Dim, Tensor


def ragged(lengths: Any, over: Dim | Sequence[Dim], name: str = "time") -> Dim:
    """A ragged dim with nested lists of lengths, over one dim or several."""
    over = (over,) if isinstance(over, Dim) else tuple(over)
    return Dim(tensor(np.asarray(lengths, np.int32), *over), name=name)


def tensor(values: Any, *dims: Dim, sparse_dim: Dim | None = None, name: str | None = None) -> Tensor:
    """A Tensor of these values; lists of floats become float32."""
    array = np.asarray(values)
    if array.dtype == np.float64:
        array = array.astype(np.float32)
    return rf.convert_to_tensor(array, dims=dims, sparse_dim=sparse_dim, name=name)


def randn(*dims: Dim, seed: int = 0) -> Tensor:
    """Standard normal values, deterministic by seed and sizes."""
    shape = tuple(dim.extent for dim in dims)
    return tensor(np.random.default_rng(seed).standard_normal(shape).astype(np.float32), *dims)


def real_frames(dims: Sequence[Dim]) -> np.ndarray:
    """Boolean array over `dims`: True where no dim is in its padding. Lengths over other dims are ignored."""
    dims = tuple(dims)
    shape = tuple(dim.extent for dim in dims)
    grid = dict(zip(dims, np.indices(shape, sparse=True)))
    real = np.ones(shape, bool)
    for dim in dims:
        if dim.lengths is not None and set(dim.length_dims) <= set(dims):
            lengths = dim.lengths[tuple(grid[other] for other in dim.length_dims)]
            real &= grid[dim] < lengths
    return real


def with_nan_padding(x: Tensor) -> Tensor:
    """x with NaN in its padding; integers get their largest value (sparse ones an invalid index), bools the opposite."""
    return with_padding(x, np.nan)


def with_padding(x: Tensor, garbage: float) -> Tensor:
    """x with this value in its padding, if it is float; integers and bools as in `with_nan_padding`."""
    values = x.numpy().copy()
    padding = ~real_frames(x.dims)
    if values.dtype.kind == "f":
        values[padding] = garbage
    elif values.dtype.kind == "b":
        values[padding] = ~values[padding]
    else:
        values[padding] = np.iinfo(values.dtype).max if x.sparse_dim is None else x.sparse_dim.extent + 2
    return _like(x, values, x.dims)


def reordered(x: Tensor, dims: Sequence[Dim]) -> Tensor:
    """The same tensor from an array whose axes are in the order of `dims`."""
    perm = [x.dims.index(dim) for dim in dims]
    return _like(x, x.numpy().transpose(perm).copy(order="C"), dims)


def on_selected_backend(x: Tensor) -> Tensor:
    """The same values as an array of the selected backend."""
    return _like(x, x.numpy(), x.dims)


def _like(x: Tensor, values: np.ndarray, dims: Sequence[Dim]) -> Tensor:
    return rf.convert_to_tensor(values, dims=dims, sparse_dim=x.sparse_dim, feature_dim=x.feature_dim, name=x.name)


@contextmanager
def using_backend(name: str) -> Iterator[None]:
    """`rf.select_backend(name)` for a with-block."""
    before = rf.get_selected_backend()
    rf.select_backend(name)
    try:
        yield
    finally:
        rf.select_backend(before)


def assert_same(actual: Any, expected: Any, *, tolerance: float = 1e-5) -> None:
    """Compare values by dim in any order, dtype and sparse_dim; padding is ignored.

    `expected` may be a nested list for a Tensor (in the order of its dims). Structures (list, tuple, dict) are compared leaf
    by leaf, Dims by identity.

    Raises:
        AssertionError: With the place and both sides.
    """
    _assert_same(actual, expected, tolerance, "result")


def _assert_same(actual: Any, expected: Any, tolerance: float, where: str) -> None:
    if isinstance(actual, Tensor):
        if not isinstance(expected, Tensor):
            expected = _like(actual, np.asarray(expected, actual.numpy().dtype), actual.dims)
        assert set(actual.dims) == set(expected.dims), f"{where}: dims {actual.dims}, expected {expected.dims}"
        assert actual.dtype == expected.dtype, f"{where}: dtype {actual.dtype}, expected {expected.dtype}"
        assert actual.sparse_dim is expected.sparse_dim, (
            f"{where}: over {actual.sparse_dim}, expected {expected.sparse_dim}"
        )
        real = real_frames(expected.dims)
        got = actual.numpy().transpose([actual.dims.index(dim) for dim in expected.dims])
        assert got.shape == real.shape, f"{where}: raw shape {got.shape}, dims {expected.dims}"
        np.testing.assert_allclose(
            got[real].astype(np.float64),
            expected.numpy()[real].astype(np.float64),
            rtol=tolerance,
            atol=tolerance,
            err_msg=where,
        )
    elif isinstance(actual, dict):
        assert list(actual) == list(expected), f"{where}: keys {list(actual)}, expected {list(expected)}"
        for key in actual:
            _assert_same(actual[key], expected[key], tolerance, f"{where}[{key!r}]")
    elif isinstance(actual, (list, tuple)):
        assert len(actual) == len(expected), f"{where}: {len(actual)} entries, expected {len(expected)}"
        for index, (one, other) in enumerate(zip(actual, expected)):
            _assert_same(one, other, tolerance, f"{where}[{index}]")
    elif isinstance(actual, Dim):
        assert actual is expected, f"{where}: dim {actual}, expected {expected}"
    else:
        assert actual == expected, f"{where}: {actual!r}, expected {expected!r}"


@contextmanager
def raises_message(error: type[Exception], text: str) -> Iterator[None]:
    """The block raises exactly this type of error with exactly this message (outer newlines and common indentation aside); what it says
    of the simulated device, on a real one of that (tests/real_device.py)."""
    import os
    import textwrap

    text = text.replace("sim:0", f"{os.environ['RFNB_TEST_DEVICE']}:0") if "RFNB_TEST_DEVICE" in os.environ else text
    with pytest.raises(error) as caught:
        yield
    assert type(caught.value) is error
    assert str(caught.value) == textwrap.dedent(text).strip("\n")


def public():
    """The public names with their values, including those that are loaded on first use."""
    return {name: getattr(rf, name) for name in rf.__all__}
