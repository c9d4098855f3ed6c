"""The plan view: its spec, text and picture, where its boxes are, and what it says when there is no plan."""

from __future__ import annotations

import re
import sys
from unittest.mock import patch

import pytest
from asserting import ragged, raises_message, randn
from IPython.core.interactiveshell import InteractiveShell
from viz.stored_files import assert_stored

import rfnb as rf
from rfnb import Dim
from rfnb.viz.drawing.svg import svg
from rfnb.viz.drawing.theme import theme
from rfnb.viz.kinds import drawing_of, html_of, text_of
from rfnb.viz.parts.graph import GAP
from rfnb.viz.plan.layout import layout
from rfnb.viz.plan.spec import spec as plan_spec
from rfnb.viz.spec import Spec, pack, to_json, unpack


def recorded(name="decoder"):
    """A loop with ops in all three places, a value that is read twice, and a line that skips layers."""
    batch, feat, hidden = Dim(3, name="batch"), Dim(5, name="feat"), Dim(4, name="hidden")
    time = ragged([4, 2, 3], batch)
    x = randn(batch, time, feat)
    x.name = "x"
    weight = randn(feat, hidden, seed=1)
    loop = rf.Loop(axis=time, name=name)
    loop.state.h = rf.zeros([batch, hidden])
    with loop:
        frame = rf.matmul(loop.unstack(x), weight, reduce=feat)
        loop.state.h = rf.tanh(frame + loop.state.h * 0.5)
        loop.stack(rf.softmax(loop.state.h, axis=hidden) * frame)
        loop.last(loop.state.h)
    return loop


def example() -> Spec:
    spec = plan_spec(recorded())
    for node in spec.head["graph"]["nodes"]:
        node["words"] = re.sub(r"test_plan.py:\d+", "model.py:1", node["words"])
    for place in spec.head["places"]:
        for op in place["ops"]:
            op["code"] = re.sub(r"^test_plan.py:\d+$", "model.py:1", op["code"])
    return spec


def test_spec_is_the_stored_one():
    assert_stored("plan_small.json", to_json(example()))


def test_text_is_the_stored_one():
    assert_stored("plan_small.txt", text_of(example()))


def test_html_is_the_stored_one_beside_the_picture():
    assert_stored("plan_small.html.txt", re.sub(r'src="[^"]*"', 'src="..."', html_of(example())))


def test_the_picture_is_the_stored_one():
    assert_stored("plan_small.svg.txt", svg(drawing_of(example()), theme("light")))


def test_the_picture_is_an_image_that_needs_nothing():
    html = html_of(example())
    assert not re.search(r"<script|<style|<svg|http:|https:", html)
    assert "data:image/png;base64," in html
    assert 'alt="Plan of Loop &quot;decoder&quot;: ops 1 before, 3 inside, 2 after the loop.' in html


def test_every_op_has_a_box_in_its_band_and_no_two_touch():
    head = example().head
    graph = layout(head)
    for place, band in zip(head["places"], graph["bands"], strict=True):
        assert band["label"].startswith(place["name"])
        nodes = [node for node in graph["nodes"] if node["id"] in {op["id"] for op in place["ops"]}]
        assert len(nodes) == len(place["ops"])
        assert all(band["y"] < node["y"] < band["y"] + band["height"] for node in nodes)
    for y in {node["y"] for node in graph["nodes"]}:
        row = sorted((node for node in graph["nodes"] if node["y"] == y), key=lambda node: node["x"])
        assert all(b["x"] - a["x"] >= (a["width"] + b["width"]) / 2 + GAP - 0.2 for a, b in zip(row, row[1:]))


def test_every_line_goes_down_but_the_one_of_the_recurrence():
    graph = layout(example().head)
    down = [edge for edge in graph["edges"] if edge["form"] == "steps"]
    assert len(down) == 11
    for edge in down:
        assert all(
            low[1] > high[1] and 0 < low[0] < graph["width"] for high, low in zip(edge["path"], edge["path"][1:])
        )
    (back,) = [edge for edge in graph["edges"] if edge["form"] == "lines"]
    assert (back["from"], back["to"], back["label"]) == ("result next h", "value0", "state of the step before")
    assert back["path"][0][1] > back["path"][-1][1]


def test_the_recurrence_is_said_in_text_picture_and_graphviz():
    loop = recorded()
    assert "state.h = next h of the step before" in rf.viz.plan(loop).text()
    assert "state of the step before" in svg(drawing_of(plan_spec(loop)), theme("light"))
    assert (
        '"next h" -> value0 [style=dashed, constraint=false, label="state of the step before"];' in loop.plan.graphviz()
    )


