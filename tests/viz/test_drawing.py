"""The static form: what is in the pictures of all kinds of views, on which papers, and how much work they are."""

from __future__ import annotations

import io
import math
import re
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
from PIL import Image
from viz.odd_views import HOSTILE, all_kinds, broken, cases, search, weights

import rfnb as rf
from rfnb.viz.drawing import fonts, labels
from rfnb.viz.drawing.img import CELLS, lighter
from rfnb.viz.drawing.png import png
from rfnb.viz.drawing.shapes import Area, Cells, Drawing, Hatch, Lines, Marks, Rect, Text
from rfnb.viz.drawing.svg import svg
from rfnb.viz.drawing.theme import HUES, THEMES, theme
from rfnb.viz.drawing.ticks import x_ticks, y_ticks
from rfnb.viz.kinds import drawing_of, html_of
from rfnb.viz.parts.matrix import farthest
from rfnb.viz.pool import largest_in

CASES = dict(cases())


def pixels(drawing: Drawing, name: str = "light", density: float = 2.0) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(png(drawing, theme(name), density))).convert("RGB"))


def points_of(drawing: Drawing) -> int:
    """All that has to be drawn: points of lines and marks, cells, and one for each other shape."""
    count = 0
    for shape in drawing.shapes:
        if isinstance(shape, (Lines, Area)):
            count += sum(map(len, shape.paths))
        elif isinstance(shape, Marks):
            count += len(shape.points)
        else:
            count += 1
    return count


@pytest.mark.parametrize("case", CASES)
def test_every_view_has_a_picture_on_every_paper(case):
    for spec in CASES[case]():
        drawing = drawing_of(spec)
        assert 0 < drawing.width < 3000 and 0 < drawing.height < 6000, spec.kind
        for shape in drawing.shapes:
            if isinstance(shape, (Rect, Cells, Hatch, Text)):
                assert math.isfinite(shape.x) and math.isfinite(shape.y)
        for name in THEMES:
            image = Image.open(io.BytesIO(png(lighter(drawing), theme(name))))
            image.load()
            assert image.mode == "P"
            ElementTree.fromstring(svg(drawing, theme(name)))
        assert drawing.alt and len(drawing.alt) < 20_000 and "cannot be drawn" not in drawing.alt + html_of(spec)


def test_what_cannot_be_drawn_is_a_sentence():
    for spec in broken():
        drawing = drawing_of(spec)
        (text,) = drawing.shapes
        assert isinstance(text, Text) and text.text and "<img" not in html_of(spec)


@pytest.mark.parametrize("case", ["many", "long labels"])
def test_the_work_is_bounded_by_the_picture_and_not_by_the_data(case, monkeypatch):
    measured = []
    width = fonts._width
    monkeypatch.setattr(fonts, "_width", lambda text, *args: measured.append(len(text)) or width(text, *args))
    for spec in CASES[case]():
        measured.clear()
        drawing = drawing_of(spec)
        assert points_of(drawing) < 60_000, spec.kind
        cells = sum(shape.bytes.size for shape in drawing.shapes if isinstance(shape, Cells))
        assert cells <= drawing.width * drawing.height + 2000, spec.kind
        assert sum(measured) < 60_000, spec.kind
        assert all(len(shape.text) < 400 for shape in drawing.shapes if isinstance(shape, Text)), spec.kind


def test_more_steps_make_no_more_shapes():
    few, many = (len(drawing_of(search(steps, 64)).shapes) for steps in (400, 1600))
    assert many <= few + 10
    few, many = (
        points_of(drawing_of(rf.viz.curves({"y": np.random.default_rng(0).random(n)}).spec)) for n in (10**4, 10**5)
    )
    assert many <= 1.1 * few


