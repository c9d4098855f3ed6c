"""Views draw only what is in the data, and state what they leave out: every kind and form, with misleading data.

The laws: the least and the largest number of what a picture, a page and a text show are those of the data; NaN and infinity are not
passed over; there is no mask unless the caller or the data has one; a count that is said is the count of what is there.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator

import numpy as np
import pytest

import rfnb as rf
from rfnb.viz.code import LEVELS, decode
from rfnb.viz.curves.content import number
from rfnb.viz.drawing.img import lighter
from rfnb.viz.drawing.shapes import Area, Cells, Drawing, Hatch, Lines, Marks, pooled_note
from rfnb.viz.exact_values import Source
from rfnb.viz.kinds import drawing_of, html_of, text_of
from rfnb.viz.page.budget import Room
from rfnb.viz.page.page_spec import page_spec
from rfnb.viz.spec import Spec, pack, single, unpack

ROOMS = (2_500, 6_000, 20_000, 200_000)
WIDTHS = (260.0, 860.0)


def noise(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape)


def spiked(count: int, *at: tuple[int, float]) -> np.ndarray:
    y = noise(count)
    for place, value in at:
        y[place] = value
    return y


CURVES: dict[str, np.ndarray] = {
    "noise": noise(300),
    "more noise": noise(20_000),
    "one spike up": spiked(7_001, (3_501, 50.0)),
    "one spike down at the end": spiked(7_001, (7_000, -50.0)),
    "spikes beside each other": spiked(9_999, (5_000, 40.0), (5_001, -40.0)),
    "NaN among numbers": spiked(5_000, *((at, np.nan) for at in range(0, 5_000, 3))),
    "NaN at the end": spiked(5_000, *((at, np.nan) for at in range(4_321, 5_000))),
    "nothing but NaN": np.full(1_000, np.nan),
    "one number among NaN": np.where(np.arange(3_000) == 1_234, 7.0, np.nan),
    "infinities": spiked(5_000, (77, np.inf), (78, -np.inf), (79, 30.0)),
    "constant": np.full(4_000, 0.1),
    "tiny": 1e-30 * noise(2_000),
    "huge": 1e30 * noise(2_000),
    "beyond float32": np.array([1e39, -1e300, 1.0]),
    "close to each other": 1.0 + 1e-12 * np.arange(50),
    "integers beyond 2**24": 2.0**24 + np.arange(40),
    "one point": np.array([3.5]),
    "two points": np.array([3.5, -1.0]),
    "no point": np.zeros(0),
}


def ends(values: np.ndarray) -> list[float]:
    known = values[np.isfinite(values)]
    return [float(known.min()), float(known.max())] if known.size else []


def pages(spec: Spec) -> Iterator[Spec]:
    """The spec as pages receive and read it."""
    for size in ROOMS:
        yield unpack(pack(page_spec(spec, Room(size, size))))


@pytest.mark.parametrize("name", CURVES)
class TestCurves:
    def spec(self, name: str) -> Spec:
        y = CURVES[name]
        return rf.viz.curves({"loss": (np.arange(len(y)), y)}).spec

    def test_the_spec_has_the_numbers_as_they_are(self, name):
        y, made = CURVES[name], self.spec(name).blocks["y0"].astype(np.float64)
        assert np.array_equal(np.isfinite(y), np.isfinite(made)) and np.array_equal(y == 0, made == 0)
        np.testing.assert_allclose(made, y, rtol=1e-7)
        y = np.where(np.isfinite(y), y, 0)
        assert ((np.diff(np.where(np.isfinite(made), made, 0)) == 0) == (np.diff(y) == 0)).all(), (
            "what differs does so here"
        )

    def test_a_page_has_the_least_and_the_largest_of_each_stretch_and_says_how_many_points_there_are(self, name):
        spec = self.spec(name)
        y = spec.blocks["y0"]
        for page in pages(spec):
            [entry] = page.head["series"]
            at, shown = page.blocks["x0"], page.blocks["y0"]
            np.testing.assert_array_equal(shown, y[at], "every point is one that was there")
            assert ("of" in entry) == (len(shown) < len(y)) == bool(page.head.get("thinned"))
            if "of" not in entry:
                continue
            assert entry["of"] == len(y) and f"of {len(y)} points" in page.head["thinned"]
            every, counts = entry["every"], page.blocks[entry["kept"]]
            assert counts.sum() == len(shown) and len(counts) == -(-len(y) // every)
            stretch = np.repeat(np.arange(len(counts)), counts)
            for index in range(len(counts)):
                there, kept = y[index * every : (index + 1) * every], shown[stretch == index]
                assert ends(there) == ends(kept)
                for odd in (np.isnan, np.isposinf, np.isneginf):
                    assert odd(there).any() == odd(kept).any()
            count = int(np.isnan(y).sum())
            assert not count or any(f"{count} NaN" in said or "NaN since" in said for said in entry["odd"])

    @pytest.mark.parametrize("width", WIDTHS)
    def test_a_picture_reaches_from_the_least_to_the_largest(self, name, width):
        spec = self.spec(name)
        made = drawing_of(spec, width)
        heights = [
            y
            for shape in made.shapes
            if (isinstance(shape, Lines) and shape.color == "accent")
            or (isinstance(shape, Area) and shape.color == "shade")
            for path in shape.paths
            for _, y in path
        ]
        heights += [
            y for shape in made.shapes if isinstance(shape, Marks) and shape.color == "accent" for _, y in shape.points
        ]
        wanted = ends(spec.blocks["y0"].astype(np.float64))
        assert bool(heights) == bool(wanted)
        if wanted and wanted[0] < wanted[1]:
            [(low, high)] = [
                (min(ys), max(ys)) for ys in [[y for path in _grid(made) for _, y in path]]
            ]  # the box of the plot
            assert low - 0.6 <= min(heights) and max(heights) <= high + 0.6
            taller = max(heights) - min(heights)
            scale = _scale_of(made)
            assert abs(taller - scale * (wanted[1] - wanted[0])) <= 1.6

    def test_the_text_says_the_least_and_the_largest_where_bars_are_means(self, name):
        spec = self.spec(name)
        text = text_of(spec)
        y = CURVES[name]
        pooled = "a bar is the mean of" in text
        assert pooled == (len(y) > 40) or 16 < len(y) <= 40
        if pooled and ends(y):
            assert {number(end) for end in ends(spec.blocks["y0"].astype(np.float64))} <= set(
                re.findall(r"[\d.e+-]+", text)
            ), text


def _grid(made: Drawing) -> list:
    return [path for shape in made.shapes if isinstance(shape, Lines) and shape.color == "line" for path in shape.paths]


def _scale_of(made: Drawing) -> float:
    """Units of height for 1, of two ticks with a number."""
    from rfnb.viz.drawing.shapes import Text

    ticks = []
    for shape in made.shapes:
        if isinstance(shape, Text) and shape.anchor == "right" and shape.size == 10:
            text = shape.text.replace("−", "-")
            factor = {"k": 1e3, "M": 1e6}.get(text[-1:], 1.0)
            try:
                ticks.append((shape.y, float(text.rstrip("kM")) * factor))
            except ValueError:
                continue
    (y0, a), (y1, b) = ticks[0], ticks[-1]
    return abs((y1 - y0) / (b - a))


def staircase(rows: int, cols: int) -> np.ndarray:
    return np.arange(cols)[None] > np.arange(rows)[:, None] + cols - rows


def _with(fill: float, where: Callable[[int, int], np.ndarray], rows: int, cols: int) -> np.ndarray:
    weights = np.random.default_rng(0).random((rows, cols)) + 0.1
    return np.where(where(rows, cols), fill, weights)


def last_columns(rows: int, cols: int) -> np.ndarray:
    return np.broadcast_to(np.arange(cols) >= cols - max(1, cols // 2), (rows, cols))


def last_rows(rows: int, cols: int) -> np.ndarray:
    return np.broadcast_to((np.arange(rows) >= rows - max(1, rows // 2))[:, None], (rows, cols))


SHAPES = [(5, 5), (5, 9), (9, 5), (3, 40), (40, 3), (1, 7), (7, 1), (12, 12)]
PATTERNS = {
    f"{name} {words}": (fill, where)
    for name, fill in (("NaN", np.nan), ("-inf", -np.inf), ("0", 0.0))
    for words, where in (("ahead", staircase), ("in the last columns", last_columns), ("in the last rows", last_rows))
}


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("pattern", PATTERNS)
def test_there_is_no_mask_but_the_one_that_is_in_the_weights(shape, pattern):
    fill, where = PATTERNS[pattern]
    weights = _with(fill, where, *shape)
    spec = rf.viz.attention(weights).spec
    is_causal = pattern == "0 ahead" and shape[0] >= 3 and shape[1] >= shape[0]
    [entry] = spec.head["maps"]
    assert ("causal" in entry) == is_causal and "mask" not in entry
    masked = [shape for shape in drawing_of(spec).shapes if isinstance(shape, Hatch) and shape.pattern == "mask"]
    assert bool(masked) == is_causal
    if not np.isfinite(weights).all():
        assert "NaN" in text_of(spec) or "infinity" in text_of(spec)


def test_a_mask_that_is_given_is_drawn_where_it_is_given():
    rng = np.random.default_rng(0)
    for shape in SHAPES:
        mask = rng.random(shape) > 0.4
        spec = rf.viz.attention(rng.random(shape), mask=mask).spec
        np.testing.assert_array_equal(spec.blocks["mask0"][0].astype(bool), ~mask)


MAPS: dict[str, np.ndarray] = {
    "weights": np.abs(noise(40, 60)),
    "one peak": np.where(np.arange(700 * 900).reshape(700, 900) == 123_456, 1.0, 1e-3),
    "peaks at the corners": np.pad(np.full((498, 298), 1e-3), 1, constant_values=0.9),
    "energies": 10 * noise(300, 200),
    "one row": np.abs(noise(1, 3_000)),
    "one column": np.abs(noise(3_000, 1)),
    "tiny": 1e-30 * np.abs(noise(50, 50)),
    "huge range": np.where(np.eye(60) > 0, 1e30, 1e-30),
    "NaN": np.where(noise(80, 80) > 2, np.nan, 0.3),
    "constant": np.full((30, 30), 1 / 30),
    "zeros": np.zeros((5, 5)),
    "halves": np.full((90, 90), 65504.0, np.float16),
    "one": np.ones((1, 1)),
    "empty": np.zeros((0, 3)),
}


@pytest.mark.parametrize("name", MAPS)
@pytest.mark.parametrize("kind", ["attention", "states"])
class TestMaps:
    def spec(self, kind: str, name: str) -> Spec:
        values = MAPS[name]
        return (rf.viz.attention(values) if kind == "attention" else rf.viz.states({"h": values})).spec

    def test_a_page_has_the_largest(self, kind, name):
        spec = self.spec(kind, name)
        block = "map0" if kind == "attention" else "track0"
        true = spec.blocks[block]
        for page in pages(spec):
            code = page.codes.get(block)
            shown = decode(page.blocks[block], code) if code else page.blocks[block]
            if code is None:
                np.testing.assert_array_equal(shown, true)
                continue
            assert page.head["thinned"]
            wanted, found = (ends(np.abs(values)) for values in (true, shown))
            step = (code.high - code.low) / LEVELS * 6
            assert abs(found[1] - wanted[1]) <= step
            low, high = ends(true)
            if kind == "states" or low < 0:  # the value farthest from 0 of each block
                far = max(low, high, key=abs)
                assert np.isclose(shown[np.isfinite(shown)], far, atol=step).any()
            if kind == "states":
                assert np.isnan(shown).any() == np.isnan(true).any()

    @pytest.mark.parametrize("width", WIDTHS)
    def test_a_picture_has_the_strongest_shade_there_is_and_says_what_is_pooled(self, kind, name, width):
        spec = self.spec(kind, name)
        made = drawing_of(spec, width)
        values = MAPS[name]
        if not values.size:
            return
        for drawn in (made, lighter(made, 4_000)):
            cells = [shape for shape in drawn.shapes if isinstance(shape, Cells) and shape.of is not None]
            [shape] = cells
            whole = values.shape if kind == "attention" else values.T.shape
            some = kind == "states" and whole[0] > 48 and whole[1] > 1
            assert shape.of == (whole if not some else (24, whole[1]))
            most = "those 24 are drawn that change most, from top to bottom by when."
            assert some == (f"Of more than 48 units {most}" in made.notes)
            pooled = shape.bytes.size < np.prod(shape.of)
            assert bool(pooled_note(drawn)) == pooled
            middle = 0 if shape.ramp == "sequential" else 128
            far = np.abs(shape.bytes[shape.bytes > 0].astype(int) - middle).max()
            if np.abs(np.nan_to_num(values)).max() > 0 and name != "constant" and not some:
                assert far >= (120 if middle else 250) or (kind == "attention" and ends(values)[1] <= 1), far
        html = html_of(spec)
        shown = re.findall(r"of up to (\d+) × (\d+) values", html)
        assert len(shown) <= 1

    def test_the_text_shows_the_largest(self, kind, name):
        spec = self.spec(kind, name)
        text = text_of(spec)
        if kind == "attention" and ends(MAPS[name]) and ends(MAPS[name])[1] > 0:
            assert "█" in text or ends(MAPS[name])[1] <= 1, text
        if kind == "states" and ends(MAPS[name]):
            most = np.abs(MAPS[name][np.isfinite(MAPS[name])]).max()
            assert f"largest magnitude {most or 1:.3g}" in text, text
        if np.isnan(MAPS[name]).any():
            assert "NaN" in text


def test_counts_that_are_said_are_those_of_what_is_there():
    three = noise(3, 6, 4, 5) ** 2
    spec = rf.viz.attention(three[:, :2], dims=["batch", "head", "target", "source"]).spec
    assert "The first of 3 sequences" in " ".join(drawing_of(spec).notes)
    many = rf.viz.curves({f"run {n}": noise(50, seed=n) for n in range(30)}).spec
    made = drawing_of(many)
    [(drawn, of)] = re.findall(r"(\d+) of (\d+) series are drawn as lines", " ".join(made.notes))
    lines = {
        shape.color + str(shape.dash) for shape in made.shapes if isinstance(shape, Lines) and "hue" in shape.color
    }
    assert (int(drawn), int(of)) == (len(lines), 30)


def test_a_logarithmic_axis_that_cannot_be_is_said():
    spec = rf.viz.curves({"loss": [1.0, 0.0, 10.0], "rate": [1e-3, 1e-4]}, log=["loss", "rate"]).spec
    words = "A logarithmic axis cannot show loss (1 value of 0 or less): linear."
    assert words in text_of(spec) and words in html_of(spec) and words in drawing_of(spec).notes


def test_numbers_beyond_float32_stay_numbers_with_a_warning():
    with pytest.warns(UserWarning, match=r"1 beyond ±3.4e38, drawn as that; 1 nearer to 0"):
        made = single(np.array([1e39, 1e-60, 0.0, np.inf, np.nan, 0.5]))
    assert np.isfinite(made[:3]).all() and made[1] > 0 == made[2] and np.isposinf(made[3]) and np.isnan(made[4])
    with pytest.warns(UserWarning, match=r"integers beyond 2\*\*24"):
        single(np.array([2**24 + 1]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        single(np.array([2**24, 3])), single(np.array([0.1, 1e30]))
    with pytest.raises(ValueError, match="beyond 32 bits"):
        Spec("states", {}, {"b": np.array([2**40])})


@pytest.mark.parametrize("live", [False, True])
def test_a_kernel_has_what_a_stored_view_has_not(live):
    """A page with a thinned frame requests all of it, or all of a range."""
    y = noise(30, 20_000)
    spec = rf.viz.curves({f"run {n}": row for n, row in enumerate(y)}, live=live).spec
    source = Source()
    asked = {"rfnb": "whole", "id": 5, "version": source.publish(spec)}
    message, [frame] = source.whole(asked)
    assert message == {"rfnb": "whole", "id": 5}
    got = unpack(frame)
    assert got.head["version"] == asked["version"] and bool(got.head.get("thinned")) == live
    _, [frame] = source.whole({**asked, "range": [100.5, 300]})
    got = unpack(frame)
    assert "thinned" not in got.head
    np.testing.assert_array_equal(got.blocks["x7"], np.arange(100, 302))
    np.testing.assert_array_equal(got.blocks["y7"], y[7, 100:302].astype(np.float32))
    for wrong in ({"version": 99}, {"part": "0/"}, {"range": ["a", 1]}, {"range": [1]}, {"part": "x/"}):
        assert source.whole(asked | wrong)[1] == []
