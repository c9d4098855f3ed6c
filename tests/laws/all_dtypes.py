"""The law of all dtypes as a function: every op gives what it gives for the same numbers in the widest dtype, or refuses in a sentence.

A case is that of `laws.py`. Its floats are made numbers of another kind, all different so that order is clear; integers are as large as
the dtype allows a sum of a few, whose sum it does not. What is expected is computed from them as float64 or complex128 by NumPy.
"""

from __future__ import annotations

import re
import warnings
from typing import Any

import numpy as np
from asserting import real_frames, using_backend
from laws import Run, parts_in

import rfnb as rf
from rfnb import Tensor
from rfnb.core.errors import parts_of

DTYPES = "bool uint8 int8 int16 int32 int64 float16 bfloat16 float32 float64 complex64 complex128".split()
_ROUNDING = {"float16": 2**-6, "bfloat16": 2**-3}
_LARGE = {"uint8": 200, "int8": 100}
# Cases in which numbers of some dtypes are others: "dtypes: reason".
_MODULO = "uint8 int8 int16: products and differences keep the dtype and are counted modulo its size, as in torch"
_OR = "bool: + is or"
_BY_ZERO = "bool: False is 0, and nothing is divided by it"
_ROUNDED = "bfloat16: numbers are rounded to the same"
OTHER_NUMBERS: dict[str, str] = {
    **dict.fromkeys("matmul dot conv transposed_conv generic_attention neg sub combine combine_bc".split(), _MODULO),
    **dict.fromkeys(["scatter mode sum", "scatter mode max", "scatter mode min", "masked_computation"], _OR),
    **dict.fromkeys(
        [f"{name} number on the left" for name in "floor_divide mod ceil_divide true_divide".split()], _BY_ZERO
    ),
    **dict.fromkeys(["compare_bc", "compare", "transducer_forced_align"], _ROUNDED),
    **dict.fromkeys(["transducer_beam_search", "transducer_greedy_decode"], "bool: chances of 0 and 1"),
    "safe_log": "bool: the smallest number that it takes the logarithm of is that of the dtype",
}


def check_dtype(run: Run, dtype: str) -> int:
    """Both backends give for numbers of `dtype` what NumPy gives for the same numbers in the widest dtype, or an error of ours.

    Returns:
        How many numbers were compared.
    """
    name, call, inputs = run.name, run.call, run.inputs
    if not any(x.dtype == "float32" for x in inputs):
        return 0
    values = [_values(x, dtype) for x in inputs]
    wide = "complex128" if dtype.startswith("complex") else "float64"
    expected = None
    compared = 0
    for backend in ("torch", "numpy"):
        if backend == "numpy" and dtype == "bfloat16":
            continue
        got = outcome(name, call, inputs, values, dtype, backend)
        if got is None:
            continue
        if expected is None:
            expected = outcome(name, call, inputs, values, wide, "numpy")
        if expected is None:  # of other numbers it is defined, as logic of bools
            continue
        for x, like in zip(got, expected, strict=True):
            if dtype in OTHER_NUMBERS.get(name, "").partition(":")[0].split():
                continue
            compared += _compare(f"{name}, {backend}, {dtype}", x, like, dtype)
    return compared


def outcome(
    name: str, call: Any, inputs: list[Tensor], values: list[Any], dtype: str, backend: str
) -> list[Tensor] | None:
    """The Tensors of a result; None if the op has refused the dtype in a sentence. No part of a number is dropped on the way."""
    with using_backend(backend), warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*discards the imaginary part")
        try:
            return list(parts_in(call(*(_made(x, value, dtype) for x, value in zip(inputs, values))), Tensor))
        except Exception as error:
            assert is_ours(error), f"{name}, {backend}, {dtype}: raw {type(error).__name__}: {error}"
            return None


def is_ours(error: Exception) -> bool:
    """Whether an error says what failed, the operands and the rule."""
    return parts_of(error) is not None or re.match(r"[^\n]+:[^\n]*\n  \S", str(error)) is not None


def _values(x: Tensor, dtype: str) -> np.ndarray:
    values = x.numpy()
    if x.dtype != "float32" or dtype.startswith(("float", "bfloat")):
        return values
    if dtype == "bool":
        return values > np.median(values) if values.size else values > 0
    if dtype.startswith("complex"):
        return values + 1j * np.roll(values.ravel(), 1).reshape(values.shape)
    order = values.ravel().argsort().argsort().reshape(values.shape)  # all different
    largest = _LARGE.get(dtype, 1000)
    low = 1 if dtype == "uint8" or values.min(initial=1) >= 0 else -largest // 2
    return (low + order % largest).astype(np.int64)


def _made(x: Tensor, values: np.ndarray, dtype: str) -> Tensor:
    if x.dtype != "float32":
        return rf.convert_to_tensor(values, dims=x.dims, sparse_dim=x.sparse_dim, feature_dim=x.feature_dim)
    exact = values.astype({"bfloat16": "float32"}.get(dtype, dtype))
    return rf.cast(rf.convert_to_tensor(exact, dims=x.dims, feature_dim=x.feature_dim), dtype)


def _compare(what: str, x: Tensor, like: Tensor, dtype: str) -> int:
    real = real_frames(like.dims)
    got = x.numpy().transpose([x.dims.index(dim) for dim in like.dims])
    assert got.shape == real.shape, f"{what}: raw shape {got.shape}, dims {like.dims}"
    got, wanted = got[real], like.numpy()[real]
    assert np.iscomplexobj(got) == np.iscomplexobj(wanted), f"{what}: dtype {x.dtype}, expected {like.dtype}"
    if wanted.dtype.kind == "f" and got.dtype.kind == "f" and dtype == "float64":
        assert x.dtype == like.dtype or like.dtype != "float64", f"{what}: dtype {x.dtype}, expected float64"
    finite = wanted[np.isfinite(wanted)]
    rounding = max(_ROUNDING.get(dtype, 1e-4), _ROUNDING.get(x.dtype, 1e-4)) if got.dtype.kind in "fc" else 0.0
    off = rounding * max(1.0, np.abs(finite).max(initial=0.0))
    wide = np.complex128 if np.iscomplexobj(wanted) else np.float64
    np.testing.assert_allclose(got.astype(wide), wanted.astype(wide), rtol=rounding, atol=off, err_msg=what)
    return got.size
