"""The events of a loop are stacked over its dim; what differs from step to step becomes one dim."""

import numpy as np
from asserting import assert_same, ragged, randn, tensor

import rfnb as rf
from rfnb import Dim
from rfnb.trace.probe import probe, trace_context
from rfnb.trace.record import record

NAN = float("nan")


def weights_of(trace, path="loop"):
    return trace.attention[path].numpy().tolist()


def test_events_of_a_loop_are_stacked_over_its_own_dim():
    batch, feat = Dim(2, name="batch"), Dim(3, name="feat")
    time = ragged([5, 4], batch)
    source = randn(batch, time, feat)
    with record() as trace:
        loop = rf.Loop(axis=time)
        loop.state.h = rf.zeros([batch, feat])
        for _ in loop:
            loop.state.h = loop.state.h + loop.unstack(source)
            out = loop.stack(loop.state.h)
    assert_same(trace.states["loop"], {"h": out})
    assert trace.states.step_dim("loop") is time


def test_all_values_of_one_run_share_the_step_dim():
    unit, time, axis = Dim(2, name="unit"), Dim(3, name="time"), Dim(None, name="step")
    with record(steps=range(2)) as trace:
        for step in range(3):
            with trace_context.loop("loop", step, axis):
                probe("states", h=randn(unit))
                probe("attention", weights=randn(time), axis=time)
    step_dim = trace.states["loop"]["h"].dims[0]
    assert step_dim is trace.attention["loop"].dims[0]
    assert (step_dim.name, step_dim.size) == ("step", 2)


def test_a_dim_given_with_the_events_is_the_step_dim(probe_steps):
    unit, labels = Dim(2, name="unit"), Dim(3, name="labels")
    with record() as trace:
        probe_steps("states", [{"h": randn(unit), "dim": labels}] * 3)
    assert trace.states["loop"]["h"].dims == (labels, unit)


def test_part_of_the_steps_get_a_dim_of_their_own(probe_steps):
    unit, time = Dim(2, name="unit"), Dim(5, name="time")
    values = [{"h": tensor(np.full(2, step, np.float32), unit)} for step in range(5)]
    with record(steps=[1, 3]) as trace:
        probe_steps("states", values, axis=time)
    h = trace.states["loop"]["h"]
    assert (h.dims[0].short_repr(), h.dims[0] is time) == ("time=2", False)
    assert h.numpy().tolist() == [[1.0, 1.0], [3.0, 3.0]]


def test_a_loop_over_the_dim_attended_over_gets_its_twin(probe_steps):
    time = Dim(3, name="time")
    with record() as trace:
        probe_steps("attention", [{"weights": randn(time), "axis": time}] * 3, axis=time)
    dims = trace.attention["loop"].dims
    assert dims == (time.copy(match_priority=1), time)


def test_a_history_that_grows_is_filled_with_zeros(probe_steps):
    values = []
    for length in (1, 2, 3):
        history = Dim(length, name="history")
        values.append({"weights": tensor(np.full(length, 1 / length, np.float32), history), "axis": history})
    with record() as trace:
        probe_steps("attention", values)
    third = np.float32(1 / 3)
    assert weights_of(trace) == [[1.0, 0.0, 0.0], [0.5, 0.5, 0.0], [third, third, third]]
    assert trace.attention.axis("loop") is trace.attention["loop"].dims[1]


def test_a_history_that_is_computed_from_the_one_before_is_one_dim(probe_steps):
    unit, prompt = Dim(2, name="unit"), Dim(2, name="prompt")
    values = [{"weights": tensor(np.full((2, 2 + more), 0.5, np.float32), unit, prompt + more), "axis": prompt + more}
              for more in (1, 2, 3)]  # fmt: skip
    with record() as trace:
        probe_steps("attention", values)
    weights = trace.attention["loop"]
    assert [dim.name for dim in weights.dims[1:]] == ["unit", "prompt"]
    assert [dim.extent for dim in weights.dims] == [3, 2, 5]
    assert weights.numpy()[0].tolist() == [[0.5, 0.5, 0.5, 0.0, 0.0]] * 2
    assert trace.attention.axis("loop") is weights.dims[2]


