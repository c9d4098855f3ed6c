"""The law of the second batch can fail; see `second_batch.py`."""

import pytest
from second_batch import NOT_AGAIN, check_plans_are_of_one_batch, check_second_batch
from table import CASES, read_entries

from rfnb import Tensor
from rfnb.core.layout import PlanCache

read_entries()


def test_the_exceptions_are_cases():
    assert [name for name in NOT_AGAIN if name not in CASES] == []


def longest_of_the_first_batch(w):
    """The plan keeps a length that it has read past what is watched."""

    def call(x):
        key = (w.batch, w.time)
        try:
            longest = PLANS[key]
        except KeyError:
            longest = PLANS.make(key, lambda: x.raw_tensor.shape[1])
        return Tensor(dims=[w.batch], raw_tensor=x.raw_tensor.sum(1) * longest)

    return call, [w.floats(w.batch, w.time)]


def a_plan_made_of_another(w):
    def call(x):
        key = (w.batch, w.time)
        OTHER[key] = 2
        PLANS.make(key, lambda: OTHER[key])
        return x

    return call, [w.floats(w.batch, w.time)]


PLANS, OTHER = PlanCache(), PlanCache()


def test_a_plan_of_another_batch_breaks_the_law():
    with pytest.raises(AssertionError):
        check_second_batch("broken", longest_of_the_first_batch, 0)


def test_a_plan_made_of_another_breaks_its_law():
    with pytest.raises(AssertionError, match="planning looked at"):
        check_plans_are_of_one_batch(a_plan_made_of_another)
