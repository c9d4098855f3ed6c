"""The plan view: its spec, text and picture, where its boxes are, and what it says when there is no plan."""

from __future__ import annotations

import re

import pytest
from asserting import ragged, raises_message, randn
from viz.stored_files import assert_stored

import rfnb as rf
from rfnb import Dim
from rfnb.viz.drawing.svg import svg
from rfnb.viz.drawing.theme import theme
from rfnb.viz.kinds import drawing_of, html_of, text_of
from rfnb.viz.plan.layout import GAP, layout
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
    drawn = layout(head)
    for place, (label, top, bottom) in zip(head["places"], drawn.bands, strict=True):
        assert label.startswith(place["name"])
        boxes = [box for box in drawn.boxes if box.shape == "op" and box.id in {op["id"] for op in place["ops"]}]
        assert len(boxes) == len(place["ops"])
        assert all(top < drawn.y[box.layer] < bottom for box in boxes)
    for layer in range(len(drawn.y)):
        row = sorted((box for box in drawn.boxes if box.layer == layer), key=lambda box: box.x)
        assert all(b.x - a.x >= (a.width + b.width) / 2 + GAP - 1e-6 for a, b in zip(row, row[1:]))


def test_every_line_goes_down_one_layer_after_the_other():
    drawn = layout(example().head)
    assert len(drawn.lines) == 11
    for line in drawn.lines:
        assert [b.layer - a.layer for a, b in zip(line, line[1:])] == [1] * (len(line) - 1)
        assert all(0 < box.x < drawn.width for box in line)


def test_a_spec_survives_packing():
    spec = example()
    again = unpack(pack(spec))
    assert (text_of(again), html_of(again)) == (text_of(spec), html_of(spec))


def test_show_takes_a_loop_and_its_plan():
    loop = recorded()
    assert rf.viz.plan(loop).text() == rf.viz.plan(loop.plan).text()
    assert rf.show(loop).kind == rf.show(loop.plan, title="Mine").kind == "plan"
    assert set(rf.viz.plan(loop)._repr_mimebundle_()) == {"text/plain", "text/html"}


def test_a_page_with_a_plan(tmp_path):
    page = rf.save_html(tmp_path / "page.html", recorded()).read_text()
    assert "data:image/png;base64," in page and "rfnb-frame" not in page.split("<body>")[1].split("<script")[0]


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
        A loop has a plan when its body was recorded, and it is left:
            with loop:
                ...
        """,
    ):
        rf.show(loop)


@pytest.mark.parametrize(
    ("head", "text"),
    [
        ({"title": "x"}, "This plan cannot be shown: KeyError('values') is not as it should be."),
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