def test_slots_that_do_not_exist_yet_are_nan(probe_steps):
    source = Dim(2, name="source")
    values = [
        {"weights": tensor(np.ones((size, 2)), Dim(size, name="beam"), source), "axis": source} for size in (1, 2)
    ]
    with record() as trace:
        probe_steps("attention", values)
    np.testing.assert_equal(weights_of(trace), [[[1.0, 1.0], [NAN, NAN]], [[1.0, 1.0], [1.0, 1.0]]])


def test_a_slot_that_does_not_exist_yet_is_nan_also_where_the_history_is_short(probe_steps):
    values = []
    for size in (1, 2):
        beam, history = Dim(size, name="beam"), Dim(size, name="history")
        values.append({"weights": tensor(np.ones((size, size)), beam, history), "axis": history})
    with record() as trace:
        probe_steps("attention", values)
    np.testing.assert_equal(weights_of(trace), [[[1.0, 0.0], [NAN, NAN]], [[1.0, 1.0], [1.0, 1.0]]])


def test_a_step_without_the_beam_holds_for_all_of_it(probe_steps):
    source, beam = Dim(2, name="source"), Dim(3, name="beam")
    first, second = tensor([0.25, 0.75], source), tensor([[0.5, 0.5]] * 3, beam, source)
    with record() as trace:
        probe_steps("attention", [{"weights": first, "axis": source}, {"weights": second, "axis": source}])
    assert trace.attention["loop"].dims[1:] == (beam, source)
    assert weights_of(trace)[0] == [[0.25, 0.75]] * 3


def test_the_order_of_dims_may_differ_from_step_to_step(probe_steps):
    row, column = Dim(2, name="row"), Dim(3, name="column")
    x = randn(row, column)
    with record() as trace:
        probe_steps(
            "attention", [{"weights": x, "axis": row}, {"weights": x.copy_transpose([column, row]), "axis": row}]
        )
    first, second = trace.attention["loop"].numpy()
    assert first.tolist() == second.tolist() == x.numpy().tolist()


def test_values_in_beam_slots_do_not_get_the_lengths_of_the_final_hypotheses(probe_steps):
    batch, beam = Dim(2, name="batch"), Dim(3, name="beam", kind="beam")
    labels = ragged([[1, 2, 2], [2, 1, 1]], (batch, beam), name="labels")
    with record() as trace:
        probe_steps("states", [{"h": randn(batch, beam)}] * 2, axis=labels)
    assert trace.states["loop"]["h"].dims[0].short_repr() == "labels=2"


# -- runs ----------------------------------------------------------------------------------------------------------------


def runs(trace, path="loop"):
    return [
        [event.index for event in trace.attention.events(path, run)] for run in range(len(trace.attention.runs(path)))
    ]


def attend(weights=None):
    one = Dim(1, name="one")
    probe("attention", weights=tensor([1.0], one), axis=one)


def test_a_loop_that_runs_again_is_another_run(probe_steps):
    axis, one = Dim(3, name="time"), Dim(1, name="one")
    values = [{"weights": tensor([1.0], one)}] * 3
    with record() as trace:
        probe_steps("attention", values, axis=axis)
        probe_steps("attention", values, axis=axis)
    assert runs(trace) == [[0, 1, 2], [3, 4, 5]]


def test_a_module_called_twice_in_each_step_gives_two_runs():
    with record() as trace:
        for step in range(3):
            with trace_context.loop("loop", step, None):
                attend()
                attend()
    assert runs(trace) == [[0, 2, 4], [1, 3, 5]]


def test_an_inner_loop_has_a_run_for_each_outer_step():
    axis = Dim(2, name="inner")
    with record() as trace:
        for outer in range(2):
            with trace_context.loop("outer", outer, None):
                for inner in range(2):
                    with trace_context.loop("inner", inner, axis):
                        attend()
    assert runs(trace, "outer.inner") == [[0, 1], [2, 3]]
