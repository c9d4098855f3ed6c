"""The law of dtypes can fail; see `dtypes.py`."""

import pytest
from dtypes import LARGE, NOT_COMPARED, NOT_LARGE, OWN_DTYPE, TOLERANCE, check_half, check_large
from laws import Run
from table import CASES, read_entries
from world import RAGGED, world

import rfnb as rf

read_entries()


def runs(name, case):
    return [Run(name, case, lambda lengths=lengths: world(lengths)) for lengths in ("full", *RAGGED)]


def test_the_lists_of_exceptions_have_only_cases_with_a_reason():
    for listed in (NOT_COMPARED, NOT_LARGE, OWN_DTYPE):
        assert [name for name, reason in listed.items() if name not in CASES or not reason] == []


# -- the law can fail --------------------------------------------------------------------------------------------------
def always_float32(w):
    return lambda x: rf.cast(x, "float32"), [w.floats(w.batch, w.feat)]


def loses_digits(w):
    return lambda x: x * (1.0 if x.dtype == "float32" else 1.3), [w.floats(w.batch, w.feat)]


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("case", [always_float32, loses_digits])
def test_a_broken_op_breaks_the_law(case, dtype):
    with pytest.raises(AssertionError):
        check_half(Run("broken", case), dtype)


def test_an_op_that_is_off_in_numpy_breaks_the_law():
    def off_in_numpy(w):
        return lambda x: x * (1.3 if x.backend.name == "numpy" else 1.0), [w.floats(w.batch, w.feat)]

    with pytest.raises(AssertionError):
        check_half(Run("broken", off_in_numpy), "float16")


def adds_up_and_divides(w):
    return lambda x: rf.reduce_sum(x, axis=w.feat) / w.feat.extent, [w.floats(w.batch, w.feat)]


def squares(w):
    return lambda x: rf.sqrt(rf.reduce_mean(rf.square(x), axis=w.feat)), [w.floats(w.batch, w.feat)]


@pytest.mark.parametrize(("case", "kind"), [(adds_up_and_divides, "sums"), (squares, "squares"), (squares, "by far")])
def test_a_sum_or_square_that_overflows_breaks_the_law(case, kind):
    (change,) = [change for name, change in LARGE.items() if name.endswith((kind, f"{kind} overflow"))]
    with pytest.raises(AssertionError):
        for run in runs("broken", case):
            check_large(run, change)


def test_a_product_of_matrices_that_overflows_is_not_compared():
    def product(w):
        return lambda x, y: rf.matmul(x, y, reduce=w.feat) / 1e9, [w.floats(w.batch, w.feat), w.floats(w.feat, w.out)]

    assert not any(check_large(run, LARGE["whose squares overflow by far"]) for run in runs("product", product))
    assert any(check_large(run, LARGE["whose squares overflow"]) for run in runs("sum", adds_up_and_divides))