def test_cells_have_the_colours_of_their_values():
    values = np.array([[0.0, 0.04, 0.25], [1.0, 0.49, 0.01]], np.float32)
    drawing = drawing_of(rf.viz.attention(values).spec)
    (cells,) = [shape for shape in drawing.shapes if isinstance(shape, Cells) and shape.bytes.shape == (2, 3)]
    for name, stops in (
        ("light", ["#f3f8ff", "#cfe4fc", "#a6cdf6", "#78b4ee", "#4a99e0", "#267dca", "#1061ab", "#094785", "#062c58"]),
    ):
        image = pixels(drawing, name)
        for row in range(2):
            for col in range(3):
                x = 2 * (cells.x + (col + 0.06) * cells.width / 3)
                y = 2 * (cells.y + (row + 0.1) * cells.height / 2)
                share = math.sqrt(values[row, col]) * 8  # in steps between stops; their distances in sRGB are small
                low = min(int(share), 7)
                ends = [np.array([int(stops[at][i : i + 2], 16) for i in (1, 3, 5)]) for at in (low, low + 1)]
                expected = ends[0] + (ends[1] - ends[0]) * (share - low)
                assert np.abs(image[round(y), round(x)] - expected).max() <= 8


def test_states_are_blue_below_zero_and_orange_above():
    drawing = drawing_of(rf.viz.states({"h": np.array([[-1.0, 1.0], [0.0, 0.5]])}).spec)
    (cells,) = [shape for shape in drawing.shapes if isinstance(shape, Cells) and shape.bytes.shape == (2, 2)]
    assert cells.bytes.tolist() == [[1, 128], [255, 191]]  # [unit, step]; 0 is the middle of 1 to 255
    image = pixels(drawing)

    def at(row, col):
        x, y = cells.x + (col + 0.5) * cells.width / 2, cells.y + (row + 0.5) * cells.height / 2
        return image[round(2 * y), round(2 * x)].astype(int)

    below, above, middle = at(0, 0), at(1, 0), at(0, 1)
    assert below[2] > below[0] + 60 and above[0] > above[2] + 60 and np.ptp(middle) < 12


def test_padding_is_left_out_unless_something_lies_on_it():
    clean, dirty = np.zeros((2, 3, 4), np.float32), weights(2, 3, 4)
    clean[:, :, :2] = 0.5
    shown = {}
    for name, array in (("clean", clean), ("dirty", dirty)):
        drawing = drawing_of(rf.viz.attention(array, dims=["batch", "target", "source"], source_lengths=[4, 2]).spec)
        shown[name] = [shape.bytes.shape for shape in drawing.shapes if isinstance(shape, Cells)][:2]
        assert any(isinstance(shape, Hatch) for shape in drawing.shapes) == (name == "dirty")
    assert shown == {"clean": [(3, 4), (3, 2)], "dirty": [(3, 4), (3, 4)]}


def test_masked_positions_are_hatched_and_no_faults():
    drawing = drawing_of(rf.viz.attention(np.tril(weights(9, 9)), mask="causal").spec)
    assert [shape.pattern for shape in drawing.shapes if isinstance(shape, Hatch)] == ["mask"] * 2  # and in the key
    cells = [shape for shape in drawing.shapes if isinstance(shape, Cells) and shape.bytes.shape == (9, 9)][-1]
    assert np.array_equal(cells.bytes == 0, np.triu(np.ones((9, 9)), 1) > 0)
    assert not any(isinstance(shape, Marks) for shape in drawing.shapes)


def test_what_is_no_number_is_marked():
    values = weights(4, 5)
    values[1, 2], values[2, 3], values[3, 0] = np.nan, np.inf, -np.inf
    marks = {
        shape.shape: shape.points
        for shape in drawing_of(rf.viz.attention(values).spec).shapes
        if isinstance(shape, Marks)
    }
    assert {shape: len(points) for shape, points in marks.items()} == {"cross": 1, "up": 1, "down": 1}
    marks = [shape.shape for shape in drawing_of(rf.viz.states({"h": values}).spec).shapes if isinstance(shape, Marks)]
    assert {"cross", "up", "down"} <= set(marks)


def test_row_labels_never_overlap_and_columns_have_room():
    tokens = [f"token{index}" for index in range(300)]
    drawing = drawing_of(rf.viz.attention(weights(300, 300), source=tokens, target=tokens).spec)
    rows = sorted(shape.y for shape in drawing.shapes if isinstance(shape, Text) and shape.anchor == "right")
    cols = sorted(shape.x for shape in drawing.shapes if isinstance(shape, Text) and shape.turn == 90)
    assert min(np.diff(rows)) >= 11 and min(np.diff(cols)) >= 11 and len(rows) > 20


