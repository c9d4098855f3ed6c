"""rf.probe with names: raw arrays of any library as values of events."""

import numpy as np
import torch
from asserting import raises_message

import rfnb as rf
from rfnb.trace.probe import trace_context

WEIGHTS = torch.rand(3, 2, 5, 7)


def test_a_raw_array_with_names_is_an_event_that_views_draw():
    raw = WEIGHTS.clone().requires_grad_()
    with rf.record() as trace:
        rf.probe(
            "attention", weights=raw, dims="batch head target source", axis="source", lengths={"source": [7, 5, 3]}
        )
    (event,) = trace.events
    weights = event.values["weights"]
    assert [dim.name for dim in weights.dims] == ["batch", "head", "target", "source"]
    assert event.values["axis"] is weights.dims[3] and weights.dims[3].lengths.tolist() == [7, 5, 3]
    assert torch.equal(weights.raw_tensor, raw) and not weights.raw_tensor.requires_grad
    assert rf.show(trace).spec.kind == "group"


def test_nothing_is_named_while_nobody_records():
    rf.probe("attention", weights=WEIGHTS, dims="these are not enough or too many names")


def test_equal_names_in_one_event_are_one_dim_and_others_are_not():
    with rf.record() as trace:
        rf.probe("states", h=torch.rand(3, 4), c=np.ones((3, 4)), x=torch.rand(3, 6), dims="batch unit", note="plain")
    values = trace.events[0].values
    assert values["h"].dims == values["c"].dims and values["note"] == "plain"
    assert values["x"].dims[0] is values["h"].dims[0] and values["x"].dims[1] is not values["h"].dims[1]


def test_names_by_value_leave_other_values_alone():
    table = np.arange(3)
    with rf.record() as trace:
        rf.probe("own", weights=WEIGHTS, table=table, dims={"weights": "batch head target source"})
    values = trace.events[0].values
    assert isinstance(values["weights"], rf.Tensor) and isinstance(values["table"], np.ndarray)


def test_a_tuple_of_attentions_is_an_event_for_each_layer():
    layers = tuple(WEIGHTS * (index + 1) for index in range(12))
    with rf.record() as trace, trace_context.scope("encoder"):
        rf.probe("attention", weights=layers, dims="batch head target source", axis="source", target="target")
    assert [event.path for event in trace.events] == [f"encoder.{index}" for index in range(12)]
    assert len({event.values["weights"].dims for event in trace.events}) == 1
    for index in range(12):
        assert torch.equal(trace.attention[f"encoder.{index}"].raw_tensor, layers[index])
        assert trace.events[index].values["axis"] is trace.events[0].values["weights"].dims[3]


def test_the_steps_of_a_loop_are_stacked_also_where_they_grow():
    with rf.record() as trace, trace_context.scope("decoder"):
        for step in range(4):
            trace_context.at_step(step)
            rf.probe("states", h=torch.full((3, 2), float(step)), dims="batch unit")
            rf.probe("attention", weights=torch.full((3, 2 + step), 0.5), dims="batch source", axis="source")
    h = trace.states["decoder"]["h"]
    assert [(dim.name, dim.extent) for dim in h.dims] == [("step", 4), ("batch", 3), ("unit", 2)]
    assert h.raw_tensor[:, 0, 0].tolist() == [0, 1, 2, 3]
    weights = trace.attention["decoder"]
    assert [(dim.name, dim.extent) for dim in weights.dims] == [("step", 4), ("batch", 3), ("source", 5)]
    assert weights.raw_tensor[1, 0].tolist() == [0.5, 0.5, 0.5, 0, 0]


def test_self_attention_has_a_dim_and_its_twin():
    with rf.record() as trace:
        rf.probe("attention", weights=torch.rand(2, 4, 4), dims="batch time time", axis="time", target="time")
    values = trace.events[0].values
    _, target, source = values["weights"].dims
    assert (values["target"], values["axis"]) == (target, source) and source.twin_of is target


