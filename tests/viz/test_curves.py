"""The curves view: which points its spec has, its text and its picture, and what it says of bad data and wrong arguments."""

from __future__ import annotations

import re
import subprocess

import numpy as np
import pytest
from viz.stored_files import assert_stored
from warm import warm

import rfnb as rf
from rfnb.core.errors import ShapeError
from rfnb.viz.curves.content import number
from rfnb.viz.curves.spec import spec as curves_spec
from rfnb.viz.drawing.shapes import Area, Lines, Marks, Text
from rfnb.viz.kinds import drawing_of, html_of, text_of
from rfnb.viz.spec import Spec, pack, to_json, unpack


def example(**options) -> Spec:
    """Three units, different steps, a gap, an infinite value, and a series that has no points yet."""
    series = {
        "loss": [(0, 4.5), (10, 2.5), (20, float("nan")), (30, 1.25), (40, 0.75), (50, 1.0)],
        "phoneme accuracy": ([10, 30, 50], [25.0, 62.5, 60.0]),
        "learning rate": (np.arange(0, 60, 10), np.array([0.0, 3e-4, 3e-4, 2e-4, 1e-4, 0.0])),
        "gradient norm": [(0, 8.0), (20, float("inf")), (50, 2.0)],
        "test loss": [],
    }
    units = {"loss": "nats", "phoneme accuracy": "%"}
    return curves_spec(series, units=units, log=["gradient norm"], title="Training", live=True, **options)


def points(series, label="loss") -> list[tuple[float, float]]:
    """The points of a series as the spec has them."""
    spec = curves_spec({label: series})
    return [(float(x), float(y)) for x, y in zip(spec.blocks["x0"], spec.blocks["y0"])]


def test_spec_is_the_stored_one():
    assert_stored("curves_training.json", to_json(example()))


def test_text_is_the_stored_one():
    assert_stored("curves_training.txt", text_of(example()))


@pytest.mark.parametrize(
    "series",
    [
        [(0, 3.0), (1, 2.0)],
        [[0, 3.0], [1, 2.0]],
        ([0, 1], [3.0, 2.0]),
        (range(2), np.array([3.0, 2.0])),
        np.array([[0, 3.0], [1, 2.0]]),
        [3.0, 2.0],
        np.array([3.0, 2.0]),
        [np.float32(3.0), np.array(2.0)],
        (3.0, 2.0),
        iter([3.0, 2.0]),
    ],
    ids=["pairs", "lists", "two arrays", "range and array", "n x 2", "y", "y array", "scalars", "y tuple", "iterator"],
)
def test_each_way_to_write_a_series_gives_the_same_points(series):
    assert points(series) == [(0, 3.0), (1, 2.0)]


def test_values_of_torch_are_taken_also_while_they_are_part_of_a_graph():
    torch = pytest.importorskip("torch")
    loss = torch.tensor([3.0, 2.0], requires_grad=True)
    assert points([(0, loss[0]), (1, loss[1])]) == points(loss) == points(list(loss)) == [(0, 3.0), (1, 2.0)]


def test_points_are_put_into_the_order_of_x():
    assert points([(30, 1.0), (10, 3.0), (20, 2.0)]) == [(10, 3.0), (20, 2.0), (30, 1.0)]


def test_none_is_a_gap():
    assert np.isnan(curves_spec({"loss": [1.0, None, 3.0]}).blocks["y0"]).tolist() == [False, True, False]


RUNS = {
    "train": {"loss": [3.0, 2.0, 1.0], "rate": [0.1, 0.01, 0.001]},
    "valid": {"loss": [(0, 3.5), (2, float("nan"))], "word errors": [(0, 50.0), (2, 12.5)]},
}


def runs() -> Spec:
    return curves_spec(RUNS, units={"word errors": "%"}, log=["rate"], title="Two runs")


def test_spec_of_runs_is_the_stored_one():
    assert_stored("curves_runs.json", to_json(runs()))


