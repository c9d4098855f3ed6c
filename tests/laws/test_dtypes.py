"""The law of dtypes, for every case of the table with floats among its inputs; and what becomes of mixed dtypes."""

import pytest
from dtypes import LARGE, NOT_COMPARED, NOT_LARGE, OWN_DTYPE, TOLERANCE, check_half, check_large, check_numpy
from table import CASES, read_entries
from world import World, hard_worlds

import rfnb as rf

read_entries()


def worlds():
    return [*hard_worlds()[3:], *(World([4, 2, 1], [3, 1, 2], [2, 3, 2, 4], seed) for seed in range(2))]


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("name", CASES)
def test_half_precision(name, dtype):
    for world in worlds():
        check_half(name, CASES[name], world, dtype)


@pytest.mark.parametrize("name", CASES)
def test_large_numbers_in_float16(name):
    for world in worlds():
        for change in LARGE.values():
            check_large(name, CASES[name], world, change)


@pytest.mark.parametrize("name", CASES)
def test_numpy_agrees_in_float16(name):
    for world in worlds():
        check_numpy(name, CASES[name], world)


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
        check_half("broken", case, hard_worlds()[4], dtype)


def test_an_op_that_is_off_in_numpy_breaks_the_law():
    def off_in_numpy(w):
        return lambda x: x * (1.3 if x.backend.name == "numpy" else 1.0), [w.floats(w.batch, w.feat)]

    with pytest.raises(AssertionError):
        check_numpy("broken", off_in_numpy, hard_worlds()[4])


def adds_up_and_divides(w):
    return lambda x: rf.reduce_sum(x, axis=w.feat) / w.feat.extent, [w.floats(w.batch, w.feat)]


def squares(w):
    return lambda x: rf.sqrt(rf.reduce_mean(rf.square(x), axis=w.feat)), [w.floats(w.batch, w.feat)]


@pytest.mark.parametrize(("case", "kind"), [(adds_up_and_divides, "sums"), (squares, "squares"), (squares, "by far")])
def test_a_sum_or_square_that_overflows_breaks_the_law(case, kind):
    (change,) = [change for name, change in LARGE.items() if name.endswith((kind, f"{kind} overflow"))]
    with pytest.raises(AssertionError):
        for world in worlds():
            check_large("broken", case, world, change)


def test_a_product_of_matrices_that_overflows_is_not_compared():
    def product(w):
        return lambda x, y: rf.matmul(x, y, reduce=w.feat) / 1e9, [w.floats(w.batch, w.feat), w.floats(w.feat, w.out)]

    assert not any(check_large("product", product, world, LARGE["whose squares overflow by far"]) for world in worlds())
    assert any(check_large("sum", adds_up_and_divides, world, LARGE["whose squares overflow"]) for world in worlds())
