"""Recordings filter, stop at their limit, and change neither numbers nor gradients."""

import textwrap
import warnings

import numpy as np
import pytest
from asserting import raises_message, randn, tensor

import rfnb as rf
from rfnb import Dim
from rfnb.trace.event import EVENT_COST
from rfnb.trace.probe import probe, trace_context
from rfnb.trace.record import record


@pytest.fixture
def offer_some(probe_steps):
    return lambda: _offer_some(probe_steps)


def _offer_some(probe_steps):
    with trace_context.module("encoder.att"):
        probe("attention")
    with trace_context.module("decoder"):
        probe_steps("states", [{} for _ in range(4)])
        for step in range(4):
            with trace_context.loop("loop", step), trace_context.module("decoder.att"):
                probe("attention")


def found(trace):
    return [(event.kind, event.path, event.step) for event in trace.events]


def test_without_filters_everything_is_kept_in_order(offer_some):
    with record() as trace:
        offer_some()
    states = [("states", "decoder.loop", step) for step in range(4)]
    attention = [("attention", "decoder.att", step) for step in range(4)]
    assert found(trace) == [("attention", "encoder.att", None), *states, *attention]
    assert [event.index for event in trace.events] == list(range(9))


@pytest.mark.parametrize("kinds", ["states", {"states"}, ["states", "beams"]])
def test_kinds_are_one_word_or_several(kinds, offer_some):
    with record(kinds=kinds) as trace:
        offer_some()
    assert trace.kinds == ["states"]


@pytest.mark.parametrize(
    ("path", "paths"),
    [
        ("att", ["encoder.att", "decoder.att"]),
        ("decoder.att", ["decoder.att"]),
        ("decoder", ["decoder.loop"]),  # without the names of loops
        ("*coder.a*", ["encoder.att", "decoder.att"]),
        (["encoder.att", "loop"], ["encoder.att", "decoder.loop"]),
        ("tt", []),
    ],
)
def test_a_path_is_a_pattern_or_the_end_of_a_path(path, paths, offer_some):
    with record(path=path) as trace:
        offer_some()
    assert trace.paths == paths


@pytest.mark.parametrize(
    ("steps", "kept"),
    [
        (2, [2]),
        (range(1, 4, 2), [1, 3]),
        (slice(2), [0, 1]),
        (slice(1, None, 2), [1, 3]),
        ({0, 3}, [0, 3]),
        (lambda step: step > 2, [3]),
    ],
)
def test_steps_are_filtered_and_events_outside_of_loops_are_kept(steps, kept, offer_some):
    with record(kinds="attention", steps=steps) as trace:
        offer_some()
    assert [event.step for event in trace.events] == [None, *kept]


def test_nested_recordings_both_hear_with_their_own_filters():
    with record() as outer:
        probe("x")
        with record(kinds="y") as inner:
            probe("x")
            probe("y")
        probe("y")
    assert [event.kind for event in outer.events] == ["x", "x", "y", "y"]
    assert [event.kind for event in inner.events] == ["y"]


def test_a_trace_is_closed_also_after_an_error():
    with pytest.raises(ZeroDivisionError), record() as trace:
        probe("x")
        1 / 0
    assert trace.closed
    assert len(trace) == 1


# -- what is kept --------------------------------------------------------------------------------------------------------


def test_values_are_kept_without_copy():
    x = randn(Dim(3, name="batch"), Dim(5, name="feat"))
    with record() as trace:
        probe("x", value=x)
    assert np.shares_memory(trace.events[0].values["value"].numpy(), x.numpy())


def test_values_are_kept_without_gradient():
    x = randn(Dim(3, name="batch"))
    x.raw_tensor.requires_grad_(True)
    with record() as trace:
        probe("x", value=x * 2.0)
    assert not trace.events[0].values["value"].raw_tensor.requires_grad


@pytest.mark.parametrize("as_view", [False, True])
def test_a_parameter_is_kept_as_it_was_then(as_view):
    row, column = Dim(2, name="row"), Dim(3, name="column")
    weight = rf.Parameter([row, column])
    weight.initial = 1.0
    with record() as trace, rf.stop_gradient_scope():
        probe("x", value=weight.copy_transpose([column, row]) if as_view else weight)
        weight.assign(7.0)
    assert trace.events[0].values["value"].numpy().tolist() == np.ones((3, 2) if as_view else (2, 3)).tolist()


def test_containers_and_arrays_are_kept_as_they_were_then():
    values, array = [1], np.zeros(2)
    with record() as trace:
        probe("x", values=values, array=array, number=np.float32(0.5))
        values.append(2)
        array += 1
    kept = trace.events[0].values
    assert (kept["values"], kept["array"].tolist(), kept["number"]) == ([1], [0.0, 0.0], 0.5)


