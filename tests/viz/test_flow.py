"""The flow view: its spec, text and picture, what is a station, where lines go, and what it says of odd recordings."""

from __future__ import annotations

import json
import re
import shutil
import subprocess

import pytest
from asserting import ragged, raises_message, randn
from viz.odd_views import chain_flow, encoder_flow
from viz.stored_files import assert_stored

import rfnb as rf
from rfnb import Dim
from rfnb.viz.drawing.svg import svg
from rfnb.viz.drawing.theme import theme
from rfnb.viz.flow.stations import MOST
from rfnb.viz.kinds import drawing_of, html_of, text_of
from rfnb.viz.spec import Spec, from_json, pack, to_json, unpack

BATCH = Dim(3, name="batch")
TIME, FRAMES = ragged([5, 2, 3], BATCH, "time"), ragged([4, 6, 2], BATCH, "frames")
FEAT, MODEL, OUT = Dim(7, name="feat"), Dim(4, name="model"), Dim(2, name="out")


class Block(rf.Module):
    def __init__(self):
        self.up, self.down = rf.Linear(MODEL, FEAT), rf.Linear(FEAT, MODEL)

    def __call__(self, x):
        return x + self.down(rf.relu(self.up(x)))


class Model(rf.Module):
    """Two inputs, repeated blocks, a join, a merge, a dim that ends."""

    def __init__(self):
        self.left, self.right = rf.Linear(FEAT, MODEL), rf.Linear(FEAT, MODEL)
        self.blocks = rf.Sequential([Block() for _ in range(3)])
        self.out = rf.Linear(MODEL, OUT)

    def __call__(self, x, *, keys):
        a, b = self.blocks(self.left(x)), self.right(keys)
        weights = rf.softmax(rf.matmul(a, b, reduce=MODEL), axis=FRAMES)
        merged, _ = rf.merge_dims(self.out(rf.matmul(weights, b, reduce=FRAMES)), dims=[TIME, OUT])
        return merged


def record(run, *, ops=True):
    with rf.record(ops=ops) as trace:
        run()
    return trace


def inputs():
    return randn(BATCH, TIME, FEAT), randn(BATCH, FRAMES, FEAT, seed=1)


def flow(run, *, ops=True) -> Spec:
    return rf.viz.flow(record(run, ops=ops), dot=False).spec


def example() -> Spec:
    x, keys = inputs()
    model = Model()
    made = to_json(flow(lambda: model(x, keys=keys)))
    text = re.sub(r"test_flow.py:\d+", "model.py:1", json.dumps(made))
    return from_json(json.loads(text))


def stations(spec: Spec, level: int = 0) -> dict[str, dict]:
    return {station["label"]: station for station in spec.head["levels"][level]["stations"]}


def lines(spec: Spec, level: int = 0) -> set[tuple[str, str, str]]:
    """From, to, and the marks of the dims."""
    level_ = spec.head["levels"][level]
    label = {station["id"]: station["label"] for station in level_["stations"]}
    return {(label[e["from"]], label[e["to"]], " ".join(e["glyphs"])) for e in level_["graph"]["edges"]}


def names(spec: Spec, ids: list[int]) -> list[str]:
    return [spec.head["dims"][dim]["name"] for dim in ids]


def test_spec_is_the_stored_one():
    assert_stored("flow_small.json", to_json(example()))


def test_text_is_the_stored_one():
    assert_stored("flow_small.txt", text_of(example()))


def test_the_picture_is_the_stored_one():
    assert_stored("flow_small.svg.txt", svg(drawing_of(example()), theme("light")))


def test_no_line_of_the_text_is_wider_than_a_terminal():
    for spec in (example(), encoder_flow(12), chain_flow(["x" * 5000, "שלום", "\n"])):
        assert max(map(len, text_of(spec).splitlines())) <= 80


def test_a_spec_survives_packing():
    spec = example()
    again = unpack(pack(spec))
    assert (text_of(again), html_of(again)) == (text_of(spec), html_of(spec))


def test_html_has_the_picture_and_a_table_and_needs_nothing():
    html = html_of(example())
    assert not re.search(r"<script|<style|<svg|http:|https:", html)
    assert "data:image/png;base64," in html and "<th scope='row'>left</th>" in html