def test_lengths_are_of_the_dim_called_time_and_arrays_without_it_have_none():
    h, c = torch.rand(3, 7, 8), torch.rand(3, 9)
    for lengths in ([7, 5, 4], {"time": [7, 5, 4]}):
        for values in ({"h": h, "c": c}, {"c": c, "h": h}):
            with rf.record() as trace:
                rf.probe("states", **values, dims={"h": "batch time unit", "c": "batch cell"}, lengths=lengths)
            of = trace.events[0].values
            assert [dim.extent for dim in of["c"].dims] == [3, 9] and of["c"].dims[1].lengths is None
            assert of["h"].dims[1].lengths.tolist() == [7, 5, 4] and of["h"].dims[0] is of["c"].dims[0]


def test_arrays_that_are_cut_to_the_longest_sequence_have_one_time():
    h, c = torch.rand(3, 9, 8), torch.rand(3, 9, 8)
    with rf.record() as trace:
        rf.probe("states", h=h, c=c, dims="batch time unit", lengths=[7, 5, 4])
    of = trace.events[0].values
    assert of["h"].dims == of["c"].dims and of["c"].dims[1].extent == 7


def test_a_packed_sequence_shares_its_dims_with_other_arrays():
    packed = torch.nn.utils.rnn.pack_sequence([torch.rand(5, 4), torch.rand(3, 4)])
    names = {"c": "batch unit", "h": "batch time unit"}
    for values in ({"c": torch.rand(2, 4), "h": packed}, {"h": packed, "c": torch.rand(2, 4)}):
        with rf.record() as trace:
            rf.probe("states", **values, dims=names)
        of = trace.events[0].values
        assert of["h"].dims[::2] == of["c"].dims and of["h"].dims[1].lengths.tolist() == [5, 3]


def test_lengths_are_also_of_an_axis_that_is_not_named():
    with rf.record() as trace:
        rf.probe("states", h=torch.rand(3, 7, 8), dims="batch ... feature", lengths=[7, 5, 4])
    assert trace.events[0].values["h"].dims[1].lengths.tolist() == [7, 5, 4]


def test_lengths_of_no_dim_and_of_several():
    h, c = torch.rand(3, 7), torch.rand(3, 8)
    with rf.record():
        with raises_message(
            rf.DimError,
            """
            probe "states": of which dim are the lengths?
              h         batch left
              c         batch right
              possible  left, right
            Lengths without a name belong to a dim named time, or similar. Name the dim:
                lengths={"right": lengths}
            """,
        ):
            rf.probe("states", h=h, c=c, dims={"h": "batch left", "c": "batch right"}, lengths=[7, 5, 4])
        with raises_message(
            rf.DimError,
            """
            named: lengths has "time", which is none of the names.
              x  [batch=3, left=7]
            Lengths by name are of one of the axes.
                lengths={"left": [...]}
            """,
        ):
            rf.probe("states", h=h, dims="batch left", lengths={"time": [7, 5, 4]})


def test_lengths_without_names_of_dims_are_a_value_as_any_other():
    with rf.record() as trace:
        rf.probe("mine", lengths=[7, 5, 3], other=2)
    assert trace.events[0].values == {"other": 2, "lengths": [7, 5, 3]}


def test_names_that_mean_nothing():
    with (
        raises_message(
            rf.DimError,
            """
        probe "attention": axis is the name of no dim.
          axis     sorce
          weights  [batch=3, head=2, target=5, source=7]
        The axis is a Dim, or the name of one of the values' dims.
            axis="source"
        """,
        ),
        rf.record(),
    ):
        rf.probe("attention", weights=WEIGHTS, dims="batch head target source", axis="sorce")
    with (
        raises_message(
            ValueError,
            """
        probe "attention": dims names a value that is not there.
          dims    weight
          values  weights
        Names go by the values, or are one text for all arrays.
            rf.probe("attention", ..., dims={"weights": "batch time"})
        """,
        ),
        rf.record(),
    ):
        rf.probe("attention", weights=WEIGHTS, dims={"weight": "batch head target source"})
