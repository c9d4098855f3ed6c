"""Calls of ops in a recording: which tensors they read and made, and how deep calls are."""

from __future__ import annotations

import pytest
from asserting import randn

import rfnb as rf
from rfnb import Dim
from rfnb.viz.kinds import text_of
from rfnb.viz.spec import Spec

BATCH, FEAT, OUT = Dim(2, name="batch"), Dim(3, name="feat"), Dim(5, name="out")


class Net(rf.Module):
    def __init__(self):
        self.inner = rf.Linear(FEAT, OUT)

    def __call__(self, x):
        return rf.tanh(self.inner(x))


def calls(trace):
    return [
        (event.kind, event.depth, event.values.get("op") or event.path, event.values["reads"], event.values["writes"])
        for event in trace.events
    ]


def test_a_tensor_has_one_number_wherever_it_goes():
    net, x = Net(), randn(BATCH, FEAT)
    with rf.record(ops=True) as trace:
        y = net(x)
        rf.reduce_sum(y, axis=OUT)
    linear, inner, tanh, outer, total = calls(trace)
    number = linear[3][0]
    assert linear[:3] == ("op", 2, "linear") and number in linear[3]
    assert inner == ("module", 2, "inner", [number], linear[4])
    assert tanh == ("op", 1, "tanh", linear[4], tanh[4])
    assert outer == ("module", 1, "net", [number], tanh[4])
    assert total == ("op", 0, "reduce_sum", tanh[4], total[4])
    assert len({number, *linear[4], *tanh[4], *total[4]}) == 4


def test_a_number_is_not_given_again_while_ids_are():
    x = randn(BATCH, FEAT)
    with rf.record(ops=True) as trace:
        for _ in range(50):
            rf.tanh(x)  # gone at once: the next result may lie where this one lay
    assert len({event.values["writes"][0] for event in trace.events}) == 50


def test_nothing_is_kept_alive():
    import weakref

    x = randn(BATCH, FEAT)
    with rf.record(ops=True) as trace:
        gone = weakref.ref(rf.tanh(x))
        assert gone() is None
    assert len(trace) == 1


def test_without_ops_nothing_changes():
    net, x = Net(), randn(BATCH, FEAT)
    with rf.record() as trace:
        net(x)
    assert [(event.kind, event.depth) for event in trace.events] == [("module", 2), ("module", 1)]
    assert all(set(event.values) == {"inputs", "outputs", "module"} for event in trace.events)


def test_filters_of_kinds_leave_the_ops():
    net, x = Net(), randn(BATCH, FEAT)
    with rf.record("module", ops=True) as trace:
        net(x)
    assert trace.counts() == {"op": 2, "module": 2}


@pytest.mark.parametrize("kinds", ["op", ["op"], {"op", "states"}])
def test_who_asks_for_the_kind_gets_the_ops(kinds):
    net, x = Net(), randn(BATCH, FEAT)
    with rf.record(kinds=kinds) as trace:
        net(x)
    assert [event.values["op"] for event in trace.events] == ["linear", "tanh"]


def test_values_are_what_they_are_without_recording():
    net, x = Net(), randn(BATCH, FEAT)
    expected = net(x).numpy()
    with rf.record(ops=True), rf.record():
        assert (net(x).numpy() == expected).all()


def test_an_error_is_noted_in_every_call_around_it():
    net = Net()
    with rf.record(ops=True) as trace, pytest.raises(rf.DimError):
        net(randn(BATCH, OUT))
    assert (trace.events[-1].kind, trace.events[-1].values["raised"]) == ("module", "DimError")
    assert {event.values.get("raised") for event in trace.events if event.kind == "module"} == {"DimError"}


def test_numbers_and_depths_survive_a_file(tmp_path):
    net, x = Net(), randn(BATCH, FEAT)
    with rf.record(ops=True) as trace:
        net(x)
    trace.save(tmp_path / "run.rfnb")
    again = rf.load_trace(tmp_path / "run.rfnb")
    assert calls(again) == calls(trace)
    spec = lambda one: rf.viz.flow(one, dot=False).spec  # noqa: E731
    assert isinstance(spec(again), Spec) and text_of(spec(again)) == text_of(spec(trace))


def test_a_call_that_a_loop_repeats_is_as_deep_as_it_was():
    time, net = Dim(4, name="time"), Net()
    x = randn(BATCH, time, FEAT)
    with rf.record(ops=True) as trace:
        loop = rf.Loop(axis=time)
        with loop:
            loop.stack(net(loop.unstack(x)))
    depths = {event.path: event.depth for event in trace.select(kind="module")}
    assert set(depths.values()) == {1, 2}
