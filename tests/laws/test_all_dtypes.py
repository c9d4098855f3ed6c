"""The law of all dtypes can fail (see `all_dtypes.py`); reductions and norms of every dtype against plain NumPy."""

import warnings

import numpy as np
import pytest
from all_dtypes import DTYPES, OTHER_NUMBERS, check_dtype, is_ours
from asserting import ragged, using_backend
from laws import Run
from table import CASES, read_entries

import rfnb as rf
from rfnb import Dim, Tensor

read_entries()


def test_the_list_of_exceptions_has_only_cases_with_a_reason():
    assert [name for name, text in OTHER_NUMBERS.items() if name not in CASES or not text.partition(": ")[2]] == []


# -- reductions and norms, by the definition -----------------------------------------------------------------------------
LENGTHS = [4, 0, 3]
batch = Dim(3, name="batch")
time = ragged(LENGTHS, batch)
_MOST = {"uint8": 250, "int8": 120, "int16": 30_000, "int32": 2**30, "int64": 2**40}


def numbers(dtype):
    """{batch, time}: numbers whose sum is beyond the smaller dtypes; garbage in the padding."""
    count = np.arange(12).reshape(3, 4)
    if dtype == "bool":
        return count % 3 == 0
    if dtype.startswith(("int", "uint")):
        return (_MOST[dtype] - count).astype(dtype)
    values = 0.5 + count / 8
    return values * (1 + 2j) + 3j * count if dtype.startswith("complex") else values


def by_hand(values, sequence_of):
    """sequence_of each row without its padding."""
    wide = values.astype(np.complex128 if np.iscomplexobj(values) else np.float64)
    return np.stack([sequence_of(row[:length]) for row, length in zip(wide, LENGTHS)])


def _or_zero(fn):
    return lambda row: fn(row) if row.size else np.zeros((), row.dtype)


def _normalized(row):
    out = np.zeros(4, row.dtype)
    if row.size:
        out[: row.size] = (row - row.mean()) / np.sqrt(row.var() + 1e-6)
    return out


# Name -> (what rfnb computes, what it is of one sequence without padding).
DEFINED = {
    "reduce_sum": (lambda x: rf.reduce_sum(x, axis=time), _or_zero(np.sum)),
    "reduce_mean": (lambda x: rf.reduce_mean(x, axis=time), _or_zero(np.mean)),
    "reduce_any": (lambda x: rf.reduce_any(x, axis=time), lambda row: np.any(row)),
    "reduce_all": (lambda x: rf.reduce_all(x, axis=time), lambda row: np.all(row)),
    "mean of moments": (lambda x: rf.moments(x, time)[0], _or_zero(np.mean)),
    "variance of moments": (lambda x: rf.moments(x, time)[1], _or_zero(np.var)),
    "normalize": (lambda x: rf.normalize(x, axis=time).copy_masked(0), _normalized),
}
FLOATS = "bool uint8 int8 int16 int32 int64".split()


def result_dtype(name, dtype):
    if name in ("reduce_any", "reduce_all"):
        return "bool"
    if name == "reduce_sum":
        return "int64" if dtype in FLOATS else dtype
    if name == "variance of moments" and dtype.startswith("complex"):
        return "float32" if dtype == "complex64" else "float64"
    return "float32" if dtype in FLOATS else dtype


@pytest.mark.parametrize("backend", ["torch", "numpy"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", DEFINED)
def test_it_is_what_it_is_by_definition(name, dtype, backend):
    if (dtype, backend) == ("bfloat16", "numpy"):
        return  # NumPy has none
    compute, of_sequence = DEFINED[name]
    values = numbers(dtype)
    with using_backend(backend), warnings.catch_warnings():
        warnings.simplefilter("error")  # torch and NumPy warn where imaginary parts get lost
        x = rf.convert_to_tensor(
            values if dtype in FLOATS else values.astype(np.result_type(values)), dims=[batch, time]
        )
        x = rf.cast(x, dtype)
        got = compute(x)
    assert isinstance(got, Tensor) and got.dtype == result_dtype(name, dtype)
    expected = by_hand(values, of_sequence)
    found = got.copy_transpose([batch, *(dim for dim in got.dims if dim is not batch)]).numpy()
    rounding = {"bfloat16": 0.04, "float16": 5e-3}.get(dtype, 1e-5 if name != "normalize" else 1e-3)
    if dtype in ("int32", "int64") and name in ("variance of moments", "normalize"):
        return  # float32 holds these numbers with few digits
    off = rounding * max(1.0, np.abs(expected).max())
    np.testing.assert_allclose(found.astype(expected.dtype), expected, rtol=rounding, atol=off)


@pytest.mark.parametrize("backend", ["torch", "numpy"])
@pytest.mark.parametrize("mode", ["max", "min", "argmax", "argmin", "logsumexp"])
@pytest.mark.parametrize("axis", [batch, time])
def test_complex_numbers_have_no_order(mode, axis, backend):
    dims = [batch, time] if axis is time else [batch]
    with using_backend(backend):
        x = rf.cast(rf.ones(dims), "complex64")
        with pytest.raises(TypeError) as caught:
            rf.reduce(x, mode=mode, axis=axis)
    assert is_ours(caught.value) and "rf.abs(" in str(caught.value)


@pytest.mark.parametrize("backend", ["torch", "numpy"])
@pytest.mark.parametrize("dtype", "bool uint8 int8 int64 float32".split())
def test_a_logsumexp_leaves_padding_out(dtype, backend):
    with using_backend(backend):
        x = rf.cast(rf.convert_to_tensor(np.ones((3, 4), np.float32), dims=[batch, time]), dtype)
        got = rf.reduce_logsumexp(x, axis=time)
    assert got.dtype == "float32"
    np.testing.assert_allclose(got.numpy(), [1 + np.log(4), -np.inf, 1 + np.log(3)], rtol=1e-6)


def test_a_cast_that_drops_imaginary_parts_is_refused():
    x = rf.cast(rf.ones([batch]), "complex64")
    for dtype in ("float32", "float64", "int32", "bfloat16"):
        with pytest.raises(TypeError, match=f"cast: complex64 to {dtype}.\n(.*\n)*.*parts, pair = rf.complex_as_real"):
            rf.cast(x, dtype)
    assert rf.cast(x, "complex128").dtype == "complex128" and rf.cast(x, "bool").dtype == "bool"


# -- the law can fail ----------------------------------------------------------------------------------------------------
def _case(fn):
    return lambda w: (fn, [w.floats(w.batch, w.feat)])


def _drops(x):
    return Tensor("x", x.dims, raw_tensor=x.backend.cast_raw(x.raw_tensor, "float32"))


def _wraps(x):
    return rf.cast(rf.reduce_sum(x, axis=x.dims), x.dtype)


def _raw_error(x):
    if x.dtype == "int32":
        raise RuntimeError('"fn" not implemented for Int')
    return x


@pytest.mark.parametrize(("fn", "dtype"), [(_drops, "complex64"), (_wraps, "int8"), (_raw_error, "int32")])
def test_a_broken_op_breaks_the_law(fn, dtype):
    assert check_dtype(Run("broken", _case(lambda x: x * 1)), dtype)
    with pytest.raises(AssertionError):
        check_dtype(Run("broken", _case(fn)), dtype)
