"""Mixed dtypes: one rule, that of torch, on both backends.

bool < integer < float, and the highest of these decides. Among dtypes of that kind arrays with axes come first, then scalar
arrays, then Python numbers; of several the wider one wins. So a Python number never widens an array, and int64 + float16 is
float16.
"""

import itertools

import numpy as np
import pytest
import torch
from asserting import using_backend

import rfnb as rf
from rfnb import Dim

DTYPES = "bool uint8 int8 int16 int32 int64 float16 float32 float64".split()
PAIRS = list(itertools.product(DTYPES, DTYPES))
batch = Dim(2, name="batch")


def array(dtype, *dims):
    return rf.convert_to_tensor(np.ones([dim.extent for dim in dims]).astype(dtype), dims=dims)


def rule(a, b):
    """torch's result dtype, for raw arrays or Python numbers."""
    return str(torch.result_type(a, b)).removeprefix("torch.")


OPS = {
    "add": lambda a, b: a + b,
    "mul": lambda a, b: a * b,
    "maximum": rf.maximum,
    "where": lambda a, b: rf.where(rf.convert_to_tensor(np.asarray([True, False]), dims=[batch]), a, b),
    "concat": lambda a, b: rf.concat((a, batch), (b, batch))[0] if a.dims == b.dims == (batch,) else a + b,
    "stack": lambda a, b: rf.stack([a, b])[0] if a.dims == b.dims else a + b,
}


@pytest.mark.parametrize("backend", ["torch", "numpy"])
@pytest.mark.parametrize("op", OPS)
def test_arrays_of_different_dtypes(op, backend):
    for (a, b), dims in itertools.product(PAIRS, [((batch,), (batch,)), ((batch,), ()), ((), (batch,))]):
        expected = rule(*(torch.ones([2] * len(own), dtype=getattr(torch, dtype)) for dtype, own in zip((a, b), dims)))
        with using_backend(backend):
            got = OPS[op](array(a, *dims[0]), array(b, *dims[1]))
        assert got.dtype == expected, f"{op} of {a} {dims[0]} and {b} {dims[1]}: {got.dtype}, expected {expected}"


@pytest.mark.parametrize("backend", ["torch", "numpy"])
@pytest.mark.parametrize("number", [True, 2, 2.0])
def test_a_python_number_never_widens_an_array(number, backend):
    for dtype in DTYPES:
        expected = rule(torch.ones(2, dtype=getattr(torch, dtype)), number)
        with using_backend(backend):
            x = array(dtype, batch)
            got = {x + number, number + x, rf.maximum(x, number), rf.where(x > 0, x, number)}
        assert {y.dtype for y in got} == {expected}, f"{dtype} and {number!r}"


@pytest.mark.parametrize("backend", ["torch", "numpy"])
def test_division_of_integers_gives_the_default_float_of_torch(backend):
    with using_backend(backend):
        for a, b in itertools.product(DTYPES[1:6], DTYPES[1:6]):
            assert (array(a, batch) / array(b, batch)).dtype == "float32"


@pytest.mark.parametrize("backend", ["torch", "numpy"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_comparisons_are_bool(dtype, backend):
    with using_backend(backend):
        assert {(array(dtype, batch) < array(other, batch)).dtype for other in DTYPES} == {"bool"}


def test_bfloat16_and_float16_meet_in_float32():
    x = rf.cast(array("float32", batch), "bfloat16")
    assert (x + array("float16", batch)).dtype == "float32"
    assert (x + array("int64", batch)).dtype == (x * 2.5).dtype == "bfloat16"
    assert (x + array("float64", batch)).dtype == "float64"
