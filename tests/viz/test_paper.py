"""view.save and rf.plot: views as files for papers, and on axes of matplotlib."""

from __future__ import annotations

import io
import itertools
import re
import subprocess
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
from asserting import ragged, raises_message, randn
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image
from seed import part_of
from viz.odd_views import HOSTILE, all_kinds, search, weights
from warm import warm

import rfnb as rf
from rfnb.viz.drawing import labels
from rfnb.viz.drawing.shapes import Cells, Text
from rfnb.viz.kinds import KINDS, drawing_of
from rfnb.viz.paper import SUFFIXES, for_paper
from rfnb.viz.parts import matrix

WORDS = ["the", "quick", "brown", "fox", "jumps"]


def view():
    return rf.viz.attention(weights(4, 5), source=WORDS, target=["a", "b$", "c_d", "ש"], title="A & B")


def axes(width=4.0, height=3.0):
    figure = Figure(figsize=(width, height))
    FigureCanvasAgg(figure)
    return figure.subplots()


@pytest.mark.parametrize(("suffix", "theme"), part_of(itertools.product(SUFFIXES, ["light", "dark"]), 2))
def test_every_kind_of_view_is_every_kind_of_file(tmp_path, suffix, theme):
    for number, spec in enumerate(all_kinds(HOSTILE if suffix != ".pdf" else WORDS)):
        path = rf.viz.View(spec).save(tmp_path / f"{number}{suffix}", theme=theme, dpi=100)
        data = path.read_bytes()
        if suffix == ".svg":
            assert ElementTree.fromstring(data).tag.endswith("svg")
        elif suffix == ".png":
            Image.open(io.BytesIO(data)).load()
        else:
            assert data.startswith({".html": b"<!doctype html>", ".pdf": b"%PDF-"}[suffix])


def test_a_file_has_the_width_that_was_asked_for(tmp_path):
    view = rf.viz.attention(weights(40, 120))
    for width in (3.3, 6.9):
        root = ElementTree.fromstring(view.save(tmp_path / "a.svg", width=width).read_bytes())
        assert float(root.attrib["width"].removesuffix("pt")) == pytest.approx(72 * width, abs=0.01)
        assert Image.open(view.save(tmp_path / "a.png", width=width, dpi=200)).width == round(200 * width)
        box = re.search(rb"/MediaBox \[ ?0 0 ([0-9.]+)", view.save(tmp_path / "a.pdf", width=width).read_bytes())
        assert float(box[1]) == pytest.approx(72 * width, abs=0.01)


def test_a_picture_of_each_kind_has_the_width_that_was_asked_for():
    """Narrow ones stand in the middle of the paper."""
    few, many = all_kinds(WORDS[:3]), all_kinds(WORDS * 10)
    assert {spec.kind for spec in many} >= set(KINDS) - {"control", "question"}
    for spec in [*few, *many]:
        for width in (2.0, 3.3, 6.9):
            drawing, points = for_paper(spec, width)
            assert drawing.width * points / 72 == pytest.approx(width), spec.kind
            assert 9 * points < 6 * 1.1 + 1e-6  # text is hardly larger than in others


def test_type_on_paper_is_read_and_numbers_have_real_minus_signs():
    """At the width of a column of a paper; 6 points are what a reader of paper reads."""
    hyphen = re.compile(r"(?<![\w.)\]])-[.\d∞]")
    every = [*all_kinds(WORDS[:3]), rf.viz.dims({"x": -weights(2, 3)}).spec, search(6, 4, WORDS)]
    every.append(rf.viz.attention(weights(2, 3) - 0.5).spec)
    assert hyphen.search("min -0.5") and not hyphen.search("w-2 a[1]-3 e-05")
    for spec in every:
        for width in (3.3, 6.9):
            drawing, points = for_paper(spec, width)
            texts = [shape for shape in drawing.shapes if isinstance(shape, Text)]
            least = 5.9 if spec.kind in ("flow", "plan") else 6 - 1e-6  # a graph that is wider is made smaller
            assert min((text.size for text in texts), default=11) * points >= least, (spec.kind, width)
            assert [text.text for text in texts if hyphen.search(text.text)] == [], spec.kind


