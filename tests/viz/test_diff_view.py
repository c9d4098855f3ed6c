"""The diff view: its spec from a Diff, its text, values that a page asks for, pages of large diffs."""

import re

import numpy as np
import pytest
from asserting import randn, tensor
from viz.stored_files import assert_stored

import rfnb as rf
from rfnb import Dim
from rfnb.trace.probe import trace_context
from rfnb.viz.diff.content import problem
from rfnb.viz.diff.pairs import asked, source_of
from rfnb.viz.exact_values import part
from rfnb.viz.kinds import drawing_of, html_of, text_of
from rfnb.viz.page.budget import Room
from rfnb.viz.page.page_spec import page_spec
from rfnb.viz.spec import Spec, pack, to_json

LABELS = ["the", "cat", "sat"]


def runs(*, steps=3, paths=2, width=5, change=0.5, start=1):
    """Two recordings of states over steps, that differ by `change` in one unit from a step on, in the second path before the first."""
    found = []
    for factor in (0.0, change):
        feat, time = Dim(width, name="feat"), Dim(steps, name="time", kind="spatial")
        with rf.record(limit=1 << 30) as trace:
            for step in range(steps):
                with trace_context.loop("loop", step, time):
                    for path in range(paths):
                        values = np.random.default_rng([step, path]).standard_normal(width).astype(np.float32)
                        if step > start or (step == start and path == paths - 1):
                            values[1] += factor * (step - start + 1)
                        with trace_context.module(f"layer{path}"):
                            rf.probe("states", h=tensor(values, feat))
        found.append(trace)
    return found


def small() -> Spec:
    return rf.viz.diff(*runs(), names=("before", "after"), title="Two runs").spec


def test_the_spec_is_that_of_the_file():
    assert_stored("diff_small.json", to_json(small()))


def test_the_text_is_that_of_the_file():
    assert_stored("diff_small.txt", text_of(small()))


def test_the_map_has_the_difference_of_each_step_in_tolerances():
    a, b = runs(steps=6, paths=4, change=0.25, start=2)
    d = rf.diff(a, b)
    spec = rf.viz.diff(d).spec
    assert spec.blocks["log"].shape == spec.blocks["abs"].shape == (1, 4, 6)
    for index, (one, other) in enumerate(zip(a.events, b.events, strict=True)):
        x, y = one.values["h"].numpy().astype(np.float64), other.values["h"].numpy()
        row, col = index % 4, index // 4
        assert spec.blocks["abs"][0, row, col] == pytest.approx(np.abs(x - y).max())
        if not np.array_equal(x, y):
            size = max(abs(x[1]), abs(y[1]), *(np.sqrt(np.mean(np.square(each, dtype=np.float64))) for each in (x, y)))
            expected = np.log10(abs(x[1] - y[1]) / size / (128 * 2.0**-23))
            assert spec.blocks["log"][0, row, col] == pytest.approx(expected, rel=1e-5)
        else:
            assert spec.blocks["log"][0, row, col] == -np.inf
    assert spec.head["mark"] == [3, 2]


def test_the_first_difference_has_both_values():
    a, b = runs()
    spec = rf.viz.diff(a, b).spec
    pair = spec.head["pairs"][0]
    assert [pair["row"], pair["col"]] == spec.head["mark"] == [1, 1]
    values = spec.blocks[pair["block"]]
    assert np.array_equal(values[0, 0], a.events[3].values["h"].numpy())
    assert np.array_equal(values[1, 0], b.events[3].values["h"].numpy())


def test_a_page_gets_the_values_of_any_place_when_it_asks():
    a, b = runs(steps=8, paths=3)
    spec = rf.viz.diff(a, b).spec
    (rows, cols, pooled) = part(spec, {"block": "pair/2/6/size", "start": [0], "size": [3]}).astype(int)
    assert (rows, cols, pooled) == (1, 5, 0)
    values = part(spec, {"block": "pair/2/6", "start": [0, 0, 0], "size": [2, 1, 5]})
    assert np.array_equal(values[:, 0], [trace.events[3 * 6 + 2].values["h"].numpy() for trace in (a, b)])
    for wrong in ("pair/2/99", "pair/2", "pair/x/1", "pair/2/6/other", "other"):
        assert part(spec, {"block": wrong, "start": [0], "size": [3]}) is None
    assert (
        part(Spec("diff", spec.head, spec.blocks), {"block": "pair/2/6", "start": [0] * 3, "size": [2, 1, 5]}) is None
    )


@pytest.mark.parametrize("other", [1.5, np.inf, np.nan])
def test_a_value_without_dims_is_one_cell(other):
    found = []
    for value in (1.0, other):
        with rf.record() as trace, trace_context.loop("loop", 0, Dim(1, name="time", kind="spatial")):
            rf.probe("states", h=tensor(np.float32(value)))
        found.append(trace)
    view = rf.viz.diff(*found)
    pair = view.spec.head["pairs"][0]
    np.testing.assert_array_equal(view.spec.blocks[pair["block"]], np.float32([[[1.0]], [[other]]]))
    assert "1 in a" in view.text() and "<img" in view.html()


