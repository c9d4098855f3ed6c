"""Tokens that cannot be seen, or that act on what is around them, are made visible in text, HTML, pictures and pages."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

import rfnb as rf
from rfnb.viz.drawing.shapes import Text
from rfnb.viz.drawing.svg import svg
from rfnb.viz.drawing.theme import theme
from rfnb.viz.kinds import drawing_of
from rfnb.viz.visible_text import line, safe, visible

CASES = json.loads((Path(__file__).parent / "fixtures" / "visible.json").read_text(encoding="utf-8"))
ODD = ["".join(map(chr, case["codes"])) for case in CASES]  # as numbers: half a letter is no JSON for all readers
ACTING = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff]"
)


@pytest.mark.parametrize("case, text", list(zip(CASES, ODD)), ids=[case["visible"] for case in CASES])
def test_the_marks_are_those_of_the_stored_file(case, text):
    assert (visible(text), line(text), safe(text)) == (case["visible"], case["line"], case["safe"])


def test_every_letter_that_acts_is_made_visible():
    for code in [*range(0x3000), *range(0xD7F0, 0xE010), *range(0xFE00, 0x10000), *range(0xE0000, 0xE0080)]:
        shown = visible(f"a{chr(code)}b")
        assert not ACTING.search(shown) and len(shown) >= 3, hex(code)
    assert safe("a\n\tb c") == "a\n\tb c"


def test_what_is_seen_stays():
    for token in ("a b", "ü", "日本", "👩\u200d🚀", "é", "▁the", "שלום", "क्\u200dष", "</s>", "$x$"):
        assert visible(token) == token


def views() -> list:
    rows = np.full((len(ODD), len(ODD)), 1 / len(ODD), np.float32)
    history = [{"tokens": [[index]], "parents": [[0]], "scores": [[-float(index)]]} for index in range(len(ODD))]
    history = [{name: np.array(value) for name, value in step.items()} for step in history]
    odd = "".join(ODD)
    return [
        rf.viz.attention(rows, source=ODD, target=ODD, title=odd),
        rf.viz.attention({odd: rows[:2, :2], "b": rows[:2, :2]}, names=[odd]),
        rf.viz.states({odd: rows}, steps=ODD, title=odd),
        rf.viz.beams(history, labels=ODD, title=odd),
        rf.viz.curves({odd: [1.0, 2.0]}, x=odd, units={odd: odd}, title=odd),
        rf.viz.dims(rows, names=["a", odd], title=odd),
    ]


@pytest.mark.parametrize("view", views(), ids=lambda view: view.kind)
def test_no_view_lets_them_through(view):
    text, html = view.text(), view.html()
    for rendering in (text, html):
        assert not ACTING.search(rendering)
        rendering.encode("utf-8")
    for shape in drawing_of(view.spec).shapes:
        assert not (isinstance(shape, Text) and ACTING.search(shape.text))
    assert not ACTING.search(svg(drawing_of(view.spec), theme("light")))


def test_a_newline_in_a_token_starts_no_line_of_the_text():
    view = rf.viz.attention(np.eye(2, dtype=np.float32), source=["a\nb", "c"], target=["\n", "d"])
    assert len(view.text().splitlines()) == 4
    steps = [{"tokens": np.array([[0]]), "parents": np.array([[0]]), "scores": np.array([[-1.0]])}]
    assert "a⏎b" in rf.viz.beams(steps, labels=["a\nb"]).text()


def test_a_page_with_them_can_be_written(tmp_path):
    page = rf.save_html(tmp_path / "page.html", views(), title="".join(ODD)).read_text(encoding="utf-8")
    assert not ACTING.search(page)
