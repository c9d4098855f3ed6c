"""A trace is looked up by kind, by the end of a path and by run; it tells what it has."""

import numpy as np
import pytest
from asserting import assert_same, raises_message, randn, tensor

from rfnb import Dim
from rfnb.trace.lookup import PathError
from rfnb.trace.probe import probe, trace_context
from rfnb.trace.record import record


def recorded(*paths, kind="attention"):
    one = Dim(2, name="one")
    with record() as trace:
        for index, path in enumerate(paths):
            with trace_context.module(path):
                probe(kind, weights=tensor([float(index)] * 2, one), axis=one)
    return trace


def test_an_event_outside_of_loops_is_its_tensor():
    weights, time = randn(Dim(2, name="batch"), Dim(3, name="time")), Dim(3, name="time")
    with record() as trace:
        probe("attention", weights=weights, axis=time)
    assert_same(trace.attention[""], weights)


@pytest.mark.parametrize(
    ("path", "value"), [("encoder.att", 0.0), ("decoder.att", 1.0), ("decoder.self", 2.0), ("self", 2.0)]
)
def test_a_path_may_be_any_unique_end(path, value):
    trace = recorded("encoder.att", "decoder.att", "decoder.self")
    assert trace.attention[path].numpy().tolist() == [value, value]


def test_a_whole_path_goes_before_an_end():
    trace = recorded("decoder.att", "att")
    assert trace.attention["att"].numpy().tolist() == [1.0, 1.0]


def test_the_names_of_loops_may_be_left_out(probe_steps):
    with record() as trace, trace_context.module("model.decoder"):
        probe_steps("states", [{"h": randn(Dim(2, name="unit"))}])
    assert [trace.states.find(path) for path in ("decoder", "loop", "decoder.loop")] == ["model.decoder.loop"] * 3


def test_an_end_of_several_paths_is_refused():
    trace = recorded("encoder.att", "decoder.att")
    with raises_message(
        PathError,
        """
        trace.attention: "att" is the end of 2 paths.
          paths  encoder.att, decoder.att
        A path is a recorded path, or the end of exactly one.
            trace.attention["encoder.att"]
        """,
    ):
        trace.attention["att"]


def test_an_unknown_path_is_refused_with_the_known_ones():
    trace = recorded("encoder.att", "decoder.att")
    with raises_message(
        PathError,
        """
        trace.attention: no path "decoder.cross".
          paths  encoder.att, decoder.att
        A path is a recorded path, or the end of exactly one.
            trace.attention["decoder.att"]
        """,
    ):
        trace.attention["decoder.cross"]


def test_a_kind_that_was_not_recorded_says_what_was():
    trace = recorded("decoder", "decoder", kind="states")
    with raises_message(
        PathError,
        """
        trace.attention: nothing of this kind was recorded, so there is no "att".
          recorded  states (2)
        A trace has what was offered inside of its with-block and passed its filters.
            with rf.record() as trace:    # no filters
                ...
        """,
    ):
        trace.attention["att"]


def test_several_runs_have_to_be_told_apart():
    trace = recorded("att", "att", "att")
    with raises_message(
        PathError,
        """
        trace.attention["att"]: 3 runs were recorded.
          runs  1 call, 1 call, 1 call
        Only a path with one run has one value. Say which; all of them: trace.attention.runs("att").
            trace.attention["att", -1]    # the latest
        """,
    ):
        trace.attention["att"]
    assert trace.attention["att", -1].numpy().tolist() == [2.0, 2.0]
    assert [weights.numpy()[0] for weights in trace.attention.runs("att")] == [0.0, 1.0, 2.0]


def test_a_run_that_is_not_there_is_refused():
    with raises_message(
        PathError,
        """
        trace.attention["att", 2]: no such run.
          runs  2, 0 to 1
        Runs are counted from 0, in the order of the recording.
            trace.attention["att", -1]
        """,
    ):
        recorded("att", "att").attention["att", 2]


def test_a_lookup_is_a_mapping_of_full_paths():
    trace = recorded("encoder.att", "decoder.att")
    assert list(trace.attention) == ["encoder.att", "decoder.att"]
    assert len(trace.attention) == 2
    assert "decoder.att" in trace.attention
    assert "att" not in trace.attention
    assert trace.attention.get("other") is None


def test_select_passes_what_passes_all_filters(probe_steps):
    with record() as trace:
        probe("attention")
        probe_steps("attention", [{}] * 3, name="a")
        probe_steps("states", [{}] * 3, name="b")
    assert [event.index for event in trace.select(kind="attention")] == [0, 1, 2, 3]
    assert [event.index for event in trace.select(path="b", step=range(1, 3))] == [5, 6]
    assert [event.index for event in trace.select(step=0)] == [1, 4]


def test_modules_lists_the_calls_of_a_module():
    x = randn(Dim(3, name="batch"))
    with record() as trace:
        for _ in range(2):
            with trace_context.module("model.linear"):
                probe("module", inputs=[("x", x)], outputs=[])
    calls = trace.modules["linear"]
    assert [event.index for event in calls] == [0, 1]
    assert calls[0].values["inputs"][0][1].dims == x.dims


def test_summary_is_a_table_of_what_was_recorded(probe_steps):
    with record() as trace:
        with trace_context.module("encoder"):
            probe("attention", weights=randn(Dim(3, name="time")))
        probe_steps("states", [{"h": randn(Dim(2, name="unit"))}] * 12)
        assert repr(trace) == "<Trace: 13 events (attention 1, states 12), 108 bytes, recording>"
    assert trace.summary().splitlines() == [
        "<Trace: 13 events (attention 1, states 12), 108 bytes, closed>",
        "kind       path     events  steps  bytes",
        "attention  encoder       1      -     12",
        "states     loop         12   0-11     96",
    ]


# -- subscribers -----------------------------------------------------------------------------------------------------------


def test_a_subscriber_hears_each_new_event_until_it_is_taken_off():
    heard = []
    with record() as trace:
        probe("a")
        trace.subscribe(heard.append)
        probe("b")
        trace.unsubscribe(heard.append)
        probe("c")
    assert heard == [trace.events[1]]


def test_a_subscriber_that_raises_is_taken_off_and_the_run_goes_on():
    calls = []

    def broken(event):
        calls.append(event)
        raise KeyError("view")

    with record() as trace:
        trace.subscribe(broken)
        with pytest.warns(UserWarning) as caught:
            probe("a")
        probe("b")
    assert str(caught[0].message) == (
        "A subscriber of a trace raised KeyError: 'view'\nIt gets no more events. The run continues."
    )
    assert (len(calls), len(trace)) == (1, 2)


def test_on_close_is_called_at_the_end_or_at_once():
    order = []
    with record() as trace:
        trace.on_close(lambda trace: order.append(("early", trace.closed)))
        order.append("inside")
    trace.on_close(lambda trace: order.append("late"))
    assert order == ["inside", ("early", True), "late"]


def test_a_trace_can_be_looked_up_while_it_is_recorded():
    unit = Dim(2, name="unit")
    sizes = []
    with record() as trace:
        for step in range(3):
            with trace_context.loop("loop", step, None):
                probe("states", h=tensor(np.full(2, step, np.float32), unit))
            sizes.append(trace.states["loop"]["h"].dims[0].size)
    assert sizes == [1, 2, 3]