def test_what_is_left_out_is_said_in_the_file(tmp_path):
    many = rf.viz.attention(weights(20, 3, 4), dims=["batch", "target", "source"])
    assert ">12 of 20 panels<" in many.save(tmp_path / "a.svg").read_text(encoding="utf-8")


def test_notes_are_broken_and_not_cut(tmp_path):
    spec = rf.viz.attention(weights(2, 3)).spec
    said = "Each of these words is read below the picture, and none of them is left out of a file. "
    made = for_paper(type(spec)(spec.kind, {**spec.head, "remark": said}, spec.blocks), 2.0)[0]
    texts = [shape.text for shape in made.shapes if isinstance(shape, Text)]
    assert said in " ".join(texts) and not any("…" in text for text in texts)
    assert labels.broken("a " * 500, 50, most=2)[1].endswith("…") and labels.broken("", 50) == [""]


def test_a_suffix_that_is_none():
    message = """save: .jpg is not a file type of views.
  path   plots/view.jpg
  kinds  .html, .svg, .png, .pdf
The suffix of the path determines the file type.
    view.save("view.svg")"""
    with raises_message(ValueError, message):
        view().save("plots/view.jpg")


def test_a_width_that_is_none():
    message = """save: the picture has no size.
  width  0 inches
  dpi    300
A picture is up to 100 inches wide, with 20 to 2400 dots per inch.
    view.save("a.png", width=6.75)"""
    with raises_message(ValueError, message):
        view().save("a.png", width=0)


def test_a_failed_save_leaves_the_old_file(tmp_path):
    path = view().save(tmp_path / "a.svg")
    before = path.read_bytes()
    with pytest.raises(ValueError, match="there is no theme"):
        view().save(path, theme="blue")
    assert path.read_bytes() == before and [each.name for each in tmp_path.iterdir()] == ["a.svg"]


def test_a_pdf_has_text_that_can_be_found(tmp_path):
    import zlib

    data = view().save(tmp_path / "a.pdf").read_bytes()
    streams = re.findall(rb"stream\r?\n(.*?)\r?\nendstream", data, re.DOTALL)
    opened = b"".join(zlib.decompress(stream) for stream in streams if stream[:1] == b"x")
    assert b"Tj" in opened or b"TJ" in opened
    assert b"/Type /Font" in data


def test_attention_on_axes_has_the_values_and_the_labels():
    ax, values = axes(), weights(4, 5)
    image = rf.plot.attention(values, source=WORDS, target=["a", "b", "c", "d"], ax=ax)
    assert image.axes is ax and np.array_equal(np.asarray(image.get_array()), values.astype(np.float64))
    assert [label.get_text() for label in ax.get_xticklabels()] == WORDS
    assert [label.get_text() for label in ax.get_yticklabels()] == ["a", "b", "c", "d"]
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("source", "target")
    ax.figure.canvas.draw()


def test_a_colour_bar_has_the_ends_and_the_middle_of_the_scale_and_can_be_left_out():
    made = [
        plot(values, ax=axes(), colorbar=colorbar)
        for plot, values in ((rf.plot.attention, weights(4, 5)), (rf.plot.states, weights(4, 5) - 0.4))
        for colorbar in (True, False)
    ]
    bars = [[tick.get_text() for child in image.axes.child_axes for tick in child.get_yticklabels()] for image in made]
    low, high = (made[2].norm.vmin, made[2].norm.vmax)
    assert bars[0] == ["0", "0.25", "1"] and low == -high and bars[2] == [matrix.number(low), "0", matrix.number(high)]
    assert bars[2][0].startswith("−") and [bars[1], bars[3]] == [[], []]


def test_a_colour_bar_stays_in_the_place_of_its_axes_where_no_layout_makes_room():
    figure = Figure(figsize=(9, 3))
    FigureCanvasAgg(figure)
    row = figure.subplots(1, 3)
    before = [ax.get_window_extent().frozen() for ax in row]
    for _ in range(2):  # a second picture takes no more
        images = [rf.plot.attention(weights(4, 5), ax=row[0]), rf.plot.states(weights(4, 5) - 0.4, ax=row[1])]
        figure.canvas.draw()
        for image, box in zip(images, before):
            ends = [child.get_tightbbox().x1 for child in image.axes.child_axes]
            assert max(ends) <= box.x1 + 1 and image.axes.get_window_extent().width > 0.6 * box.width
    assert row[2].get_window_extent().bounds == before[2].bounds
    laid = Figure(layout="constrained").subplots()
    rf.plot.attention(weights(4, 5), ax=laid)
    assert laid.get_subplotspec().get_gridspec().ncols == 1