def test_of_module_events_only_dims_and_dtype_are_kept():
    x = randn(Dim(3, name="batch"))
    with record() as trace:
        probe("module", inputs=[("x", x)], outputs=[("", x)])
    ((name, kept),) = trace.events[0].values["inputs"]
    assert (name, kept.dims, kept.dtype, kept.raw_tensor) == ("x", x.dims, "float32", None)


def test_recording_changes_neither_numbers_nor_gradients():
    batch, time, feat = Dim(2, name="batch"), Dim(5, name="time"), Dim(3, name="feat")
    source = randn(batch, time, feat)
    rf.set_random_seed(1)
    linear = rf.Linear(feat, Dim(7, name="out"))

    def run():
        rf.set_random_seed(2)
        loop = rf.Loop(axis=time)
        loop.state.h = rf.zeros([batch, linear.out_dim])
        for _ in loop:
            loop.state.h = rf.tanh(linear(rf.dropout(loop.unstack(source), 0.5)) + loop.state.h)
            out = loop.stack(loop.state.h)
        linear.weight.raw_tensor.grad = None
        rf.reduce_sum(out, axis=out.dims).raw_tensor.backward()
        return out.raw_tensor.detach().numpy().tobytes(), linear.weight.raw_tensor.grad.numpy().tobytes()

    plain = run()
    with record() as trace:
        recorded = run()
    assert recorded == plain
    assert len(trace.states) == 1


# -- the limit -----------------------------------------------------------------------------------------------------------


def test_at_the_limit_everything_before_is_kept_and_the_run_goes_on(probe_steps):
    x = tensor(np.zeros(256, np.float32), Dim(256, name="feat"))  # 1024 bytes
    with pytest.warns(UserWarning) as caught, record(limit=3 * (1024 + EVENT_COST) + 5) as trace:
        probe_steps("states", [{"h": x}] * 6)
        last = "here"
    assert last == "here"
    assert [event.step for event in trace.events] == [0, 1, 2]
    cut = trace.truncated
    assert (cut.kind, cut.path, cut.step, cut.dropped) == ("states", "loop", 3, 3)
    assert [str(warning.message) for warning in caught] == [
        "record: the limit is reached. Earlier events are kept, and the run continues.\n"
        "  kept      3 events, 3072 bytes\n"
        "  not kept  states at loop, step 3, and what follows\n"
        "  limit     6149 bytes, 1024 per event and its values\n"
        "Record less, or allow more:\n"
        '    with rf.record(kinds={"states"}, limit=1048576) as trace:'
    ]


def test_a_limit_that_is_not_reached_says_nothing():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with record() as trace:
            probe("x", value=randn(Dim(3, name="feat")))
    assert trace.truncated is None
    assert trace.num_bytes == 12


def test_a_limit_is_a_number_of_bytes():
    with raises_message(
        ValueError,
        """
        record: the limit is not a number of bytes.
          limit  '1 GB'
        The limit is an int, 0 or more.
            rf.record(limit=512 << 20)    # 512 MiB
        """,
    ):
        with record(limit="1 GB"):
            pass


def test_steps_of_another_type_are_refused():
    with raises_message(
        TypeError,
        """
        Steps have an unknown form.
          steps  str '3'
        Steps are an int, a range, a slice, a collection of ints, or a function of the step.
            rf.record(steps=range(10))
        """,
    ):
        with record(steps="3"):
            pass


def test_steps_from_the_end_are_refused():
    with raises_message(
        ValueError,
        """
        Steps cannot be counted from the end.
          steps  slice(-2, None, None)
        While a loop runs, its number of steps is unknown.
            trace.attention[path]    # record all, then take the last ones
        """,
    ):
        with record(steps=slice(-2, None)):
            pass


def test_a_kind_that_nothing_has_and_that_is_nearly_another_one_is_said(offer_some):
    with pytest.warns(UserWarning) as caught:
        with record(kinds=["atention", "states"]) as trace:
            offer_some()
    assert str(caught[0].message) == textwrap.dedent("""\
        record: there are no events of the kind "atention".
          recorded  states
          offered   attention, beams, module, states, tokens
        A kind is one of those that are offered, or a word of your own. Did you mean
            rf.record(kinds="attention")""")
    assert caught[0].filename == __file__
    with pytest.warns(UserWarning, match='select: there are no events of the kind "state".'):
        assert trace.select(kind="state") == []


def test_kinds_of_ones_own_are_kinds(recwarn):
    with record(kinds="attentions") as trace:
        probe("attentions")
    with record(kinds={"mine", "attention"}):
        pass
    assert len(trace.select(kind="attentions")) == 1 and trace.select(kind="beams") == [] and not recwarn.list
