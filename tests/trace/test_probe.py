"""Probes cost little when nobody listens; the place follows modules, scopes and loops, per context."""

import contextvars
import sys
import threading
from functools import partial

import pytest
from asserting import tensor
from waiting import LONG

import rfnb as rf
from rfnb import Dim
from rfnb.trace.event import bytes_of
from rfnb.trace.probe import Later, LaterStates, listen, listening, probe, probe_later, trace_context
from rfnb.trace.record import record


def heard(trace):
    return [(event.path, event.step) for event in trace.events]


OFFERS = {
    "probe": lambda: probe("attention", weights=1, axis=2),
    "probe_later": lambda: probe_later("attention", Later(dict, num_bytes=8)),
    "listening": lambda: listening("attention"),
}


@pytest.mark.parametrize("name", OFFERS)
def test_without_listener_nothing_else_is_called(name):
    called = []

    def note(frame, event, what):
        if event in ("call", "c_call"):
            called.append(frame.f_code.co_name if event == "call" else what.__name__)

    sys.setprofile(note)
    try:
        OFFERS[name]()
    finally:
        sys.setprofile(None)
    assert [call for call in called if call != "__init__"] == ["<lambda>", name, "setprofile"]


def test_listening_is_true_only_inside_a_recording():
    before = listening()
    with record():
        inside = listening()
    assert (before, inside, listening()) == (False, True, False)


def test_a_path_is_that_of_the_module_then_the_names_of_its_loops():
    with record() as trace:
        with (
            trace_context.module("decoder"),
            trace_context.loop("outer", 2, None),
            trace_context.loop("inner", 5, None),
        ):
            probe("x")
            with trace_context.module("decoder.att"):
                probe("x")
    assert heard(trace) == [("decoder.outer.inner", 5), ("decoder.att", 5)]
    assert [(event.module, event.steps) for event in trace.events] == [("decoder", (2, 5)), ("decoder.att", (2, 5))]


def test_scopes_push_parts_and_at_step_sets_the_step_of_the_innermost_scope():
    with record() as trace:
        with trace_context.scope("train"):
            for step in range(2):
                trace_context.at_step(step)
                with trace_context.scope("inner"):
                    trace_context.at_step(7)
                    probe("x")
                probe("x")
        probe("x")
    assert heard(trace) == [("train.inner", 7), ("train", 0), ("train.inner", 7), ("train", 1), ("", None)]
    assert [event.steps for event in trace.events] == [(0, 7), (0,), (1, 7), (1,), ()]


def test_the_place_is_restored_after_an_error():
    with record() as trace:
        with pytest.raises(ZeroDivisionError), trace_context.module("decoder"), trace_context.loop("loop", 0, None):
            1 / 0
        probe("x")
    assert heard(trace) == [("", None)]


def test_leaving_an_outer_scope_leaves_what_is_inside_of_it():
    def steps():
        with trace_context.loop("loop", 0, None):
            yield

    with record() as trace:
        abandoned = steps()
        with trace_context.scope("part"):
            next(abandoned)
        probe("x")
        abandoned.close()
        probe("x")
    assert heard(trace) == [("", None), ("", None)]


def test_a_loop_that_an_error_left_open_is_left_with_the_recording():
    def steps():
        with trace_context.loop("loop", 0, None):
            yield

    kept_by_the_traceback = steps()
    with record():
        next(kept_by_the_traceback)
    with record() as trace:
        probe("x")
    assert heard(trace) == [("", None)]
    kept_by_the_traceback.close()


def test_a_generator_closed_in_another_thread_leaves_that_threads_place_alone():
    def steps():
        with trace_context.loop("loop", 0, None):
            yield

    open_loop = steps()
    contextvars.copy_context().run(next, open_loop)
    places = []

    def other():
        with trace_context.scope("other"):
            open_loop.close()
            places.append(trace_context.place.path)

    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    assert places == ["other"]


def test_modules_of_the_recorded_model_are_named_by_their_path():
    class Inner(rf.Module):
        def __call__(self, x):
            return x

    class Outer(rf.Module):
        def __init__(self):
            self.inner = Inner()

    model = Outer()
    with record(model=model):
        names = [trace_context.module_name(module) for module in (model, model.inner, Inner())]
    assert names == ["", "inner", None]
    assert trace_context.module_name(model) is None


def test_a_thread_with_a_context_of_its_own_is_not_heard():
    with record() as trace:
        thread = threading.Thread(target=contextvars.Context().run, args=(probe, "x"))
        thread.start()
        thread.join()
    assert heard(trace) == []


def test_a_thread_with_a_copied_context_is_heard_at_its_own_place():
    def work():
        with trace_context.scope("worker"):
            probe("x")

    with record() as trace, trace_context.scope("main"):
        thread = threading.Thread(target=contextvars.copy_context().run, args=(work,))
        thread.start()
        thread.join()
        probe("x")
    assert heard(trace) == [("main.worker", None), ("main", None)]


def test_two_threads_that_record_at_the_same_time_do_not_mix():
    both = threading.Barrier(2)
    traces = {}

    def work(name):
        with record() as trace, trace_context.scope(name):
            for step in range(20):
                both.wait(timeout=LONG)
                trace_context.at_step(step)
                probe("x", value=tensor([float(step)], Dim(1, name="one")))
        traces[name] = trace

    threads = [threading.Thread(target=work, args=(name,)) for name in ("left", "right")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for name, trace in traces.items():
        assert heard(trace) == [(name, step) for step in range(20)]


def test_a_listener_may_be_left_in_another_context_than_it_was_entered():
    block = listen(lambda kind, place, values: None)
    contextvars.copy_context().run(block.__enter__)
    block.__exit__(None, None, None)
    assert not listening()


def test_values_that_are_made_later_are_made_once_and_only_if_somebody_looks():
    made = []

    def make():
        made.append(1)
        return {"value": tensor([1.0, 2.0], Dim(2, name="time")), "name": "x"}

    with record() as trace:
        for _ in range(2):
            probe_later("test", Later(make, num_bytes=8))
    assert not made
    assert trace.num_bytes == 16 and trace.counts() == {"test": 2}
    first = trace.events[0].values
    assert first["name"] == "x" and list(first) == ["value", "name"] and len(first) == 2
    assert first["value"] is first["value"] and "other" not in first
    assert len(made) == 1


def test_values_that_are_made_later_are_saved(tmp_path):
    with record() as trace:
        probe_later("test", Later(lambda: {"value": tensor([1.0, 2.0], Dim(2, name="time"))}, num_bytes=8))
    trace.save(tmp_path / "run.rfnb")
    assert rf.load_trace(tmp_path / "run.rfnb").events[0].values["value"].numpy().tolist() == [1, 2]


def test_the_path_of_a_module_is_that_of_its_call_also_if_it_is_asked_for_later():
    seen = []
    with listen(lambda kind, place, values: seen.append((place.path, place.step, place.steps))):
        with trace_context.module("model"), trace_context.loop("loop", 3, None):
            with trace_context.module("model.decoder"), trace_context.module("model.decoder.att"):
                probe("test")
            probe("test")
    assert seen == [("model.decoder.att", 3, (3,)), ("model.loop", 3, (3,))]


@pytest.mark.parametrize("kind", [Later, partial(LaterStates, at=lambda step: step, steps=3)])
def test_values_that_are_not_made_yet_count_with_the_size_that_they_hold(kind):
    assert bytes_of({"state": kind(dict, num_bytes=100), "other": [kind(dict, num_bytes=7)]}) == 107