def test_padding_on_axes_is_hatched_and_without_colour():
    ax = axes()
    values = weights(2, 4, 5)
    image = rf.plot.attention(
        values, dims=["batch", "target", "source"], source_lengths=[5, 3], target_lengths=[4, 2], sequence=1, ax=ax
    )
    shown = image.get_array()
    assert (
        shown.mask[:, 3:].all()
        and shown.mask[2:].all()
        and np.array_equal(shown[:2, :3], values[1, :2, :3].astype(float))
    )
    boxes = [(patch.get_bbox().bounds, patch.get_hatch()) for patch in ax.patches]
    assert boxes == [((2.5, -0.5, 2, 4), "////"), ((-0.5, 1.5, 3, 2), "////")]


def test_states_on_axes_have_units_down_and_steps_across():
    ax, values = axes(), np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
    image = rf.plot.states({"h": values}, steps=WORDS, lengths=[4], ax=ax)
    assert (
        np.array_equal(image.get_array()[:, :4], values.T[:, :4].astype(float)) and image.get_array().mask[:, 4].all()
    )
    low, high = image.get_clim()
    assert low == -high and high == pytest.approx(np.abs(values[:4]).max())
    assert [label.get_text() for label in ax.get_xticklabels()] == WORDS[:4]


def test_which_map_has_to_be_said():
    ax, values = axes(), weights(3, 4, 5)
    message = """plot.attention: which map? There are 3 of them.
  maps    head 0, head 1, head 2
  chosen  none
Axes show one map: its number or its label.
    rf.plot.attention(..., map='head 0', ax=ax)"""
    with raises_message(ValueError, message):
        rf.plot.attention(values, dims=["head", "target", "source"], ax=ax)
    for chosen in (2, -1, "head 2"):
        image = rf.plot.attention(values, dims=["head", "target", "source"], map=chosen, ax=ax)
        assert np.array_equal(np.asarray(image.get_array()), values[2].astype(float))
    with pytest.raises(ValueError, match=re.escape("which map? There is no 3.")):
        rf.plot.attention(values, dims=["head", "target", "source"], map=3, ax=ax)


def test_a_linear_scale_shows_how_small_small_weights_are_and_another_word_is_refused():
    values = np.array([[0.97, 0.03], [0.5, 0.5]], np.float32)
    shares = [float(rf.plot.attention(values, ax=axes(), **scale).norm(0.03)) for scale in ({}, {"scale": "linear"})]
    assert shares == pytest.approx([0.03**0.5, 0.03])
    made = [drawing_of(rf.viz.attention(values, **scale).spec, 300) for scale in ({}, {"scale": "linear"})]
    of_root, of_line = (
        next(shape.bytes for shape in one.shapes if isinstance(shape, Cells) and shape.bytes.shape == (2, 2))
        for one in made
    )
    assert of_line[0, 1] == 1 + round(254 * 0.03) < of_root[0, 1] == 1 + round(254 * 0.03**0.5)
    message = """\
attention: unknown value of scale.
  scale  'log'
  known  'root', 'linear'
The square root keeps small weights visible; a linear one shows how small they are.
    rf.viz.attention(weights, scale="linear")"""
    with raises_message(ValueError, message):
        rf.viz.attention(values, scale="log")


def test_nothing_to_plot_is_an_error():
    for plot in (rf.plot.attention, rf.plot.states, rf.plot.curves):
        call = lambda plot=plot: plot({}, ax=axes())  # noqa: E731
        with pytest.raises(ValueError, match="there is nothing to draw"):
            call()


