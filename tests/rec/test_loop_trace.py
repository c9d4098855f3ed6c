"""A Loop reports its current place to listeners."""

import pytest

import rfnb as rf
from rfnb import Dim
from rfnb.trace.probe import listen, probe, trace_context


@pytest.fixture
def heard():
    events = []
    with listen(lambda kind, place, values: events.append((kind, place.path, place.step, values))):
        yield events


def run(loop, *, fail=None):
    for step in loop:
        probe("note", value=step)
        if step == 1 and fail == "break":
            break
        if step == 1 and fail == "raise":
            raise KeyError("body")


def test_events_in_the_body_have_the_name_and_step_of_the_loop(heard):
    run(rf.Loop(axis=Dim(2, name="time"), name="decoder"))
    assert [(kind, path, step) for kind, path, step, _ in heard] == [("note", "decoder", 0), ("note", "decoder", 1)]


def test_loops_inside_loops_have_nested_paths(heard):
    for _ in rf.Loop(axis=Dim(1, name="time"), name="outer"):
        run(rf.Loop(axis=Dim(1, name="time"), name="inner"))
        probe("note")
    assert [(path, step) for _, path, step, _ in heard] == [("outer.inner", 0), ("outer", 0)]


def test_the_states_of_each_step_are_offered_after_it(heard):
    batch = Dim(2, name="batch")
    loop = rf.Loop(axis=Dim(2, name="time"), name="decoder")
    loop.state.lstm = rf.LstmState(h=rf.zeros([batch]), c=rf.ones([batch]))
    for _ in loop:
        loop.state.lstm = rf.LstmState(h=loop.state.lstm.h + 1, c=loop.state.lstm.c)
    assert [kind for kind, *_ in heard] == ["states", "states"]
    assert [step for _, _, step, _ in heard] == [0, 1]
    assert [{name: x.numpy()[0] for name, x in values.items()} for *_, values in heard] == [
        {"lstm.h": 1, "lstm.c": 1},
        {"lstm.h": 2, "lstm.c": 1},
    ]


@pytest.mark.parametrize("fail", ["break", "raise"])
def test_leaving_the_body_early_leaves_the_place(heard, fail):
    before = trace_context.place
    try:
        run(rf.Loop(axis=Dim(3, name="time"), name="decoder"), fail=fail)
    except KeyError:
        assert fail == "raise"
    assert trace_context.place == before
    assert rf.Loop.current() is None


def test_an_exception_in_the_body_ends_the_loop_without_listeners_too():
    with pytest.raises(KeyError):
        run(rf.Loop(axis=Dim(3, name="time"), name="decoder"), fail="raise")
    assert rf.Loop.current() is None
