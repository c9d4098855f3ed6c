"""The law of a single sequence can fail; see `alone.py`."""

import pytest
from alone import MIXES_SEQUENCES, compare_alone
from laws import Run
from table import CASES, read_entries

import rfnb as rf
from rfnb import Tensor

read_entries()


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
        compare_alone(Run("broken", case))