def test_lines_go_where_the_tensors_go():
    assert lines(example()) == {
        ("input 1", "left", "b t f"),
        ("keys", "right", "b f f2"),
        ("left", "blocks", "b t m"),
        ("blocks", "matmul", "b t m"),
        ("right", "matmul", "b f2 m"),
        ("matmul", "matmul", "b t f2"),
        ("matmul", "out", "b t m"),
        ("out", "merge_dims", "b t o"),
        ("merge_dims", "result", "b t2"),
    }


def test_a_dim_begins_where_it_is_made_and_ends_where_it_is_used_up():
    spec = example()
    merge, out = stations(spec)["merge_dims"], stations(spec)["out"]
    assert names(spec, merge["ends"]) == ["time", "out"] and names(spec, merge["makes"]) == ["time * out"]
    assert (names(spec, out["ends"]), names(spec, out["makes"])) == (["model"], ["out"])
    assert merge["words"] == (
        "merge_dims: in [batch=3, time<=5, out=2]; out [batch=3, time * out<=10]; makes time * out<=10 of time<=5, out=2"
    )
    made = [edge for edge in spec.head["levels"][0]["graph"]["edges"] if "t2" in edge["glyphs"]]
    assert [edge["from"] for edge in made] == [merge["id"]]


def test_a_dim_that_is_replaced_is_said_to_be_renamed():
    x, other = randn(BATCH, FEAT), Dim(7, name="other")
    spec = flow(lambda: rf.replace_dim(x, in_dim=FEAT, out_dim=other))
    assert stations(spec)["replace_dim"]["words"].endswith("renames feat=7 to other=7")


def test_alike_layers_are_one_that_opens():
    spec = example()
    blocks = stations(spec)["blocks"]
    assert (blocks["count"], spec.head["levels"][blocks["opens"]]["label"]) == (3, "blocks × 3")
    assert lines(spec, blocks["opens"]) == {
        ("input", "up", "b t m"),
        ("up", "down", "b t f"),
        ("down", "add", "b t m"),
        ("input", "add", "b t m"),
        ("add", "result", "b t m"),
    }
    assert "each reads what the one before has made" in stations(encoder_flow(4))["layers"]["words"]


def test_an_op_that_changes_no_dims_and_joins_nothing_is_passed_by():
    spec = example()
    labels = {station["label"] for level in spec.head["levels"] for station in level["stations"]}
    assert {"softmax", "relu"} & labels == set() and "add" in labels


def test_ragged_dims_are_dashed_and_each_dim_has_a_mark_of_its_own():
    spec = encoder_flow(2)
    marks = [entry["mark"] for entry in spec.head["dims"]]
    assert len(set(marks)) == len(marks) > 8, "more than there are colours"
    for level in spec.head["levels"]:
        for edge in level["graph"]["edges"]:
            assert edge["ragged"] == [mark == "t" for mark in edge["glyphs"]]


def test_the_steps_of_a_loop_are_one_station():
    x, cell = randn(BATCH, TIME, FEAT), rf.LSTM(FEAT, MODEL)

    def run(recorded):
        loop = rf.Loop(axis=TIME, name="rnn")
        loop.state.s = cell.default_initial_state(batch_dims=[BATCH])

        def step():
            y, loop.state.s = cell(loop.unstack(x), state=loop.state.s, spatial_dim=rf.single_step_dim)
            loop.stack(y)

        if recorded:
            with loop:
                step()
        else:
            for _ in loop:
                step()

    for recorded in (False, True):
        spec = flow(lambda recorded=recorded: run(recorded))
        step = stations(spec)["step over time"]
        assert step["count"] == 5
        assert ("input", "step over time", "b t f") in lines(spec)
        inner = stations(spec, step["opens"])["lstm"]
        assert (names(spec, inner["takes"]), names(spec, inner["gives"])) == (
            ["batch", "feat", "model"],
            ["batch", "model"],
        )