def test_a_picture_is_no_wider_than_a_page():
    for spec in all_kinds(["the", "quick", "brown", "fox"] * 40):
        width = int(re.search(r'width="(\d+)"', html_of(spec))[1]) if "<img" in html_of(spec) else 0
        assert width <= 880 or spec.kind in ("plan", "flow", "dims")


def test_text_stays_text_in_svg():
    for spec in all_kinds(HOSTILE):
        drawing = drawing_of(spec)
        root = ElementTree.fromstring(svg(drawing, theme("light")))
        tags = {element.tag.split("}")[1] for element in root.iter()}
        assert tags <= {"svg", "title", "defs", "pattern", "path", "rect", "image", "text"}
        texts = [element.text or "" for element in root.iter("{http://www.w3.org/2000/svg}text")]
        assert texts == [shape.text for shape in drawing.shapes if isinstance(shape, Text)]
        for element in root.iter():
            assert not any(name.startswith("on") for name in element.attrib)
            link = element.attrib.get("{http://www.w3.org/1999/xlink}href", "data:image/png;base64,")
            assert link.startswith("data:image/png;base64,")


def test_layers_are_down_and_heads_across():
    array = np.zeros((3, 4, 5, 5), np.float32)
    for layer in range(3):
        for head in range(4):
            array[layer, head, :, (layer + head) % 5] = 1
    drawing = drawing_of(rf.viz.attention(array, dims=["layer", "head", "target", "source"]).spec)
    cells = [shape for shape in drawing.shapes if isinstance(shape, Cells) and shape.bytes.shape == (5, 5)]
    assert len(cells) == 12
    at = sorted({round(shape.y) for shape in cells}), sorted({round(shape.x) for shape in cells})
    assert tuple(map(len, at)) == (3, 4)
    for shape in cells:
        layer, head = at[0].index(round(shape.y)), at[1].index(round(shape.x))
        assert int(shape.bytes[0].argmax()) == (layer + head) % 5


def test_a_large_search_keeps_its_winner():
    spec = search(500, 64)
    drawing = drawing_of(spec)
    (cells,) = [shape for shape in drawing.shapes if isinstance(shape, Cells)]
    assert cells.bytes.shape == (64, 500)
    (winner,) = [shape for shape in drawing.shapes if isinstance(shape, Lines) and shape.color == "accent"]
    path = winner.paths[0]
    slots = [round((y - cells.y) / (cells.height / 64) - 0.5) for _, y in path]
    assert slots[0] == spec.head["seqs"][0]["best"][0][1] and slots[-1] == spec.head["seqs"][0]["best"][-1][1]
    assert len(path) <= 500


def test_a_curve_is_in_its_panel_and_its_peak_is_seen():
    y = np.zeros(100_000)
    y[70_000] = 6.0
    drawing = drawing_of(rf.viz.curves({"y": y}).spec)
    tops = [min(y for _, y in path) for shape in drawing.shapes if isinstance(shape, Area) for path in shape.paths]
    frame = [
        path for shape in drawing.shapes if isinstance(shape, Lines) and shape.color == "line" for path in shape.paths
    ]
    highest = min(y for path in frame for _, y in path)
    assert abs(min(tops) - highest) < 2  # the scale ends at 6


def test_pooling_keeps_what_stands_out():
    values = np.zeros((100, 70), np.float32)
    values[37, 41], values[90, 3] = 0.9, -2
    assert largest_in(values, 10, 7).shape == (10, 7) and largest_in(values, 10, 7).max() == np.float32(0.9)
    assert farthest(values, 10, 7).min() == -2 and farthest(values, 10, 7).max() == np.float32(0.9)
    values[:10, :10] = np.nan
    assert np.isnan(largest_in(values, 10, 7)[0, 0])


def test_a_picture_in_a_notebook_has_few_cells():
    drawing = drawing_of(rf.viz.attention(weights(6, 8, 128, 128), dims=["layer", "head", "target", "source"]).spec)
    few = lighter(drawing)
    count = lambda made: sum(shape.bytes.size for shape in made.shapes if isinstance(shape, Cells))  # noqa: E731
    assert count(few) <= 1.1 * CELLS < count(drawing)
    assert len(png(few, theme("light"))) < 120_000