def test_large_values_are_pooled_to_those_that_differ_most():
    batch, time, feat = Dim(2, name="batch"), Dim(100, name="time"), Dim(300, name="feat")
    x = randn(batch, time, feat)
    changed = x.numpy().copy()
    changed[1, 57, 211] += 3.0
    traces = []
    for values in (x, tensor(changed, batch, time, feat)):
        with rf.record() as trace:
            rf.probe("value", x=values)
        traces.append(trace)
    spec = rf.viz.diff(*traces).spec
    (pair,) = spec.head["pairs"]
    values = spec.blocks[pair["block"]]
    assert (pair["at"], pair["dims"], pair["size"], pair["pool"]) == ("batch 1", ["time", "feat"], [100, 300], [3, 3])
    apart = values[1] - values[0]
    assert np.argwhere(apart).tolist() == [[57 // 3, 211 // 3]]
    assert apart.max() == pytest.approx(3.0)


def test_a_page_of_500_steps_of_40_modules_of_512_values_is_small():
    spec = rf.viz.diff(*runs(steps=500, paths=40, width=512, start=137)).spec
    assert spec.blocks["log"].shape == (1, 40, 500)
    assert spec.head["mark"] == [39, 137]
    page = page_spec(spec, Room(250_000, 112_000))
    assert len(pack(page)) < 250_000
    assert not problem(page)
    assert page.head["pairs"][0]["block"] in page.blocks
    tiny = page_spec(spec, Room(30_000, 20_000))
    assert len(pack(tiny)) < 30_000
    assert tiny.codes["log"].pool[1] == 1, "paths are not pooled"
    assert tiny.head["pairs"][0]["block"] in tiny.blocks
    assert "come from the kernel" in tiny.head["thinned"]
    assert len(html_of(spec)) < 100_000
    assert len(drawing_of(spec).shapes) < 500
    source = source_of(spec)
    assert source is not None and asked(source, "pair/39/400").shape == (2, 1, 128)


def test_of_many_paths_those_are_drawn_that_differ():
    spec = rf.viz.diff(*runs(steps=2, paths=600)).spec
    assert len(spec.head["rows"]) == 400
    assert spec.head["rows"][-1]["label"] == "layer599"
    assert "400 of 600 paths are drawn, those that differ first." in spec.head["notes"]


def test_show_takes_a_diff():
    d = rf.diff(*runs())
    view = rf.show(d)
    assert view.kind == "diff"
    assert "First difference: layer1, step 1, h:" in re.sub(r"\s+", " ", view.text())


def test_a_diff_and_more_is_said():
    d = rf.diff(*runs())
    with pytest.raises(TypeError) as error:
        rf.viz.diff(d, tolerance=1e-3)
    assert str(error.value) == (
        "diff: a Diff takes no second argument.\n"
        "  given  Diff, tolerance\n"
        "A Diff already compares two recordings.\n"
        "    rf.viz.diff(d), or rf.viz.diff(trace_a, trace_b, tolerance=1e-3)"
    )


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"rows": None}, "This diff cannot be drawn: its list of rows is missing."),
        ({"names": ["a"]}, "This diff cannot be drawn: it has no two names."),
        ({"cols": ["0"]}, "This diff cannot be drawn: the array log has no 2 paths in 1 steps."),
        ({"mark": [7, 0]}, "This diff cannot be drawn: the first difference has no place."),
        ({"said": 3}, "This diff cannot be drawn: one of its sentences is not a string."),
        ({"pairs": [{"row": 0, "col": 9}]}, "This diff cannot be drawn: pair 0 is at no place."),
    ],
)
def test_what_cannot_be_drawn_is_said(change, said):
    spec = small()
    assert text_of(Spec("diff", {**spec.head, **change}, spec.blocks)) == said


@pytest.mark.parametrize(
    ("one", "other", "said"),
    [
        ("a", "b", "from 0 (first of all)  not in numbers"),
        (1.0, np.nan, "from 0 (first of all)  NaN  at 0"),
        (1.0, 1.5, "from 0 (first of all)  largest 0.5  at 0"),
        (3, 5, "from 0 (first of all)  largest 2  at 0"),
    ],
)
def test_the_largest_difference_is_a_number_only_where_there_is_one(one, other, said):
    traces = []
    for value in (one, other):
        with rf.record() as trace, trace_context.loop("loop", 0, Dim(1, name="time", kind="spatial")):
            rf.probe("value", x=value)
        traces.append(trace)
    assert said in rf.viz.diff(*traces).text()