def test_an_encoder_and_a_decoder_with_attention():
    model, vocab = Dim(8, name="model"), Dim(9, name="vocab")
    encoder = rf.TransformerEncoder(vocab, model, num_layers=2, num_heads=2)
    decoder = rf.TransformerDecoder(model, vocab, num_layers=2, num_heads=2)
    labels = lambda dim: rf.random_uniform([BATCH, dim], minval=0, maxval=9, dtype="int32", sparse_dim=vocab)  # noqa: E731

    def run():
        memory = decoder.transform_encoder(encoder(labels(TIME), spatial_dim=TIME), axis=TIME)
        decoder(
            labels(FRAMES), spatial_dim=FRAMES, encoder=memory, state=decoder.default_initial_state(batch_dims=[BATCH])
        )

    spec = flow(run)
    assert stations(spec)["transformer_encoder"]["opens"] is not None
    between = [marks for high, low, marks in lines(spec) if high == "transformer_encoder"]
    assert between and all("t" in marks.split() for marks in between)
    assert {station["count"] for level in spec.head["levels"] for station in level["stations"]} >= {1, 2}


def test_without_ops_lines_go_in_the_order_of_the_calls_and_the_view_says_so():
    x, keys = inputs()
    model = Model()
    view = rf.viz.flow(record(lambda: model(x, keys=keys), ops=False))
    for form in (view.text(), view.html()):
        assert form.count("The data flow was not recorded") == 1
    assert ("left", "blocks", "b t m") in lines(view.spec)
    assert stations(view.spec)["blocks"]["count"] == 3


def test_functions_without_a_module():
    x = randn(BATCH, TIME, FEAT)
    spec = flow(lambda: rf.reduce_sum(rf.tanh(rf.merge_dims(x, dims=[TIME, FEAT])[0]), axis=BATCH))
    assert [station["label"] for station in spec.head["levels"][0]["stations"]] == ["input", "merge_dims", "reduce_sum"]


def test_a_call_that_raised_is_drawn_and_marked():
    class Broken(rf.Module):
        def __init__(self):
            self.first, self.second = rf.Linear(FEAT, MODEL), rf.Linear(FEAT, OUT)

        def __call__(self, x):
            return self.second(self.first(x))

    model, x = Broken(), randn(BATCH, FEAT)
    for ops in (True, False):
        with rf.record(ops=ops) as trace, pytest.raises(rf.DimError):
            model(x)
        spec = rf.viz.flow(trace, dot=False).spec
        assert ("first", "second", "b m") in lines(spec)
        assert stations(spec)["second"]["raised"] == "DimError"
        assert [node["id"] for node in spec.head["levels"][0]["graph"]["nodes"] if node.get("wrong")] == [
            stations(spec)["second"]["id"]
        ]
        assert "raised DimError" in text_of(spec)
    assert "raised DimError" in rf.viz.dims(trace).text()


def test_no_calls():
    assert rf.viz.flow([]).text().endswith("No calls were recorded.")
    assert "No calls were recorded." in rf.viz.flow([]).html()


def test_what_is_no_recording_is_refused():
    with raises_message(
        TypeError,
        """
        flow: this is not a recording.
          given  Linear
        The view draws the calls made during a recording:
            with rf.record(ops=True) as trace:
                model(x)
            rf.viz.flow(trace)
        """,
    ):
        rf.viz.flow(rf.Linear(FEAT, MODEL))


class _Odd(rf.Module):
    """Calls that all differ."""

    def __init__(self, count: int):
        self.layers = rf.ModuleList([rf.Linear(MODEL, MODEL) for _ in range(count)])

    def __call__(self, x):
        for index, layer in enumerate(self.layers):
            x, _ = rf.replace_dim(layer(x), in_dim=x.dims[0], out_dim=Dim(3, name=f"d{index}"))
        return x


def test_two_thousand_calls_that_differ_are_cut_and_as_cheap_to_draw_as_a_hundred():
    x = randn(BATCH, MODEL)
    sizes = []
    for count in (50, 1000):
        spec = flow(lambda count=count: _Odd(count)(x))
        top = spec.head["levels"][0]["stations"]
        assert sum(station["shape"] == "op" for station in top) == MOST
        assert f"{2 * count - MOST + 1:,} more calls" in stations(spec)
        sizes.append(len(pack(spec)))
    assert sizes[1] < 1.2 * sizes[0]


def test_two_thousand_calls_that_are_alike_are_one():
    x, layer = randn(BATCH, MODEL), rf.Linear(MODEL, MODEL)

    def run():
        y = x
        for _ in range(2000):
            y = layer(y)

    spec = flow(run)
    assert [station["count"] for station in spec.head["levels"][0]["stations"]] == [1, 2000]


