"""Events of module calls that look the same share their values; whatever differs is seen."""

from __future__ import annotations

import pytest
from asserting import ragged

import rfnb as rf
from rfnb import Dim

BATCH, FEAT, OTHER = Dim(2, name="batch"), Dim(3, name="feat"), Dim(3, name="other")


class Same(rf.Module):
    """Gives its input."""

    def __call__(self, x, **more):
        return x


def _input(**changed):
    given = {
        "name": None,
        "dims": [BATCH, FEAT],
        "dtype": "float32",
        "sparse_dim": None,
        "feature_dim": FEAT,
        **changed,
    }
    name, dims, dtype = given.pop("name"), given.pop("dims"), given.pop("dtype")
    x = rf.zeros(dims, dtype=dtype)
    x.sparse_dim, x.feature_dim, x.name = given["sparse_dim"], given["feature_dim"], name
    return x


CHANGES = {
    "name": {"name": "x"},
    "order": {"dims": [FEAT, BATCH]},
    "dim": {"dims": [BATCH, OTHER], "feature_dim": OTHER},
    "dtype": {"dtype": "float64"},
    "sparse dim": {"dtype": "int32", "sparse_dim": OTHER},
    "no feature dim": {"feature_dim": None},
}


def _described(event):
    return [
        (name, repr(x), x.dims, x.sparse_dim, x.feature_dim, x.name, x.raw_tensor)
        for name, x in event.values["inputs"] + event.values["outputs"]
    ]


@pytest.mark.parametrize("change", CHANGES)
def test_a_call_that_differs_in_one_thing_is_described_as_it_is(change):
    module, usual, changed = Same(), _input(), _input(**CHANGES[change])
    with rf.record() as alone:
        module(changed)
    with rf.record() as after:
        module(usual)
        module(changed)
        module(usual)
    first, second, third = after.events
    assert _described(second) == _described(alone.events[0]) != _described(first)
    assert _described(third) == _described(first)


def test_another_name_of_an_argument_and_another_module_are_seen():
    module, x = Same(), _input()

    class Other(Same):
        pass

    with rf.record() as trace:
        module(x, a=x)
        module(x, b=x)
        Other()(x, a=x)
    names = [[name for name, _ in event.values["inputs"]] for event in trace.events]
    assert names == [["0", "a"], ["0", "b"], ["0", "a"]]
    assert [event.values["module"] for event in trace.events] == ["Same", "Same", "Other"]


def test_calls_that_look_the_same_share_their_values_and_take_no_bytes():
    with rf.record() as trace:
        module = Same()
        for _ in range(3):
            module(_input())
    first, second, third = trace.events
    assert first.values is second.values is third.values
    assert trace.num_bytes == 0


def test_each_call_keeps_the_size_that_a_dim_had():
    module, time = Same(), Dim(None, name="time")
    with rf.record() as trace:
        for lengths in ([3, 2], [5, 1], [5, 1], [4, 4]):
            time.dyn_size_ext = ragged(lengths, BATCH, "lengths").get_size_tensor()
            for _ in range(2):
                module(rf.zeros([BATCH, time]))
    found = [event.values["inputs"][0][1].dims[1].lengths.tolist() for event in trace.events]
    assert found == [each for each in ([3, 2], [5, 1], [5, 1], [4, 4]) for _ in range(2)]
