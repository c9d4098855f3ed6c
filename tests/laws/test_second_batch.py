"""The law of the second batch, for every public op; see `second_batch.py`."""

import pytest
from second_batch import LENGTHS, NOT_AGAIN, check_second_batch, look_ahead_checked
from table import CASES, read_entries
from world import EXAMPLES, World

from rfnb.core import layout, size_queries
from rfnb.core.layout import PlanCache, clear_plans

read_entries()


@pytest.mark.parametrize("name", [name for name in CASES if name not in NOT_AGAIN])
def test_plans_of_other_batches_give_the_same(name, monkeypatch):
    monkeypatch.setattr(layout, "look_ahead", look_ahead_checked)
    for seed in range(max(2, EXAMPLES // 4)):
        check_second_batch(name, CASES[name], seed)


@pytest.mark.parametrize("name", CASES)
def test_a_plan_that_was_made_of_other_plans_serves_one_batch(name, monkeypatch):
    """A plan that is found says nothing of what it was made by, so what is made of it cannot know whom else it may serve."""
    found = []

    def look_up(self, key):
        if size_queries._current.get() is not None:
            found.append(key)
        return dict.__getitem__(self, key)

    keep = PlanCache._keep_template

    def keep_template(self, *args):
        before = len(found)
        assert not before, f"planning looked at {found}"
        keep(self, *args)

    make = PlanCache.make

    def make_apart(self, *args):
        outer = found.copy()
        found.clear()
        try:
            return make(self, *args)
        finally:
            found[:] = outer + found

    clear_plans()
    monkeypatch.setattr(PlanCache, "__getitem__", look_up, raising=False)
    monkeypatch.setattr(PlanCache, "_keep_template", keep_template)
    monkeypatch.setattr(PlanCache, "make", make_apart)
    for time, source in LENGTHS[:4]:
        call, inputs = CASES[name](World(time, source, [2, 3, 4, 5], 0))
        call(*inputs)


def test_the_exceptions_are_cases():
    assert [name for name in NOT_AGAIN if name not in CASES] == []