def test_beams_and_dims_on_axes_keep_their_shape():
    for width, height in ((6, 3), (2, 4)):
        ax = axes(width, height)
        assert rf.plot.dims(weights(2, 3), names=["a", "b"], ax=ax) is ax
        box = ax.get_window_extent()
        across, down = abs(np.diff(ax.get_xlim())[0]), abs(np.diff(ax.get_ylim())[0])
        assert across / down == pytest.approx(box.width / box.height)
        assert {"a 2", "b 3"} <= {text.get_text() for text in ax.texts}
        ax.figure.canvas.draw()
    from rfnb.plot.images import put

    ax = put(search(5, 3), axes(6, 3), "dark")
    assert len(ax.texts) > 5


def test_dims_on_axes_are_read_and_leave_out_the_columns_without_room():
    batch, model = rf.Dim(3, name="batch"), rf.Dim(512, name="model")
    time = ragged([7, 5, 3], batch)
    ax = rf.plot.dims({"x": randn(batch, time, model), "y": randn(time, batch, model)}, ax=axes(4, 3))
    heights = [text.get_position()[1] for text in ax.texts]
    (bottom, top) = ax.get_ylim()
    assert (max(heights) - min(heights)) / (bottom - top) > 0.3
    assert min(text.get_fontsize() for text in ax.texts if len(text.get_text()) > 1) >= 6
    assert any("padding" in text.get_text() for text in ax.texts)
    assert not any("mean" in text.get_text() for text in ax.texts)  # of the values


@pytest.mark.parametrize("width, height", [(6, 4.5), (12, 4), (3, 3)])
def test_a_search_fills_axes_as_far_as_its_shape_lets_it_and_stands_in_their_middle(width, height):
    from rfnb.plot.images import put

    ax = put(search(9, 4), axes(width, height), "light")
    (left, right), (bottom, top) = ax.get_xlim(), ax.get_ylim()
    assert left <= 0 <= right and top <= 0 <= bottom
    drawn = right + left, bottom + top  # what is left of paper is the same at both sides
    filled = drawn[0] / (right - left), drawn[1] / (bottom - top)
    points = ax.get_window_extent().width * 72 / ax.figure.dpi / (right - left)  # in a unit
    assert max(filled) > 0.99 or points == pytest.approx(1), (filled, points)
    assert filled[0] * filled[1] > 0.5, filled


RUNS = {"train": {"loss": [3.0, 2.0, 1.5]}, "va$l_id": {"loss": [(0, 3.5), (2, 2.5)], "rate": [0.1]}}


def test_curves_on_axes_are_the_points_of_each_run_told_apart_by_dash_and_mark():
    ax = axes()
    assert rf.plot.curves(RUNS, label="loss", units={"loss": "nats"}, ax=ax) is ax
    train, valid = (line for line in ax.lines if not line.get_label().startswith("_"))
    np.testing.assert_array_equal(train.get_xydata(), [[0, 3], [1, 2], [2, 1.5]])
    np.testing.assert_array_equal(valid.get_xydata(), [[0, 3.5], [2, 2.5]])
    assert (train.get_linestyle(), train.get_marker()) != (valid.get_linestyle(), valid.get_marker())
    assert train.get_linestyle() == "-" and valid.get_linestyle() == "--"
    legend = ax.get_legend().get_texts()
    assert [text.get_text() for text in legend] == ["train", "va$l_id"] and not any(t.get_parse_math() for t in legend)
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("step", "loss (nats)")
    rings = [line.get_xydata().tolist() for line in ax.lines if line.get_markerfacecolor() == "none"]
    assert rings == [[[2, 1.5]], [[2, 2.5]]]
    ax.figure.canvas.draw()


def test_one_curve_on_axes_has_no_legend_and_says_since_when_it_is_nan():
    ax = axes()
    rf.plot.curves({"rate": [1.0, 0.1, np.nan, np.nan, np.nan]}, log=["rate"], ax=ax)
    assert ax.get_legend() is None and ax.get_yscale() == "log"
    [band] = ax.patches
    corners = band.get_path().transformed(band.get_patch_transform()).vertices  # a polygon in matplotlib 3.8
    assert (corners[:, 0].min(), corners[:, 0].max()) == (2, 4)
    assert len(ax.lines) == 1  # no best: nothing says which direction is good


def test_which_label_has_to_be_said():
    message = """plot.curves: which label? There are 2 of them.
  labels  loss, rate
  chosen  none
Axes show one label: its number or its label.
    rf.plot.curves(..., label='loss', ax=ax)"""
    with raises_message(ValueError, message):
        rf.plot.curves(RUNS, ax=axes())


