"""Reads a notebook's file: the cell that defines a name, and the stored answers."""

import json

import pytest

from rfnb.teaching.card import MIME
from rfnb.teaching.notebook import Cell, answers_in, cells_of, notebook_file

MAKES = [
    "x = 1", "def x(): pass", "class x: pass", "import x", "import x.y", "from y import x", "import y as x", "for x in y: pass",
    "with y as x: pass", "(x, z), *w = y", "y = [x := 3]", "if y:\n    x = 1", "x: int = 3", "try:\n    x = 1\nfinally: pass",
    "async def x(): pass", "y = 1\nx = y", "def x(n): return x(n - 1)", "print(1)\nx = 1\nx += 1",
]  # fmt: skip
DOES_NOT = [
    "x", "x + 1", "x += 1", "x = x + 1", "x = lesson.use('x', x)", "def f():\n    x = 1", "y = [x for x in z]", "x.y = 1", "x[0] = 1",
    "y = 1", "x =", "lambda x: 1", "class A:\n    x = 1", "del x", "", "from x import y", "import y.x",
]  # fmt: skip


def cell(source):
    return Cell(1, "", source, "", [])


@pytest.mark.parametrize("source", MAKES)
def test_a_cell_that_makes_a_name(source):
    assert cell(source).assigns("x", str)


@pytest.mark.parametrize("source", DOES_NOT)
def test_a_cell_that_does_not_make_a_name_by_itself(source):
    assert not cell(source).assigns("x", str)


def test_the_first_line_is_no_comment():
    assert cell("\n# a word\nx = 1").first_line == "x = 1"
    assert cell("# a word").first_line == "# a word"
    assert cell("").first_line == ""


def test_answers_are_those_of_the_lesson_that_were_committed(folder):
    path = folder / "99_small.ipynb"
    stored = json.loads(path.read_text())
    record = {"kind": "predict", "lesson": "99_small", "exercise": "winner", "answer": "B", "committed": True}
    records = [
        record, record | {"exercise": "open", "answer": None, "committed": False},
        record | {"exercise": "other", "lesson": "98_other"}, record | {"exercise": "shown", "kind": "reveal"},
    ]  # fmt: skip
    for cell, data in zip(stored["cells"][2:], records):
        cell["outputs"] = [{"output_type": "display_data", "data": {MIME: data}, "metadata": {}}]
    path.write_text(json.dumps(stored))
    assert answers_in(path, "99_small") == {"winner": record}
    assert len(cells_of(path)) == 6


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"cells": [{}]}', '{"cells": 3}'])
def test_a_file_that_cannot_be_read_has_no_cells(tmp_path, text):
    (tmp_path / "broken.ipynb").write_text(text)
    assert cells_of(tmp_path / "broken.ipynb") == []


def test_the_file_is_the_one_that_the_server_names(folder, monkeypatch):
    assert notebook_file("99_small") == folder / "99_small.ipynb"
    own = folder / "my copy.ipynb"
    own.write_text("{}")
    monkeypatch.setenv("JPY_SESSION_NAME", str(own))
    assert notebook_file("99_small") == own
    monkeypatch.setenv("JPY_SESSION_NAME", "below/the/server/my copy.ipynb")
    assert notebook_file("99_small") == own
    monkeypatch.setenv("JPY_SESSION_NAME", "gone.ipynb")
    assert notebook_file("99_small") == folder / "99_small.ipynb"
    assert notebook_file("98_other") is None