def test_names_are_text():
    spec = chain_flow(["<script>alert(1)</script>", "\u202ertl", "", "a\nb"])
    html, text = html_of(spec), text_of(spec)
    assert "<script" not in html and "\u202e" not in text
    assert drawing_of(spec).width > 0


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (
            {"levels": None},
            "This flow cannot be drawn: TypeError(\"'NoneType' object is not iterable\") is invalid.",
        ),
        ({"dims": []}, "This flow cannot be drawn: input 1 names dim 0, which is not in the list of dims."),
    ],
)
def test_bad_data_is_a_sentence(change, text):
    spec = example()
    bad = Spec("flow", {**spec.head, **change})
    assert text_of(bad).replace("\n", " ").replace("    ", "") == text
    assert html_of(bad).startswith("<p>This flow cannot be drawn")
    assert drawing_of(bad).shapes


PLAIN = """graph 1 2 3
node b0 1 2.5 1 0.4 "" solid box black lightgrey
node b1 1 1.5 1 0.4 "" solid box black lightgrey
node b2 1 0.5 1 0.4 "" solid box black lightgrey
edge b0 b1 4 1 2.3 1 2.1 1 1.9 1 1.7 solid black
edge b1 b2 4 1 1.3 1 1.1 1 0.9 1 0.7 solid black
stop
"""


def _with_dot(monkeypatch, answer):
    monkeypatch.setattr(shutil, "which", lambda name: "/bin/dot")
    asked = []

    def run(command, *, input, **options):
        asked.append(input)
        return answer(command)

    monkeypatch.setattr(subprocess, "run", run)
    x = randn(BATCH, FEAT)
    chain = rf.Sequential([rf.Linear(FEAT, MODEL)])
    spec = rf.viz.flow(record(lambda: rf.Functional(lambda y: chain(y))(x))).spec
    return spec, asked


def test_dot_says_where_the_boxes_are_where_it_is_installed(monkeypatch):
    spec, asked = _with_dot(monkeypatch, lambda command: subprocess.CompletedProcess(command, 0, PLAIN, ""))
    graph = spec.head["levels"][0]["graph"]
    assert [edge["form"] for edge in graph["edges"]] == ["bezier"] * 2
    assert [node["y"] for node in graph["nodes"]] == [50.0, 122.0, 194.0]
    assert graph["edges"][0]["path"] == [[86.0, 64.4], [86.0, 78.8], [86.0, 93.2], [86.0, 101.6]]
    assert not re.search("batch|feat|linear", asked[0].lower()), "no text of users"
    assert drawing_of(spec).height > graph["height"]


@pytest.mark.parametrize("answer", ["", "graph 1 2 3\nstop\n", "nonsense\nstop\n"])
def test_own_layers_where_dot_fails(monkeypatch, answer):
    spec, _ = _with_dot(monkeypatch, lambda command: subprocess.CompletedProcess(command, 0, answer, ""))
    assert {edge["form"] for edge in spec.head["levels"][0]["graph"]["edges"]} == {"steps"}


def test_a_trace_with_ops_shows_its_flow():
    x, keys = inputs()
    model = Model()
    trace = record(lambda: model(x, keys=keys))
    assert [part["kind"] for part in rf.show(trace).spec.head["parts"]] == ["flow"]
    assert [part["kind"] for part in rf.show(record(lambda: model(x, keys=keys), ops=False)).spec.head["parts"]] == [
        "dims"
    ]


def test_boxes_do_not_touch_and_lines_go_down():
    for spec in (example(), encoder_flow(3)):
        for level in spec.head["levels"]:
            nodes = level["graph"]["nodes"]
            for index, a in enumerate(nodes):
                for b in nodes[:index]:
                    apart_x = abs(a["x"] - b["x"]) - (a["width"] + b["width"]) / 2
                    apart_y = abs(a["y"] - b["y"]) - (a["height"] + b["height"]) / 2
                    assert max(apart_x, apart_y) > 5, (a["lines"], b["lines"])
            for edge in level["graph"]["edges"]:
                assert all(low[1] > high[1] for high, low in zip(edge["path"], edge["path"][1:]))
                assert all(0 < x < level["graph"]["width"] for x, _ in edge["path"])