def test_a_small_view_is_a_small_picture():
    for spec in all_kinds(["the", "quick", "brown", "fox", "jumps"])[:7]:
        assert len(png(lighter(drawing_of(spec)), theme("light"))) < 40_000, spec.kind


def test_the_themes_have_the_same_names_and_paper_of_their_own():
    light, dark = THEMES["light"], THEMES["dark"]
    assert light.colors.keys() == dark.colors.keys() and light.ramps.keys() == dark.ramps.keys()
    drawing = drawing_of(rf.viz.attention(weights(3, 4)).spec)
    assert tuple(pixels(drawing)[0, -1]) == (255, 255, 255) and tuple(pixels(drawing, "dark")[0, -1]) == (13, 17, 23)
    assert len(HUES) == 8


def test_a_theme_that_there_is_not():
    with pytest.raises(ValueError, match=re.escape("theme: there is no theme 'blue'.")):
        theme("blue")


@pytest.mark.parametrize("low, high", [(0, 1), (3.1, 3.3), (-5, 1000), (1e-12, 3e-12), (-3e38, 3e38), (7, 7), (0, 0)])
def test_ticks_are_on_the_scale(low, high):
    for scale in (y_ticks(low, high), x_ticks(low, high, 8, whole=False)):
        assert scale.low <= low and high <= scale.high and scale.low < scale.high
        assert 1 <= len([text for _, text in scale.at if text]) <= 12
        assert all(0 <= float(scale.shares(np.array(value))) <= 1 + 1e-9 for value, _ in scale.at)


def test_long_texts_are_cut_to_their_room():
    cut = labels.fitted("w" * 100_000, 50)
    assert cut.endswith("…") and fonts.width(cut) <= 50 and fonts.width(cut + "w") > 42
    assert labels.fitted("short", 50) == "short" and labels.short("x" * 100_000) == "x" * 15 + "…"


def test_the_label_that_most_rows_have_goes_without_saying_where_not_all_have_room():
    rows, plain = list("-H-E-L-L-O-"), list("HELLOWORLD")
    shown = lambda texts, pitch: [index for index, _ in labels.rows(texts, pitch).at]  # noqa: E731
    assert shown(rows, 20) == [*range(11)] and shown(rows, 10) == [1, 3, 5, 7, 9] and shown(rows, 5) == [1, 5, 9]
    assert shown(plain, 10) == [0, 2, 4, 6, 8]


@pytest.mark.parametrize("turn", [0, 30, 90])
@pytest.mark.parametrize("anchor", ["left", "middle", "right"])
def test_text_over_a_line_has_a_rim_of_paper_at_every_angle(turn, anchor):
    rims = {}
    for halo in (False, True):
        drawing = Drawing(120, 120, shapes=[Rect(0, 0, 120, 120, fill="accent")])
        drawing.add(Text(60, 60, "state", 12, "ink", anchor, turn=turn, halo=halo))
        rims[halo] = int((pixels(drawing) == theme("light").rgb("paper")).all(-1).sum())
    assert rims[False] == 0 and rims[True] > 200


def test_a_picture_says_that_its_boxes_are_letters_which_no_font_has(monkeypatch):
    drawn = lambda label: html_of(rf.viz.attention([[1.0]], source=[label], target=["x"]).spec)  # noqa: E731
    monkeypatch.setattr(fonts, "_other", lambda: None)
    monkeypatch.setattr(fonts, "_is_box", fonts._is_box.__wrapped__)  # what it has kept is of this system
    assert not fonts.lacks("plain שלום żółć ⏎") and fonts.lacks("a日")
    assert "Boxes stand for letters" in drawn("日本") and "Boxes" not in drawn("word")
    monkeypatch.setattr(fonts, "_is_box", lambda letter: False)  # where the system has a font for them
    assert "Boxes" not in drawn("日本")


def test_a_round_box_that_is_narrower_than_its_line_is_drawn():
    drawing = Drawing(20, 20)
    drawing.add(Rect(4, 4, 0.5, 12, fill="accent", stroke="ink", line=2, radius=3))
    image = Image.open(io.BytesIO(png(drawing, theme("light"))))
    assert len(image.convert("RGB").getcolors()) > 1