def test_text_of_runs_is_the_stored_one_and_what_is_compared_has_one_scale():
    assert_stored("curves_runs.txt", text_of(runs()))
    flat = text_of(curves_spec({"a": {"y": [0.0, 1.0]}, "b": {"y": [0.0, 8.0]}}))
    assert [re.findall("[▁-█]+", line) for line in flat.splitlines()[1:]] == [["▁▁"], ["▁█"]]


def test_runs_share_a_panel_and_are_told_apart_by_dash_mark_and_label():
    drawing = drawing_of(runs())
    texts = [shape.text for shape in drawing.shapes if isinstance(shape, Text)]
    for text in ("train", "valid", "1", "1 NaN, first at step 2", "2 runs", "1 run", "%, 1 run"):
        assert text in texts
    assert texts.count("loss") == texts.count("rate") == texts.count("word errors") == 1
    many = drawing_of(curves_spec({f"seed {seed}": {"loss": [2.0, 1.0 + seed]} for seed in range(8)}))
    marks = [shape.shape for shape in many.shapes if isinstance(shape, Marks) and len(shape.points) == 2]
    lines = [shape.dash for shape in many.shapes if isinstance(shape, Lines) and shape.color.startswith("hue")][8:]
    assert len(marks) == len(lines) == 8 and len(set(zip(marks, lines))) == 8


def test_of_many_runs_some_are_lines_and_the_range_is_that_of_all():
    y = np.linspace(3, 1, 40)
    drawing = drawing_of(curves_spec({f"seed {seed}": {"loss": y + seed} for seed in range(20)}))
    [shade] = [shape for shape in drawing.shapes if isinstance(shape, Area)]
    assert len(shade.paths) == 1  # without gaps between the points
    assert drawing.notes == ["8 of 20 series are drawn as lines"]
    assert any(isinstance(s, Text) and s.text == "20 runs, 8 as lines, and the range of all" for s in drawing.shapes)


def test_a_range_has_a_gap_where_nothing_is_a_number():
    y = np.linspace(3, 1, 40)
    y[10:20] = np.nan
    drawing = drawing_of(curves_spec({f"seed {seed}": {"loss": y + seed} for seed in range(20)}))
    [shade] = [shape for shape in drawing.shapes if isinstance(shape, Area)]
    (first, second) = (sorted(x for x, _ in path) for path in shade.paths)
    assert second[0] - first[-1] > drawing.width / 6


def test_runs_and_series_side_by_side_are_refused():
    with pytest.raises(TypeError) as caught:
        curves_spec({"train": {"loss": [1.0]}, "loss": [1.0]})
    assert str(caught.value) == (
        "curves: only some of the series are runs.\n"
        "  runs    train\n"
        "  series  loss\n"
        "Either each entry is a run, a dict of its series, or each is a series.\n"
        '    rf.viz.curves({"train": {...}, "other": {"loss": points}})'
    )


def test_a_series_of_a_run_that_holds_no_numbers_is_named_with_its_run():
    with pytest.raises(TypeError, match=re.escape('curves: series "a: loss" does not contain numbers.')):
        curves_spec({"a": {"loss": "high"}, "b": {}})


def test_steps_beyond_what_float32_counts_stay_exact():
    spec = curves_spec({"loss": [(16_777_217, 1.0), (16_777_219, 2.0)]})
    assert spec.blocks["x0"].dtype == np.int32
    assert spec.blocks["x0"].tolist() == [16_777_217, 16_777_219]


def test_an_x_that_is_not_whole_is_a_float():
    assert curves_spec({"loss": [(0.5, 1.0)]}, x="hours").blocks["x0"].tolist() == [0.5]


@pytest.mark.parametrize(
    "label, best",
    [
        ("loss", "min"),
        ("phoneme errors (%)", "min"),
        ("test accuracy", "max"),
        ("dev_acc", "max"),
        ("learning rate", None),
        ("lr", None),
    ],
)
def test_the_best_point_is_the_lowest_unless_the_label_says_otherwise(label, best):
    assert curves_spec({label: [1.0]}).head["series"][0]["best"] == best


