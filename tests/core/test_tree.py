"""Nested values: walking, mapping and comparing, for every kind of container, also one that is registered."""

from collections import OrderedDict, namedtuple
from dataclasses import dataclass, field, make_dataclass

import pytest
from asserting import raises_message, tensor
from hypothesis import given
from hypothesis import strategies as st

import rfnb as rf
from rfnb.core.tree import agree, in_order_of, leaves, map_nested, map_plain, same_structure, values_in

Pair = namedtuple("Pair", "left right")


@rf.register_nested
@dataclass(frozen=True)
class Memory:
    h: object
    history: list = field(default_factory=list)
    size: int = field(init=False, default=0)


CONTAINERS = st.deferred(
    lambda: st.one_of(
        st.integers(),
        st.lists(CONTAINERS, max_size=3),
        st.lists(CONTAINERS, max_size=3).map(tuple),
        st.dictionaries(st.sampled_from("abc"), CONTAINERS, max_size=3),
        st.dictionaries(st.sampled_from("abc"), CONTAINERS, max_size=3).map(OrderedDict),
        st.dictionaries(st.sampled_from("abc"), CONTAINERS, max_size=3).map(rf.State),
        st.tuples(CONTAINERS, CONTAINERS).map(lambda pair: Pair(*pair)),
        st.tuples(CONTAINERS, st.lists(CONTAINERS, max_size=2)).map(lambda pair: Memory(*pair)),
    )
)


@given(CONTAINERS)
def test_all_walks_see_the_same_leaves_in_the_same_order(value):
    assert [leaf for _, leaf in leaves(value)] == values_in(value)
    seen = []
    same = map_nested(lambda leaf: seen.append(leaf) or leaf, value)
    assert same == value and type(same) is type(value) and seen == values_in(value)
    assert values_in(map_plain(lambda leaf: leaf, value)) == values_in(value)
    assert same_structure(value, same) and in_order_of(value, same) == value


@given(CONTAINERS)
def test_a_map_of_two_meets_the_leaves_of_the_same_place(value):
    numbers = iter(range(1000))
    places = map_nested(lambda leaf: next(numbers), value)
    both = map_nested(lambda leaf, place: f"{leaf} at {place}", value, places)
    assert values_in(both) == [f"{leaf} at {place}" for place, leaf in enumerate(values_in(value))]
    assert agree(lambda leaf, place: isinstance(place, int), value, places)


@given(CONTAINERS)
def test_one_leaf_more_is_another_structure(value):
    assert not same_structure([value], [value, 1]) and not same_structure([value], value)
    assert not agree(lambda a, b: a is b, [value, object()], [value, object()])


def test_paths_are_those_that_code_has():
    value = {"state": rf.State(h=1), "pair": Pair(2, [3]), "memory": Memory(4, [5])}
    assert leaves(value) == [
        ("state.h", 1), ("pair.left", 2), ("pair.right.0", 3), ("memory.h", 4), ("memory.history.0", 5)
    ]  # fmt: skip


def test_the_items_of_dicts_have_the_order_of_the_other():
    assert list(in_order_of({"a": 1, "b": 2}, {"b": 3, "a": 4})) == ["a", "b"]
    assert list(in_order_of([{"a": 1, "b": 2}], [{"b": 3, "a": 4}])[0]) == ["a", "b"]


@pytest.mark.parametrize("face", ["for", "with"])
def test_a_registered_dataclass_is_a_state_of_a_loop(face):
    steps = rf.Dim(4, name="step")
    x = tensor([1.0, 2.0, 3.0, 4.0], steps)
    loop = rf.Loop(axis=steps)
    zero = rf.zeros([], dtype="float32")
    loop.state.memory = Memory(zero, [zero])

    def body():
        before = loop.state.memory
        loop.state.memory = Memory(before.h + loop.unstack(x), [before.h])
        return loop.stack(before.history[0])

    if face == "for":
        for _ in loop:
            out = body()
    else:
        with loop:
            out = body()
    assert isinstance(loop.state.memory, Memory) and float(loop.state.memory.h.numpy()) == 10.0
    assert out.numpy().tolist() == [0.0, 0.0, 1.0, 3.0]


def test_a_registered_dataclass_is_recorded_picked_and_masked():
    batch = rf.Dim(2, name="batch")
    memory = Memory(tensor([1.0, 2.0], batch), [tensor([3.0, 4.0], batch)])
    with rf.record() as trace:
        rf.probe("states", memory=memory)
    kept = trace.events[0].values["memory"]
    assert kept["h"].numpy().tolist() == [1.0, 2.0] and kept["history"][0].numpy().tolist() == [3.0, 4.0]
    beam = rf.Dim(2, name="beam")
    indices = rf.convert_to_tensor([1, 1], dims=[beam], sparse_dim=batch)
    picked = rf.gather_nested(memory, indices=indices)
    assert isinstance(picked, Memory) and picked.history[0].numpy().tolist() == [4.0, 4.0]
    masked = rf.mask_nested(memory, mask=tensor([True, False], batch), mask_value=0)
    assert masked.h.numpy().tolist() == [1.0, 0.0]


def test_what_is_no_dataclass_is_refused():
    with raises_message(
        TypeError,
        "register_nested: this is no dataclass.\n  got  Plain\n"
        "What is inside of a value are the fields of its dataclass; dicts, lists, tuples and rf.State are known anyway.\n"
        "    @rf.register_nested\n    @dataclass\n    class Memory: ...",
    ):
        rf.register_nested(type("Plain", (), {}))
    Made = make_dataclass("Made", ["x"])
    assert leaves(Made(1)) == [("", Made(1))]
    assert rf.register_nested(Made) is Made is rf.register_nested(Made)
    assert leaves(Made(1)) == [("x", 1)]
