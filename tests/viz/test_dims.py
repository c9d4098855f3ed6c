"""The dims view: which dims and values it says tensors have, checked by hand, and its text and HTML."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from viz.stored_files import assert_stored

import rfnb as rf
from rfnb.core.dim import Dim, ragged_dim
from rfnb.core.errors import ShapeError
from rfnb.core.tensor import Tensor
from rfnb.viz.dims import table
from rfnb.viz.dims.spec import spec as dims_spec
from rfnb.viz.kinds import html_of, problem_of, text_of
from rfnb.viz.spec import Spec, pack, to_json, unpack


def tensor(name: str, *axes: Dim, values: Any = None, dtype: str = "float32", **more: Any) -> Tensor:
    shape = [dim.extent for dim in axes]
    count = int(np.prod(shape, dtype=int))
    raw = np.arange(count, dtype=dtype).reshape(shape) if values is None else np.asarray(values, dtype)
    return Tensor(name, axes, raw_tensor=raw, **more)


def names() -> SimpleNamespace:
    batch = Dim(3, name="batch", kind="batch")
    time = ragged_dim([5, 3, 2], over=batch, name="time")
    return SimpleNamespace(
        batch=batch, time=time, other=Dim(5, name="time"), model=Dim(2, name="model"), vocab=Dim(40, name="vocab")
    )


def example() -> Spec:
    """A plain, a permuted, a sparse tensor, one with a dim less, a scalar, and two different dims named time."""
    d = names()
    source = tensor("source", d.batch, d.time, dtype="int32", sparse_dim=d.vocab)
    x = tensor("x", d.batch, d.time, d.model, feature_dim=d.model)
    tensors = {
        "source": source,
        "x": x,
        "y": tensor("y", d.time, d.batch, d.model),
        "energy": tensor("energy", d.batch, d.time, d.other),
        "state": {"h": tensor("h", d.batch, d.model), "count": tensor("count", values=7.0)},
    }
    return dims_spec(tensors, title="decoder step")


def row_of(value: Any, **options: Any) -> dict[str, Any]:
    return dims_spec(value, **options).head["rows"][0]


def test_spec_of_several_tensors_is_the_stored_one():
    assert_stored("dims_several.json", to_json(example()))


def test_text_of_several_tensors_is_the_stored_one():
    assert_stored("dims_several.txt", text_of(example()))


def test_html_of_several_tensors_is_the_stored_one():
    assert_stored("dims_several.html.txt", html_of(example()))


def test_statistics_leave_the_padding_out():
    d = names()
    values = np.full((3, 5), np.nan)
    values[0, :5], values[1, :3], values[2, :2] = 1.0, 4.0, -6.0  # the padding stays NaN
    stats = row_of(tensor("x", d.batch, d.time, values=values))["stats"]
    # 5 * 1 + 3 * 4 + 2 * -6 = 5 over 10 frames
    assert stats == {
        "min": -6.0,
        "max": 4.0,
        "mean": 0.5,
        "nan": 0,
        "inf": 0,
        "valid": 10,
        "cells": 15,
        "padding_odd": 5,
    }


def test_statistics_leave_the_padding_out_in_any_order_of_dims():
    d = names()
    x = tensor("x", d.batch, d.time, d.model)
    y = x.copy_transpose([d.model, d.time, d.batch])
    assert row_of(y)["stats"] == row_of(x)["stats"]


def test_nan_and_inf_in_real_frames_are_counted_and_left_out_of_the_mean():
    feat = Dim(5, name="feat")
    stats = row_of(tensor("x", feat, values=[1.0, np.nan, np.inf, -np.inf, 3.0]))["stats"]
    assert stats == {"min": 1.0, "max": 3.0, "mean": 2.0, "nan": 1, "inf": 2, "valid": 5, "cells": 5}
    assert table.alarm_text(stats) == "1 NaN 2 inf"


def test_values_are_not_looked_at_when_told_so():
    assert row_of(tensor("x", Dim(3, name="feat")), values=False)["stats"] is None


def test_bytes_count_the_raw_array():
    d = names()
    assert row_of(tensor("x", d.batch, d.time, d.model))["bytes"] == 3 * 5 * 2 * 4


def test_a_ragged_dim_shows_its_lengths_and_its_waste():
    entries = dims_spec(names().time).head["dims"]
    assert entries[0] == {"name": "time", "size": None, "lengths": [5, 3, 2], "kind": "spatial", "id": 0}
    assert entries[1] == {"name": "batch", "size": 3, "lengths": None, "kind": "batch", "id": 1}
    assert table.waste([5, 3, 2]) == pytest.approx(1 - 10 / 15)


def test_dims_of_equal_name_are_told_apart():
    d = names()
    text = text_of(dims_spec(tensor("energy", d.time, d.other, values=np.zeros((5, 5)))))
    assert "[time#1<=5, time#2=5]" in text


def test_the_same_dim_is_one_entry_in_all_rows():
    d = names()
    head = dims_spec([tensor("a", d.batch, d.model), tensor("b", d.model)]).head
    assert [row["dims"] for row in head["rows"]] == [[0, 1], [1]]


def test_equal_dims_stand_under_each_other_and_a_permuted_row_is_marked():
    rows = example().head["rows"]
    columns = table.columns_of(rows)
    flags = {row["label"]: table.is_permuted(row, columns) for row in rows}
    assert flags == {
        "source": False,
        "x": False,
        "y": True,
        "energy": False,
        "state": False,
        "h": False,
        "count": False,
    }


def test_a_new_dim_gets_its_column_before_the_dims_that_follow_it():
    rows = [{"dims": [0, 1]}, {"dims": [0, 2, 1]}]
    assert table.columns_of(rows) == {0: 0, 2: 1, 1: 2}


def test_rows_that_fit_one_order_are_not_called_permuted_whatever_comes_first():
    rows = [{"dims": [0, 1]}, {"dims": [0, 2]}, {"dims": [0, 2, 1]}]
    columns = table.columns_of(rows)
    assert columns == {0: 0, 2: 1, 1: 2}
    assert not any(table.is_permuted(row, columns) for row in rows)


def test_with_many_dims_those_that_never_meet_share_columns():
    rows = [{"dims": [0, number]} for number in range(1, 9)]
    assert table.columns_of(rows) == {0: 0, **dict.fromkeys(range(1, 9), 1)}


def test_a_template_has_no_values():
    d = names()
    row = row_of(Tensor("x", [d.batch, d.model], "bfloat16"))
    assert (row["note"], row["stats"], row["bytes"], row["device"]) == ("template", None, 12, None)


def test_a_plain_array_takes_names():
    head = dims_spec(np.zeros((2, 3), np.float32), names=["batch", "feat"]).head
    assert [(entry["name"], entry["size"]) for entry in head["dims"]] == [("batch", 2), ("feat", 3)]
    assert (head["rows"][0]["dtype"], head["rows"][0]["bytes"]) == ("float32", 24)


def test_parameters_stand_under_the_module_that_owns_them():
    first, second = Dim(2, name="in"), Dim(3, name="out")
    weight, bias, scale = tensor("w", first, second), tensor("b", second), tensor("s", values=1.0)
    named = [("encoder.linear.weight", weight), ("encoder.linear.bias", bias), ("scale", scale)]
    rows = dims_spec(SimpleNamespace(named_parameters=lambda: named)).head["rows"]
    assert [(row["label"], row["indent"]) for row in rows] == [
        ("encoder", 0),
        ("linear", 1),
        ("weight", 2),
        ("bias", 2),
        ("scale", 0),
    ]


def call(path: str, inputs: list[Tensor], outputs: list[Tensor], kind: str = "Linear") -> SimpleNamespace:
    named = [(str(place), each) for place, each in enumerate(inputs)]
    values = {"inputs": named, "outputs": [("", each) for each in outputs], "module": kind}
    return SimpleNamespace(kind="module", path=path, values=values)


def test_calls_of_modules_stand_in_the_order_of_the_model_and_equal_ones_once():
    d = names()
    x, y = (Tensor(name, [d.batch, dim]) for name, dim in (("x", d.model), ("y", d.other)))
    # A part returns before the whole.
    events = [
        call("net.first", [x], [y]),
        call("net.first", [x], [y]),
        call("net.last", [y], [x]),
        call("net", [x], [x], "Net"),
    ]
    rows = dims_spec(SimpleNamespace(select=lambda kind: events)).head["rows"]
    shown = [(row["label"], row["indent"], row["note"]) for row in rows]
    assert shown == [
        ("net", 0, "Net"), ("in 0", 1, ""), ("out", 1, ""),
        ("first", 1, "Linear, called 2 times"), ("in 0", 2, ""), ("out", 2, ""),
        ("last", 1, "Linear"), ("in 0", 2, ""), ("out", 2, ""),
    ]  # fmt: skip


def test_a_failure_stands_above_the_dims():
    d = names()
    spec = dims_spec({"a": tensor("a", d.model)}, failure="DimError: matmul: no <dim>.")
    assert text_of(spec).startswith("DimError: matmul: no <dim>.\n\nDims\n")
    assert html_of(spec).startswith("<pre>DimError: matmul: no &lt;dim&gt;.</pre>")


def test_html_of_a_tensor_and_of_a_dim_is_a_table_without_script_or_style():
    d = names()
    for page in (html_of(dims_spec(tensor("x", d.batch, d.time))), html_of(dims_spec(d.time))):
        assert "<table>" in page and "time&lt;=5" in page
        assert not re.search("<(script|style|svg)| style=", page)


@pytest.mark.parametrize(
    "count, text",
    [
        (None, ""),
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1 kB"),
        (41984, "42 kB"),
        (123456, "123 kB"),
        (999600, "1 MB"),
        (5 * 10**9, "5 GB"),
    ],
)
def test_bytes_are_written_with_three_digits(count, text):
    assert table.bytes_text(count) == text


@pytest.mark.parametrize(
    "value, text",
    [
        *[(None, "-"), (0.0, "0"), (-3.0, "-3"), (0.12345, "0.123"), (12.345, "12.3"), (1234.5678, "1235")],
        *[(1.5e7, "1.5e+07"), (-2.5e-7, "-2.5e-07")],
    ],
)
def test_numbers_are_written_with_three_digits(value, text):
    assert table.number_text(value) == text


def test_a_spec_survives_being_packed():
    spec = example()
    assert unpack(pack(spec)).head == spec.head


def test_bad_data_is_shown_as_a_sentence():
    row = {"label": "x", "dims": [4]}
    sentence = "These dims cannot be drawn: row 0 names dim 4, which is not in the list of dims."
    spec = Spec("dims", {"title": "x", "live": False, "dims": [], "rows": [row], "failure": None})
    assert text_of(spec) == sentence
    assert html_of(spec) == f"<p>{sentence}</p>"
    assert problem_of(Spec("dims", {})) == "These dims cannot be drawn: the lists of dims and rows are missing."
    assert (
        problem_of(Spec("dims", {"dims": [], "rows": [{}]})) == "These dims cannot be drawn: row 0 has no list of dims."
    )


def test_a_value_without_dims_says_what_can_be_drawn():
    with pytest.raises(TypeError) as caught:
        dims_spec(5)
    assert str(caught.value) == (
        "dims: this value has no dims.\n"
        "  value  int\n"
        "The view draws a Tensor, a Dim, a list or dict of them, a Trace, a Module, or an array with dim names.\n"
        '    rf.viz.dims(array, names=["batch", "time"])'
    )


def test_an_array_needs_a_name_for_each_axis():
    with pytest.raises(ShapeError) as caught:
        dims_spec(np.zeros((2, 3)), names=["batch"])
    assert str(caught.value) == (
        "dims: the names do not fit the array.\n"
        "  array  (2, 3)\n"
        "  names  batch\n"
        'There is one name per axis; "..." stands for any further ones, "(heads dim)" for one axis that is both.\n'
        '    rf.viz.dims(array, names="batch axis1")'
    )


def test_coordinates_of_a_vocabulary_are_its_labels():
    batch, vocab = rf.Dim(2, name="batch"), rf.Dim(3, name="letters", vocab=["a", " b", "日本"])
    scores = rf.convert_to_tensor(np.arange(6, dtype=np.float32).reshape(2, 3), dims=[batch, vocab])
    view = rf.viz.dims(scores)
    assert view.spec.head["table"]["labels"] == {"1": ["a", " b", "日本"]}
    assert view.text().splitlines()[-3:] == [
        "letters →  a  ␣b  日本",
        "batch 0    0   1     2",
        "batch 1    3   4     5",
    ]
    assert "<th>␣b</th>" in view.html()
    turned = rf.viz.dims(scores.copy_transpose([vocab, batch])).text()
    assert "letters 日本" in turned and "labels" not in rf.viz.dims(rf.zeros([batch])).spec.head["table"]