def test_the_caller_says_what_is_best():
    spec = curves_spec({"a": [1.0, 3.0, 2.0], "b": [1.0, 3.0]}, best={"a": "max", "b": None})
    assert text_of(spec).splitlines()[1:] == [
        "  a  ▁█▄  first 1, last 2, best 3 at step 1",
        "  b  ▁█   first 1, last 3",
    ]


def test_a_long_series_takes_one_line_of_bars_as_wide_as_a_terminal():
    line = text_of(curves_spec({"loss": np.linspace(8, 1, 5000)})).splitlines()[1]
    assert re.fullmatch("  loss  ([▁-█]+)  first 8, last 1, best 1 at step 4999", line)
    assert len(line) == 80
    assert re.findall("[▁-█]+", line)[0] == "".join(sorted(re.findall("[▁-█]", line), reverse=True))


def test_a_curve_without_points_or_numbers_says_so():
    assert text_of(curves_spec({"loss": []}, live=True)) == "Curves: no points yet"
    assert html_of(curves_spec({})) == "<p>Curves: no points</p>"
    text = text_of(curves_spec({"loss": [float("nan")] * 3, "rate": []}))
    assert "no finite value in 3 points" in text and "no points" in text


def test_the_picture_is_an_image_with_its_values_in_words():
    page = html_of(
        curves_spec({"loss <b>": [(0, 4.5), (10, 0.75), (20, 1.0)]}, units={"loss <b>": "nats"}, title="A & B")
    )
    assert page.startswith(
        '<p><b>A &amp; B</b></p>\n<img alt="A &amp; B over step. loss &lt;b&gt; (nats): first 4.5, last 1, best 0.75 at step 10.'
    )
    assert not re.search("<(script|style|svg)", page)


def test_a_picture_is_made_of_everything_that_can_be_in_a_spec():
    assert "data:image/png" in html_of(example())