def test_distributions_on_axes_show_right_and_wrong_of_a_sequence():
    scores = np.array([[[0.5, 0.25, 0.25], [0.0, 0.25, 0.75]], [[0.25, 0.25, 0.5], [1, 0, 0]]])
    options = {"labels": ["a$", "b", "c"], "names": ["one", "two"], "lengths": [2, 1]}
    ax = axes(6, 3)
    assert rf.plot.distribution(scores, [[0, 1], [2]], sequence="one", ax=ax, **options) is ax
    texts = [text.get_text() for text in ax.texts]
    assert texts.count("✓ right") == texts.count("✗ wrong") == 1 and not any("two" in text for text in texts)
    both = rf.plot.distribution(scores, [[0, 1], [2]], ax=axes(6, 4), **options)
    assert [text.get_text() for text in both.texts].count("✓ right") == 2
    ax.figure.canvas.draw()
    with pytest.raises(ValueError, match=re.escape("plot.distribution: which sequence? There is no 'three'.")):
        rf.plot.distribution(scores, sequence="three", ax=axes(), **options)


def test_every_plot_takes_axes_a_theme_and_leaves_the_global_state_alone():
    import matplotlib

    before = dict(matplotlib.rcParams)
    made = {
        "attention": weights(2, 3), "states": weights(2, 3), "dims": rf.Dim(3, name="time"), "curves": {"y": [1.0, 2.0]},
        "distribution": weights(2, 3),
    }  # fmt: skip
    assert set(rf.plot.__all__) == {*made, "beams"}
    for name, given in made.items():
        for theme in ("light", "dark"):
            ax = axes()
            result = getattr(rf.plot, name)(given, ax=ax, theme=theme)
            assert getattr(result, "axes", result) is ax
            ax.figure.canvas.draw()
        with pytest.raises(ValueError, match="there is no theme"):
            getattr(rf.plot, name)(given, ax=axes(), theme="blue")
    assert dict(matplotlib.rcParams) == before


def test_large_arrays_have_few_ticks():
    ax = axes()
    rf.plot.attention(weights(2, 32_000), source=[f"word{index}" for index in range(32_000)], ax=ax)
    assert len(ax.get_xticks()) < 60


def test_a_token_is_no_formula():
    ax = axes()
    rf.plot.attention(weights(2, 3), source=["$x_1$", r"\frac", "a$"], target=["$", "_"], ax=ax)
    assert not any(label.get_parse_math() for label in [*ax.get_xticklabels(), *ax.get_yticklabels()])
    ax.figure.canvas.draw()


def test_pyplot_is_loaded_only_where_no_axes_are_given():
    code = """
import sys, numpy as np
import rfnb as rf
assert "matplotlib" not in sys.modules and "rfnb.plot.images" not in sys.modules
from matplotlib.figure import Figure
ax = Figure().subplots()
rf.plot.attention(np.ones((2, 3)) / 3, ax=ax)
rf.plot.states(np.ones((2, 3)), ax=ax)
rf.plot.dims(np.ones((2, 3)), names=["a", "b"], ax=ax)
rf.plot.curves({"y": [1, 2]}, ax=ax)
rf.plot.distribution(np.eye(3), ax=ax)
print("matplotlib.pyplot" in sys.modules)
import matplotlib
matplotlib.use("agg")
print(rf.plot.attention(np.ones((2, 3)) / 3).axes is sys.modules["matplotlib.pyplot"].gca())
"""
    run = subprocess.run([*warm(), "-c", code], capture_output=True, text=True)
    assert (run.stdout, run.stderr) == ("False\nTrue\n", "")


def test_a_picture_needs_no_matplotlib():
    code = """
import sys, numpy as np
import rfnb as rf
rf.viz.attention(np.ones((2, 3)) / 3).html(), rf.viz.curves({"y": [1, 2]}).html(), rf.viz.plan
print("matplotlib" in sys.modules)
"""
    run = subprocess.run([*warm(), "-c", code], capture_output=True, text=True)
    assert (run.stdout, run.stderr) == ("False\n", "")
