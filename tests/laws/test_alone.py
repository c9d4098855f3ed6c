"""The law of a single sequence, for every case of the table."""

import pytest
from alone import MIXES_SEQUENCES, compare_alone
from dtypes import LARGE, NOT_COMPARED, NOT_LARGE
from hypothesis import HealthCheck, given, settings
from table import CASES, read_entries
from world import hard_worlds, worlds

import rfnb as rf
from rfnb import Tensor

read_entries()
_settings = settings(
    max_examples=5, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
)


@pytest.mark.parametrize("name", CASES)
def test_a_sequence_alone_is_as_in_the_batch(name):
    if name in MIXES_SEQUENCES:
        return
    compared = sum(compare_alone(name, CASES[name], world) for world in hard_worlds())

    @_settings
    @given(world=worlds)
    def holds(world):
        nonlocal compared
        compared += compare_alone(name, CASES[name], world)

    holds()
    assert compared, f"{name}: no result has a batch dim; let the case draw one, or list it with a reason"


@pytest.mark.parametrize("name", CASES)
def test_a_sequence_alone_is_as_in_the_batch_in_float16(name):
    """Also where the numbers are large: what overflows does so in both."""
    if name in MIXES_SEQUENCES or name in NOT_COMPARED:
        return
    with rf.set_default_float_dtype_ctx("float16"):
        for change in (lambda x: x, *(() if name in NOT_LARGE else LARGE.values())):
            for world in hard_worlds()[3:]:
                compare_alone(name, CASES[name], world, lambda x, change=change: rf.cast(change(x), "float16"))


def test_the_list_of_exceptions_has_only_cases_with_a_reason():
    assert [name for name, reason in MIXES_SEQUENCES.items() if name not in CASES or not reason] == []


# -- the law can fail --------------------------------------------------------------------------------------------------
def mean_over_the_longest(w):
    """The padding is not summed, but it is counted."""
    return lambda x: rf.reduce_sum(x, axis=w.time) / max(w.time.extent, 1), [w.floats(w.batch, w.time)]


def from_the_end_of_the_longest(w):
    def call(x):
        return Tensor(dims=x.dims, raw_tensor=x.raw_tensor.flip(1))

    return call, [w.floats(w.batch, w.time)]


def over_the_batch(w):
    return lambda x: x - rf.reduce_mean(x, axis=w.batch), [w.floats(w.batch, w.feat)]


def lengths_of_the_longest(w):
    return lambda x: (x, rf.ragged_dim([w.time.extent] * w.batch.extent, over=w.batch)), [w.floats(w.batch, w.time)]


@pytest.mark.parametrize(
    "case", [mean_over_the_longest, from_the_end_of_the_longest, over_the_batch, lengths_of_the_longest]
)
def test_a_broken_op_breaks_the_law(case):
    with pytest.raises(AssertionError):
        compare_alone("broken", case, hard_worlds()[4])