def test_text_loads_no_matplotlib():
    code = "import sys, rfnb as rf; rf.viz.curves({'loss': [2, 1]}).text(); print('matplotlib' in sys.modules)"
    assert subprocess.run([*warm(), "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"


def test_a_spec_survives_being_packed():
    spec = example()
    other = unpack(pack(spec))
    assert other.head == spec.head
    assert all(np.array_equal(other.blocks[name], block, equal_nan=True) for name, block in spec.blocks.items())


def test_a_view_shows_what_it_is_updated_with():
    view = rf.viz.curves({"loss": []}, title="Training")
    view.update(rf.viz.curves({"loss": [2.0, 1.0]}, title="Training").spec)
    assert view.text() == "Training: step 0 to 1\n  loss  █▁  first 2, last 1, best 1 at step 1"


@pytest.mark.parametrize(
    "value, text", [(3.0, "3"), (1200, "1200"), (0.431213, "0.4312"), (7.4e-8, "7.4e-08"), (float("nan"), "NaN")]
)
def test_numbers_have_four_digits(value, text):
    assert number(value) == text


@pytest.mark.parametrize(
    "head, blocks, sentence",
    [
        ({}, {}, "the list of series is missing."),
        ({"series": [5]}, {}, "series 0 is not an entry with a label, x and y."),
        ({"series": [{"label": "loss", "x": "x0", "y": "y0"}]}, {"x0": [1.0]}, "series loss has no array of y."),
        (
            {"series": [{"label": "loss", "x": "x0", "y": "y0"}]},
            {"x0": [1.0, 2.0], "y0": [1.0]},
            "series loss has 2 x and 1 y.",
        ),
    ],
)
def test_bad_data_is_shown_as_a_sentence(head, blocks, sentence):
    spec = Spec(
        "curves", {"title": "x", "live": False, **head}, {name: np.array(block) for name, block in blocks.items()}
    )
    assert text_of(spec) == f"These curves cannot be drawn: {sentence}"
    assert html_of(spec) == f"<p>These curves cannot be drawn: {sentence}</p>"


_EXAMPLE = '    rf.viz.curves({"loss": [(10, 4.6), (20, 3.1)]})'


@pytest.mark.parametrize(
    "series, options, error, text",
    [
        (
            [1.0, 2.0],
            {},
            TypeError,
            'curves: the series have no labels.\n  series  list\nSeries are a dict: label -> points.\n    rf.viz.curves({"loss": points})',
        ),
        (
            {"loss": ([1, 2, 3], [4.0, 3.0])},
            {},
            ShapeError,
            'curves: series "loss": x and y differ in length.\n  x  3\n  y  2\nEach x needs one y; NaN marks a missing one.\n'
            '    rf.viz.curves({"loss": (x[:2], y[:2])})',
        ),
        (
            {"loss": [(0, 1.0), (1, 2.0, 3.0)]},
            {},
            ShapeError,
            'curves: series "loss": point 1 is not a pair.\n  points   2\n  point 1  3 numbers\n'
            "Either all points are (x, y), or all are y.\n" + _EXAMPLE,
        ),
        (
            {"loss": [(0, 1.0), 2.0]},
            {},
            ShapeError,
            'curves: series "loss": point 1 is not a pair.\n  points   2\n  point 1  1 number\n'
            "Either all points are (x, y), or all are y.\n" + _EXAMPLE,
        ),
        (
            {"loss": [(0, 1.0), (float("nan"), 2.0)]},
            {},
            ValueError,
            'curves: series "loss": an x is not finite.\n  points      2\n  not finite  1\nAn x is a step or a time; only a y may be NaN.\n'
            + _EXAMPLE,
        ),
        (
            {"loss": "high"},
            {},
            TypeError,
            'curves: series "loss" does not contain numbers.\n  given  str\n'
            "A series is a list of (x, y), a tuple of arrays x and y, or a list of y.\n" + _EXAMPLE,
        ),
        (
            {"loss": [1.0, "low"]},
            {},
            TypeError,
            'curves: series "loss" does not contain numbers.\n  given  str\n'
            "A series is a list of (x, y), a tuple of arrays x and y, or a list of y.\n" + _EXAMPLE,
        ),
        (
            {"loss": [1.0]},
            {"units": {"los": "nats"}},
            ValueError,
            'curves: units names an unknown series: "los".\n  series  loss\n  units   los\n'
            "units refers to the labels of the series.\n"
            '    units={"loss": ...}',
        ),
        (
            {"loss": [1.0]},
            {"log": "rate"},
            ValueError,
            'curves: log names an unknown series: "rate".\n  series  loss\n  log     rate\n'
            'log refers to the labels of the series.\n    log=["loss"]',
        ),
        (
            {"loss": [1.0]},
            {"best": {"loss": "low"}},
            ValueError,
            'curves: best of series "loss" is not one of the choices.\n  best     \'low\'\n  choices  "min", "max", None\n'
            'The best point is the lowest, the highest, or there is none.\n    best={"loss": "max"}',
        ),
    ],
    ids=["no dict", "lengths", "triple", "mixed", "nan x", "string", "string inside", "units", "log", "best"],
)
def test_wrong_arguments_say_what_to_type(series, options, error, text):
    with pytest.raises(error) as caught:
        rf.viz.curves(series, **options)
    assert str(caught.value) == text


def panels(**series) -> list[tuple[str, str | None]]:
    units = {label: unit for label, unit in series.items() if unit}
    return [
        (entry["label"], entry.get("panel"))
        for entry in curves_spec(dict.fromkeys(series, [1.0]), units=units).head["series"]
    ]


def test_series_of_one_unit_or_of_names_that_are_alike_share_a_panel():
    assert panels(**{"train loss": "nats", "valid loss": "nats", "lr": ""}) == [
        ("train loss", "loss"),
        ("valid loss", "loss"),
        ("lr", None),
    ]
    assert panels(wer="%", cer="%") == [("wer", "%"), ("cer", "%")]
    assert panels(loss="", valid_loss="", accuracy="") == [("loss", "loss"), ("valid_loss", "loss"), ("accuracy", None)]
    assert panels(**{"layer 1 norm": "", "layer 12 norm": "", "retrain": ""}) == [
        ("layer 1 norm", "layer # norm"),
        ("layer 12 norm", "layer # norm"),
        ("retrain", None),
    ]
    assert panels(train="", valid="") == [("train", None), ("valid", None)]


def test_broken_series_are_the_first_of_many_and_have_a_line_in_the_picture():
    y = np.linspace(3, 1, 40)
    series = {f"run {index}": y + index for index in range(30)}
    series["run 7"] = np.where(np.arange(40) < 20, y, np.nan)
    series["run 19"] = np.where(np.arange(40) == 5, np.inf, y)
    made = curves_spec(series)
    assert [entry["label"] for entry in made.head["series"][:3]] == ["run 7", "run 19", "run 0"]
    drawn = drawing_of(made)
    texts = [shape.text for shape in drawn.shapes if isinstance(shape, Text)]
    assert {"run #", "30 series, 8 as lines, and the range of all", "NaN since step 20"} <= set(texts)
    few = curves_spec({label: series[label] for label in ("run 0", "run 7")})
    assert [entry["label"] for entry in few.head["series"]] == ["run 0", "run 7"]


@pytest.mark.parametrize(
    ("y", "log"),
    [
        ([1000.0, 10.0, 5.0, 2.0, 1.0], True),
        ([1000.0, 900.0, 800.0, 2.0, 1.0], False),  # most of it is on a linear axis
        ([100.0, 2.0, 1.0, 1.0], False),  # two decades
        ([1000.0, 1.0, 0.0], False),
        ([np.nan, np.inf, 1000.0, 2.0, 1.0], True),
        ([], False),
    ],
)
def test_an_axis_is_logarithmic_where_that_shows_more(y, log):
    assert curves_spec({"a": y}).head["series"][0]["log"] is log
    assert curves_spec({"a": y}, log=()).head["series"][0]["log"] is False


def test_more_than_six_panels_stand_three_abreast_on_one_axis():
    series = {letter * 3: [1.0, 2.0] for letter in "abcdefg"}
    titles = {
        s.text: (round(s.x), round(s.y))
        for s in drawing_of(curves_spec(series)).shapes
        if isinstance(s, Text) and s.bold
    }
    at = [titles[name] for name in series]
    assert len({x for x, _ in at[:3]}) == 3 and len({y for _, y in at[:3]}) == 1
    assert [x for x, _ in at[3:6]] == [x for x, _ in at[:3]] and at[6][0] == at[0][0]
    few = drawing_of(curves_spec({name: series[name] for name in [*series][:6]}))
    assert len({s.x for s in few.shapes if isinstance(s, Text) and s.text in series}) == 1


@pytest.mark.parametrize("name", ["run {}", "{}"])
def test_the_picture_of_noise_leaves_the_data_their_room(name):
    noise = np.random.default_rng(0).standard_normal((30, 300))
    names = [
        name.format(index if "run" in name else f"{chr(97 + index % 26)}{'x' * (index // 26)}") for index in range(30)
    ]
    view = rf.viz.curves(dict(zip(names, noise)))
    assert len(view.html()) < 56_000  # 40 kB as base64, and its words
    assert "thinned" not in unpack(view._page()[1]).head
    assert "The line of very many points is their mean" in view.html()


def test_a_line_breaks_over_a_gap_that_is_too_wide():
    made = curves_spec({"a": ([1, 2, 3, 64], [1.0, 2.0, 3.0, 4.0])})
    made.head["series"][0]["gap"] = 5
    lines = [path for s in drawing_of(made).shapes if isinstance(s, Lines) and s.color == "accent" for path in s.paths]
    assert [len(path) for path in lines] == [3]
    assert re.search(r"a  ▃ +█  first 1, last 4$", text_of(made))