def test_states_in_states_each_come_back_from_their_result():
    loop = rf.Loop(axis=Dim(2, name="time"), name="two")
    loop.state.cell = rf.State(h=rf.zeros([]), c=rf.zeros([]))
    loop.state.count = rf.zeros([])
    with loop:
        cell = loop.state.cell
        loop.state.cell = rf.State(h=cell.h + cell.c, c=cell.c * 2)
        loop.state.count = rf.zeros([])  # what is not read does not come back
    head = plan_spec(loop).head
    assert [(edge["result"], head["values"][edge["value"]]) for edge in head["back"]] == [
        ("next cell", "state.cell.h"),
        ("next cell", "state.cell.c"),
    ]
    text = rf.viz.plan(loop).text()
    assert "state.cell.h = next cell.h of the step before" in text and "state.cell.c = next cell.c of" in text


def test_what_runs_outside_of_the_steps_has_the_dim_of_the_loop():
    places = {place["name"]: [op["dims"] for op in place["ops"]] for place in example().head["places"]}
    assert all("time<=4" in dims for dims in places["before"] + places["after"])
    assert not any("time" in dims for dims in places["inside"])


def test_no_op_has_an_internal_name():
    batch, model, time = Dim(2, name="batch"), Dim(3, name="model"), Dim(4, name="time")
    loop, layer = rf.Loop(axis=time), rf.Linear(model, model)
    loop.state.h = rf.zeros([batch, model])
    with loop:
        loop.state.h = layer(loop.state.h)
    names = [op["name"] for place in plan_spec(loop).head["places"] for op in place["ops"]]
    assert names and not any(name.startswith("_") for name in names)


@patch.object(
    sys, "ps1", "", create=True
)  # an InteractiveShell sets it, and says by that to all tests that this is a terminal
def test_code_in_a_notebook_is_named_by_cell_and_line():
    shell = InteractiveShell()
    try:
        shell.run_cell("import rfnb as rf\ntime = rf.Dim(2, name='time')")
        shell.run_cell("1")
        shell.run_cell(
            "loop = rf.Loop(axis=time)\nloop.state.x = rf.zeros([])\nwith loop:\n    loop.state.x = loop.state.x + 1",
            store_history=True,
        )
        with patch("IPython.get_ipython", lambda: shell):
            (op,) = plan_spec(shell.user_ns["loop"]).head["places"][1]["ops"]
            assert op["code"] == f"cell {shell.execution_count - 1}, line 4"
    finally:
        shell.history_manager.end_session()


def test_a_spec_survives_packing():
    spec = example()
    again = unpack(pack(spec))
    assert (text_of(again), html_of(again)) == (text_of(spec), html_of(spec))


def test_show_takes_a_loop_and_its_plan():
    loop = recorded()
    assert rf.viz.plan(loop).text() == rf.viz.plan(loop.plan).text()
    assert rf.show(loop).kind == rf.show(loop.plan, title="Mine").kind == "plan"
    assert "application/vnd.jupyter.widget-view+json" in rf.viz.plan(loop)._repr_mimebundle_()


def test_a_page_with_a_plan(tmp_path):
    page = rf.save_html(tmp_path / "page.html", recorded()).read_text()
    assert "data:image/png;base64," in page and "rfnb-frame" in page


def test_a_plan_without_ops_is_shown():
    loop = rf.Loop(axis=Dim(2, name="time"), name="empty")
    with loop:
        pass
    view = rf.viz.plan(loop)
    assert view.text().splitlines()[1] == "before: once, on all frames  (nothing)"
    assert "<img" not in view.html()


def test_a_large_plan_is_a_table_only():
    loop = rf.Loop(axis=Dim(2, name="time"), name="large")
    loop.state.x = rf.zeros([])
    with loop:
        x = loop.state.x
        for _ in range(160):
            x = x + 1
        loop.state.x = x
    html = rf.viz.plan(loop).html()
    assert "<img" not in html and html.count("<tr>") == 160


def test_a_loop_that_was_not_recorded():
    loop = rf.Loop(axis=Dim(2, name="time"), name="decoder")
    for _ in loop:
        pass
    with raises_message(
        ValueError,
        """
        plan: loop "decoder" has none.
          loop  not recorded
        A loop has a plan after its body was recorded and the loop ended:
            with loop:
                ...
        """,
    ):
        rf.show(loop)


@pytest.mark.parametrize(
    ("head", "text"),
    [
        ({"title": "x"}, "This plan cannot be shown: KeyError('values') is invalid."),
        (
            {"title": "x", "axis": "t", "values": {}, "places": [], "results": [{"label": "y", "reads": ["op7"]}]},
            "This plan cannot be shown: nothing makes op7.",
        ),
    ],
)
def test_bad_data_is_a_sentence(head, text):
    spec = Spec("plan", {"live": False, **head})
    assert text_of(spec) == text
    assert html_of(spec) == f"<p>{text}</p>".replace("'", "&#x27;")
